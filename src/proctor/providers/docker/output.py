"""The output of a command in a container: bounded, told as it comes, and ended by the word of how it ended."""

from __future__ import annotations

import re
from typing import NamedTuple

from proctor.plugins.api import OnOutput
from proctor.runtime.process import HeadTail

STREAMS = {1: "stdout", 2: "stderr"}
SIGNALS = 128
"""What a shell adds to the number of a signal."""


class End(NamedTuple):
    """How a command ended, as its shell saw it."""

    status: int
    by_signal: bool

    @property
    def exit_code(self) -> int | None:
        """What it returned, or None where a signal ended it."""
        return None if self.by_signal else self.status

    @property
    def signal(self) -> int | None:
        """What ended it, or None where it returned."""
        return self.status - SIGNALS if self.by_signal else None


class _Stream:
    """One output: what comes before the trailer is the command's; what comes after it is of others, and dropped."""

    def __init__(self, token: str, keep_bytes: int) -> None:
        self.kept = HeadTail(keep_bytes)
        self.end: End | None = None
        self._prefix = b"\x1eproctor:" + token.encode() + b":"
        self._trailer = re.compile(re.escape(self._prefix) + rb"(\d{1,3}):(returned|signalled)\x1e")
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; return those that are certainly the command's."""
        if self.end is not None:
            return b""
        data = self._held + data
        self._held = b""
        if found := self._trailer.search(data):
            status = min(int(found[1]), 255)  # the command can write such a word itself, with any number
            self.end = End(status, found[2] == b"signalled" and status > SIGNALS)
            return data[: found.start()]
        begin = data.rfind(b"\x1e", max(0, len(data) - len(self._prefix) - 16))
        if begin >= 0:
            rest = data[begin:]
            if self._prefix.startswith(rest) or rest.startswith(self._prefix):
                self._held, data = rest, data[:begin]
        return data

    def rest(self) -> bytes:
        """Return what was held back, at the end of a stream that has no trailer."""
        held, self._held = self._held, b""
        return held


class Output:
    """Both outputs of one command. `exceeded` is set when one is longer than `limit_bytes`."""

    def __init__(self, token: str, keep_bytes: int, limit_bytes: int | None, on_output: OnOutput | None) -> None:
        self._streams = {number: _Stream(token, keep_bytes) for number in STREAMS}
        self._limit_bytes = limit_bytes
        self._on_output = on_output
        self.exceeded = False

    def feed(self, number: int, data: bytes) -> None:
        """Take a piece of stream 1 or 2; raises what `on_output` raises."""
        stream = self._streams.get(number)
        if stream is not None:
            self._take(number, stream, stream.feed(data))

    def finish(self) -> None:
        """Take what is left at the end of the connection."""
        for number, stream in self._streams.items():
            self._take(number, stream, stream.rest())

    def _take(self, number: int, stream: _Stream, data: bytes) -> None:
        if not data:
            return
        stream.kept.add(data)
        if self._limit_bytes is not None and stream.kept.total > self._limit_bytes:
            self.exceeded = True
        if self._on_output is not None:
            self._on_output(STREAMS[number], data)

    @property
    def end(self) -> End | None:
        """How the command ended, once both streams say so."""
        first, second = (stream.end for stream in self._streams.values())
        return first if second is not None else None

    @property
    def stdout(self) -> HeadTail:
        """Standard output."""
        return self._streams[1].kept

    @property
    def stderr(self) -> HeadTail:
        """Standard error."""
        return self._streams[2].kept
