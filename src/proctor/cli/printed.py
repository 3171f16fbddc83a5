"""What code prints while an invocation runs: logged line by line, so that standard output carries data only.

A line that is printed inside a try goes to its try.log, to run.log, and to the console; without credentials, like all
that is logged. Only in a process that is proctor's own.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import TextIO

from proctor.runtime.log_scope import PRINTED, SCOPE

LONGEST_LINE = 64 * 1024
"""So many characters without an end of a line are a line."""

log = logging.getLogger(PRINTED)


class Printed(io.TextIOBase):
    """Stands in the place of a standard stream; each thread has lines of its own."""

    def __init__(self, real: TextIO) -> None:
        super().__init__()
        self._real = real
        self._of_thread = threading.local()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the stream."""
        return self._real.encoding or "utf-8"

    def writable(self) -> bool:
        """Say that it can be written to."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the stream itself, for programs that inherit it."""
        return self._real.fileno()

    def write(self, text: str, /) -> int:
        """Log the lines that are complete now."""
        own = self._of_thread
        if getattr(own, "logging", False):  # what logging says of its own trouble must not be logged again
            return self._real.write(text)
        pending = getattr(own, "pending", "") + text
        *lines, own.pending = pending.split("\n")
        if len(own.pending) > LONGEST_LINE:
            lines.append(own.pending)
            own.pending = ""
        self._log(lines)
        return len(text)

    def end(self) -> None:
        """Log what this thread printed without the end of a line."""
        pending, self._of_thread.pending = getattr(self._of_thread, "pending", ""), ""
        self._log([pending] if pending else [])

    def _log(self, lines: list[str]) -> None:
        self._of_thread.logging = True
        try:
            # One record for what was printed at once: a secret may go over several lines.
            text = "\n".join(lines).rstrip("\r")
            if text.strip():
                log.info("%s", text)
                scope = SCOPE.get()
                if scope is not None:
                    scope.log.logger.info("%s", text)
        finally:
            self._of_thread.logging = False


@contextmanager
def printed_lines() -> Generator[None]:
    """Log what is printed until the end; the streams are then as they were before."""
    streams = [Printed(stream) for stream in (sys.stdout, sys.stderr)]
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(streams[0]))
        stack.enter_context(redirect_stderr(streams[1]))
        try:
            yield
        finally:
            for stream in streams:
                stream.end()
