"""Moves bytes between two sockets: with bounded memory, each direction as fast as its slower side, until both end."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Coroutine, Sequence
from contextlib import suppress

from proctor.providers.egress.http import CHUNK_LINE_LIMIT_BYTES, HEAD_LIMIT_BYTES, BadRequest, chunk_size

PIECE_BYTES = 64 * 1024
LINGER_BYTES = 1024 * 1024
LINGER_SECONDS = 5.0

_EMPTY_LINE = re.compile(rb"\r?\n\r?\n")


class Stream:
    """A connected socket, with what was read from it already; `received` counts the bytes."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = connected
        self._loop = asyncio.get_running_loop()
        self._ahead = bytearray()
        self.received = 0

    async def read(self, limit: int = PIECE_BYTES) -> bytes:
        """Return some bytes, at most `limit`; none at the end. Raises `OSError`."""
        if self._ahead:
            piece = bytes(self._ahead[:limit])
            del self._ahead[:limit]
            return piece
        piece = await self._loop.sock_recv(self._socket, limit)
        self.received += len(piece)
        return piece

    async def read_head(self) -> bytes | None:
        """Return all up to the first empty line, or None at the end; raises `BadRequest` for what is too long."""
        return await self._read_through(_EMPTY_LINE, HEAD_LIMIT_BYTES)

    async def read_line(self) -> bytes:
        """Return a line with its end; raises `BadRequest` where there is none."""
        line = await self._read_through(re.compile(rb"\n"), CHUNK_LINE_LIMIT_BYTES)
        if line is None:
            raise BadRequest("the body ends before its end")
        return line

    async def send(self, data: bytes) -> None:
        """Send all of it; returns when the kernel has taken it. Raises `OSError`."""
        await self._loop.sock_sendall(self._socket, data)

    def end(self) -> None:
        """Say that no more will be sent."""
        with suppress(OSError):  # the other side is gone, which reading from it will say
            self._socket.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        """End both directions, so that whoever waits for it goes on."""
        with suppress(OSError):  # the other side is gone already
            self._socket.shutdown(socket.SHUT_RDWR)

    async def linger(self) -> None:
        """Read a while what still comes: closing with unread bytes would take back the answer that was sent last."""
        self.end()
        most = self.received + LINGER_BYTES
        with suppress(OSError):  # it was a courtesy
            async with asyncio.timeout(LINGER_SECONDS):
                while self.received < most and await self.read():
                    pass

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    async def _read_through(self, end: re.Pattern[bytes], limit: int) -> bytes | None:
        searched = 0
        while (found := end.search(self._ahead, max(0, searched - 3))) is None:
            searched = len(self._ahead)
            if searched >= limit:
                raise BadRequest(f"a head or line is longer than {limit} bytes")
            piece = await self._loop.sock_recv(self._socket, PIECE_BYTES)
            if not piece:
                return None
            self.received += len(piece)
            self._ahead += piece
        piece = bytes(self._ahead[: found.end()])
        del self._ahead[: found.end()]
        return piece


async def pump(source: Stream, sink: Stream) -> None:
    """Copy until the source ends, and say so to the sink."""
    while piece := await source.read():
        await sink.send(piece)
    sink.end()


async def relay(left: Stream, right: Stream, idle_seconds: float) -> None:
    """Copy both ways until both sides have ended, one fails, or nothing moves for long."""
    await together([pump(left, right), pump(right, left)], (left, right), idle_seconds)


async def together(
    work: Sequence[Coroutine[None, None, None]], streams: tuple[Stream, Stream], idle_seconds: float
) -> None:
    """Wait for all of the work; the first failure, or idleness, ends the rest and is raised."""
    running = {asyncio.create_task(one) for one in work}
    pending = set(running)
    try:
        while pending:
            before = sum(one.received for one in streams)
            done, pending = await asyncio.wait(pending, timeout=idle_seconds, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
            if not done and before == sum(one.received for one in streams):
                raise TimeoutError("nothing was moved for too long")
    finally:
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def copy_body(source: Stream, sink: Stream, length: int | None) -> None:
    """Copy the body of a request: `length` bytes, or chunks where that is None. Raises `BadRequest`, `OSError`."""
    if length is None:
        while size := chunk_size(await source.read_line()):
            await sink.send(b"%x\r\n" % size)
            await _copy_exactly(source, sink, size)
            if await source.read_line() != b"\r\n":
                raise BadRequest("a chunk is longer than its size")
            await sink.send(b"\r\n")
        for _ in range(HEAD_LIMIT_BYTES // CHUNK_LINE_LIMIT_BYTES):
            if await source.read_line() == b"\r\n":  # trailers are not handed on
                await sink.send(b"0\r\n\r\n")
                return
        raise BadRequest("the body has too many trailers")
    await _copy_exactly(source, sink, length)


async def _copy_exactly(source: Stream, sink: Stream, size: int) -> None:
    while size:
        piece = await source.read(min(size, PIECE_BYTES))
        if not piece:
            raise BadRequest("the body ends before its end")
        await sink.send(piece)
        size -= len(piece)


__all__ = ["Stream", "copy_body", "pump", "relay", "together"]
