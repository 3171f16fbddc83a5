"""Reads the output of commands without blocking and without growing: head and tail are kept, the rest is counted."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable

CHUNK_BYTES = 64 * 1024
READS_PER_WAKE = 8
"""How much one stream may be read before others get their turn."""


class HeadTail:
    """The first and the last half of a stream, together at most `keep_bytes`; memory never exceeds that."""

    def __init__(self, keep_bytes: int) -> None:
        self._head = bytearray()
        self._head_limit = (keep_bytes + 1) // 2
        self._tail = bytearray()
        self._tail_limit = keep_bytes // 2
        self._oldest = 0  # where in the full tail, a ring, the oldest byte is
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        room = self._tail_limit - len(self._tail)
        if room > 0:
            self._tail += data[:room]
            data = data[room:]
        if data and self._tail_limit:
            self._overwrite(data[-self._tail_limit :])

    def _overwrite(self, data: bytes) -> None:
        first = data[: self._tail_limit - self._oldest]
        self._tail[self._oldest : self._oldest + len(first)] = first
        rest = data[len(first) :]
        self._tail[: len(rest)] = rest
        self._oldest = (self._oldest + len(data)) % self._tail_limit

    @property
    def kept(self) -> bytes:
        """Head and tail, joined."""
        tail = memoryview(self._tail)
        return b"".join((self._head, tail[self._oldest :], tail[: self._oldest]))

    @property
    def dropped(self) -> int:
        """How many bytes are missing between head and tail."""
        return self.total - len(self._head) - len(self._tail)


class OutputPipe:
    """The reading end of a pipe that a command writes to. `on_data` gets what comes until `discard` is called."""

    def __init__(self, descriptor: int, on_data: Callable[[bytes], None]) -> None:
        self._descriptor = descriptor
        self._on_data: Callable[[bytes], None] | None = on_data
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read, READS_PER_WAKE)
        self.closed = False

    def _read(self, reads: int) -> None:
        for _ in range(reads):
            if self.closed:  # by what `on_data` did
                return
            try:
                data = os.read(self._descriptor, CHUNK_BYTES)
            except BlockingIOError:
                return
            if not data:
                self.close()
                return
            if self._on_data is not None:
                self._on_data(data)

    def drain(self) -> None:
        """Take what is in the pipe now; what a process left in the background still adds does not hold us."""
        if not self.closed:
            self._read(fcntl.fcntl(self._descriptor, fcntl.F_GETPIPE_SZ) // CHUNK_BYTES + 1)

    def discard(self) -> None:
        """From now on read and drop, so that a process in the background can go on writing."""
        self._on_data = None

    def close(self) -> None:
        """Close this end."""
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)


class InputPipe:
    """The writing end of the pipe that is a command's standard input; closes itself after the last byte."""

    def __init__(self, descriptor: int, data: bytes) -> None:
        self._descriptor = descriptor
        self._left = memoryview(data)
        self._loop = asyncio.get_running_loop()
        self._waiting = False
        self.closed = False
        os.set_blocking(descriptor, False)
        self._write()

    def _write(self) -> None:
        try:
            while self._left:
                self._left = self._left[os.write(self._descriptor, self._left) :]
        except BlockingIOError:
            if not self._waiting:
                self._waiting = True
                self._loop.add_writer(self._descriptor, self._write)
            return
        except BrokenPipeError:
            pass  # the command does not read it, which is its right
        self.close()

    def close(self) -> None:
        """Close this end, whatever is left to write."""
        if not self.closed:
            self.closed = True
            if self._waiting:
                self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
