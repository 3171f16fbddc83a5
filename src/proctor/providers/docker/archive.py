"""Streams tar archives between the engine and threads that read and write them, without holding them in memory."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from proctor.errors import Fault
from proctor.providers.docker.engine import NOT_FOUND, Docker, status_of, words_of
from proctor.providers.docker.inside import run_plainly
from proctor.runtime.process import shielded

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
_PATTERN = re.compile(r"[*?\[\\]")
COPY = 'mkdir -p -m 700 /.proctor && cp -a -- "$1" "$2"'
REMOVE_SECONDS = 60.0
WAITING_CHUNKS = 4
CHUNK_BYTES = 1024 * 1024
DRAIN_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Container:
    """A container and who has it; Podman takes the path of an archive for a pattern of names (`reads_patterns`)."""

    docker: Docker
    name: str
    reads_patterns: bool = False


async def take_archive(container: Container, path: str, use: Callable[[IO[bytes]], T]) -> T:
    """Give a thread the archive of a path in a container to read. Cancelled, it waits for the end of that thread.

    Raises `FileNotFoundError` where there is no such path, `Fault` (provider.lost) where there is no container.
    """
    if not (container.reads_patterns and _PATTERN.search(path)):
        return await _take_archive(container, path, use)
    docker, name, place = container.docker, container.name, f"/.proctor/{os.urandom(8).hex()}"
    try:
        code, _ = await run_plainly(docker, name, ["/bin/sh", "-c", COPY, "proctor", path, place])
        if code != 0:
            raise FileNotFoundError(errno.ENOENT, "there is nothing", path)
        return await _take_archive(container, place, use)
    finally:
        await shielded(run_plainly(docker, name, ["rm", "-rf", place]), REMOVE_SECONDS)


async def _take_archive(container: Container, path: str, use: Callable[[IO[bytes]], T]) -> T:
    loop = asyncio.get_running_loop()
    async with _query(container, "GET", path) as response:
        incoming = _Incoming(response, loop)
        reader = cast("IO[bytes]", io.BufferedReader(incoming, CHUNK_BYTES))
        work = loop.run_in_executor(None, use, reader)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            response.close()  # which ends the reading
            await shielded(asyncio.wait({work}), None)
            if not work.cancelled():
                work.exception()
            raise
        finally:
            incoming.stop()


async def put_archive(container: Container, write: Callable[[IO[bytes]], None]) -> None:
    """Extract what a thread writes at the root of a container. Cancelled, it waits for the end of that thread."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING_CHUNKS)
    outgoing = _Outgoing(queue, loop)

    def work() -> None:
        try:
            with io.BufferedWriter(outgoing, CHUNK_BYTES) as writer:
                write(cast("IO[bytes]", writer))
        finally:
            outgoing.finish()

    async def chunks() -> AsyncIterator[bytes]:
        while (chunk := await queue.get()) is not None:
            yield chunk

    writing = loop.run_in_executor(None, work)
    try:
        async with _query(container, "PUT", "/", chunks()):
            pass
    finally:
        outgoing.nobody_reads = True
        await shielded(_drain(queue, writing), None)  # a thread that nobody waits for would never end
        failure = writing.exception()
        if failure is not None and not isinstance(failure, BrokenPipeError):
            raise failure  # what the engine says of an archive that breaks off tells less


async def _drain(queue: asyncio.Queue[bytes | None], writing: asyncio.Future[None]) -> None:
    while not writing.done():
        while not queue.empty():
            queue.get_nowait()
        await asyncio.wait({writing}, timeout=DRAIN_SECONDS)


class _Incoming(io.RawIOBase):
    """The body of an answer, read by a thread."""

    def __init__(self, response: aiohttp.ClientResponse, loop: asyncio.AbstractEventLoop) -> None:
        self._response = response
        self._loop = loop
        self._left = memoryview(b"")
        self._ahead: Future[bytes] | None = None
        """What comes while the thread is busy with what came before."""

    def stop(self) -> None:
        """Read no further ahead."""
        if self._ahead is not None:
            self._ahead.cancel()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            ahead = self._ahead or asyncio.run_coroutine_threadsafe(self._read_much(), self._loop)
            self._left = memoryview(ahead.result())
            self._ahead = asyncio.run_coroutine_threadsafe(self._read_much(), self._loop) if self._left else None
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    async def _read_much(self) -> bytes:
        """Return more than one piece at once: to change threads costs more than a piece."""
        pieces: list[bytes] = []
        size = 0
        while size < CHUNK_BYTES and (piece := await self._response.content.readany()):
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)


class _Outgoing(io.RawIOBase):
    """The body of a request, written by a thread."""

    def __init__(self, queue: asyncio.Queue[bytes | None], loop: asyncio.AbstractEventLoop) -> None:
        self._queue = queue
        self._loop = loop
        self.nobody_reads = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.nobody_reads:
            raise BrokenPipeError("nobody takes the archive any more")
        asyncio.run_coroutine_threadsafe(self._queue.put(bytes(data)), self._loop).result()
        return len(data)

    def finish(self) -> None:
        asyncio.run_coroutine_threadsafe(self._queue.put(None), self._loop).result()


@asynccontextmanager
async def _query(
    container: Container, method: str, path: str, body: AsyncIterator[bytes] | None = None
) -> AsyncGenerator[aiohttp.ClientResponse]:
    """Ask for or send an archive. aiodocker can do so in one piece only, in memory; so by what it does so with."""
    ask = container.docker._query
    try:
        async with (
            ask(
                f"containers/{container.name}/archive", method, data=body, params={"path": path},
                headers={"Content-Type": "application/x-tar"},
            ) as response,
            response,
        ):  # fmt: skip
            yield response
    except Exception as error:
        status = status_of(error)
        if status is None:
            raise
        words = words_of(error)
        if status == NOT_FOUND and "no such container" not in words.lower():
            raise FileNotFoundError(errno.ENOENT, "there is nothing", path) from error
        raise Fault("provider.lost", f"sandbox {container.name} cannot be used: {words}") from error
