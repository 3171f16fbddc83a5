"""`proctor lease`: who holds what shared state, and what to do when a holder is gone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import asyncio
import json

import rich_click as click

from proctor.cli.command import Group
from proctor.cli.exits import Exit, exit_of_signal
from proctor.cli.lease_view import lease_data, lease_lines, lease_table
from proctor.cli.output import say
from proctor.cli.results_place import current_directory
from proctor.cli.teardown import TeardownEnd, run_teardown
from proctor.errors import Fault, ProctorError, StoreError, UnknownName, UsageError
from proctor.model.project import project_directory
from proctor.report.wording import printable
from proctor.runtime.clock import SystemClock
from proctor.runtime.signals import on_signals
from proctor.store.coordination import coordination_path, project_of
from proctor.store.lease_info import LeaseError, LeaseInfo, advice, inspect_command
from proctor.store.leases import Leases
from proctor.store.owner import Living, this_owner

_CONFIRMATIONS = ("--confirm-owner-terminated", "--confirm-remote-quiesced")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("lease", cls=Group)
def command() -> None:
    """List, inspect and recover leases on shared state, in the project of the current directory."""


@command.command("list")
@_JSON
def list_command(as_json: bool) -> int:
    """List the leases that are held, with their holders and whether these are alive."""
    leases = _leases()
    held = [leases.held(info) for info in leases.list()]
    if as_json:
        say(json.dumps([lease_data(one) for one in held], indent=1))
        return Exit.OK
    if not held:
        say(f"no lease is held in `{leases.path}`", err=True)
        return Exit.OK
    for line in lease_table(held):
        say(line)
    for one in held:
        if one.life.living is not Living.ALIVE:
            say(
                f"hint: lease `{one.info.key}` is held by a process that is {one.life.living}; "
                f"`{inspect_command(one.info)}` says what to do",
                err=True,
            )
    return Exit.OK


@command.command("inspect")
@click.argument("key")
@_JSON
def inspect_(key: str, as_json: bool) -> int:
    """Show the lease on KEY: its experiment, its owner and whether that is alive, and what to do about it."""
    leases = _leases()
    one = leases.held(_find(leases, key))
    if as_json:
        say(json.dumps(lease_data(one), indent=1))
        return Exit.OK
    for name, value in lease_lines(one, SystemClock().wall()):
        say(f"{name:<16}{printable(value)}")
    say(f"hint: {advice(one.info, one.life)}", err=True)
    return Exit.OK


@command.command("recover")
@click.argument("key")
@click.option("--owner-token", required=True, metavar="TOKEN", help="Token of the holder, as `inspect` shows it.")
@click.option(
    _CONFIRMATIONS[0],
    "terminated",
    is_flag=True,
    help="You made sure that the holder's process, and all that it started, has ended.",
)
@click.option(
    _CONFIRMATIONS[1], "quiesced", is_flag=True,
    help="You made sure that nothing outside, such as a sandbox or a remote job, still works on the shared state.",
)  # fmt: skip
def recover(key: str, owner_token: str, terminated: bool, quiesced: bool) -> int:
    """Run the teardown of the lease on KEY and release it, for an owner that is gone.

    Changes nothing when the token is not that of the holder, when the holder is alive on this host, or when the
    teardown fails.
    """
    leases = _leases()
    info = _find(leases, key)
    missing = [name for name, given in zip(_CONFIRMATIONS, (terminated, quiesced), strict=True) if not given]
    if missing:
        raise UsageError(
            f"a recovery needs {' and '.join(f'`{name}`' for name in missing)}: only a person can know that",
            hint="make sure that the owner and all it started has ended, and that nothing works on the shared state "
            "any more; then confirm both",
        )
    return asyncio.run(_recover(leases, info.key, owner_token))


async def _recover(leases: Leases, key: str, token: str) -> int:
    """Take the lease, run its teardown, free it; give it back as it was where the teardown fails or is interrupted."""
    signals: list[int] = []
    running: list[asyncio.Task[TeardownEnd]] = []

    def interrupt(number: int) -> None:
        signals.append(number)
        for task in running:
            task.cancel()

    # A signal is dealt with only while something is awaited, and that is the teardown alone.
    with on_signals(interrupt, signals.append):
        try:
            info = leases.begin_recovery(key, token)
        except LeaseError as error:
            raise UsageError(error.message, hint=error.hint) from error
        for notice in leases.notices:
            say(f"warning: {notice}", err=True)
        if info.teardown is not None:
            variables = {"PROCTOR_LEASE_KEY": info.key, "PROCTOR_EXPERIMENT": info.experiment}
            work = run_teardown(info.teardown, project_of(leases.path), variables)
            running.append(asyncio.create_task(work))
            try:
                problem = await _problem(running[0])
            except BaseException:
                _give_back(leases, info, "it was not run to its end")
                raise
            if problem is not None:
                _give_back(leases, info, problem)
                if signals:
                    say(f"error: interrupted; lease `{info.key}` is held as before", err=True)
                    return exit_of_signal(signals[0])
                raise ProctorError(
                    f"teardown `{info.teardown.path}` of lease `{info.key}` failed: {problem}; "
                    "the lease is held as before",
                    hint="mend what is wrong, and run the same command again",
                )
        _free(leases, info)
    return Exit.OK


async def _problem(task: asyncio.Task[TeardownEnd]) -> str | None:
    """Wait for a teardown, show what it printed, and return why it failed, or None."""
    try:
        end = await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
        return "interrupted"
    except Fault as fault:
        return str(fault)
    for line in end.output.splitlines():
        say(f"  {printable(line)}", err=True)
    return end.problem


def _give_back(leases: Leases, info: LeaseInfo, problem: str) -> None:
    """Give the lease back after a teardown that failed."""
    try:
        leases.abort_recovery(info.key, info.holder_token)
    except StoreError as error:
        raise ProctorError(
            f"the teardown of lease `{info.key}` failed: {problem}; then it could not be given back: {error.message}",
            hint=f"{error.hint}; then `{inspect_command(info)}` says how to go on",
        ) from error


def _free(leases: Leases, info: LeaseInfo) -> None:
    """Free the lease after a teardown that succeeded, and say so."""
    done = f"teardown `{info.teardown.path}` succeeded" if info.teardown else "it had no teardown"
    try:
        leases.finish_recovery(info.key, info.holder_token)
    except StoreError as error:
        raise ProctorError(
            f"lease `{info.key}` could not be freed ({done}): {error.message}",
            hint=f"{error.hint}; then `{inspect_command(info)}` says how to go on",
        ) from error
    say(f"lease `{info.key}` is free: {done}", err=True)


def _leases() -> Leases:
    return Leases(coordination_path(project_directory(current_directory())), this_owner(), SystemClock())


def _find(leases: Leases, key: str) -> LeaseInfo:
    info = leases.inspect(key)
    if info is None:
        raise UnknownName("lease", key, [one.key for one in leases.list()], list_with="proctor lease list")
    return info
