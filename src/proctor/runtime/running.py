"""Runs the program's event loop to its end, and no longer than that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from proctor.runtime.watchdog import watching

T = TypeVar("T")

LEFT_SECONDS = 1.0
"""How long tasks that are left at the end may take to end; by then everything that matters has ended."""

LEFT: list[str] = []
"""What is left of work that was run: it may wait for ever, and is not to be ended in good order at the exit."""

log = logging.getLogger(__name__)


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` in an event loop of its own and return its result.

    Unlike `asyncio.run` it is not held by what others left behind: tasks that ignore their cancellation, threads that
    cannot be cancelled (spec 05 Time).
    """
    loop = asyncio.new_event_loop()
    threads = ThreadPoolExecutor(thread_name_prefix="proctor")
    loop.set_default_executor(threads)
    with watching(loop):
        try:
            return loop.run_until_complete(work)
        finally:
            _leave(loop, threads)


async def together(*forever: Coroutine[Any, Any, None]) -> None:
    """Run what only ends by being cancelled; where one of them fails, the others go on."""
    await asyncio.gather(*forever, return_exceptions=True)


def _leave(loop: asyncio.AbstractEventLoop, threads: ThreadPoolExecutor) -> None:
    """End what is left in the loop, as far as it ends, and close it."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.set_exception_handler(lambda _, context: log.debug("left at the end: %s", context.get("message")))
        loop.run_until_complete(asyncio.wait(left, timeout=LEFT_SECONDS))
    closing = loop.create_task(loop.shutdown_asyncgens())
    loop.run_until_complete(asyncio.wait({closing}, timeout=LEFT_SECONDS))
    threads.shutdown(wait=False, cancel_futures=True)
    if closing.done() and all(task.done() for task in left):
        loop.close()
