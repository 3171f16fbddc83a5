"""How tries and their phases are laid over a drawing of time: plain numbers and words, which a template draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from proctor.report.lanes import LETTERS, WAITS, Span
from proctor.report.plot import ticks
from proctor.viewer.lane_index import Inside, LaneTry
from proctor.viewer.page import Asked

LANES_DRAWN = 200

WIDTH, LEFT, TOP = 1000, 52, 22
LANE_HEIGHT, TRY_HEIGHT = 20, 16
LETTER_WIDTH = 14
"""A piece at least so wide has its letter."""


class Piece(NamedTuple):
    """A part of a bar, in units of the drawing; without a letter where there is no room for one."""

    kind: str
    x: float
    width: float
    letter: str
    waits: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A try as it is drawn."""

    x: float
    width: float
    title: str
    link: str
    pieces: Sequence[Piece]


@dataclass(slots=True)
class Row:
    """A row of the drawing, its top in units of the drawing."""

    label: str
    y: float
    bars: list[Bar] = field(default_factory=list[Bar])


class Tick(NamedTuple):
    """A mark on the axis of time."""

    x: float
    label: str


class Listed(NamedTuple):
    """A try in the table; times in seconds after the start of the run, `seconds` None while it runs."""

    lane: int
    task: str
    ordinal: int
    try_number: int
    link: str
    start: float
    seconds: float | None
    parts: str


class LaneShare(NamedTuple):
    """How much of the stretch a lane was executing, waiting and idle, in seconds."""

    lane: int
    executing: float
    waiting: float
    idle: float


class Stretch(NamedTuple):
    """A stretch of time, in seconds after the epoch, and how it is laid over the drawing."""

    start: float
    end: float

    def x(self, at: float) -> float:
        """Return the place of a moment; what is outside is at the nearest end."""
        share = (min(max(at, self.start), self.end) - self.start) / (self.end - self.start)
        return LEFT + (WIDTH - LEFT - 8) * share


class Drawing:
    """Draws the tries of one page of one run."""

    def __init__(self, asked: Asked, run: str, stretch: Stretch, insides: Mapping[int, Inside]) -> None:
        self._asked = asked
        self._run = run
        self._stretch = stretch
        self._insides = insides

    def by_lane(self, tries: Iterable[LaneTry], lanes: int) -> list[Row]:
        """Return a row for each of the first lanes; one in which nothing ran is idle, and seen to be."""
        rows = [Row(str(lane + 1), TOP + lane * LANE_HEIGHT) for lane in range(min(lanes, LANES_DRAWN))]
        for one in tries:
            if one.lane < len(rows):
                rows[one.lane].bars.append(self._bar(one))
        return rows

    def by_try(self, tries: Sequence[LaneTry]) -> list[Row]:
        """Return a row for each try."""
        return [
            Row(f"#{one.number + 1}", TOP + place * TRY_HEIGHT, [self._bar(one)]) for place, one in enumerate(tries)
        ]

    def _bar(self, one: LaneTry) -> Bar:
        x = self._stretch.x(one.start)
        width = max(1.0, self._stretch.x(self._stretch.end if one.end is None else one.end) - x)
        inside = self._insides.get(one.number)
        pieces = [piece for span in (inside.spans.spans if inside else ()) if (piece := piece_of(span, self._stretch))]
        return Bar(x, width, self._title(one, inside), self._link(one), pieces)

    def _title(self, one: LaneTry, inside: Inside | None) -> str:
        name = f"{inside.task[:120]} #{inside.ordinal}" if inside else f"@{one.attempt}"
        number = inside.try_number if inside else 1
        return self._asked.say("{name}, try {number}: {parts}", name=name, number=number, parts=self._parts(inside))

    def _parts(self, inside: Inside | None) -> str:
        if inside is None or not inside.spans.spans:
            return "-"
        until = self._stretch.end
        return parts_in_words(self._asked, inside.spans.spans, until)

    def _link(self, one: LaneTry) -> str:
        return self._asked.links.attempt(self._run, one.attempt)

    def listed(self, one: LaneTry, origin: float) -> Listed:
        """Return a try as it stands in the table; `origin` is the start of the run."""
        inside = self._insides.get(one.number)
        task, ordinal, number = (
            (inside.task, inside.ordinal, inside.try_number) if inside else (f"@{one.attempt}", 0, 1)
        )
        seconds = None if one.end is None else one.end - one.start
        return Listed(
            one.lane + 1, task, ordinal, number, self._link(one), one.start - origin, seconds, self._parts(inside)
        )


def piece_of(span: Span, stretch: Stretch) -> Piece | None:
    """Return a span as a piece of a drawing; None where it is outside of it, or too short to be seen."""
    end = stretch.end if span.end is None else span.end
    if end <= stretch.start or span.start >= stretch.end:
        return None
    x = stretch.x(span.start)
    width = stretch.x(end) - x
    if width < 0.2:
        return None
    return Piece(span.kind, x, width, LETTERS[span.kind] if width >= LETTER_WIDTH else "", span.kind in WAITS)


def parts_in_words(asked: Asked, spans: Iterable[Span], until: float) -> str:
    """Return how long each kind of span took in all; those that go on, until now."""
    total: dict[str, float] = {}
    for span in spans:
        total[span.kind] = total.get(span.kind, 0.0) + max(0.0, (until if span.end is None else span.end) - span.start)
    return ", ".join(f"{asked.say(kind)} {seconds:.2f} s" for kind, seconds in total.items())


def shares(tries: Iterable[LaneTry], insides: Mapping[int, Inside], stretch: Stretch, lanes: int) -> list[LaneShare]:
    """Return how each lane spent the stretch, by lane."""
    whole = stretch.end - stretch.start
    busy: dict[int, float] = {}
    waiting: dict[int, float] = {}
    for one in tries:
        end = stretch.end if one.end is None else one.end
        busy[one.lane] = busy.get(one.lane, 0.0) + _overlap(one.start, end, stretch)
        inside = insides.get(one.number)
        waited = sum(
            _overlap(span.start, end if span.end is None else span.end, stretch)
            for span in (inside.spans.spans if inside else ())
            if span.kind in WAITS
        )
        waiting[one.lane] = waiting.get(one.lane, 0.0) + waited
    return [
        LaneShare(
            lane + 1,
            busy.get(lane, 0.0) - waiting.get(lane, 0.0),
            waiting.get(lane, 0.0),
            max(0.0, whole - busy.get(lane, 0.0)),
        )
        for lane in range(min(lanes, LANES_DRAWN))
    ]


def _overlap(start: float, end: float, stretch: Stretch) -> float:
    return max(0.0, min(end, stretch.end) - max(start, stretch.start))


def time_ticks(stretch: Stretch, origin: float) -> list[Tick]:
    """Return round moments of the stretch, counted from the start of the run."""
    first, last = stretch.start - origin, stretch.end - origin
    step = ticks(last - first, 8)[1]
    moments = (step * n for n in range(int(first // step), int(first // step) + 12))
    return [Tick(stretch.x(origin + at), _clock(at, step)) for at in moments if first <= at <= last]


def _clock(at: float, step: float) -> str:
    if step < 1:
        return f"{at:.{3 if step < 0.01 else 2}f} s"
    whole = round(at)
    return f"{whole} s" if whole < 60 else f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
