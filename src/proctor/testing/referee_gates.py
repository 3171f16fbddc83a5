"""What could start, by the rules: scanned from what a referee has counted."""

from __future__ import annotations

from collections.abc import Iterator

from proctor.model.attempt import GradingMode
from proctor.model.ids import AttemptId
from proctor.testing.referee_books import Ledger
from proctor.testing.referee_cases import Case, Live, Place


class Startable:
    """Says what could start now."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def resume(self) -> AttemptId | None:
        """Return an attempt that could resume."""
        for attempt, live in self._ledger.live.items():
            if live.where == "resuming" and not live.cancelled and self._slot() and self.resume_in_pace(live):
                return attempt
        return None

    def resume_in_pace(self, live: Live) -> bool:
        """Say whether the repeat of a refused opening is in its pace."""
        return self._ledger.in_pace(self._ledger.paces(self._ledger.plan_of(live), live.refused_open, None))

    def grading(self) -> AttemptId | None:
        """Return an attempt that could go on to grading."""
        for attempt, live in self._ledger.live.items():
            if live.where == "waiting for grading" and not live.cancelled and self.grading_fits(live):
                return attempt
        return None

    def grading_fits(self, live: Live) -> bool:
        """Say whether an attempt may go on to grading."""
        ledger, plan = self._ledger, self._ledger.plan_of(live)
        opens = plan.graded_at if plan.grading is GradingMode.FRESH else None
        used = {f"provider {opens}"} if opens else set[str]()
        if plan.judge:
            used.add(f"model {plan.judge}")
        gates = ledger.grading(plan, live.task, lane=live.lane is not None)
        return (
            ledger.room(gates) and ledger.endpoint_free(used) and ledger.in_pace(ledger.paces(plan, opens, plan.judge))
        )

    def retry(self) -> AttemptId | None:
        """Return an attempt whose next try could start, and whose wait is over for certain."""
        for attempt, live in self._ledger.live.items():
            if live.between and not live.cancelled and self._ledger.now > live.latest + 1e-6 and self.retry_fits(live):
                return attempt
        return None

    def retry_fits(self, live: Live) -> bool:
        """Say whether the next try of an attempt may start, as far as gates and lanes go."""
        ledger, plan = self._ledger, self._ledger.plan_of(live)
        lane = ledger.lanes[live.lane] if live.lane is not None else None
        if lane is not None and lane.closing and not lane.gone:
            return False
        only = live.next_only
        opens = ledger.opens(plan, live.task, only=only) if only or lane is None or lane.gone else None
        takes = ledger.grading if only else ledger.executing
        gates = takes(plan, live.task, lane=lane is not None)
        return ledger.room(gates) and self._paced(live.index, opens, only=only)

    def _paced(self, index: int, opens: str | None, *, only: bool = False) -> bool:
        ledger, plan = self._ledger, self._ledger.cases[index].plan
        models = ledger.models(plan, only=only)
        used = {f"model {name}" for name in models}
        if opens is not None:
            used.add(f"provider {opens}")
        in_pace = all(ledger.in_pace(ledger.paces(plan, opens, name)) for name in (None, *models))
        return in_pace and ledger.endpoint_free(used)

    def _slot(self) -> bool:
        return self._ledger.held["global"] < self._ledger.limit("global")

    # --------------------------------------------------------------------------------------- undispatched slots

    def slot(self, *, speculative: bool, other_than: int | None = None) -> tuple[int, Place] | None:
        """Return a slot that could start: one that E3 holds back, or one that nothing holds back."""
        return next(self._slots(speculative=speculative, other_than=other_than), None)

    def _slots(self, *, speculative: bool, other_than: int | None) -> Iterator[tuple[int, Place]]:
        if not self._slot():
            return
        for case in self._ledger.cases:
            if case.index == other_than or case.stage != "open" or not self.budget_free(case):
                continue
            for place in sorted(case.queued):
                if self.is_speculative(case, place[1]) is speculative and self.may_start(case, place):
                    yield case.index, place

    def budget_free(self, case: Case) -> bool:
        """Say whether the budget allows another attempt for certain."""
        return self._ledger.allows(case, sum(1 for _ in self._ledger.of_case(case)))

    def is_speculative(self, case: Case, task: int) -> bool:
        """Say whether E3 holds a task back."""
        plan = case.plan
        grouped = plan.agent_sandbox[task] and any(task in group.members for group in plan.groups)
        return plan.early_exit and plan.isolated and not grouped and self._ledger.busy(case, task) > 0

    def may_start(self, case: Case, place: Place) -> bool:
        """Say whether a slot passes all gates; with lanes only where one is idle or there is none."""
        ledger, plan, (ordinal, task) = self._ledger, case.plan, place
        grouped = plan.agent_sandbox[task] and any(task in group.members for group in plan.groups)
        if ledger.busy(case, task) and (not plan.isolated or grouped):
            return False
        only = place in case.regraded
        alike = case.queued & case.regraded if only else case.queued - case.regraded
        if any(earlier in alike for earlier in ((o, task) for o in range(ordinal))):
            return False
        pool = ledger.pool_of(case, task)
        takes = ledger.grading if only else ledger.executing
        gates = takes(plan, task, lane=pool is not None)
        opens = ledger.opens(plan, task, only=only)
        if pool is None:
            gates[f"experiment {plan.name}"] += 1
            return ledger.room(gates) and self._paced(case.index, opens, only=only)
        mine = [lane for lane in ledger.lanes.values() if lane.pool == pool]
        if any(lane.attempt is None and not lane.closing for lane in mine):
            return ledger.room(gates) and self._paced(case.index, opens if only else None, only=only)
        if mine:
            return False  # how many lanes there may be is for the scheduler's own audit
        return ledger.room(gates + ledger.lane_box(plan, task)) and self._paced(case.index, opens, only=only)
