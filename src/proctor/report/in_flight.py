"""An attempt that was started and is not final, as far as reports need to know it."""

from __future__ import annotations

from dataclasses import dataclass

from proctor.model.attempt import NO_USAGE, Phase, Usage


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
    """The code of what it waits for, while it waits inside a try."""
    ended: bool = False
    """Whether its last try has ended: then it is sealed in the same moment, or waits to be tried again."""
    work: Usage = NO_USAGE
    """What the work used that counts so far; a try of grading only leaves it in force."""
    grading: Usage = NO_USAGE
    """What grading that work used."""
