"""Reads the journal of a run: event by event in constant memory, also while its writer is at work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from proctor.errors import JournalDamaged, StoreError
from proctor.model.events import Event
from proctor.store.codec import NewerFormat, decode
from proctor.store.files import store_error
from proctor.store.lock import is_being_written


@dataclass(frozen=True, slots=True)
class TornTail:
    """The end of a journal whose writer died in the middle of a line: where it begins and how long it is."""

    offset: int
    bytes: int


class JournalReader:
    """The events of a journal with their moments, in order: `for event, at in reader`.

    A last line without its newline is not an event. While the writer lives it is just not there yet; when the writer
    is gone it is set aside and reported in `torn`. Iterating again goes on behind the last event that was read, so a
    live journal can be followed. After `JournalDamaged`, everything before the damaged line has been yielded.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        """Where the next line begins, in bytes."""
        self.lines = 0
        """Whole lines read."""
        self.torn: TornTail | None = None
        """The torn end, once the end was reached and the writer is known to be gone."""

    def __iter__(self) -> Iterator[tuple[Event, float]]:
        """Yield the events from here to the present end.

        Raises `JournalDamaged` with the number of a line that is whole and no event, `NewerFormat` when a newer
        proctor wrote it, `StoreError` when it cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                while line := self._next_line(file):
                    yield self._decoded(line)
        except FileNotFoundError as error:
            raise StoreError(f"there is no journal `{self.path}`", hint="name the directory of a run") from error
        except OSError as error:
            raise store_error("read the journal", self.path, error) from error

    def _next_line(self, file: BinaryIO) -> bytes:
        line = file.readline()
        if line.endswith(b"\n"):
            return line
        if not line or is_being_written(self.path):
            return b""
        # The writer may have ended the line and gone between the read and the question.
        file.seek(self.offset)
        line = file.readline()
        if line.endswith(b"\n"):
            return line
        self.torn = TornTail(self.offset, len(line)) if line else None
        return b""

    def _decoded(self, line: bytes) -> tuple[Event, float]:
        try:
            event, at = decode(line)
        except JournalDamaged as error:
            raise JournalDamaged(
                f"journal `{self.path}` is damaged at line {self.lines + 1} (byte {self.offset}): {error.message}",
                hint="the events before that line are whole; the run cannot be trusted beyond them",
            ) from error
        except NewerFormat as error:
            raise NewerFormat(f"journal `{self.path}`, line {self.lines + 1}: {error.what}") from error
        self.offset += len(line)
        self.lines += 1
        return event, at


def read_journal(path: Path) -> JournalReader:
    """Return a reader that stands at the beginning of a journal."""
    return JournalReader(path)
