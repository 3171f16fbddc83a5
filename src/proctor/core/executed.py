"""What an attempt in flight has executed so far, as the estimate of what is left needs it."""

from __future__ import annotations

from proctor.core.expectations import Sample
from proctor.model.attempt import NO_USAGE, Phase, Usage


class Executed:
    """An attempt in flight: its slot, since when its try goes on, what it executed and used.

    While it waits, its try begins so much later: that may be a moment to come.
    """

    __slots__ = ("agent", "began_at", "dispose", "grade", "grading", "ordinal", "task", "usage")

    def __init__(self, task: int, ordinal: int, at: float) -> None:
        self.task, self.ordinal, self.began_at = task, ordinal, at
        self.agent = self.grade = self.dispose = 0.0
        self.grading = False
        self.usage: Usage = NO_USAGE

    def phase_ended(self, phase: Phase, seconds: float) -> None:
        """Take the length of a phase that has ended."""
        if self.grading or phase is Phase.GRADE:
            self.grade += seconds
        elif phase is Phase.DISPOSE:
            self.dispose += seconds
        else:
            self.agent += seconds

    def sample(self, *, passed: bool) -> Sample:
        """Return what it tells about other attempts, once it is final."""
        cost = self.usage.cost_usd if self.usage.calls else 0.0
        return Sample(self.agent, self.grade, self.dispose, cost, passed)
