"""What an attempt in flight has executed so far, as the estimate of what is left needs it."""

from __future__ import annotations

from proctor.core.expectations import Sample
from proctor.model.spent import Spent


class Executed(Spent):
    """An attempt in flight: its slot, since when its try goes on, what it executed and used.

    While it waits, its try begins so much later: that may be a moment to come.
    """

    __slots__ = ("began_at", "ordinal", "task")

    def __init__(self, task: int, ordinal: int, at: float) -> None:
        super().__init__()
        self.task, self.ordinal, self.began_at = task, ordinal, at

    def sample(self, *, passed: bool) -> Sample:
        """Return what it tells about other attempts, once it is final."""
        return Sample(self.agent, self.grade, self.dispose, self.cost_usd, passed)
