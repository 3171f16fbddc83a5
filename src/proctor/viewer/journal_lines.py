"""Reads a journal in pieces of whole lines, from where it was left: within bounds, whatever is in the file."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

CHUNK_BYTES = 8 * 1024 * 1024
LONGEST_LINE_BYTES = 64 * 1024 * 1024
"""A longer line of a journal is none that proctor wrote."""
JOURNAL_BYTES = 8 * 1024 * 1024 * 1024
"""Neither is a larger journal: a million attempts take a fifth of it."""


class JournalLines:
    """Follows a journal. A line that is too long is passed over, and `damaged` says so from then on."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.offset = 0
        """Where the next line begins, in bytes."""
        self.damaged = False
        self._in_long_line = False
        """Whether `offset` is in the middle of a line that is passed over."""

    def pieces(self) -> Iterator[tuple[int, bytes, int]]:
        """Yield the place of each piece that is new, the piece, and where its last line ends in it.

        A piece begins with a line end, which stands for that of the line before, and whose place is one before the
        piece's: so a line is found by the line end before it, and begins in the file at the place of that in the
        piece and the place of the piece together. Raises `OSError`.
        """
        with self.journal.open("rb") as file:
            if os.fstat(file.fileno()).st_size > JOURNAL_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            file.seek(self.offset)
            rest = b""
            while chunk := file.read(CHUNK_BYTES):
                piece = self._after_long_line(chunk) if self._in_long_line else b"\n" + rest + chunk
                end = piece.rfind(b"\n")
                if end > 0:
                    yield self.offset, piece, end
                rest = piece[end + 1 :]
                self.offset += max(end, 0)
                if len(rest) > LONGEST_LINE_BYTES:
                    self.offset += len(rest)
                    rest, self.damaged, self._in_long_line = b"", True, True

    def _after_long_line(self, chunk: bytes) -> bytes:
        """Return a chunk from the end of the line that is passed over; nothing where that does not end in it."""
        end = chunk.find(b"\n")
        if end < 0:
            self.offset += len(chunk)
            return b""
        self.offset += end + 1
        self._in_long_line = False
        return chunk[end:]
