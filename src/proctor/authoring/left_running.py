"""Tasks of the event loop that the function of a task starts: what it leaves behind is found, and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from pathlib import Path
from typing import Any
from weakref import WeakSet

from proctor.authoring.places import is_own_file

STARTED: ContextVar[WeakSet[asyncio.Task[Any]] | None] = ContextVar("STARTED", default=None)
"""Where tasks of the event loop are noted that code in this context makes; None where nobody asks."""

_users: dict[asyncio.AbstractEventLoop, int] = {}


@contextmanager
def noting_tasks() -> Generator[WeakSet[asyncio.Task[Any]]]:
    """Note the tasks of the running event loop that are made in this context, and in those that it leads to."""
    loop = asyncio.get_running_loop()
    if loop not in _users:
        if loop.get_task_factory() is not None:  # somebody else's: nothing is noted
            yield WeakSet()
            return
        loop.set_task_factory(_noted)
    _users[loop] = _users.get(loop, 0) + 1
    started: WeakSet[asyncio.Task[Any]] = WeakSet()
    token = STARTED.set(started)
    try:
        yield started
    finally:
        _reset(token)
        _users[loop] -= 1
        if not _users[loop]:
            del _users[loop]
            if loop.get_task_factory() is _noted:
                loop.set_task_factory(None)


@contextmanager
def of_others() -> Generator[None]:
    """Leave out what is made meanwhile: it is the affair of a harness."""
    token = STARTED.set(None)
    try:
        yield
    finally:
        _reset(token)


def _reset(token: Token[WeakSet[asyncio.Task[Any]] | None]) -> None:
    with suppress(ValueError):  # a coroutine that was abandoned is thrown away in a context of somebody else
        STARTED.reset(token)


def _noted(loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(coroutine, loop=loop, **more)
    started = STARTED.get()
    if started is not None:
        started.add(task)
    return task


def end_left(started: WeakSet[asyncio.Task[Any]], project: Path) -> str | None:
    """Cancel what is not over yet; say what of it is code of the project, and should have been awaited."""
    said: str | None = None
    for task in [one for one in started if not one.done()]:
        code = getattr(task.get_coro(), "cr_code", None)
        if code is not None and is_own_file(code.co_filename, project):
            place = f"{Path(code.co_filename).relative_to(project).as_posix()}:{code.co_firstlineno}"
            said = said or (
                f"{place}: `{code.co_name}` was still going on when the function ended: await it, or cancel it"
            )
        task.cancel()
    return said


__all__ = ["end_left", "noting_tasks", "of_others"]
