"""Waiting inside a try: nothing of the try executes meanwhile, and no limit of it runs (spec 03 B1, 05 Time)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from typing import Any

from proctor.model.events import BackoffEnded, BackoffStarted, TryEvent
from proctor.runtime.clock import Clock
from proctor.runtime.countdown import Activity, Countdown, Sight
from proctor.runtime.shield import shielded

Sleep = Callable[[float], Awaitable[None]]


class Backoff:
    """The waits of one try.

    `wait` gives the try's permits back, waits, asks for them again and returns when they are granted (`resume`). Waits
    that overlap, of a harness that makes several calls at once, are one: it begins with the first and ends when the
    last is over. The time limits that are in force stand still from the beginning to the grant.
    """

    def __init__(
        self, attempt: str, emit: Callable[[TryEvent], None], clock: Clock, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._attempt = attempt
        self._emit = emit
        self._clock = clock
        self._sleep = sleep
        self._waiting = 0
        self._since: float | None = None
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._cancelled = self._closed = False
        self.activity = Activity(clock)
        """The signs of life of the try."""
        self.countdown: Countdown | None = None
        """The limits in force; they stand still while the try waits."""
        self._waited = 0.0

    @property
    def waited_seconds(self) -> float:
        """What was waited in all so far, grants included; not part of any phase."""
        return self._waited + (self._clock.monotonic() - self._since if self._since is not None else 0.0)

    def sight(self) -> Sight:
        """Return what can be seen of the try now: its last sign of life, and the limit in force."""
        if self.countdown is not None:
            return self.countdown.sight()
        return Sight(self.activity.silent_seconds, paused=self._since is not None)

    async def wait(self, seconds: float, code: str) -> None:
        """Wait for `seconds` because of something with this code, then for the permits.

        Raises `ValueError` for what is no finite time of at least 0, `CancelledError` once the try is being cancelled.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(f"a backoff needs a finite time of at least 0 s, not {seconds!r}")
        if self._closed:
            raise RuntimeError("the agent's part of the try is over: nothing of it can wait any more")
        while not self._waiting and not self._resumed.is_set():
            await self._resumed.wait()  # an earlier wait is over and asks for its permits; this one comes after it
        if self._cancelled:
            raise asyncio.CancelledError("the try is being cancelled: nothing is granted to it any more")
        self._enter(seconds, code)
        try:
            await self._sleep(seconds)
        except asyncio.CancelledError:
            self._leave()
            if not self._cancelled:
                # Only this wait was cut off: whoever did it goes on executing, and needs the permits for it.
                await shielded(self._until_resumed(), None)
            raise
        self._leave()
        await self._resumed.wait()

    async def close(self) -> None:
        """Refuse waits from now on, and end one that something left behind still makes: the try itself goes on."""
        self._closed = True
        await self.settle()

    async def settle(self) -> None:
        """End a wait that something left behind still makes, and have the permits back, before a phase begins."""
        if self._resumed.is_set():
            return
        if self._waiting:
            self._waiting = 0
            self._emit_end()
        await self._resumed.wait()

    def reopen(self) -> None:
        """Allow waits again."""
        self._closed = False

    def resume(self) -> None:
        """Let the try go on: its permits are held again."""
        if self._since is not None:
            self._waited += self._clock.monotonic() - self._since
            self._since = None
        if self.countdown is not None:
            self.countdown.go_on()
        self._resumed.set()

    def cancel(self) -> None:
        """The try is being cancelled: nothing is granted any more, and nothing waits for it."""
        self._cancelled = True
        self.resume()

    async def _until_resumed(self) -> None:
        await self._resumed.wait()

    def _enter(self, seconds: float, code: str) -> None:
        self._waiting += 1
        if self._waiting > 1:
            return
        self._resumed.clear()
        self._since = self._clock.monotonic()
        if self.countdown is not None:
            self.countdown.pause()
        self._emit(BackoffStarted(self._attempt, code, round(seconds, 6)))

    def _leave(self) -> None:
        if self._waiting == 0:
            return  # it was ended for whoever made it
        self._waiting -= 1
        if not self._waiting:
            self._emit_end()

    def _emit_end(self) -> None:
        if not self._cancelled and self._since is not None:
            self._emit(BackoffEnded(self._attempt, round(self._clock.monotonic() - self._since, 6)))


LONGEST_SECONDS = 1e9
"""A server that asks for more, such as for a number of four hundred digits, asks for this."""


def retry_after_seconds(header: Any, wall: float) -> float | None:
    """Return what a Retry-After header asks for, in seconds from `wall` (epoch seconds).

    The header holds seconds or an HTTP date (RFC 9110, 10.2.3). None where it is absent, unreadable, in the past, or no
    text: a plugin may put anything there.
    """
    if not isinstance(header, str):
        return None
    text = header.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), LONGEST_SECONDS) or None
    try:
        seconds = parsedate_to_datetime(text).timestamp() - wall
    except (ValueError, OverflowError):
        return None
    return seconds if seconds > 0 else None
