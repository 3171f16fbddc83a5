"""What became of each slot, from the lines of a journal that say so; all other lines are passed over unread.

A journal of 100,000 attempts has a million lines. Those that begin or end an attempt are found by their first bytes,
and only the ends are decoded: a second, where folding everything takes ten. A live run is followed from where it was
left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from proctor.errors import JournalDamaged
from proctor.model.attempt import Verdict
from proctor.model.events import AttemptSealed, SlotFilled, TryStarted
from proctor.model.ids import ID_LENGTH
from proctor.store.codec import decode

CHUNK_BYTES = 8 * 1024 * 1024

_BEGINS = f'{{"type":"{TryStarted.__name__}",'.encode()
_ATTEMPT = b'"attempt":"'
_WANTED = tuple(f'{{"type":"{kind.__name__}",'.encode() for kind in (AttemptSealed, SlotFilled, TryStarted))


class Slot(NamedTuple):
    """A slot; `verdict` is None while it has no attempt that ended, `attempt` while none was begun."""

    task: str
    ordinal: int
    attempt: str | None = None
    verdict: Verdict | None = None
    score: float | None = None
    tries: int = 0
    source: str | None = None
    """The run that a reused attempt is of."""


class SlotIndex:
    """The slots of one run. `follow` takes what is new in the journal; not to be called by two threads at once."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.offset = 0
        self.damaged = False
        """Whether a line that was to be read was none."""
        self._begun: dict[bytes, bytes] = {}
        """The lines that began the last tries of attempts that have not ended, by attempt."""
        self._slots: dict[tuple[str, int], Slot] = {}
        self._ids: dict[str, tuple[str, int]] = {}

    def follow(self) -> None:
        """Read on to the end of the journal. Raises `OSError`."""
        with self.journal.open("rb") as file:
            file.seek(self.offset)
            rest = b""
            while chunk := file.read(CHUNK_BYTES):
                lines = (rest + chunk).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    if line.startswith(_WANTED):
                        self._take(line)
            self.offset = file.tell() - len(rest)
        for line in self._begun.values():
            self._decode(line)

    def _take(self, line: bytes) -> None:
        """Take a line; the beginning of an attempt is looked at only while that has not ended."""
        place = line.find(_ATTEMPT) + len(_ATTEMPT)
        attempt = line[place : place + ID_LENGTH]
        if line.startswith(_BEGINS):
            self._begun[attempt] = line
        else:
            self._begun.pop(attempt, None)
            self._decode(line)

    def _decode(self, line: bytes) -> None:
        try:
            event, _ = decode(line + b"\n")
        except JournalDamaged:
            self.damaged = True
            return
        if isinstance(event, TryStarted):
            known = self._slots.get((event.task, event.ordinal))
            if known is None or known.verdict is None:
                self._put(Slot(event.task, event.ordinal, event.attempt, tries=event.try_number))
        elif isinstance(event, AttemptSealed):
            self._put(Slot(event.task, event.ordinal, event.attempt, event.verdict, event.score, event.tries))
        elif isinstance(event, SlotFilled):
            self._put(Slot(event.task, event.ordinal, event.attempt, event.verdict, event.score, source=event.run))

    def _put(self, slot: Slot) -> None:
        place = slot.task, slot.ordinal
        self._slots[place] = slot
        if slot.attempt is not None:
            self._ids[slot.attempt] = place

    def __len__(self) -> int:
        return len(self._slots)

    def of(self, task: str, ordinal: int) -> Slot:
        """Return a slot; one of which nothing was said is empty."""
        return self._slots.get((task, ordinal)) or Slot(task, ordinal)

    def by_id(self, attempt: str) -> Slot | None:
        """Return the slot that an attempt fills."""
        place = self._ids.get(attempt)
        return None if place is None else self._slots[place]

    def verdicts(self) -> Counter[Verdict | None]:
        """Return how many slots have each verdict; None are those that were begun and have not ended."""
        return Counter(slot.verdict for slot in self._slots.values())

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots.values())
