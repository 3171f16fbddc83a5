"""What fakes are told to do: an `Action` is a coroutine function without arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

Action = Callable[[], Awaitable[Any]]


async def nothing() -> None:
    """Do nothing."""


async def for_ever() -> None:
    """Wait without end; cancellation ends it."""
    await asyncio.Event().wait()


def raises(error: BaseException) -> Action:
    """Return an action that raises `error`."""

    async def action() -> None:
        raise error

    return action
