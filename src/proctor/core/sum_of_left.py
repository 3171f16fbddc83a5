"""What the slots that are left are expected to sum up to: seconds or dollars, kept as slots are taken and values come.

Each step costs the same however many slots there are.
"""

from __future__ import annotations

import math


class Moments:
    """Number, mean and spread of values, kept as they come."""

    __slots__ = ("_squares", "count", "mean")

    def __init__(self) -> None:
        self.count = 0
        self.mean = self._squares = 0.0

    def add(self, value: float) -> None:
        """Take a value into account."""
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self._squares += before * (value - self.mean)

    @property
    def deviation(self) -> float | None:
        """The standard deviation; None of fewer than two values."""
        return math.sqrt(self._squares / (self.count - 1)) if self.count > 1 else None


class SumOfLeft:
    """What the slots that are left are expected to sum up to, kept as slots are taken and values come."""

    def __init__(self, tasks: int, left: list[int]) -> None:
        self._left = left  # of each task, shared
        self._seen: list[Moments | None] = [None] * tasks
        self._expected: list[float | None] = [None] * tasks
        self._sum = 0.0
        self._known = 0
        self.here, self.before = Moments(), Moments()

    def add(self, task: int, value: float, *, here: bool) -> None:
        """Take the value of an attempt, of this run or of an earlier one."""
        (self.here if here else self.before).add(value)
        seen = self._seen[task]
        if seen is None:
            seen = self._seen[task] = Moments()
        seen.add(value)
        self._expect(task, seen.mean)

    def forget(self, task: int) -> None:
        """Take nothing from earlier runs for a task any more: this run has seen it."""
        self._seen[task] = None

    def _expect(self, task: int, value: float) -> None:
        before, left = self._expected[task], self._left[task]
        self._sum += (value - (before or 0.0)) * left
        self._known += left if before is None else 0
        self._expected[task] = value

    def taken(self, task: int, number: int) -> None:
        """Note that slots of a task are not left any more; to be called before their number is changed."""
        expected = self._expected[task]
        if expected is not None:
            self._sum -= expected * number
            self._known -= number

    def of(self, task: int) -> float | None:
        """Return what an attempt of a task is expected to come to; None where nothing is known of any."""
        expected = self._expected[task]
        return self.typical if expected is None else expected

    @property
    def typical(self) -> float | None:
        """What an attempt of a task is taken to come to of which nothing is known."""
        of = self.here if self.here.count else self.before
        return of.mean if of.count else None

    def sum_of(self, slots: int) -> float | None:
        """Return what all slots that are left, `slots`, sum up to; None where nothing is known."""
        typical = self.typical
        if not slots:
            return 0.0
        return None if typical is None else max(0.0, self._sum) + typical * (slots - self._known)

    @property
    def deviation(self) -> float | None:
        """How much attempts differ."""
        return (self.here if self.here.count > 1 else self.before).deviation
