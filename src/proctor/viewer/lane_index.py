"""When each try of a run began and ended, and in which lane: from the lines of its journal that say so.

A lane is a place of concurrency: each try takes the first that is free when it begins and gives it back at its end. All
other lines are passed over unread; what happened inside of the tries of a page is read for that page alone.
"""

from __future__ import annotations

import heapq
import math
import re
from array import array
from pathlib import Path
from typing import NamedTuple

from proctor.errors import JournalDamaged
from proctor.model.events import Event, TryEnded, TryStarted
from proctor.model.ids import ID_ALPHABET, ID_LENGTH
from proctor.report.lanes import TrySpans
from proctor.store.codec import NewerFormat, decode, seconds_of
from proctor.viewer.journal_lines import JournalLines

READ_BYTES = 32 * 1024 * 1024
"""So much of a journal is read for the inside of the tries of a page; of what is beyond only the ends are known."""

_BEGINS = TryStarted.__name__.encode()
_ENDS_OF_TRIES = re.compile(
    f'\\n\\{{"type":"({TryStarted.__name__}|{TryEnded.__name__})","at":"([^"\\n]{{20,40}})",'
    f'"attempt":"([{ID_ALPHABET}]{{{ID_LENGTH}}})"'.encode()
)
_MOMENT = re.compile(rb'"at":"([^"\n]{20,40})"')
_ATTEMPT = b'"attempt":"'


class LaneTry(NamedTuple):
    """A try: its number in the order of starts, its lane, its times in seconds after the epoch, None while it runs."""

    number: int
    lane: int
    start: float
    end: float | None
    attempt: str


class Inside(NamedTuple):
    """What is known of a try whose inside was read."""

    task: str
    ordinal: int
    try_number: int
    spans: TrySpans


class LaneIndex(JournalLines):
    """The tries of one run. `follow` takes what is new in the journal; not to be called by two threads at once."""

    def __init__(self, journal: Path) -> None:
        super().__init__(journal)
        self.lanes = 0
        self.last_at: float | None = None
        """The moment of the newest line."""
        self._starts = array("d")
        self._ends = array("d")
        self._lane_of = array("l")
        self._offsets = array("q")
        self._attempts: list[bytes] = []
        self._free: list[int] = []
        self._open: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def follow(self) -> None:
        """Read on to the end of the journal. Raises `OSError`."""
        for place, data, end in self.pieces():
            for found in _ENDS_OF_TRIES.finditer(data, 0, end):
                self._take(found, place + found.start())
            if (at := _moment_in(data[data.rfind(b"\n", 0, end) + 1 : end])) is not None:
                self.last_at = at

    def _take(self, found: re.Match[bytes], place: int) -> None:
        kind, moment, attempt = found.groups()
        try:
            at = seconds_of(moment.decode("ascii"))
        except ValueError:
            self.damaged = True
            return
        known = self._open.pop(attempt, None)
        if known is not None:
            self._ends[known] = max(at, self._starts[known])
            heapq.heappush(self._free, self._lane_of[known])
        if kind == _BEGINS:
            self._begin(attempt, at, place)

    def _begin(self, attempt: bytes, at: float, place: int) -> None:
        if self._free:
            lane = heapq.heappop(self._free)
        else:
            lane, self.lanes = self.lanes, self.lanes + 1
        self._open[attempt] = len(self._starts)
        self._starts.append(at)
        self._ends.append(math.nan)
        self._lane_of.append(lane)
        self._offsets.append(place)
        self._attempts.append(attempt)

    def start(self, number: int) -> float:
        """Return when a try began."""
        return self._starts[number]

    def tries(self, first: int, stop: int) -> list[LaneTry]:
        """Return the tries from `first` to before `stop`, after those before them that had not ended by then."""
        if first >= len(self._starts):
            return []
        begin = self._starts[first]
        ends = self._ends
        before = [n for n in range(first) if not ends[n] <= begin]
        return [self._try(n) for n in (*before, *range(first, min(stop, len(self._starts))))]

    def _try(self, number: int) -> LaneTry:
        end = self._ends[number]
        attempt = self._attempts[number].decode("ascii", "replace")
        return LaneTry(number, self._lane_of[number], self._starts[number], None if math.isnan(end) else end, attempt)

    def insides(self, tries: list[LaneTry], stop: int) -> dict[int, Inside]:
        """Return what happened inside of tries until try `stop` began, as far as `READ_BYTES` go. Raises `OSError`."""
        if not tries:
            return {}
        numbers = {one.number: one for one in tries}
        end = self._offsets[stop] if stop < len(self._offsets) else self.offset
        begin = max(min(self._offsets[number] for number in numbers), 0)
        begin = max(begin, end - READ_BYTES)
        found = {number: inside for number in numbers if (inside := self._begun(number)) is not None}
        by_attempt: dict[bytes, int] = {}
        for number in sorted(found):
            if self._offsets[number] < begin:
                by_attempt[self._attempts[number]] = number
        place_of = {self._offsets[number]: number for number in found}
        with self.journal.open("rb") as file:
            place = begin
            file.seek(begin)
            wanted = {self._attempts[number] for number in found}
            for line in file.read(end - begin).split(b"\n"):
                if (number := place_of.get(place)) is not None:
                    by_attempt[self._attempts[number]] = number
                elif (attempt := _attempt_in(line)) in wanted and attempt in by_attempt:
                    _add(found[by_attempt[attempt]].spans, line)
                place += len(line) + 1
        return found

    def _begun(self, number: int) -> Inside | None:
        with self.journal.open("rb") as file:
            file.seek(self._offsets[number])
            event, at = _decoded(file.readline()) or (None, 0.0)
        if not isinstance(event, TryStarted):
            return None
        return Inside(event.task, event.ordinal, event.try_number, TrySpans(at))


def _moment_in(line: bytes) -> float | None:
    found = _MOMENT.search(line, 0, 160)
    try:
        return seconds_of(found[1].decode("ascii")) if found else None
    except ValueError:
        return None


def _attempt_in(line: bytes) -> bytes:
    begin = line.find(_ATTEMPT, 0, 160)
    return line[begin + len(_ATTEMPT) : begin + len(_ATTEMPT) + ID_LENGTH] if begin >= 0 else b""


def _add(spans: TrySpans, line: bytes) -> None:
    found = _decoded(line + b"\n")
    if found is not None and spans.ended_at is None:
        spans.add(*found)


def _decoded(line: bytes) -> tuple[Event, float] | None:
    try:
        return decode(line)
    except (JournalDamaged, NewerFormat):
        return None
