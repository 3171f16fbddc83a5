"""What every queued slot waits for: the first gate, in the order of the table of spec 03, that has no room for it.

It only reads the books, and goes over experiments and gates, not over slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from proctor.core.books import Books
from proctor.core.choose import Chooser
from proctor.core.gates import GateView
from proctor.core.order import BUSY, READY, SPECULATIVE
from proctor.core.parts import Part
from proctor.core.run import OPEN, Run, Stage
from proctor.core.waits import Ask, is_held
from proctor.model.waiting import Gate, Waiting

_Reason = tuple[Gate, str, int | None, int | None]
"""A gate, its name, the permits that it holds, and its limit."""


def waiting(books: Books, chooser: Chooser, now: float) -> list[Waiting]:
    """Return what the queued slots of each experiment wait for, in plan order; the numbers add up to all queued."""
    views = books.gates.snapshot()
    place = books.global_permit[0][0]
    whole = None if books.gates.fits(books.global_permit) else _numbers(Gate.CONCURRENCY, "", views[place])
    found: list[Waiting] = []
    for run in books.runs:
        queued = run.queued
        if not queued:
            continue
        if whole is not None:
            found.append(_waiting(run, whole, queued))
            continue
        by_reason: dict[_Reason, int] = {}
        for part in run.parts:
            if part.slots.remaining:
                for reason, slots in _Look(books, chooser, views, now).reasons(run, part):
                    by_reason[reason] = by_reason.get(reason, 0) + slots
        found += [_waiting(run, reason, slots) for reason, slots in by_reason.items()]
    return found


def _waiting(run: Run, reason: _Reason, slots: int) -> Waiting:
    gate, name, held, limit = reason
    return Waiting(run.plan.name, gate, name, slots, held, limit)


def _numbers(gate: Gate, name: str, view: GateView) -> _Reason:
    return gate, name, view.held, view.limit


class _Look:
    """Looks at the queued slots of one part, at one moment."""

    def __init__(self, books: Books, chooser: Chooser, views: Sequence[GateView], now: float) -> None:
        self._books = books
        self._chooser = chooser
        self._views = views
        self._now = now

    def reasons(self, run: Run, part: Part) -> Iterator[tuple[_Reason, int]]:
        """Yield why slots wait, with how many; the global gate has room."""
        idle = part.lanes is not None and bool(part.lanes.idle)
        ask = part.start if idle else part.opening or part.start
        full = self._full(part, ask, () if idle else run.own)
        left = part.slots.remaining
        reason = self._of_sandbox(full, ask, run)
        if reason is None and (busy := self._busy(run, part)):
            yield (Gate.SAME_TASK, "", None, None), busy
            left -= busy
        if left:
            yield reason or self._of_rest(run, part, ask, full, idle=idle), left

    def _full(self, part: Part, ask: Ask, own: Iterable[tuple[int, int]]) -> dict[Gate, _Reason]:
        """Return the gates that have no room for an attempt."""
        free, found = self._books.gates.free, dict[Gate, _Reason]()
        for index, weight in (*own, *(part.box if ask is part.opening else ()), *ask.demand):
            if free[index] < weight:
                reason = self._reason(self._views[index])
                found.setdefault(reason[0], reason)
        return found

    def _reason(self, view: GateView) -> _Reason:
        kind, _, name = view.name.partition(" ")
        if kind == "host":  # in thousandths and the like, which tell nobody anything
            return Gate.HOST, name, None, None
        if kind == "provider" and name in self._books.built.limits.exclusive:
            return _numbers(Gate.EXCLUSIVE, name, view)
        return _numbers(Gate(kind), name, view)

    def _of_sandbox(self, full: dict[Gate, _Reason], ask: Ask, run: Run) -> _Reason | None:
        """Return what of the first five gates is in the way."""
        for gate in (Gate.EXPERIMENT, Gate.PROVIDER):
            if gate in full:
                return full[gate]
        return self._pace(ask, Gate.OPEN_RATE) or full.get(Gate.EXCLUSIVE)

    def _pace(self, ask: Ask, gate: Gate) -> _Reason | None:
        prefix = f"{gate} of "
        for pace in ask.paces:
            if pace.next_at > self._now and pace.name.startswith(prefix):
                return gate, pace.name.removeprefix(prefix), None, None
        return None

    @staticmethod
    def _busy(run: Run, part: Part) -> int:
        """Return how many slots are of tasks with an attempt in flight that none may overlap."""
        if not part.slots.count[BUSY] or (part.lanes is not None and part.lanes.group is not None):
            return 0
        table, busy = part.table, [row for row in part.table.busy if part.table.where[row] == BUSY]
        if table is run.table:
            mine = [row for row in busy if run.part_of(row).slots is part.slots]
        else:  # of what is only graded, several parts have rows in one table
            mine = list(set(part.slots.tasks).intersection(busy))
        return sum(table.attempts - table.next[row] for row in mine)

    def _of_rest(self, run: Run, part: Part, ask: Ask, full: dict[Gate, _Reason], *, idle: bool) -> _Reason:
        """Return what is in the way where neither the first six gates nor another attempt of the task are."""
        if part.lanes is not None and not idle and not part.lanes.may_open():
            return Gate.LANE, "", None, None
        if run.stage is Stage.SETTING_UP:
            return Gate.SETUP, run.plan.name, None, None
        if run.stage is not OPEN:
            return Gate.LEASE, run.plan.shared_state_key or "", None, None
        found = full.get(Gate.HOST) or full.get(Gate.MODEL) or self._pace(ask, Gate.MODEL_RATE)
        return found or self._of_order(run, part, ask)

    def _of_order(self, run: Run, part: Part, ask: Ask) -> _Reason:
        """Return what is in the way where every gate has room."""
        slots = self._books.slots
        if not run.budget.allows():
            return Gate.BUDGET, run.plan.name, None, None
        if self._books.backing_off >= slots and is_held(ask, slots):
            held = next(endpoint for endpoint in ask.endpoints if endpoint.backing_off >= slots)
            return Gate.BACKOFF, held.name, held.backing_off, slots
        if part.slots.count[SPECULATIVE] and not part.slots.count[READY]:
            return Gate.EARLY_EXIT, "", None, None
        return (Gate.DECIDED if self._chooser.claimant is None else Gate.RESERVED), "", None, None
