"""Runs what must not be cut off: clean-up that goes on through cancellation, with a limit of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from proctor.errors import ask_to_end
from proctor.runtime.hurry import COURTESY_SECONDS, Hurry

T = TypeVar("T")


async def shielded(
    work: Coroutine[Any, Any, T],
    limit_seconds: float | None,
    hurry: Hurry | None = None,
    hurried_seconds: float | None = None,
    cancelled_seconds: float | None = None,
) -> T:
    """Run `work` to its end whatever happens to the caller, then return its result or raise its exception.

    A cancellation that arrives meanwhile is delivered after it; where `cancelled_seconds` are given, the work is
    cancelled as well, and may take so long to end. Raises `TimeoutError` when the limit is over, or what
    a hurry leaves (see `Hurry.wait`); the work is then cancelled and abandoned, so that what ignores cancellation holds
    nobody.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    hurry = hurry or Hurry()
    deadline = None if limit_seconds is None else loop.time() + limit_seconds
    interrupted: asyncio.CancelledError | None = None
    while not task.done():
        left = None if deadline is None else max(0.0, deadline - loop.time())
        try:
            ended = await hurry.wait(task, left, hurried_seconds)
        except asyncio.CancelledError as cancelled:
            interrupted = cancelled
            if cancelled_seconds is not None:
                ask_to_end(task)
                end = loop.time() + cancelled_seconds
                deadline = end if deadline is None else min(deadline, end)
            continue
        if not ended:
            ask_to_end(task)
            task.add_done_callback(_forget)
            if interrupted is not None and cancelled_seconds is not None:
                raise interrupted
            raise TimeoutError("gave up, as there is no more time" if hurry.begun else _gave_up(limit_seconds))
    if interrupted is not None:
        _forget(task)
        raise interrupted
    return task.result()


def _gave_up(limit_seconds: float | None) -> str:
    return f"gave up after {limit_seconds:g} s" if limit_seconds is not None else "gave up"


def _forget(task: asyncio.Future[Any]) -> None:
    """Take the exception of an abandoned task, so that asyncio does not print it as lost."""
    if not task.cancelled():
        task.exception()


async def end_task(
    task: asyncio.Task[Any],
    grace_seconds: float,
    hurry: Hurry | None = None,
    hurried_seconds: float = COURTESY_SECONDS,
) -> bool:
    """Cancel a task and wait for its end, through any cancellation of the caller, but no longer than the grace.

    Returns False where it ignores the cancellation: it is abandoned then, and holds nobody. A cancellation of the
    caller that arrives meanwhile is not raised here: it is the caller's to have been cancelled already.
    """
    ask_to_end(task)
    with suppress(TimeoutError, asyncio.CancelledError):
        await shielded(wait_for_end(task), grace_seconds, hurry, hurried_seconds)
    if not task.done():
        task.add_done_callback(_forget)
    return task.done()


async def wait_for_end(task: asyncio.Future[Any]) -> None:
    """Wait until `task` has ended, however it ends."""
    await asyncio.wait({task})
    _forget(task)
