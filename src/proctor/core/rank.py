"""Which experiment goes next (spec 03 O1, O7): lines of experiments that ask for the same, ranked by need.

An experiment of which something is known has a need in microseconds. One of which nothing is known has a need in
slots, which becomes a duration by what is known of the invocation. Both are kept in heaps, so that learning something
about the invocation moves nobody. The work that waits for a gate is the same for all that share it, so it is no part of
the heaps either: it is compared with the head of a line.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proctor.core.run import Run
    from proctor.core.waits import Ask


class GateWork:
    """The expected work that waits for one limited gate, times the permits that it takes there."""

    __slots__ = ("_fallback", "_known", "_limit", "_unknown", "need")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known = 0
        """Of experiments of which something is known, in microseconds."""
        self._unknown = 0
        """Of the others, in slots."""
        self._fallback = 1
        self.need = 0.0
        """That work / limit, in microseconds."""

    def add(self, work: int, *, known: bool) -> None:
        """Count more work, or less: microseconds where something is known of its experiment, else slots."""
        if known:
            self._known += work
        else:
            self._unknown += work
        self.need = (self._known + self._unknown * self._fallback) / self._limit

    def expect(self, fallback: int) -> None:
        """Expect so many microseconds of a slot of which nothing is known."""
        self._fallback = fallback
        self.need = (self._known + self._unknown * fallback) / self._limit


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
        "_listed",
        "_top",
        "ask",
        "careful",
        "in_lane",
        "leader",
        "overtaken",
        "own",
        "probes",
        "runs",
        "seen",
        "tier",
        "waiting",
        "work",
    )  # fmt: skip

    def __init__(self, ask: Ask, runs: list[Run], work: tuple[GateWork, ...], tier: int, *, in_lane: bool) -> None:
        self.ask = ask
        self.runs = runs
        self.work = work
        """Of the limited gates that its experiments share with others."""
        self.tier = tier
        self.in_lane = in_lane
        self.overtaken = 0
        """Starts that came later in order and went first, since a slot of this line started (O4)."""
        self._top: tuple[Run | None, Run | None] | None = None
        """Who has the largest need, of those known and the others; None when that has to be looked up again."""
        self.leader: Run | None = None
        """Whose need is the largest of all in line, the first in plan order where several have it; as `look` found."""
        self.own = 0.0
        """The need of the leader in microseconds, without what waits at shared gates."""
        self.seen = 0
        """The fallback for which leader and `own` hold, which is never 0; 0 when something has changed since.

        Every decision asks every line, so this is to be compared before `look` is called.
        """
        self.careful = False
        """Whether more than its slots and its cap decides if one of its experiments can start (`Run.can_start`)."""
        self.waiting: set[int] = set()
        self._by_index: list[int] = []
        self._listed: set[int] = set()
        """Those in that heap, each once."""
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
            if run.index not in self._listed:
                self._listed.add(run.index)
                heappush(self._by_index, run.index)
            self.rank(run)
            if not run.dispatched and run.is_probe:
                heappush(self.probes, run.index)

    def rank(self, run: Run) -> None:
        """Note that the need of an experiment has changed."""
        index, known = run.index, run.is_known
        if index in self.waiting:
            heap = self._by_need if known else self._by_slots
            if heap and heap[0][1] == index:  # its entry of before, that is: most often it is the leader that changes
                heapreplace(heap, (-run.need, index))
            else:
                heappush(heap, (-run.need, index))
        top = self._top
        if top is not None:
            head = top[0] if known else top[1]
            if (
                self.careful or run is top[0] or run is top[1] or head is None
                or run.need > head.need or (run.need == head.need and index < head.index)
            ):  # fmt: skip
                self._top = None
                self.seen = 0

    def note(self, run: Run) -> None:
        """Note that an experiment may have less to start, or other slots; its need has not changed.

        Of others than those at the head nothing has to be known: whoever has the larger need was met there before.
        """
        top = self._top
        if top is not None and (self.careful or run is top[0] or run is top[1]):
            self._top = None
            self.seen = 0

    def forget(self) -> None:
        """Note that anything may have changed."""
        self._top = None
        self.seen = 0

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
            self._listed.discard(heappop(heap))
        return None

    def other(self, than: Run) -> bool:
        """Say whether an experiment other than `than` could start something."""
        first = self.first()
        if first is None or first is not than:
            return first is not None
        return any(index != than.index and self.runs[index].can_start(self) for index in self.waiting)

    def look(self, fallback: int) -> Run | None:
        """Find the leader, or None, and the need of its own; `fallback` is the duration where nothing is known.

        The work that waits at the shared gates is the same for all in line, so the need of its own decides among them.
        """
        top = self._top
        if top is None:
            top = self._top = (
                self._first_able(self._by_need, True) if self._by_need else None,
                self._first_able(self._by_slots, False) if self._by_slots else None,
            )
        known, unknown = top
        if unknown is None:
            self.leader = known
            if known is not None:
                self.own = known.need
        else:
            of_unknown = unknown.need * fallback
            if known is None or of_unknown > known.need or (of_unknown == known.need and unknown.index < known.index):
                self.leader, self.own = unknown, of_unknown
            else:
                self.leader, self.own = known, known.need
        self.seen = fallback
        return self.leader

    def need(self) -> float:
        """Return the need of the leader, with what waits at shared gates (O1)."""
        need = self.own
        for work in self.work:
            need = work.need if work.need > need else need
        return need

    def _first_able(self, heap: list[tuple[float, int]], known: bool) -> Run | None:
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
        self.forget()
        return False
