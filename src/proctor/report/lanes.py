"""When what happened inside a try: its phases and its waits as spans of time, from its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from proctor.model.attempt import Phase
from proctor.model.events import (
    BackoffEnded,
    BackoffStarted,
    Event,
    GradingQueued,
    GradingStarted,
    ImageWaitEnded,
    ImageWaitStarted,
    PhaseEnded,
    PhaseStarted,
    TryEnded,
    TryResumed,
)

BACKOFF, PERMITS, IMAGE = "backoff", "permits", "image"
WAITS = (BACKOFF, PERMITS, IMAGE)
"""The kinds of spans in which nothing of a try executes; all others are named after their phase."""

LETTERS: Mapping[str, str] = {
    Phase.OPEN.value: "O",
    Phase.SETUP.value: "S",
    Phase.AGENT.value: "A",
    Phase.COLLECT.value: "C",
    Phase.GRADE.value: "G",
    Phase.DISPOSE.value: "D",
    BACKOFF: "b",
    PERMITS: "p",
    IMAGE: "i",
}
"""What a span is called where colour does not say it."""

_SHORTEST_WAIT_SECONDS = 0.001
"""Permits that are had at once are no wait."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a try; moments are in seconds after the epoch, and `end` is None while it goes on."""

    kind: str
    start: float
    end: float | None = None
    note: str = ""
    """Such as the code of what refused."""


@dataclass(slots=True)
class TrySpans:
    """One try, from its events in order. Where the start of a phase was not seen, its end tells of it."""

    started_at: float
    ended_at: float | None = None
    spans: list[Span] = field(default_factory=list[Span])
    _phase: Phase | None = None

    def add(self, event: Event, at: float) -> None:
        """Take the next event of this try, which happened `at` seconds after the epoch."""
        match event:
            case PhaseStarted(_, phase):
                self._phase = phase
                self._begin(phase.value, at)
            case PhaseEnded(_, phase, seconds):
                if self._phase is None and not self._is_open:
                    self.spans.append(Span(phase.value, max(self.started_at, at - seconds), at))
                self._phase = None
                self._close(at)
            case BackoffStarted(_, code, _):
                self._begin(BACKOFF, at, code)
            case ImageWaitStarted(_, image):
                self._begin(IMAGE, at, image)
            case GradingQueued() | BackoffEnded():
                self._begin(PERMITS, at)
            case GradingStarted() | TryResumed() | ImageWaitEnded():
                self._go_on(at)
            case TryEnded():
                self.end(at)
            case _:
                pass

    def end(self, at: float) -> None:
        """Note that the try is over."""
        self._close(at)
        self._phase = None
        self.ended_at = at

    def _begin(self, kind: str, at: float, note: str = "") -> None:
        self._close(at)
        self.spans.append(Span(kind, at, None, note))

    def _go_on(self, at: float) -> None:
        if self._phase is not None:
            self._begin(self._phase.value, at)
        else:
            self._close(at)

    @property
    def _is_open(self) -> bool:
        return bool(self.spans) and self.spans[-1].end is None

    def _close(self, at: float) -> None:
        if not self._is_open:
            return
        last = self.spans.pop()
        end = max(last.start, at)
        if last.kind != PERMITS or end - last.start >= _SHORTEST_WAIT_SECONDS:
            self.spans.append(replace(last, end=end))
