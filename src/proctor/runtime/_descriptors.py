"""Descriptors of files in memory and of pipes, for what is started by hand."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack

MFD_EXEC = 0x10
"""The file may be run as a program."""


def file_with(content: bytes, closing: ExitStack, flags: int = 0) -> int:
    """Return the descriptor of a file in memory that is read from its beginning."""
    flags |= os.MFD_CLOEXEC
    try:
        descriptor = os.memfd_create("proctor-sandbox", flags | MFD_EXEC)
    except OSError:  # the kernel is older than this flag, and lets every such file be run
        descriptor = os.memfd_create("proctor-sandbox", flags)
    closing.callback(os.close, descriptor)
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
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
