"""Standard streams of a run: whoever reads them may go away or stop reading, and holds nobody (spec 10 I4).

What is written to a stream of this process goes to a thread, which waits for the reader. Any other stream, such as one
that a test or a notebook put in its place, is written to directly.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from proctor.runtime.clock import Clock

MOST_HELD_BYTES = 64 * 1024 * 1024
"""So much is held for a reader that is slower than the run; what comes then is left out, which is said."""

POLL_SECONDS = 0.01
PIECE_BYTES = 64 * 1024

log = logging.getLogger(__name__)


class Patient:
    """A stream to a person or program that may go away: then it goes quiet, and the run goes on.

    With `replace` the descriptor of a stream that is given up leads nowhere from then on, so that nothing that the
    program writes there later can fail or wait; to be used where the process belongs to proctor.
    """

    def __init__(self, stream: TextIO | None, *, replace: bool = True) -> None:
        self._stream = stream  # None where the process was started without it
        self._replace = replace
        self.lost: str | None = None
        """Why output was lost that somebody waited for; a reader that went away waits for nothing."""
        self.encoding: str = (stream.encoding if stream is not None else None) or "utf-8"
        descriptor = descriptor_of(stream)
        self._sender = _Sender(descriptor) if descriptor is not None else None
        self._text: list[str] = []

    @property
    def waiting(self) -> int:
        """How many bytes the reader has not taken yet."""
        return 0 if self._sender is None else self._sender.waiting

    def write(self, text: str) -> None:
        """Take text; `flush` hands it on."""
        if self._stream is not None:
            self._text.append(text)

    def flush(self) -> None:
        """Hand on what was taken, while there is a reader."""
        text, self._text = "".join(self._text), []
        if self._stream is None or not text:
            return
        try:
            if self._sender is None:
                self._stream.write(text)
                self._stream.flush()
            else:
                self._sender.send(text.encode(self.encoding, "backslashreplace"))
        except (OSError, ValueError) as error:  # ValueError: the stream was closed
            self._give_up(error)
        self._take_failure()

    async def drain(self, clock: Clock, patience_seconds: Callable[[], float]) -> None:
        """Wait until everything is written; give up once a reader has taken nothing for `patience_seconds()`."""
        sender = self._sender
        if sender is None:
            return
        seen, since = -1, clock.monotonic()
        while sender.waiting and self._stream is not None:
            if sender.written != seen:
                seen, since = sender.written, clock.monotonic()
            elif clock.monotonic() - since >= patience_seconds():
                left, name = sender.waiting, self._stream.name
                self.lost = self.lost or f"nobody reads it; {left} bytes were left out"
                self._let_go()
                log.warning("%d bytes for %s were not read", left, name)
                break
            await asyncio.sleep(POLL_SECONDS)
        self._take_failure()
        sender.close()

    def _take_failure(self) -> None:
        sender = self._sender
        if sender is None:
            return
        if sender.left_out and self.lost is None:
            self.lost = "it was read too slowly, and a part was left out"
            log.warning("%s is read too slowly: what comes now is left out", self._stream and self._stream.name)
        if sender.failure is not None and self._stream is not None:
            self._give_up(sender.failure)

    def _give_up(self, error: OSError | ValueError) -> None:
        assert self._stream is not None
        name = self._stream.name
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            self.lost = str(error)
        self._let_go()  # first: what is logged may be shown here
        log.warning("nothing more can be written to %s (%s); the run goes on", name, error)

    def _let_go(self) -> None:
        gone, self._stream = self._stream, None
        if gone is not None and self._replace:
            with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
                # What is buffered has nowhere to go, and must not fail once more when the process exits.
                os.dup2(nowhere.fileno(), gone.fileno())


class _Sender:
    """Writes in a thread of its own, which may wait for the reader for ever and holds no lock then.

    It has a descriptor of its own: when somebody closes the stream, the next file that is opened gets its number.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = os.dup(descriptor)
        self._pieces: deque[bytes] = deque()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.waiting = 0
        """Bytes that are not written yet."""
        self.written = 0
        self.left_out = 0
        self.failure: OSError | None = None

    def send(self, data: bytes) -> None:
        if self.failure is not None or not data:
            return
        with self._wake:
            if self.waiting + len(data) > MOST_HELD_BYTES:
                self.left_out += len(data)
                return
            self._pieces.append(data)
            self.waiting += len(data)
            self._wake.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="proctor-output", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Let the thread end, once it is done with what it writes."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is None:
            os.close(self._descriptor)

    def _run(self) -> None:
        self._write_all()
        os.close(self._descriptor)

    def _write_all(self) -> None:
        while True:
            with self._wake:
                while not self._pieces:
                    if self._closed:
                        return
                    self._wake.wait()
                piece = self._pieces.popleft()
            view = memoryview(piece)
            try:
                while view:
                    count = _write(self._descriptor, view[:PIECE_BYTES])
                    view = view[count:]
                    with self._wake:
                        self.written += count
                        self.waiting -= count
            except OSError as error:
                with self._wake:
                    self.failure = error
                    self.waiting = 0
                    self._pieces.clear()
                return


def _write(descriptor: int, data: memoryview) -> int:
    """Write some of `data`, waiting for the reader as long as it takes; raises `OSError`."""
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:  # somebody who shares the stream with us made it so
            poller = select.poll()
            poller.register(descriptor, select.POLLOUT)
            poller.poll()


def write_at_once(descriptor: int, text: str) -> None:
    """Write to a descriptor as much of `text` as its reader takes without being waited for; never raises."""
    data = memoryview(text.encode("utf-8", "backslashreplace"))
    poller = select.poll()
    with suppress(OSError):  # of trouble with it nobody can be told
        poller.register(descriptor, select.POLLOUT)
        while data and poller.poll(100):
            data = data[os.write(descriptor, data[: select.PIPE_BUF]) :]  # a pipe that is ready takes that much


def descriptor_of(stream: TextIO | None) -> int | None:
    """Return the descriptor of a stream that the process was started with; None for any other."""
    if stream is None or stream not in (sys.__stdout__, sys.__stderr__):
        return None
    try:
        stream.flush()
        return stream.fileno()
    except (OSError, ValueError):
        return None
