"""What an attempt executed and used until it is final, summed over its tries."""

from __future__ import annotations

from proctor.model.attempt import NO_USAGE, Phase, Usage


class Spent:
    """Seconds of execution of an attempt by what they went into, and what its calls used."""

    __slots__ = ("agent", "dispose", "grade", "grading", "usage")

    def __init__(self) -> None:
        self.agent = self.grade = self.dispose = 0.0
        self.grading = False
        """Whether grading was granted permits of its own: then whatever is opened and disposed of is grading's."""
        self.usage: Usage = NO_USAGE

    def phase_ended(self, phase: Phase, seconds: float) -> None:
        """Take the length of a phase that has ended."""
        if self.grading or phase is Phase.GRADE:
            self.grade += seconds
        elif phase is Phase.DISPOSE:
            self.dispose += seconds
        else:
            self.agent += seconds

    @property
    def cost_usd(self) -> float | None:
        """What its calls cost: 0 where none was made, None where that of one is unknown."""
        return self.usage.cost_usd if self.usage.calls else 0.0
