"""The only place that reads a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

WALL_DIGITS = 6
"""A moment that a live display had more exactly than the journal would make their sums differ."""


class Clock(Protocol):
    """Where time comes from: durations by `monotonic`, stamps by `wall`."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...

    def wall(self) -> float:
        """Return seconds since the epoch, to the microsecond: as a journal keeps them, so that sums are the same."""
        ...


class SystemClock:
    """The machine's own clocks.

    `wall` is read once and goes on with the monotonic clock, so that the difference of two stamps of one process is a
    duration, whatever happens to the machine's time in between.
    """

    def __init__(self) -> None:
        self._epoch = time.time() - time.monotonic()

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def wall(self) -> float:
        """Return seconds since the epoch, to the microsecond."""
        return round(self._epoch + time.monotonic(), WALL_DIGITS)


def utc(wall: float) -> datetime:
    """Return a stamp of `Clock.wall` as a moment in UTC."""
    return datetime.fromtimestamp(wall, UTC)
