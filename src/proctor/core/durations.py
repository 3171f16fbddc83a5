"""What is known of how long attempts last (spec 03 O1): whole microseconds, so that sums are exact in any order."""

from __future__ import annotations

from heapq import heappush, heappushpop

SAMPLES_AT_MOST = 4096
"""After so many samples a median changes no more: it costs memory, and hardly moves."""


def microseconds(seconds: float) -> int:
    """Return a duration in whole microseconds, at least 1."""
    return max(1, round(seconds * 1e6))


class Median:
    """The lower median of what was added."""

    __slots__ = ("_above", "_below", "count", "value")

    def __init__(self) -> None:
        self._below: list[int] = []  # a heap of negatives: the lower half, its largest first
        self._above: list[int] = []
        self.count = 0
        self.value = 0
        """0 while nothing is known."""

    def add(self, duration: int) -> None:
        """Take a duration into account."""
        if self.count >= SAMPLES_AT_MOST:
            return
        self.count += 1
        if self.count == 1:
            self._below.append(-duration)
            self.value = duration
            return
        if len(self._below) > len(self._above):
            heappush(self._above, -heappushpop(self._below, -duration))
        else:
            heappush(self._below, -heappushpop(self._above, duration))
        self.value = -self._below[0]
