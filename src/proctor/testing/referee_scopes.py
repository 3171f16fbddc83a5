"""What a permanent failure stops, by the rules of spec 05 (a referee's part)."""

from __future__ import annotations

from collections.abc import Iterable

from proctor.model.attempt import GradingMode, Issue, Outcome, Phase, TryResult
from proctor.model.codes import CODES, Scope
from proctor.model.events import StopReason
from proctor.testing.referee_books import Ledger
from proctor.testing.referee_cases import Case, Live, Place


class Scopes:
    """Collects what the end of a try stops beyond its attempt."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.stop: list[tuple[int, StopReason, set[Place]]] = []
        self.give_up: dict[tuple[int, Place], str] = {}
        self.no_retries: list[tuple[int, set[int], str | None]] = []
        """Tasks that get no other try (that uses an endpoint): those that wait are sealed."""

    def ended(self, case: Case, live: Live, result: TryResult) -> None:
        """Collect what a permanent failure stops (spec 05)."""
        ledger = self._ledger
        self._rows(case, live, result)
        for issue in result.issues:
            scope, plan = CODES[issue.code].scope, case.plan
            tasks: Iterable[int] = ()
            if scope is Scope.INVOCATION:
                reason = StopReason.DISK if issue.code == "store.full" else StopReason.SCOPE_STOPPED
                for each in ledger.cases:
                    self.stop.append((each.index, reason, set(each.queued)))
                    self.no_retries.append((each.index, set(range(len(each.plan.task_ids))), None))
                return
            if scope is Scope.TASK:
                tasks = [live.task]
            elif scope is Scope.EXPERIMENT:
                tasks = range(len(plan.task_ids))
            elif scope is Scope.IMAGE:
                image = plan.environment_of(live.task)
                tasks = [task for task in range(len(plan.task_ids)) if plan.environment_of(task) == image]
            for place in of_tasks(case, tasks):
                self.give_up[case.index, place] = issue.code
            self.no_retries.append((case.index, set(tasks), None))

    def _rows(self, case: Case, live: Live, result: TryResult) -> None:
        rows, plan = self._ledger.rows, case.plan
        found = next((i for i in result.issues if CODES[i.code].scope in (Scope.PROVIDER, Scope.MODEL)), None)
        blamed = None if found is None else _blamed(case, live, found)
        if result.outcome not in (Outcome.CANCELLED, Outcome.SKIPPED):
            for name in _endpoints(case, live.task, only=live.only) - {blamed}:
                rows.pop(name, None)
        if found is None or blamed is None:
            return
        code, number = rows.get(blamed, (found.code, 0))
        rows[blamed] = found.code, number + 1 if code == found.code else 1
        if not plan.stop_on_repeated or rows[blamed][1] < plan.stop_on_repeated:
            return
        for each in self._ledger.cases:
            places = {p for p in each.queued if blamed in _endpoints(each, p[1], only=p in each.regraded)}
            self.stop.append((each.index, StopReason.SCOPE_STOPPED, places))
            every = set(range(len(each.plan.task_ids)))
            self.no_retries.append((each.index, every, blamed))


def of_tasks(case: Case, tasks: Iterable[int]) -> set[Place]:
    """Return the queued slots of tasks."""
    chosen = set(tasks)
    return {place for place in case.queued if place[1] in chosen}


def uses(case: Case, live: Live) -> set[str]:
    """Return the endpoints that the next try of an attempt uses."""
    return _endpoints(case, live.task, only=live.next_only)


def _endpoints(case: Case, task: int, *, only: bool = False) -> set[str]:
    plan = case.plan
    found = {f"model {plan.judge}"} if plan.judge is not None else set[str]()
    if only:
        return found | ({f"provider {plan.graded_at}"} if plan.grading is GradingMode.FRESH else set[str]())
    found.add(f"model {plan.model}" if plan.model is not None else f"model of {plan.name}")
    if plan.agent_sandbox[task]:
        found.add(f"provider {plan.provider}")
    if plan.grading is GradingMode.FRESH:
        found.add(f"provider {plan.graded_at}")
    return found


def _blamed(case: Case, live: Live, issue: Issue) -> str:
    plan, graded = case.plan, live.only or issue.phase is Phase.GRADE
    if CODES[issue.code].scope is Scope.PROVIDER:
        return f"provider {plan.graded_at if graded else plan.provider}"
    model = (plan.judge or plan.model) if graded else plan.model
    return f"model of {plan.name}" if model is None else f"model {model}"
