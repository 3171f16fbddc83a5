"""Descriptors of files in memory and of pipes, for what is started by hand."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack


def file_with(content: bytes, closing: ExitStack) -> int:
    """Return the descriptor of a file in memory that is read from its beginning."""
    descriptor = os.memfd_create("proctor-sandbox")
    closing.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


async def readable(descriptor: int, limit_seconds: float | None) -> bool:
    """Wait until there is something to read; say whether there is."""
    loop = asyncio.get_running_loop()
    there: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, lambda: there.done() or there.set_result(None))
    try:
        return bool((await asyncio.wait({there}, timeout=limit_seconds))[0])
    finally:
        loop.remove_reader(descriptor)
