"""Threads in which pages are made. They do not keep the process: who ends the viewer does not wait for a page."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

THREADS = 6

T = TypeVar("T")

_WORK: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
_STARTING = threading.Lock()
_THREADS: list[threading.Thread] = []


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Return what a function returns, or raise what it raises, called in one of a few threads."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    _start()
    _WORK.put(partial(_do, loop, future, partial(function, *arguments)))
    return await future


def _start() -> None:
    with _STARTING:
        while len(_THREADS) < THREADS:
            thread = threading.Thread(target=_work, name="proctor-page", daemon=True)
            _THREADS.append(thread)
            thread.start()


def _work() -> None:
    while True:
        _WORK.get()()


def _do(loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], call: Callable[[], T]) -> None:
    if future.cancelled():
        return
    try:
        done = partial(_set, future, call(), None)
    except BaseException as error:  # whoever asked gets it
        done = partial(_set, future, None, error)
    with suppress(RuntimeError):  # the loop was closed: nobody waits for it any more
        loop.call_soon_threadsafe(done)


def _set(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
