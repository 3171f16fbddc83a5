"""The only place that reads a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where time comes from: durations by `monotonic`, stamps by `wall`."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...

    def wall(self) -> float:
        """Return seconds since the epoch."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return time.time()


def utc(wall: float) -> datetime:
    """Return a stamp of `Clock.wall` as a moment in UTC."""
    return datetime.fromtimestamp(wall, UTC)
