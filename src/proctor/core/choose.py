"""Which undispatched slot goes next, and what holds it back (spec 03 B2, O1 to O4, E3)."""

from __future__ import annotations

from proctor.core.books import Books
from proctor.core.rank import Line
from proctor.core.run import Run
from proctor.core.waits import Ask, is_held

OVERTAKEN_AT_MOST = 100
"""After so many later starts that went first at one of its gates, a slot becomes the claimant (O4)."""


Candidate = tuple[Run, Line]
"""What may start: the first slot that an experiment has in a line."""


class Chooser:
    """Looks at everything that could start, and starts nothing."""

    def __init__(self, books: Books, patience: int) -> None:
        self._patience = patience
        self._books = books
        self._gates = books.gates
        self._slots = books.slots
        self._lines = books.lines
        self._works = tuple(books.built.work.values())
        self._fallback = 1
        self._tiers = (books.lines, books.speculative) if books.speculative else (books.lines,)
        self.now = 0.0
        self.claimant: Line | None = None
        self.wake: float | None = None
        """The moment from which a pace allows a start that has all its permits, as of the last look."""

    def claimed(self) -> frozenset[int]:
        """Return the gates at which the claimant lacks room.

        An idle lane that holds them has to go: its next attempt may not start before the claimant.
        """
        if self.claimant is None:
            return frozenset()
        ask, gates = self.claimant.ask, self._gates
        return frozenset(gate for gate in ask.contested if not gates.fits(((gate, ask.weights[gate]),)))

    def fits(self, ask: Ask) -> bool:
        """Say whether an ask has room, and its paces allow it now."""
        return self._has_room(ask) and self._in_pace(ask)

    def _has_room(self, ask: Ask) -> bool:
        held = self._books.backing_off >= self._slots and is_held(ask, self._slots)
        return not held and self._gates.fits(ask.demand)

    def paced(self, ask: Ask) -> bool:
        """Like `_fits`, for a resume: a hold on its endpoint does not concern it."""
        return self._gates.fits(ask.demand) and self._in_pace(ask)

    def _in_pace(self, ask: Ask) -> bool:
        if not ask.paces:
            return True
        at = ask.ready_at()
        if at <= self.now:
            return True
        self.wake = at if self.wake is None else min(self.wake, at)
        return False

    def another_could_start(self, than: Run) -> bool:
        """Say whether an undispatched slot of another experiment could start (B1)."""
        for line in self._lines:
            if line.waiting and self.fits(line.ask) and self._leaves_room(line) and line.other(than):
                return True
        return False

    def choose(self) -> Candidate | None:
        """Return the first experiment in order whose next slot passes all gates, or None."""
        fallback = self._books.durations.value or 1
        if fallback != self._fallback:
            self._fallback = fallback
            for work in self._works:
                work.expect(fallback)
        claimant = self.claimant
        if claimant is not None:
            leader = claimant.look(fallback)
            if leader is None:
                claimant.overtaken = 0
                self.claimant = None
            elif self.fits(claimant.ask):
                return leader, claimant
        for lines in self._tiers:
            chosen = self._first_of(lines, fallback)
            if chosen is not None:
                return chosen
        return None

    def _first_of(self, lines: tuple[Line, ...], fallback: int) -> Candidate | None:
        """Return the first in order of those in some lines.

        Every decision goes over all lines here, so what is asked of each is written out, not called.
        """
        best: Line | None = None
        need = -1.0
        probe: Candidate | None = None
        able: list[Line] = []
        blocked: list[Line] = []
        free, fits, slots, claimant = self._gates.free, self._gates.fits, self._slots, self.claimant
        waits = self._books.backing_off >= slots
        unknown = not self._books.durations.value
        for line in lines:
            if not line.waiting:
                continue
            ask = line.ask
            # There is a global slot, or nothing would have been chosen at all.
            if free[ask.gate] < ask.weight or (ask.more and not fits(ask.more)) or (waits and is_held(ask, slots)):
                blocked.append(line)
                continue
            if (ask.paces and self._waits_for_pace(line)) or (claimant is not None and not self._leaves_room(line)):
                continue
            if line.probes and (run := line.probe()) is not None:
                probe = (run, line) if probe is None or _goes_before(run, line, *probe) else probe
                continue
            leader = line.leader if line.seen == fallback else line.look(fallback)
            if leader is None:
                continue
            if unknown:
                able.append(line)
            its = line.own
            for work in line.work:
                its = work.need if work.need > its else its
            if its > need or (its == need and best is not None and _precedes(line, best)):
                best, need = line, its
        if probe is not None or best is None:
            return probe
        assert best.leader is not None
        chosen = best.leader, best
        if unknown and need * slots < self._remaining():
            chosen, need = self._first_in_plan_order(able), 0.0
        if blocked and lines is self._lines:
            self._overtake(blocked, chosen[1], need, fallback)
        return chosen

    def _waits_for_pace(self, line: Line) -> bool:
        if line.ask.ready_at() <= self.now:
            return False
        if line.first() is not None:
            self._in_pace(line.ask)
        return True

    def _remaining(self) -> int:
        """Return how many slots are left to start, while nothing is known of how long any takes."""
        return sum(run.queued for run in self._books.runs)

    def _first_in_plan_order(self, lines: list[Line]) -> Candidate:
        best: Candidate | None = None
        for line in lines:
            run = line.first()
            if run is not None and (best is None or _goes_before(run, line, *best)):
                best = run, line
        assert best is not None
        return best

    def _overtake(self, blocked: list[Line], chosen: Line, need: float, fallback: int) -> None:
        """Count the start for those that come before it in order and wait at a gate that it takes from (O4).

        `need` is 0 where it was not chosen by need: then all others come before it.
        """
        taken = chosen.ask.contested
        if not taken:
            return
        for line in blocked:
            if taken.isdisjoint(line.ask.contested) or self._gates.fits(line.ask.demand):
                continue
            its = -1.0 if line.look(fallback) is None else line.need()
            if its > need or (its == need and _precedes(line, chosen)):
                line.overtaken += 1
                if self.claimant is None and line.overtaken >= self._patience:
                    self.claimant = line

    def _leaves_room(self, line: Line) -> bool:
        """Say whether a start leaves the claimant as much as it needs, wherever both go; not of global slots."""
        claimant = self.claimant
        if claimant is None or claimant is line:
            return True
        wanted = claimant.ask.weights
        for gate, weight in line.ask.demand:
            contested = gate in wanted and gate in claimant.ask.contested
            if contested and self._gates.free[gate] - weight < wanted[gate]:
                return False
        return True


def _precedes(one: Line, other: Line) -> bool:
    """Say whether the leader of a line comes first, where both needs are equal (O1).

    Where what waits at a shared gate makes them equal, those without it decide; then plan order, then the place inside
    the experiment.
    """
    if one.own != other.own:
        return one.own > other.own
    assert one.leader is not None
    assert other.leader is not None
    return _goes_before(one.leader, one, other.leader, other)


def _goes_before(one: Run, line: Line, other: Run, other_line: Line) -> bool:
    """Say whether an experiment in a line comes first by plan order, then by the place of its next slot."""
    if one is not other:
        return one.index < other.index
    first = one.place(one.part_in[line], line.tier)
    second = other.place(other.part_in[other_line], other_line.tier)
    return first is not None and (second is None or first < second)
