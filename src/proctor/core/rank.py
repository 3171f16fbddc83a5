"""Which experiment goes next (spec 03 O1, O7): lines of experiments that ask for the same, ranked by need.

An experiment of which something is known has a need in microseconds. One of which nothing is known has a need in
slots, which becomes a duration by what is known of the invocation. Both are kept in heaps, so that learning something
about the invocation moves nobody. The work that waits for a gate is the same for all that share it, so it is no part of
the heaps either: it is compared with the head of a line.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from proctor.core.order import READY, SPECULATIVE

if TYPE_CHECKING:
    from proctor.core.run import Run
    from proctor.core.waits import Ask


class GateWork:
    """The expected work that waits for one limited gate, times the permits that it takes there."""

    __slots__ = ("known", "limit", "lines", "unknown")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.known = 0
        """Of experiments of which something is known, in microseconds."""
        self.unknown = 0
        """Of the others, in slots."""
        self.lines: list[Line] = []
        """Those whose candidate has another need when this work changes."""


class Candidate(NamedTuple):
    """An experiment at the head of a line, with its need in microseconds, and without what waits at shared gates."""

    need: float
    own: float
    run: Run
    line: Line


class Line:
    """Experiments whose next slots ask for the same permits.

    An experiment that is met at the head and cannot start anything leaves the line, and comes back by `offer` when that
    may have changed. `tier` is READY or SPECULATIVE. `in_lane` says that the permits are those of an attempt in a lane
    that is open and idle.
    """

    __slots__ = (
        "_by_index",
        "_by_need",
        "_by_slots",
        "_fallback",
        "ask",
        "candidate",
        "careful",
        "in_lane",
        "overtaken",
        "probes",
        "runs",
        "tier",
        "top",
        "waiting",
        "work",
    )  # fmt: skip

    def __init__(self, ask: Ask, runs: list[Run], work: tuple[GateWork, ...], tier: int, *, in_lane: bool) -> None:
        self.ask = ask
        self.runs = runs
        self.work = work
        """Of the limited gates that its experiments share with others."""
        for each in work:
            each.lines.append(self)
        self.tier = tier
        self.in_lane = in_lane
        self.overtaken = 0
        """Starts that came later in order and went first, since a slot of this line started (O4)."""
        self.top: tuple[Run | None, Run | None] | None = None
        """Who has the largest need, of those known and the others; None when that has to be looked up again."""
        self.candidate: Candidate | None = None
        """What `best` found last; None when something that it depends on has changed."""
        self._fallback = 0
        self.careful = False
        """Whether more than its slots and its cap decides if one of its experiments can start (`Run.can_start`)."""
        self.waiting: set[int] = set()
        self._by_index: list[int] = []
        self._by_need: list[tuple[float, int]] = []
        self._by_slots: list[tuple[float, int]] = []
        self.probes: list[int] = []

    def __contains__(self, run: int) -> bool:
        return run in self.waiting

    def __len__(self) -> int:
        return len(self.waiting)

    def offer(self, run: Run) -> None:
        """Put an experiment in line, unless it is there."""
        if run.index not in self.waiting:
            self.waiting.add(run.index)
            heappush(self._by_index, run.index)
            self.rank(run)
            if run.is_probe:
                heappush(self.probes, run.index)

    def rank(self, run: Run) -> None:
        """Note that the need of an experiment has changed."""
        index = run.index
        if index in self.waiting:
            heappush(self._by_need if run.is_known else self._by_slots, (-run.need, index))
        top = self.top
        if top is not None:
            head = top[0] if run.is_known else top[1]
            if (
                self.careful or run is top[0] or run is top[1] or head is None
                or run.need > head.need or (run.need == head.need and index < head.index)
            ):  # fmt: skip
                self.top = self.candidate = None

    def note(self, run: Run) -> None:
        """Note that an experiment may have less to start, or other slots; its need has not changed.

        Of others than those at the head nothing has to be known: whoever has the larger need was met there before.
        """
        top = self.top
        if top is not None and (self.careful or run is top[0] or run is top[1]):
            self.top = self.candidate = None

    def probe(self) -> Run | None:
        """Return the first experiment that has to show how long it takes before others start a second attempt."""
        heap = self.probes
        while heap:
            run = self.runs[heap[0]]
            if run.is_probe and run.index in self.waiting and self._stays(run):
                return run
            heappop(heap)
        return None

    def first(self) -> Run | None:
        """Return the first experiment in plan order."""
        heap = self._by_index
        while heap:
            run = self.runs[heap[0]]
            if run.index in self.waiting and self._stays(run):
                return run
            heappop(heap)
        return None

    def other(self, than: Run) -> bool:
        """Say whether an experiment other than `than` could start something."""
        first = self.first()
        if first is None or first is not than:
            return first is not None
        return any(index != than.index and self.runs[index].can_start(self) for index in self.waiting)

    def best(self, fallback: int) -> Candidate | None:
        """Return the experiment with the largest need, the first in plan order where several have it.

        The work that waits at the shared gates is the same for all in line, so the need of its own decides among them.
        """
        if self.candidate is not None and self._fallback == fallback:
            return self.candidate
        if self.top is None:
            self.top = (
                self._top(self._by_need, known=True) if self._by_need else None,
                self._top(self._by_slots, known=False) if self._by_slots else None,
            )
        known, unknown = self.top
        if known is None and unknown is None:
            return None
        of_known = known.need if known is not None else -1.0
        of_unknown = unknown.need * fallback if unknown is not None else -1.0
        need = own = of_known if of_known > of_unknown else of_unknown
        for work in self.work:
            shared = (work.known + work.unknown * fallback) / work.limit
            need = shared if shared > need else need
        if of_known == of_unknown and known is not None and unknown is not None:
            run = known if known.index < unknown.index else unknown
        else:
            run = known if of_known > of_unknown else unknown
        assert run is not None
        self._fallback = fallback
        self.candidate = Candidate(need, own, run, self)
        return self.candidate

    def _top(self, heap: list[tuple[float, int]], *, known: bool) -> Run | None:
        runs, waiting = self.runs, self.waiting
        while heap:
            need, index = heap[0]
            run = runs[index]
            if run.need == -need and run.is_known is known and index in waiting:
                if run.can_start(self):
                    return run
                waiting.discard(index)
            heappop(heap)
        return None

    def _stays(self, run: Run) -> bool:
        if run.can_start(self):
            return True
        self.waiting.discard(run.index)
        self.top = self.candidate = None
        return False


TIERS = (READY, SPECULATIVE)
