"""Which undispatched slot goes next, and what holds it back (spec 03 B2, O1 to O4, E3)."""

from __future__ import annotations

from proctor.core.books import Books
from proctor.core.rank import Candidate, Line
from proctor.core.run import Run
from proctor.core.waits import Ask, is_held

OVERTAKEN_AT_MOST = 100
"""After so many later starts that went first at one of its gates, a slot becomes the claimant (O4)."""


class Chooser:
    """Looks at everything that could start, and starts nothing."""

    def __init__(self, books: Books, patience: int) -> None:
        self._patience = patience
        self._books = books
        self._gates = books.gates
        self._slots = books.slots
        self._lines = books.lines
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
        if self.claimant is not None:
            candidate = self.claimant.best(fallback)
            if candidate is None:
                self.claimant.overtaken = 0
                self.claimant = None
            elif self.fits(self.claimant.ask):
                return candidate
        for lines in self._tiers:
            chosen = self._first_of(lines, fallback)
            if chosen is not None:
                return chosen
        return None

    def _first_of(self, lines: tuple[Line, ...], fallback: int) -> Candidate | None:
        best: Candidate | None = None
        probe: Candidate | None = None
        able: list[Line] = []
        blocked: list[Line] = []
        fits, claimant = self._gates.fits, self.claimant
        waits = self._books.backing_off >= self._slots
        for line in lines:
            if not line.waiting:
                continue
            ask = line.ask
            # There is a global slot, or nothing would have been chosen at all.
            if (ask.contested and not fits(ask.demand)) or (waits and is_held(ask, self._slots)):
                blocked.append(line)
                continue
            if (ask.paces and self._waits_for_pace(line)) or (claimant is not None and not self._leaves_room(line)):
                continue
            run = line.probe() if line.probes else None
            if run is not None:
                candidate = Candidate(0.0, 0.0, run, line)
                if probe is None or _precedes(candidate, probe):
                    probe = candidate
            elif probe is None and (candidate := line.best(fallback)) is not None:
                able.append(line)
                # Most often the need decides; then nothing has to be called.
                if best is None or candidate[0] > best[0] or (candidate[0] == best[0] and _precedes(candidate, best)):
                    best = candidate
        if probe is not None or best is None:
            return probe
        if not self._books.durations.value and best.need * self._slots < self._remaining():
            best = self._first_in_plan_order(able)
        if blocked and lines is self._lines:
            self._overtake(blocked, best, fallback)
        return best

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
            if run is not None:
                candidate = Candidate(0.0, 0.0, run, line)
                if best is None or _precedes(candidate, best):
                    best = candidate
        assert best is not None
        return best

    def _overtake(self, blocked: list[Line], chosen: Candidate, fallback: int) -> None:
        """Count the start for those that come before it in order and wait at a gate that it takes from (O4)."""
        taken = chosen.line.ask.contested
        if not taken:
            return
        for line in blocked:
            if taken.isdisjoint(line.ask.contested) or self._gates.fits(line.ask.demand):
                continue
            candidate = line.best(fallback)
            if candidate is not None and _precedes(candidate, chosen):
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
            if gate in wanted and gate in claimant.ask.contested:
                free = self._gates.free(gate)
                if free is not None and free - weight < wanted[gate]:
                    return False
        return True


def _precedes(one: Candidate, other: Candidate) -> bool:
    """Say whether a candidate comes first (O1): larger need, plan order, place inside the experiment.

    Where what waits at a shared gate makes two needs equal, those without it decide.
    """
    if one.need != other.need:
        return one.need > other.need
    if one.own != other.own:
        return one.own > other.own
    if one.run is not other.run:
        return one.run.index < other.run.index
    first = one.run.place(one.run.part_in[one.line], one.line.tier)
    second = other.run.place(other.run.part_in[other.line], other.line.tier)
    return first is not None and (second is None or first < second)
