"""Where the time of a run went: slot-seconds, each from the start of the run until its slot is final (spec 07).

A slot is queued, then in flight. What it is queued is split by the gate that held it back, as the scheduler measured
it; what it is in flight, by phases and waits. So the parts add up to all the seconds of all slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from proctor.model.attempt import Phase
from proctor.model.ids import AttemptId
from proctor.model.waiting import Gate

BACKOFF = "backoff"
GRADING_PERMITS = "waiting for the permits of grading"
IMAGES = "waiting for images"
WAITING = "waiting: "
"""Before the gate that queued slots waited for."""
NOT_NOTED = "waiting: not noted for what"
OTHER = "other"

_FOR_PERMITS = "permits"

SAME_MOMENT_SECONDS = 0.01
"""An attempt that ends with its last try is sealed so soon after it: that is no wait."""

_ORDER = (Phase.AGENT, Phase.GRADE, Phase.OPEN, Phase.SETUP, Phase.COLLECT, Phase.DISPOSE)


@dataclass(slots=True)
class TimeSpent:
    """The slot-seconds of one run so far."""

    queued_seconds: float = 0.0
    in_flight_seconds: float = 0.0
    _phases: dict[Phase, float] = field(default_factory=dict[Phase, float])
    _waits: dict[str, float] = field(default_factory=dict[str, float])
    _since: dict[AttemptId, tuple[str, float]] = field(default_factory=dict[AttemptId, tuple[str, float]])
    """The attempts in flight that wait inside a try, for what and since when."""
    _ended: dict[AttemptId, float] = field(default_factory=dict[AttemptId, float])
    """The attempts whose last try has ended, and when."""
    measured: Mapping[str, float] = field(default_factory=dict[str, float])
    """What slots were queued by gate, as it was looked at from time to time; there at the end of the run."""

    def passes(self, seconds: float, *, queued: int, in_flight: int) -> None:
        """Let time pass in which so many slots were queued and in flight."""
        if queued > 0:
            self.queued_seconds += seconds * queued
        self.in_flight_seconds += seconds * in_flight

    def worked(self, phase: Phase, seconds: float) -> None:
        """Take the length of a phase that has ended."""
        self._phases[phase] = self._phases.get(phase, 0.0) + seconds

    def wait(self, attempt: AttemptId, what: str, at: float) -> None:
        """Note that an attempt in flight waits from now on."""
        self._since[attempt] = what, at

    def asks(self, attempt: AttemptId, at: float) -> None:
        """Note that a backoff is over and the attempt asks for its permits."""
        self.goes_on(attempt, at)
        self._since[attempt] = _FOR_PERMITS, at

    def resumes(self, attempt: AttemptId, at: float) -> None:
        """Note that it has them; the time until then belongs to the backoff."""
        if attempt in self._since:
            self._since[attempt] = BACKOFF, self._since[attempt][1]
        self.goes_on(attempt, at)

    def end_try(self, attempt: AttemptId, at: float) -> None:
        """Note that a try has ended: until the attempt is tried again, it waits."""
        if self._since:
            self.goes_on(attempt, at)
        self._ended[attempt] = at

    def end(self, attempt: AttemptId, at: float) -> None:
        """Note that an attempt is final: with its last try, in the same moment, or while it waited for another."""
        ended_at = self._ended.pop(attempt, None)
        if ended_at is not None and at - ended_at > SAME_MOMENT_SECONDS:
            self._waits[BACKOFF] = self._waits.get(BACKOFF, 0.0) + at - ended_at
        if self._since:
            self.goes_on(attempt, at)

    def goes_on(self, attempt: AttemptId, at: float) -> None:
        """Note that an attempt does not wait any more, if it did."""
        ended_at = self._ended.pop(attempt, None)
        wait = self._since.pop(attempt, None) if ended_at is None else (BACKOFF, ended_at)
        if wait is not None and wait[0] != _FOR_PERMITS:  # a journal may say nothing of how long that was
            what, since = wait
            self._waits[what] = self._waits.get(what, 0.0) + max(0.0, at - since)

    @property
    def parts(self) -> dict[str, float]:
        """Where the slot-seconds went: phases, waits in flight, waits by gate, and what is left of both; none is 0."""
        worked = {phase.value: self._phases.get(phase, 0.0) for phase in _ORDER}
        in_flight = {**worked, BACKOFF: self._waits.get(BACKOFF, 0.0)}
        in_flight[GRADING_PERMITS] = self._waits.get(GRADING_PERMITS, 0.0)
        queued = self._queued()
        in_flight[IMAGES] = self._waits.get(IMAGES, 0.0)
        other = self.in_flight_seconds - sum(in_flight.values()) + queued.pop(f"{WAITING}{Gate.DECIDED}", 0.0)
        found = {**in_flight, **queued, OTHER: other}
        return {what: seconds for what, seconds in found.items() if seconds > 0}

    def _queued(self) -> dict[str, float]:
        """Split what slots were queued as it was measured; that was looked at from time to time, this is exact."""
        measured = sum(self.measured.values())
        if measured <= 0:
            return {NOT_NOTED: self.queued_seconds}
        share = self.queued_seconds / measured
        ordered = sorted(self.measured.items(), key=lambda each: -each[1])
        return {f"{WAITING}{gate}": seconds * share for gate, seconds in ordered}


def together(times: Sequence[TimeSpent]) -> dict[str, float]:
    """Return the parts of several runs, added up."""
    found: dict[str, float] = {}
    for one in times:
        for what, seconds in one.parts.items():
            found[what] = found.get(what, 0.0) + seconds
    return found
