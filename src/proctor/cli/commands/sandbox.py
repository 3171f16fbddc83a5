"""`proctor sandbox`: sandboxes that were kept, or left behind: listed, entered, removed."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, NoReturn

import rich_click as click

from proctor.cli.command import Group
from proctor.cli.exits import Exit
from proctor.cli.output import say
from proctor.cli.owners import SandboxState
from proctor.cli.sandbox_list import FoundSandbox, choose, counted, found_in, sandbox_data, sandbox_table
from proctor.cli.sandbox_providers import Asked, ask_all, within
from proctor.cli.sandbox_removal import remove_all, require_unused
from proctor.errors import ProctorError, UsageError, describe
from proctor.report.wording import printable
from proctor.runtime.clock import SystemClock
from proctor.runtime.running import run_to_end
from proctor.store.owner import owner_if_known

ENTER_SECONDS = 10.0
"""How long a provider may take to say how a sandbox is entered."""

_ENV = click.option(
    "--env", "providers", multiple=True, metavar="PROVIDER",
    help="Only sandboxes of this provider (default: of all that work here). Repeatable.",
)  # fmt: skip
_FORCE = "--force"


@click.group("sandbox", cls=Group)
def command() -> None:
    """List, enter and remove sandboxes that were kept, or left behind by a run that was killed."""


@command.command("list")
@click.option("--orphans", is_flag=True, help="Only those whose run is dead, and that nobody kept.")
@click.option("--kept", is_flag=True, help="Only those that were kept.")
@_ENV
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(orphans: bool, kept: bool, providers: tuple[str, ...], as_json: bool) -> int:
    """List the sandboxes that are there, whichever run opened them, with their states.

    kept: on purpose, until it is stopped. running: its run lives. orphaned: its run is dead. unverified: nobody can
    tell from here, because the run was on another host.
    """
    return run_to_end(_list(orphans, kept, providers, as_json))


async def _list(orphans: bool, kept: bool, providers: Sequence[str], as_json: bool) -> int:
    asked = await ask_all(providers)
    found = found_in(asked, owner_if_known())
    states = {SandboxState.ORPHANED} if orphans else set[SandboxState]()
    states |= {SandboxState.KEPT} if kept else set()
    shown = [one for one in found if not states or one.state in states]
    code = await _close(asked)
    now = SystemClock().wall()
    if as_json:
        absent = dict.fromkeys(asked.labels) | asked.absent | asked.failed
        data = {"sandboxes": [sandbox_data(one, now) for one in shown], "providers": absent}
        say(json.dumps(data, allow_nan=False, indent=1))
        return code
    if not shown:
        say("no such sandbox is there" if states else "no sandbox is there", err=True)
        return code
    for line in sandbox_table(shown, now):
        say(line)
    _hint(shown)
    return code


def _hint(shown: Sequence[FoundSandbox]) -> None:
    """Say what can be done about what was listed."""
    orphaned = [one for one in shown if one.state is SandboxState.ORPHANED]
    if any(one.state is SandboxState.KEPT for one in shown):
        say("hint: `proctor sandbox enter ID` gives a shell in one, `proctor sandbox stop ID` removes it", err=True)
    if orphaned:
        them = "it" if len(orphaned) == 1 else "them"
        say(f"hint: the run of {counted(orphaned)} is dead; `proctor sandbox prune` removes {them}", err=True)


@command.command("enter")
@click.argument("sandbox", metavar="ID")
@_ENV
def enter(sandbox: str, providers: tuple[str, ...]) -> int:
    """Open a shell in the sandbox ID, or in the one that was kept of `@ATTEMPT`; ends as the shell does."""
    words = run_to_end(_entry(sandbox, providers))
    _become(words)


async def _entry(word: str, providers: Sequence[str]) -> list[str]:
    """Return the command that enters a sandbox. Raises `ProctorError`."""
    asked = await ask_all(providers)
    try:
        chosen = _chosen(asked, found_in(asked, owner_if_known()), [word])
        if len(chosen) > 1:
            ids = ", ".join(f"`{one.id}` ({one.labels.get('purpose', '-')})" for one in chosen)
            raise UsageError(f"{counted(chosen)} were kept of `{word}`: {ids}", hint="give the id of one")
        one = chosen[0]
        provider = asked.made[one.provider]
        try:
            words = list(await within(ENTER_SECONDS, provider.enter(one.id)))
        except TimeoutError:
            raise ProctorError(
                f"provider {one.provider} did not say within {ENTER_SECONDS:g} s how to enter `{one.id}`"
            ) from None
        except NotImplementedError as error:
            raise UsageError(f"sandboxes of provider {one.provider} cannot be entered: {error}") from error
        except Exception as error:
            raise ProctorError(f"sandbox `{one.id}` cannot be entered: {describe(error)}") from error
    finally:
        await asked.close()
    if one.state in (SandboxState.RUNNING, SandboxState.UNVERIFIED):
        say(f"note: {one.id} may be in use ({printable(one.life.why)}): an agent sees what you do there", err=True)
    return words


def _become(words: list[str]) -> NoReturn:
    """Put a command in the place of this process. Raises `UsageError` where it cannot be started."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and what is started would inherit that
    try:
        os.execvp(words[0], words)  # noqa: S606 - the words are the provider's, and no shell reads them
    except OSError as error:
        signal.signal(signal.SIGPIPE, before)  # or the next reader that goes away would end this process
        why = (error.strerror or str(error)).lower()
        raise UsageError(
            f"cannot start `{words[0]}`, which enters the sandbox: {why}", hint="install it, or put it on PATH"
        ) from error


@command.command("stop")
@click.argument("sandboxes", nargs=-1, metavar="[ID ...]")
@click.option("--all-kept", is_flag=True, help="All that were kept.")
@click.option(_FORCE, is_flag=True, help="Also those whose run lives, or may live: its attempt is lost.")
@_ENV
def stop(sandboxes: tuple[str, ...], all_kept: bool, force: bool, providers: tuple[str, ...]) -> int:
    """Remove sandboxes by their ids, or `@ATTEMPT` for all that were kept of an attempt.

    The beginning of an id is enough where it is unique. Nothing is removed where one of the words is wrong.
    """
    if not sandboxes and not all_kept:
        raise UsageError("nothing to stop was named", hint="give ids of `proctor sandbox list`, or `--all-kept`")
    return _removing(_stop(sandboxes, all_kept, force, providers))


async def _stop(words: Sequence[str], all_kept: bool, force: bool, providers: Sequence[str]) -> int:
    asked = await ask_all(providers)
    left = 0
    try:
        found = found_in(asked, owner_if_known())
        chosen = _chosen(asked, found, words)
        chosen += [one for one in found if all_kept and one.state is SandboxState.KEPT and one not in chosen]
        if not force:
            require_unused(chosen)
        if not chosen:
            say("no sandbox is kept", err=True)
        left = await remove_all(asked, chosen)
    finally:
        code = await _close(asked)
    return Exit.INCOMPLETE if left else code


@command.command("prune")
@click.option(_FORCE, is_flag=True, help="Also those of which nobody can tell from here whether their run lives.")
@_ENV
def prune(force: bool, providers: tuple[str, ...]) -> int:
    """Remove the sandboxes whose run is dead. What was kept stays, and what runs."""
    return _removing(_prune(force, providers))


async def _prune(force: bool, providers: Sequence[str]) -> int:
    states = {SandboxState.ORPHANED, SandboxState.UNVERIFIED} if force else {SandboxState.ORPHANED}
    asked = await ask_all(providers)
    left = 0
    try:
        here = owner_if_known()
        found = found_in(asked, here)
        if any(one.state in states for one in found):
            # A run may have kept one, and ended, between its being listed and its owner being looked at: what is
            # listed after the owner was found dead is final.
            dead = {(one.provider, one.id) for one in found if one.state in states}
            await asked.ask_again()
            found = [one for one in found_in(asked, here) if one.state not in states or (one.provider, one.id) in dead]
        orphaned = [one for one in found if one.state in states]
        if not orphaned:
            say("no sandbox is orphaned", err=True)
        left = await remove_all(asked, orphaned)
        stay = [one for one in found if one.state is SandboxState.UNVERIFIED and not force]
        if stay:
            say(
                f"hint: {counted(stay)} may belong to a run that lives elsewhere, and stay; `--force` removes them",
                err=True,
            )
    finally:
        code = await _close(asked)
    return Exit.INCOMPLETE if left else code


def _removing(work: Coroutine[Any, Any, int]) -> int:
    """Remove sandboxes; an interrupt leaves the rest of them."""
    try:
        return run_to_end(work)
    except KeyboardInterrupt:
        say("error: interrupted: what was not said to be removed may be there; run the same command again", err=True)
        return Exit.SIGINT


def _chosen(asked: Asked, found: Sequence[FoundSandbox], words: Sequence[str]) -> list[FoundSandbox]:
    """Return what all words mean, each once. Raises `UsageError`, which says who was not asked."""
    try:
        chosen = [one for word in words for one in choose(found, word)]
    except UsageError as error:
        silent = asked.absent | asked.failed
        if silent:
            why = "; ".join(f"{name}: {printable(reason)}" for name, reason in silent.items())
            error.hint = f"{error.hint}; not every provider could be asked ({why})"
        raise
    return list({(one.provider, one.id): one for one in chosen}.values())


async def _close(asked: Asked) -> Exit:
    """Close what was asked, say what went wrong with it, and return the exit code for that."""
    wrong = asked.failed | await asked.close()
    for name, why in wrong.items():
        say(f"warning: provider {name}: {printable(why)}", err=True)
    return Exit.INCOMPLETE if asked.failed else Exit.OK
