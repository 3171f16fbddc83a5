"""What became of each slot, from the lines of a journal that say so; all other lines are passed over unread.

A journal of 100,000 attempts has a million lines. Those that begin or end an attempt are found by their first bytes,
and of the ends only what a slot needs is decoded: a second, where folding everything takes ten. A live run is followed
from where it was left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from proctor.model.attempt import Verdict
from proctor.model.events import AttemptSealed, SlotFilled, TryStarted
from proctor.model.ids import ID_LENGTH
from proctor.viewer.journal_lines import JournalLines

_BEGUN, _SEALED, _FILLED = (
    f'\n{{"type":"{kind.__name__}",'.encode() for kind in (TryStarted, AttemptSealed, SlotFilled)
)
"""How the lines begin that are read, with the end of the line before them: nowhere else can a journal have that."""

_ATTEMPT = b'"attempt":"'


class _Begun(msgspec.Struct):
    attempt: str
    task: str
    ordinal: int
    try_number: int


class Slot(msgspec.Struct, frozen=True, gc=False):
    """A slot; `verdict` is None while it has no attempt that ended, `attempt` while none was begun."""

    task: str
    ordinal: int
    attempt: str | None = None
    verdict: Verdict | None = None
    score: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    tries: int = 0
    source: str | None = msgspec.field(default=None, name="run")
    """The run that a reused attempt is of."""


_DECODE_BEGUN = msgspec.json.Decoder(_Begun).decode
_DECODE_ENDED = msgspec.json.Decoder(Slot).decode


class SlotIndex(JournalLines):
    """The slots of one run. `follow` takes what is new in the journal; not to be called by two threads at once."""

    def __init__(self, journal: Path) -> None:
        super().__init__(journal)
        self._begun: dict[str, _Begun] = {}
        """The last tries of attempts that have not ended, by attempt."""
        self._slots: dict[tuple[str, int], Slot] = {}
        self._ids: dict[str, tuple[str, int]] = {}

    def follow(self) -> None:
        """Read on to the end of the journal. Raises `OSError`."""
        for _, lines, end in self.pieces():
            self._take(lines, end)
        for one in self._begun.values():
            known = self._slots.get((one.task, one.ordinal))
            if known is None or known.verdict is None:
                self._put(Slot(one.task, one.ordinal, one.attempt, tries=one.try_number))

    def _take(self, lines: bytes, end: int) -> None:
        """Take whole lines, from a line end to one: first the ends, as most beginnings need not be looked at then."""
        for place in sorted((*_places(lines, _SEALED, end), *_places(lines, _FILLED, end))):
            try:
                self._end(_DECODE_ENDED(lines[place + 1 : lines.index(b"\n", place + 1)]))
            except ValueError:  # every error of msgspec is one
                self.damaged = True
        for place in _places(lines, _BEGUN, end):
            begin = lines.find(_ATTEMPT, place) + len(_ATTEMPT)
            known = self.by_id(lines[begin : begin + ID_LENGTH].decode("ascii", "replace"))
            if known is not None and known.verdict is not None:
                continue
            try:
                one = _DECODE_BEGUN(lines[place + 1 : lines.index(b"\n", place + 1)])
            except ValueError:
                self.damaged = True
            else:
                self._begun[one.attempt] = one

    def _end(self, slot: Slot) -> None:
        if slot.attempt is None or slot.verdict is None:
            self.damaged = True
            return
        self._begun.pop(slot.attempt, None)
        self._put(slot)

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


def _places(lines: bytes, kind: bytes, end: int) -> Iterator[int]:
    place = lines.find(kind, 0, end)
    while place >= 0:
        yield place
        place = lines.find(kind, place + 1, end)
