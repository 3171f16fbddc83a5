"""What a run leaves behind that was to be otherwise: sandboxes that may still be there, attempts that are missing."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import rich_click as click

from proctor.cli.command import TYPED
from proctor.cli.optional_values import LEFT_OUT, OPTIONAL_VALUES, settle
from proctor.cli.rooms import Room
from proctor.model.attempt import Verdict
from proctor.model.events import SandboxKept, SlotFilled, StopReason
from proctor.report.kept import kept_line, sandbox_command
from proctor.report.view import RunView
from proctor.report.wording import plural, printable
from proctor.runtime.redact import Redactor

SANDBOXES_SHOWN = 20

NOTHING_KEPT = "runtime.keep_environment=null"
"""Behind `--set` it is stronger than what a file says."""


def sandbox_lines(left: Sequence[tuple[str, str]], rooms: Mapping[str, Room], *, removed: int = 0) -> list[str]:
    """Return what to say about sandboxes that are not known to be gone, each given with its experiment.

    `removed` is how many went at an interrupt; where there were none, nothing is said of any.
    """
    if not left:
        return [f"{plural(removed, 'sandbox', 'sandboxes')} removed"] if removed else []
    gone = f", {removed:,} removed" if removed else ""
    lines = [f"warning: {plural(len(left), 'sandbox', 'sandboxes')} may be left{gone}:"]
    for sandbox, experiment in left[:SANDBOXES_SHOWN]:
        command = sandbox_command("stop", sandbox, rooms[experiment].resolved.experiment.environment.provider)
        lines.append(f"  {printable(sandbox)}: remove it with `{command}`")
    if len(left) > SANDBOXES_SHOWN:
        labels = next(iter(rooms.values())).labels
        lines.append(f"  and {len(left) - SANDBOXES_SHOWN} more, with the label invocation={labels.get('invocation')}")
    return lines


def kept_lines(kept: Sequence[SandboxKept]) -> list[str]:
    """Return how many sandboxes were kept, and how to enter and to stop each."""
    if not kept:
        return []
    lines = [f"{plural(len(kept), 'sandbox', 'sandboxes')} kept, until stopped:"]
    lines += (f"  {kept_line(one)}" for one in kept[:SANDBOXES_SHOWN])
    if len(kept) > SANDBOXES_SHOWN:
        lines.append(f"  and {len(kept) - SANDBOXES_SHOWN:,} more: `proctor sandbox list --kept` shows all")
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
    command = _command(rooms)
    return [missing] if command is None else [missing, f"hint: to run what is missing: {redactor.text(command)}"]


def _missing_tasks(view: RunView, room: Room) -> Iterable[str]:
    """Return the tasks that lack an attempt, in the order of the plan."""
    there: Counter[str] = Counter(event.task for event, _ in room.writer.opening if isinstance(event, SlotFilled))
    there.update(task for task, _, verdict in room.writer.verdicts if verdict is not Verdict.CANCELLED)
    solved = view.solved if view.early_exit else ()
    attempts = room.plan.experiment.attempts
    return (task.id for task in room.plan.tasks if there[task.id] < attempts and task.id not in solved)


def _command(rooms: Mapping[str, Room]) -> str | None:
    """Return the command line that was typed, such that it reuses what is finished."""
    context = click.get_current_context(silent=True)
    typed: list[str] | None = context.find_root().meta.get(TYPED) if context is not None else None
    if context is None or not typed:
        return None  # nothing was typed: it is used from Python
    name, *words = typed
    words = _without(settle(words, context.command.params), ("--run-id",))
    kept = _without_tied(words, tuple(OPTIONAL_VALUES))
    reuse, room = "--reuse", next(iter(rooms.values()))
    left_out = set(words) - set(kept) - {f"--reuse={LEFT_OUT}"}
    more: list[str] = []
    if room.keep is not None and not any(word.startswith("--keep-environment") for word in left_out):
        more = ["--set", NOTHING_KEPT]  # a file keeps sandboxes, which what is reused has none of
    if left_out or more:
        # A run was chosen, or something was to be made again: what was passed over for that is not to come back.
        reuse = f"--reuse={room.writer.run_id}"
    place = kept.index("--") if "--" in kept else len(kept)
    return shlex.join(["proctor", name, *kept[:place], *more, reuse, *kept[place:]])


def _without_tied(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the words of a command line without options that have their values tied to them."""
    end = words.index("--") if "--" in words else len(words)
    return [word for word in words[:end] if word.partition("=")[0] not in options] + list(words[end:])


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
