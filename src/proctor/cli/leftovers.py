"""What a run leaves behind that was to be otherwise: sandboxes that may still be there, attempts that are missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import rich_click as click

from proctor.cli.command import TYPED
from proctor.cli.rooms import Room
from proctor.errors import StoreError
from proctor.model.attempt import Verdict
from proctor.model.events import StopReason
from proctor.report.view import RunView
from proctor.report.wording import plural, printable
from proctor.runtime.redact import Redactor
from proctor.store.files import write_file

SANDBOXES_SHOWN = 20
INLINE_CHARACTERS = 1000
FILE_CHARACTERS = 120_000
"""A single word of a command line can hold no more than 128 KiB."""

_REPLACED = ("--tasks", "--limit", "--run-id")
"""Options that choose what is run and how the run is called: all take a value."""


def sandbox_lines(left: Sequence[tuple[str, str]], rooms: Mapping[str, Room]) -> list[str]:
    """Return what to say about sandboxes that are not known to be gone, each given with its experiment."""
    if not left:
        return []
    lines = [f"warning: {plural(len(left), 'sandbox', 'sandboxes')} may be left:"]
    for sandbox, experiment in left[:SANDBOXES_SHOWN]:
        provider = rooms[experiment].resolved.provider
        # Optional for a provider: a command with `{}` in the place of the id.
        command: str | None = getattr(provider, "removal_command", None)
        how = f"remove it with `{command.format(shlex.quote(sandbox))}`" if command else f"remove it at {provider.name}"
        lines.append(f"  {printable(sandbox)}: {how}")
    if len(left) > SANDBOXES_SHOWN:
        labels = next(iter(rooms.values())).labels
        lines.append(f"  and {len(left) - SANDBOXES_SHOWN} more, with the label invocation={labels.get('invocation')}")
    return lines


def missing_lines(views: Mapping[str, RunView], rooms: Mapping[str, Room], redactor: Redactor) -> list[str]:
    """Return what is missing from an invocation that was interrupted, and how to run it."""
    cancelled = sum(view.counts.cancelled - view.needless for view in views.values())
    stopped = sum(
        count
        for view in views.values()
        for reason, count in view.not_dispatched.items()
        if reason is not StopReason.EARLY_EXIT
    )
    if not cancelled + stopped:
        return []
    tasks: dict[str, None] = {}
    for name, room in rooms.items():
        tasks |= dict.fromkeys(_missing_tasks(views[name], room))
    parts = [f"{count:,} {what}" for count, what in ((cancelled, "cancelled"), (stopped, "not dispatched")) if count]
    missing = f"missing: {plural(cancelled + stopped, 'attempt')} of {plural(len(tasks), 'task')} ({', '.join(parts)})"
    everything = all(len(tasks) >= len(room.plan.tasks) for room in rooms.values())
    command = _command(None if everything else list(tasks), rooms)
    if command is None:
        return [missing]
    whole = any(room.plan.experiment.attempts > 1 for room in rooms.values()) and not everything
    what = "all attempts of these tasks" if whole else "what is missing"
    return [missing, f"hint: to run {what}, as a run of its own: {redactor.text(command)}"]


def _missing_tasks(view: RunView, room: Room) -> Iterable[str]:
    """Return the tasks that lack an attempt, in the order of the plan."""
    there: dict[str, int] = {}
    for task, _, verdict in room.writer.verdicts:
        there[task] = there.get(task, 0) + (verdict is not Verdict.CANCELLED)
    solved = view.solved if view.early_exit else ()
    attempts = room.plan.experiment.attempts
    return (task.id for task in room.plan.tasks if there.get(task.id, 0) < attempts and task.id not in solved)


def _command(tasks: list[str] | None, rooms: Mapping[str, Room]) -> str | None:
    """Return the command line that was typed, with these tasks in place of those that it named; None: with all."""
    context = click.get_current_context(silent=True)
    typed: list[str] | None = context.find_root().meta.get(TYPED) if context is not None else None
    if not typed:
        return None  # nothing was typed: it is used from Python
    if tasks is not None:
        named = _as_one_word(tasks, next(iter(rooms.values())).writer.directory)
        if named is not None:  # right after the command: further back there may be a `--`
            return " ".join(["proctor", typed[0], "--tasks", named, shlex.join(_without(typed[1:], _REPLACED))])
    return shlex.join(["proctor", *_without(typed, ("--run-id",))])


def _as_one_word(tasks: Sequence[str], directory: Path) -> str | None:
    """Return task ids as a word for a shell, by way of a file where they are many; None where they cannot be one."""
    ids = ",".join(tasks)
    if any("," in task or task != task.strip() for task in tasks) or len(ids.encode()) > FILE_CHARACTERS:
        return None
    if len(ids) <= INLINE_CHARACTERS:
        return shlex.quote(ids)
    path = directory / "missing-tasks.txt"
    try:
        write_file(path, ids.encode())
    except StoreError:
        return None  # that nothing can be written is said already
    return f'"$(cat {shlex.quote(str(path))})"'


def _without(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the words of a command line without some options and their values."""
    kept: list[str] = []
    skip = False
    for word in arguments:
        if skip:
            skip = False
        elif word in options:
            skip = True
        elif word.partition("=")[0] not in options:
            kept.append(word)
    return kept
