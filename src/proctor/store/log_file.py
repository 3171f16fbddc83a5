"""The file that keeps the log of a run."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from pathlib import Path


class LogFile(logging.FileHandler):
    """Appends log lines to a file, which is made when there is something to log.

    A line that cannot be written is left out and never an error of its own: a full disk is reported where results are
    written, and a run does not end for the sake of its log. Once there is room again, later lines are written.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace", delay=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, while there is room."""
        try:
            super().emit(record)
        except OSError:
            self._let_go()  # the file cannot be made

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name that logging calls
        """Leave out a line that cannot be written; anything else is a bug and is said by `logging` itself."""
        if isinstance(sys.exception(), OSError):
            self._let_go()
        else:
            super().handleError(record)

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # its last lines, which there is no room for
            super().close()

    def _let_go(self) -> None:
        """Drop what is buffered, which would fail again with every later line; the next one opens the file anew."""
        stream, self.stream = self.stream, None  # pyright: ignore[reportAttributeAccessIssue]
        if stream is not None:
            with suppress(OSError):  # it holds what could not be written
                stream.close()
