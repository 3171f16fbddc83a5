"""The page of what ran when: one row for each lane, or for each try, over a stretch of the time of a run."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from proctor.errors import StoreError
from proctor.report.lanes import LETTERS, WAITS
from proctor.viewer.lane_index import LaneIndex, LaneTry
from proctor.viewer.lanes_drawing import (
    LANE_HEIGHT,
    LANES_DRAWN,
    TOP,
    TRY_HEIGHT,
    Drawing,
    Stretch,
    shares,
    time_ticks,
)
from proctor.viewer.page import Asked, Page
from proctor.viewer.paging import Paging
from proctor.viewer.results import Results

TRIES_ON_A_PAGE = 300
"""So many tries begin in the stretch of time of a page; where more run at once, four times as many as do."""
STATIC_TRIES = 2_000
"""So many of the first tries are on the one page of a site of files; a run of 100,000 would be hundreds of pages."""
MOST_TRIES = 4_000
"""So many tries are drawn at most, however many run at once."""
ROWS_OF_TABLE = 400
INDEXES_KEPT = 4


class _Indexes:
    """The indexes of the runs that were asked for last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[Path, int, int], tuple[LaneIndex, threading.Lock]] = {}

    def get(self, results: Results, run: str) -> LaneIndex:
        """Return the index of a run, brought up to now. Raises `NotFound`, `OSError`."""
        journal = results.layout(run).journal
        found = journal.stat()
        key = journal, found.st_dev, found.st_ino  # another run under the same name has another file
        with self._lock:
            index, lock = self._known.pop(key, None) or (LaneIndex(journal), threading.Lock())
            if found.st_size < index.offset:
                index, lock = LaneIndex(journal), threading.Lock()
            self._known[key] = index, lock
            while len(self._known) > INDEXES_KEPT:
                del self._known[next(iter(self._known))]
        with lock:
            index.follow()
        return index


_INDEXES = _Indexes()


def lanes_page(results: Results, asked: Asked, run: str) -> Page:
    """Return the page of the lanes of a run. Raises `NotFound`, `StoreError`."""
    entry = results.entry(run)
    by_try = asked.query.get("view") == "tries"
    try:
        index = _INDEXES.get(results, run)
        least, page = (STATIC_TRIES, None) if asked.links.static else (TRIES_ON_A_PAGE, asked.query.get("page"))
        paging = Paging.of(len(index), page, max(least, min(4 * index.lanes, MOST_TRIES)))
        tries = index.tries(paging.start, paging.end)
        undrawn, tries = len(tries[:-MOST_TRIES]), tries[-MOST_TRIES:]
        insides = index.insides(tries, paging.end)
    except OSError as error:
        raise StoreError(
            f"the journal of `{run}` cannot be read: {error.strerror}", hint="is it still there?"
        ) from error
    origin = index.start(0) if len(index) else 0.0
    stretch = _stretch(index, tries, paging)
    drawn = Drawing(asked, run, stretch, insides)
    rows = drawn.by_try(tries) if by_try else drawn.by_lane(tries, index.lanes)
    values = {
        "run": run,
        "entry": entry,
        "by_try": by_try,
        "rows": rows,
        "height": TOP + len(rows) * (TRY_HEIGHT if by_try else LANE_HEIGHT) + 6,
        "row_height": (TRY_HEIGHT if by_try else LANE_HEIGHT) - 4,
        "ticks": time_ticks(stretch, origin),
        "from_seconds": stretch.start - origin,
        "to_seconds": stretch.end - origin,
        "lanes": index.lanes,
        "lanes_left_out": 0 if by_try else max(0, index.lanes - LANES_DRAWN),
        "shares": shares(tries, insides, stretch, index.lanes),
        "listed": [drawn.listed(one, origin) for one in tries[-ROWS_OF_TABLE:]],
        "more": undrawn + max(0, len(tries) - ROWS_OF_TABLE),
        "kinds": list(LETTERS.items()),
        "waits": WAITS,
        "paging": paging,
        "tries_left_out": paging.total - paging.end if asked.links.static else 0,
        "given": {"view": "tries"} if by_try else {},
        "damaged": index.damaged,
    }
    return Page("lanes.html", asked.say("lanes of {run}", run=entry.name), values, live=entry.state == "running")


def _stretch(index: LaneIndex, tries: Sequence[LaneTry], paging: Paging) -> Stretch:
    """Return the time from the first start on a page to that of the next page, or to the end of the run."""
    if not tries:
        return Stretch(0.0, 1.0)
    start = index.start(paging.start)
    end = index.start(paging.end) if paging.end < paging.total else max(index.last_at or start, start)
    return Stretch(start, max(end, start + 0.001))
