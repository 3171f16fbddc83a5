"""An attempt that was started and is not final, as far as reports need to know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proctor.model.attempt import NO_USAGE, Phase, Severity, TryResult, Usage


@dataclass(slots=True)
class InFlight:
    """An attempt that was started and is not sealed."""

    task: str
    ordinal: int
    try_number: int
    started_at: float
    phase: Phase | None = None
    phase_at: float = 0.0
    backing_off: str | None = None
    """The code of what it waits for, while it waits inside a try, until it holds its permits again."""
    waits_since: float = 0.0
    """When its last wait began, inside a try or between two."""
    waits_seconds: float | None = None
    """How long that wait was to be; None where that is not known."""
    image: str | None = None
    """The image that it waits for, since `waits_since`."""
    cause: str = ""
    """Once its last try has ended: the code that another one would be made for."""
    ended: bool = False
    """Whether its last try has ended: then it is sealed in the same moment, or waits to be tried again."""
    saved: Usage = NO_USAGE
    """What its try had used when its work was saved; what the whole try used is known at its end."""
    work: Usage = NO_USAGE
    """What the work used that counts so far; a try of grading only leaves it in force."""
    grading: Usage = NO_USAGE
    """What grading that work used."""
    spent: Usage = NO_USAGE
    """What all its tries used that have ended, grading included."""
    fatal: tuple[tuple[str, str], ...] = ()
    """The (severity, code) of the FATAL issues of the try that ended last."""
    agent_seconds: float | None = None
    """How long the agent phase of the work took that counts so far."""
    sub_scores: Mapping[str, float] | None = None
    """Those of the grade of its last try; None where it has none."""
    opened_in: float | None = None
    """How long the last opening took, until it is known that a sandbox came of it."""


def cause_of(result: TryResult) -> str:
    """Return the code that another try is made for; the outcome where there is none."""
    for severity in (Severity.FATAL, Severity.ERROR):
        for issue in result.issues:
            if issue.severity is severity:
                return issue.code
    return result.outcome.value
