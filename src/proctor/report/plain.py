"""Plain text progress: one line per change, no control codes, safe for logs."""

from __future__ import annotations

from collections.abc import Mapping
from signal import Signals
from typing import Protocol

from proctor.core.aggregate import Counts
from proctor.model.attempt import Severity
from proctor.model.events import (
    AttemptSealed,
    DispatchStopped,
    Event,
    Interrupted,
    IssueRaised,
    LeaseRefused,
    TeardownEnded,
    TryStarted,
)
from proctor.report.view import RunView
from proctor.report.wording import SEPARATOR, duration, for_encoding, inactive, plural, printable

HEARTBEAT_SECONDS = 30.0
"""A line with the counts is printed when nothing else was for this long."""


class Writes(Protocol):
    """A text stream, as far as a report needs one."""

    def write(self, text: str, /) -> object:
        """Write text."""
        ...

    def flush(self) -> object:
        """Hand it on."""
        ...


def counts_line(counts: Counts, *, backing_off: int = 0, waiting_for_grading: int = 0, between_tries: int = 0) -> str:
    """Return the parts of the total as one line; parts that are unusual are named only when they are not zero."""
    apart = {
        "backing off": backing_off,
        "waiting for grading": waiting_for_grading,
        "waiting to be tried again": between_tries,
    }
    named = ", ".join(f"{count} {what}" for what, count in apart.items() if count)
    running = f"{counts.running} running" + (f" ({named})" if named else "")
    reused = [f"{counts.reused:,} reused"] if counts.reused else []
    parts = [f"{counts.total:,} total", *reused, running, f"{counts.queued:,} queued"]
    parts += [f"{counts.passed:,} passed", f"{counts.failed:,} failed"]
    parts += [f"{counts.errored:,} errored", f"{counts.skipped:,} skipped"]
    stopped = {reason: n for reason, n in counts.not_dispatched.items() if n}
    if stopped:
        why = ", ".join(f"{reason} {n:,}" for reason, n in stopped.items())
        parts.append(f"{sum(stopped.values()):,} not dispatched ({why})")
    if counts.cancelled:
        parts.append(f"{counts.cancelled:,} cancelled")
    return SEPARATOR.join(parts)


def counts_of(view: RunView) -> str:
    """Return the counts of a run as one line."""
    return counts_line(
        view.counts,
        backing_off=view.backing_off,
        waiting_for_grading=len(view.waiting_for_grading),
        between_tries=view.between_tries,
    )


class PlainText:
    """Writes progress to a text stream, line by line."""

    def __init__(self, stream: Writes, views: Mapping[str, RunView]) -> None:
        self._stream = stream
        self._views = views
        self._several = len(views) > 1
        self._last_at: float | None = None
        self._stopped: Interrupted | None = None

    def say(self, line: str) -> None:
        """Write one line of our own."""
        self._stream.write(for_encoding(inactive(line), getattr(self._stream, "encoding", None)) + "\n")

    def show(self, experiment: str, event: Event, at: float) -> None:
        """Say what an event changed; its view has taken it already."""
        line = self._line(experiment, event)
        if line is not None:
            self._last_at = at
            self.say(line)

    def beat(self, at: float) -> None:
        """Say the counts when nothing was said for `HEARTBEAT_SECONDS`; call it about once a second."""
        if self._last_at is None:
            self._last_at = at
        elif at - self._last_at >= HEARTBEAT_SECONDS:
            self._last_at = at
            for view in self._views.values():
                self.say(self._named(view.experiment, counts_of(view)))
            self.flush()

    def flush(self) -> None:
        """Hand what was written to the terminal."""
        self._stream.flush()

    def _named(self, experiment: str, text: str) -> str:
        return f"{printable(experiment)} {text}" if self._several else text

    def _line(self, experiment: str, event: Event) -> str | None:  # noqa: PLR0911 - one sentence per event
        view = self._views[experiment]
        match event:
            case AttemptSealed(_, task, ordinal, verdict):
                total = f"{view.total:,}"
                done = f"{view.sealed + view.reused.total():,}".rjust(len(total))
                what = self._named(experiment, f"{printable(task)} #{ordinal}")
                return f"[{done}/{total}] {verdict:<9} {what}  {duration(view.sealed_seconds)}"
            case TryStarted(_, task, ordinal, try_number) if try_number > 1:
                return f"try {try_number}: {self._named(experiment, f'{printable(task)} #{ordinal}')}"
            case IssueRaised(attempt, issue) if issue.severity is Severity.FATAL:
                flight = view.in_flight.get(attempt)
                slot = f"{printable(flight.task)} #{flight.ordinal}" if flight else f"@{attempt}"
                where = self._named(experiment, slot)
                return f"FATAL {issue.code} {where}: {printable(issue.message)}"
            case LeaseRefused(_, message):
                return self._named(experiment, printable(message, most=1000))
            case TeardownEnded(_, issue) if issue is not None:
                return f"{issue.severity} {issue.code} {self._named(experiment, printable(issue.message, most=1000))}"
            case DispatchStopped(_, reason, slots):
                return self._named(experiment, f"{plural(slots, 'slot')} not dispatched: {reason}")
            case Interrupted():
                return self._stop(event)
            case _:
                return None

    def _stop(self, event: Interrupted) -> str | None:
        """Say what ends the invocation, once for all its experiments."""
        before, self._stopped = self._stopped, event
        if event == before:
            return None
        cause = printable(event.cause or Signals(event.signal).name)
        if before is not None:
            return cause
        return f"interrupted by {cause}: attempts in flight are being cancelled, what is finished is kept"
