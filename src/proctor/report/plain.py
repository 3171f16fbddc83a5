"""Plain text progress: one line per change, no control codes, safe for logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from signal import Signals
from typing import Protocol

from proctor.core.aggregate import Counts
from proctor.model.attempt import Severity
from proctor.model.codes import CODES, Scope
from proctor.model.events import (
    AttemptSealed,
    DispatchStopped,
    Event,
    Interrupted,
    IssueRaised,
    LaneClosed,
    LeaseRefused,
    TeardownEnded,
    TryStarted,
)
from proctor.model.waiting import Waiting
from proctor.report.beginnings import Beginnings
from proctor.report.cost_words import cost_words
from proctor.report.view import RunView
from proctor.report.waiting_text import settled, waiting_items, waiting_line, waits_since
from proctor.report.wording import SEPARATOR, duration, for_encoding, inactive, plural, printable

HEARTBEAT_SECONDS = 30.0
"""A line with the counts is printed when nothing else was for this long."""


_SAID: frozenset[type[Event]] = frozenset(
    {
        AttemptSealed, TryStarted, IssueRaised, LeaseRefused, TeardownEnded, LaneClosed, DispatchStopped, Interrupted,
    }
)  # fmt: skip
"""The events of which `PlainText.line` may say something; most are of other types."""


class Writes(Protocol):
    """A text stream, as far as a report needs one."""

    def write(self, text: str, /) -> object:
        """Write text."""
        ...

    def flush(self) -> object:
        """Hand it on."""
        ...


def count_parts(counts: Counts, *, backing_off: int = 0, waiting_for_grading: int = 0) -> list[tuple[str, int, str]]:
    """Return the parts of the total as (what is counted, number, words), the total itself first (docs/progress.md).

    Parts that are unusual are there only when they are not zero. `backing_off` counts those in flight that wait before
    something is tried again, inside a try or between two.
    """
    apart = {"backing off": backing_off, "waiting for grading": waiting_for_grading}
    named = ", ".join(f"{count:,} {what}" for what, count in apart.items() if count)
    stopped = {reason: n for reason, n in counts.not_dispatched.items() if n}
    why = ", ".join(f"{reason} {n:,}" for reason, n in stopped.items())
    parts = [
        ("total", counts.total, ""),
        ("reused", counts.reused, ""),
        ("running", counts.running, f" ({named})" if named else ""),
        ("queued", counts.queued, ""),
        ("passed", counts.passed, ""),
        ("failed", counts.failed, ""),
        ("errored", counts.errored, ""),
        ("skipped", counts.skipped, ""),
        ("not dispatched", counts.stopped, f" ({why})"),
        ("cancelled", counts.cancelled, ""),
    ]
    unusual = ("reused", "not dispatched", "cancelled")
    return [(name, count, f"{count:,} {name}{more}") for name, count, more in parts if count or name not in unusual]


def counts_line(counts: Counts, *, backing_off: int = 0, waiting_for_grading: int = 0, between_tries: int = 0) -> str:
    """Return the parts of the total as one line; parts that are unusual are named only when they are not zero."""
    parts = count_parts(counts, backing_off=backing_off + between_tries, waiting_for_grading=waiting_for_grading)
    return SEPARATOR.join(words for _, _, words in parts)


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
        self._beginnings = Beginnings()
        self._told: set[tuple[str, str, str]] = set()
        """FATAL issues of more than an attempt that were said, by experiment, code and message."""

    def say(self, line: str) -> None:
        """Write one line of our own."""
        self._stream.write(for_encoding(inactive(line), getattr(self._stream, "encoding", None)) + "\n")

    def show(self, experiment: str, event: Event, at: float) -> None:
        """Say what an event changed; its view has taken it already."""
        line = self.line(experiment, event)
        if line is not None:
            self._last_at = at
            self.say(line)

    def beat(
        self, at: float, waiting: Sequence[Waiting] | None = None, holders: Mapping[str, str] | None = None
    ) -> None:
        """Say what queued attempts wait for when that begins, and all counts when nothing was said for a while.

        Call it about once a second; `waiting` is None where that is not known.
        """
        waits = [] if waiting is None else settled(waiting, self._views)
        lines = list(self._beginnings.lines(waits, self._views, at, holders or {}))
        if not lines and self._last_at is not None and at - self._last_at >= HEARTBEAT_SECONDS:
            lines += [self._named(view.experiment, counts_of(view)) for view in self._views.values()]
            if waits:
                since = waits_since(self._views)
                lines.append(waiting_line(waiting_items(waits, since=since, holders=holders, now=at)))
        if lines or self._last_at is None:
            self._last_at = at
        for line in lines:
            self.say(line)
        if lines:
            self.flush()

    def flush(self) -> None:
        """Hand what was written to the terminal."""
        self._stream.flush()

    def _named(self, experiment: str, text: str) -> str:
        return f"{printable(experiment)} {text}" if self._several else text

    def line(self, experiment: str, event: Event) -> str | None:  # noqa: PLR0911 - one sentence per event
        """Return what there is to say of an event, if anything."""
        if type(event) not in _SAID:
            return None
        view = self._views[experiment]
        match event:
            case AttemptSealed(_, task, ordinal, verdict):
                total = f"{view.total:,}"
                done = f"{view.sealed + view.reused.total():,}".rjust(len(total))
                what = self._named(experiment, f"{printable(task)} #{ordinal}")
                used = view.sealed_usage  # of a cost of which nothing is known the summary speaks
                known = used.cost_usd is not None or used.cost_at_least_usd
                cost = f" {cost_words(used)}" if known else ""
                return f"[{done}/{total}] {verdict:<9} {what}  {duration(view.sealed_seconds)}{cost}"
            case TryStarted(_, task, ordinal, try_number) if try_number > 1:
                return f"try {try_number}: {self._named(experiment, f'{printable(task)} #{ordinal}')}"
            case IssueRaised(attempt, issue) if issue.severity is Severity.FATAL:
                flight = view.in_flight.get(attempt)
                told = (experiment, issue.code, issue.message)
                if flight is None and told in self._told:
                    return None  # a slot that is given up because of what was said already
                row = CODES.get(issue.code)
                if row is not None and row.scope is not Scope.ATTEMPT:
                    self._told.add(told)
                slot = f"{printable(flight.task)} #{flight.ordinal}" if flight else f"@{attempt}"
                where = self._named(experiment, slot)
                return f"FATAL {issue.code} {where}: {printable(issue.message)}"
            case LeaseRefused(_, message):
                return self._named(experiment, printable(message, most=1000))
            case TeardownEnded(_, issue) | LaneClosed(_, _, _, issue) if issue is not None:
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
