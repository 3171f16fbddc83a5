"""The limits that one phase of a try is under: they count its execution, and stand still while the try waits."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import NamedTuple

from proctor.model.attempt import Phase
from proctor.runtime.clock import Clock
from proctor.runtime.watchdog import held_by_others

EARLY_SECONDS = 0.001
"""So much before its moment a timer may come and still count as in time."""


class Limit(Enum):
    """Which limit ended a phase."""

    PHASE = "phase"
    TRY = "try"
    IDLE = "idle"


class Sight(NamedTuple):
    """What can be seen of a try from outside, at no cost to it.

    `silent_seconds` is how long there was no sign of life. `limit` is the one that ends the phase first if nothing
    changes, `limit_seconds` how long it is, `left_seconds` what is left of it: all None where no limit is in force.
    Nothing of it runs off while the try is `paused`.
    """

    silent_seconds: float
    limit: Limit | None = None
    limit_seconds: float | None = None
    left_seconds: float | None = None
    paused: bool = False


class Activity:
    """When a try last gave a sign of life. To give one costs a reading of the clock; any thread may."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.last = clock.monotonic()
        """The moment of the last sign, by the monotonic clock."""

    def sign(self) -> None:
        """Note that the try is alive."""
        self.last = self._clock.monotonic()

    @property
    def silent_seconds(self) -> float:
        """How long there has been no sign."""
        return self._clock.monotonic() - self.last


class Countdown:
    """Counts what a phase executes against its limits; `over` gets the limit that was reached, if one is.

    `seconds` is the smaller of the limit of the phase and what is left of that of the try, and `limit` says which.
    Nothing counts while it is paused, nor while the code of another attempt holds the event loop. To be made inside a
    running event loop.
    """

    def __init__(
        self,
        attempt: str,
        phase: Phase,
        *,
        activity: Activity,
        seconds: float | None,
        limit: Limit = Limit.PHASE,
        idle_seconds: float | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.attempt = attempt
        self.phase = phase
        self.seconds = seconds
        self.limit = limit
        self.idle_seconds = idle_seconds
        self.over: asyncio.Future[Limit] = self._loop.create_future()
        self.held_seconds = 0.0
        """How long its own code held the event loop; kept by the watchdog."""
        self.struck: str | None = None
        """What the watchdog said when it ended code of this phase."""
        self._activity = activity
        self._end = None if seconds is None else self._loop.time() + seconds
        self._left: float | None = None
        self._paused = self._ending = self._closed = False
        self._held_read = held_by_others(self._loop, self)
        self._held_before = self._held_at_sign = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Let `over` be set when a limit is reached."""
        self._activity.sign()
        self._arm()

    def pause(self) -> None:
        """Stand still: the try waits."""
        if self._paused or self._closed:
            return
        if self._end is not None:
            self._left = max(0.0, self._end + self.held_by_others - self._loop.time())
        self._held_before = self.held_by_others
        self._paused = True
        self._disarm()

    def go_on(self) -> None:
        """Count again; what was left is left."""
        if not self._paused:
            return
        self._paused = False
        self._held_read = held_by_others(self._loop, self)
        if self._left is not None:
            self._end = self._loop.time() + self._left - self._held_before
        self._activity.sign()
        self._arm()

    def end_by(self, seconds: float) -> None:
        """Give what was cancelled `seconds` to end, as far as the watchdog is concerned; no limit fires any more.

        What was cancelled because its time was over has none left for holding the event loop.
        """
        if self._paused:
            self._held_read = held_by_others(self._loop, self)
        self._disarm()
        self._paused, self._ending = False, True
        end = self._loop.time() + seconds
        self._end = min(self._end, end) if self._end is not None and self.over.done() else end

    def close(self) -> None:
        """Count no more: the phase is over, and what it left behind is under no limit of it."""
        self._closed = True
        self._disarm()

    @property
    def held_by_others(self) -> float:
        """How long the code of other attempts held the event loop while this counted, in seconds."""
        if self._paused:
            return self._held_before
        return self._held_before + max(0.0, held_by_others(self._loop, self) - self._held_read)

    def ends_at(self) -> float | None:
        """Return when the next limit will be reached, by the time of the event loop; None while none will be."""
        if self._closed or self._paused:
            return None
        ends = [] if self._end is None else [self._end + self.held_by_others]
        if self.idle_seconds is not None and not self._ending:
            ends.append(self._loop.time() - self._activity.silent_seconds + self.idle_seconds)
        return min(ends, default=None)

    def sight(self) -> Sight:
        """Return the limit that is reached next, as it stands now."""
        silent, left = self._activity.silent_seconds, None
        if self._closed or self._ending or self.over.done():
            return Sight(silent)
        if self._end is not None:
            left = self._left if self._paused else self._end + self.held_by_others - self._loop.time()
        if self.idle_seconds is not None:
            idle = self.idle_seconds - (0.0 if self._paused else silent)  # what goes on gives a sign first
            if left is None or idle < left:
                return Sight(silent, Limit.IDLE, self.idle_seconds, max(0.0, idle), self._paused)
        if left is None:
            return Sight(silent, paused=self._paused)
        return Sight(silent, self.limit, self.seconds, max(0.0, left), self._paused)

    def _arm(self) -> None:
        ends_at = self.ends_at()
        if ends_at is not None and not self.over.done() and not self._ending:
            self._timer = self._loop.call_at(ends_at, self._look)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """See whether a limit was reached, or only would have been without the signs of life since."""
        now = self._loop.time() + EARLY_SECONDS
        if self._end is not None and now >= self._end + self.held_by_others:
            self.over.set_result(self.limit)
        elif self.idle_seconds is not None and self._activity.silent_seconds + EARLY_SECONDS >= self.idle_seconds:
            if self.held_by_others > self._held_at_sign:  # it had no chance to give one
                self._held_at_sign = self.held_by_others
                self._activity.sign()
                self._arm()
            else:
                self.over.set_result(Limit.IDLE)
        else:
            self._arm()
