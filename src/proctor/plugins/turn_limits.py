"""Limits of single turns, for benchmarks whose tasks are programs: the runner limits the agent's part as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")

BEAT_SECONDS = 0.2
"""How often what a benchmark does between turns gives a sign of life."""


class TurnTooLongError(Exception):
    """The limit of a turn was reached."""


class Timed(Protocol):
    """What the context of a try knows of time."""

    @property
    def time_factor(self) -> float:
        """What the limits that a task declares are multiplied by."""
        ...

    @property
    def executed_seconds(self) -> float:
        """A clock that stands still while the try waits for what refused: no limit counts that."""
        ...

    def sign_of_life(self) -> None:
        """Say that the agent's part goes on."""
        ...


def time_factor_of(ctx: object) -> float:
    """Return what `--timeout-multiplier` scales the limits of a try by; 1 where a context does not know."""
    return getattr(ctx, "time_factor", 1.0)


@contextmanager
def between_turns(ctx: Timed) -> Generator[None]:
    """Give signs of life for the agent while it is not its turn: what is silent then, such as tests, is not idle."""
    loop = asyncio.get_running_loop()

    def beat() -> None:
        ctx.sign_of_life()
        timers[:] = [loop.call_later(BEAT_SECONDS, beat)]

    timers: list[asyncio.TimerHandle] = []
    beat()
    try:
        yield
    finally:
        timers[0].cancel()


async def in_time(ctx: Timed, limit_seconds: float | None, call: Callable[[], Awaitable[T]]) -> T:
    """Make a call that is cancelled once it has executed for so long; None is no limit.

    Raises `TurnTooLongError` then, and what the call raises.
    """
    if limit_seconds is None:
        return await call()
    loop = asyncio.get_running_loop()
    end = ctx.executed_seconds + limit_seconds * ctx.time_factor
    timeout = asyncio.timeout(None)

    def look() -> None:
        """Look whether the time is over, and when to look again: a wait in between moves the end."""
        left = end - ctx.executed_seconds
        if left <= 0:
            timeout.reschedule(0.0)  # long ago
        else:
            timers.append(loop.call_later(left, look))
            del timers[:-1]

    timers: list[asyncio.TimerHandle] = []
    try:
        async with timeout:
            look()
            return await call()
    except Exception as error:  # a harness may have made another error of being cancelled
        if timeout.expired():
            raise TurnTooLongError from error
        raise
    finally:
        for timer in timers:
            timer.cancel()


__all__ = ["Timed", "TurnTooLongError", "between_turns", "in_time", "time_factor_of"]
