"""RUNNING: the attempts in flight, oldest first, as many as there is room for, and the rest in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import nsmallest
from operator import attrgetter
from typing import NamedTuple

from proctor.model.ids import AttemptId
from proctor.report.in_flight import InFlight
from proctor.report.panel_lines import LABEL_CELLS, Line, Piece, cells_of, cut, cut_line, padded
from proctor.report.sign import Sign
from proctor.report.view import RunView
from proctor.report.wording import briefly, printable, running_clock

NAME_CELLS = 16
SLOT_CELLS = 40
FEWEST_SLOT_CELLS = 8
TO_BE_GRADED = "to be graded"
"""The state of those that wait for the permits of grading."""
WAITING_SHARE = 4
"""One row in so many is kept for attempts that back off."""
LEAST_ROOM = 40
"""With less beside it there is no label."""


class Flying(NamedTuple):
    """An attempt in flight, and whose it is."""

    started_at: float
    experiment: str
    attempt: AttemptId
    flight: InFlight
    grading_waits: bool


class Row(NamedTuple):
    """One row: whose it is, the slot, where it stands, how long that has been so, and what else is known."""

    experiment: str
    slot: str
    ordinal: str
    again: str
    """Which try it is, where it is not the first."""
    state: Piece
    age: str
    output: str
    limit: str


def flying(views: Mapping[str, RunView], most: int) -> list[Flying]:
    """Return the attempts in flight that started first, at most so many, among them a few of those that back off."""
    found: tuple[list[Flying], list[Flying]] = [], []
    for name, view in views.items():
        for attempt, flight in view.in_flight.items():
            waits = flight.ended or flight.backing_off is not None
            found[waits].append(Flying(flight.started_at, name, attempt, flight, attempt in view.waiting_for_grading))
    working, waiting = (nsmallest(most, each, key=_start_of) for each in found)
    few = max(min(len(waiting), -(-most // WAITING_SHARE)), most - len(working))
    return sorted([*working[: most - few], *waiting[:few]], key=_start_of)


_start_of = attrgetter("started_at")


def states(views: Mapping[str, RunView]) -> Counter[str]:
    """Return how many of all attempts in flight are in which state."""
    return Counter(
        state_of(flight, grading_waits=attempt in view.waiting_for_grading)
        for view in views.values()
        for attempt, flight in view.in_flight.items()
    )


def state_of(flight: InFlight, *, grading_waits: bool) -> str:
    """Return where an attempt stands, in a word or two."""
    if flight.backing_off is not None or flight.ended:
        return "backing off"
    if grading_waits:
        return TO_BE_GRADED
    if flight.image is not None:
        return "waiting for image"
    return flight.phase.value if flight.phase is not None else "starting"


def row_of(each: Flying, now: float, tries: int, sign: Sign | None, retry_in: float | None = None) -> Row:
    """Return what is said of an attempt; `tries` is how many it may have, `retry_in` how long until the next one."""
    flight = each.flight
    state, ordinal = state_of(flight, grading_waits=each.grading_waits), f" #{flight.ordinal}"
    name, task = printable(each.experiment), printable(flight.task)
    if state == "backing off":
        code = flight.backing_off or flight.cause
        number = flight.try_number if flight.backing_off is not None else flight.try_number + 1
        of = f"try {number} of {max(tries, number)}"
        if flight.waits_seconds is not None:
            retry_in = flight.waits_seconds - (now - flight.waits_since)
        left = "" if retry_in is None or retry_in <= 0 else f" {briefly(retry_in)}"  # then it waits for its turn
        text = f"backing off{left} ({code}, {of})"
        return Row(name, task, ordinal, "", (text, "backoff"), "", "", "")
    since = flight.phase_at if flight.phase is not None else flight.started_at
    output = limit = ""
    if flight.image is not None:
        since, output = flight.waits_since, printable(flight.image)
    elif sign is not None and not each.grading_waits:
        output = f"last output {briefly(int(sign.silent_seconds))}"  # never longer ago than the phase began
        if sign.limit_seconds is not None:
            limit = f"{sign.limit or state} limit {running_clock(sign.limit_seconds)}"
    again = f" (try {flight.try_number})" if flight.try_number > 1 else ""
    return Row(name, task, ordinal, again, (state, "phase"), running_clock(now - since), output, limit)


def row_lines(rows: Sequence[Row], room: int, *, several: bool, separator: str, ellipsis: str) -> list[Line]:
    """Return the rows below each other; what there is no room for is left out, the slot last of all."""
    names = min(NAME_CELLS, max(cells_of(row.experiment) for row in rows)) + 2 if several else 0
    state = max((cells_of(row.state[0]) for row in rows if row.age), default=0)
    age = max(len(row.age) for row in rows)
    behind = 2 + state + 2 + age
    if names + FEWEST_SLOT_CELLS + behind > room:
        names = 0
    widest = max(cells_of(row.slot + row.ordinal + row.again) for row in rows)
    slots = max(FEWEST_SLOT_CELLS, min(widest, SLOT_CELLS, room - names - behind))
    if widest > slots:  # the name of a task says more than which try it is
        rows = [row._replace(again="") for row in rows]
        slots = min(slots, max(cells_of(row.slot + row.ordinal) for row in rows))
    lines: list[Line] = []
    for row in rows:
        name = padded(row.experiment, names - 2, ellipsis=ellipsis) + "  " if names else ""
        ordinal = row.ordinal + row.again
        task = cut(row.slot, max(1, slots - cells_of(ordinal)), ellipsis=ellipsis)
        fits = row.age or names + slots + 2 + cells_of(row.state[0]) <= room
        slot = padded(task + ordinal, slots, ellipsis=ellipsis) if fits else task + ordinal
        pieces: list[Piece] = [(name, "name"), (slot + "  ", "")]
        if row.age:
            pieces += [(padded(row.state[0], state) + "  ", row.state[1]), (row.age.rjust(age), "")]
            pieces += _more(row, room - names - slots - behind, separator)
        else:
            pieces.append(row.state)
        lines.append(cut_line(tuple(pieces), room, ellipsis=ellipsis))
    return lines


def _more(row: Row, room: int, separator: str) -> list[Piece]:
    """Return what else is known of an attempt, as far as there is room."""
    pieces: list[Piece] = []
    for text, before in ((row.output, "   "), (row.limit, separator)):
        if not text or cells_of(before + text) > room:
            break
        pieces.append((before + text, "faint"))
        room -= cells_of(before + text)
    return pieces


def running_lines(
    views: Mapping[str, RunView],
    *,
    now: float,
    most: int,
    width: int,
    tries: Mapping[str, int],
    sight: Callable[[AttemptId], Sign | None],
    retry_in: Callable[[AttemptId], float | None],
    separator: str = " · ",
    ellipsis: str = "…",
    say: Callable[[str], str] = str,
) -> list[Line]:
    """Return at most `most` lines about what is in flight, with a label; nothing where nothing is."""
    total = sum(len(view.in_flight) for view in views.values())
    if not total or most < 1:
        return []
    shown = flying(views, most if total <= most else most - 1)
    rows = [
        _in(row_of(each, now, tries.get(each.experiment, 1), sight(each.attempt), retry_in(each.attempt)), say)
        for each in shown
    ]
    indent = LABEL_CELLS if width >= LABEL_CELLS + LEAST_ROOM else 0
    several = len(views) > 1
    lines = row_lines(rows, width - indent, several=several, separator=separator, ellipsis=ellipsis) if rows else []
    if total > len(shown):
        rest = states(views) - Counter(state_of(e.flight, grading_waits=e.grading_waits) for e in shown)
        words = separator.join(f"{count:,} {state}" for state, count in rest.most_common())
        more = f"and {total - len(shown):,} more: {words}" if shown else f"{total:,} running: {words}"
        lines.append(((cut(more, width - indent, ellipsis=ellipsis), "faint"),))
    if not indent:
        return lines
    return [((("" if number else "RUNNING").ljust(indent), "label"), *line) for number, line in enumerate(lines)]


def _in(row: Row, say: Callable[[str], str]) -> Row:
    """Return a row with the stand-ins of an encoding."""
    state, style = row.state
    return row._replace(experiment=say(row.experiment), slot=say(row.slot), state=(say(state), style))
