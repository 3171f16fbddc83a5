"""What a permanent failure stops, and what a try leads to, by the rules of spec 05 (a referee's part)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from proctor.model.attempt import GradingMode, Issue, Outcome, Phase, TryResult, Verdict
from proctor.model.codes import CODES, Scope, Severity
from proctor.model.events import StopReason
from proctor.testing.referee_books import Case, Ledger, Live, Place


class Scopes:
    """Collects what the end of a try stops beyond its attempt."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.stop: list[tuple[int, StopReason, set[Place]]] = []
        self.give_up: dict[tuple[int, Place], str] = {}
        self.no_retries: list[tuple[int, set[int]]] = []
        """Tasks that get no other try: those that wait are sealed."""

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
                    self.no_retries.append((each.index, set(range(len(each.plan.task_ids)))))
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
            self.no_retries.append((case.index, set(tasks)))

    def _rows(self, case: Case, live: Live, result: TryResult) -> None:
        rows, plan = self._ledger.rows, case.plan
        found = next((i for i in result.issues if CODES[i.code].scope in (Scope.PROVIDER, Scope.MODEL)), None)
        blamed = None if found is None else _blamed(case, found)
        if result.outcome not in (Outcome.CANCELLED, Outcome.SKIPPED):
            for name in _endpoints(case, live.task) - {blamed}:
                rows.pop(name, None)
        if found is None or blamed is None:
            return
        code, number = rows.get(blamed, (found.code, 0))
        rows[blamed] = found.code, number + 1 if code == found.code else 1
        if not plan.stop_on_repeated or rows[blamed][1] < plan.stop_on_repeated:
            return
        for each in self._ledger.cases:
            tasks = {task for task in range(len(each.plan.task_ids)) if blamed in _endpoints(each, task)}
            self.stop.append((each.index, StopReason.SCOPE_STOPPED, of_tasks(each, tasks)))
            self.no_retries.append((each.index, tasks))


def of_tasks(case: Case, tasks: Iterable[int]) -> set[Place]:
    """Return the queued slots of tasks."""
    chosen = set(tasks)
    return {place for place in case.queued if place[1] in chosen}


def _endpoints(case: Case, task: int) -> set[str]:
    plan = case.plan
    found = {f"model {plan.judge}"} if plan.judge is not None else set[str]()
    found.add(f"model {plan.model}" if plan.model is not None else f"model of {plan.name}")
    if plan.agent_sandbox[task]:
        found.add(f"provider {plan.provider}")
    if plan.grading is GradingMode.FRESH:
        found.add(f"provider {plan.graded_at}")
    return found


def _blamed(case: Case, issue: Issue) -> str:
    plan, graded = case.plan, issue.phase is Phase.GRADE
    if CODES[issue.code].scope is Scope.PROVIDER:
        return f"provider {plan.graded_at if graded else plan.provider}"
    model = (plan.judge or plan.model) if graded else plan.model
    return f"model of {plan.name}" if model is None else f"model {model}"


def deserves_another(case: Case, live: Live, result: TryResult) -> bool:
    """Say whether a try is to be followed by another (T1, T6)."""
    policy = case.plan.retry
    if result.outcome in (Outcome.CANCELLED, Outcome.SKIPPED) or live.try_number > policy.max_retries:
        return False
    fatal = [issue for issue in result.issues if issue.severity is Severity.FATAL]
    if fatal:
        return not any(CODES[issue.code].permanent for issue in fatal)
    return any(
        issue.severity is Severity.ERROR
        and not CODES[issue.code].permanent
        and re.search(pattern, f"{issue.code} {issue.message}")
        for issue in result.issues
        for pattern in policy.patterns
    )


def verdict_of_try(result: TryResult) -> Verdict:
    """Return the verdict that a try leads to."""
    if result.outcome is Outcome.CANCELLED:
        return Verdict.CANCELLED
    if result.outcome is Outcome.SKIPPED:
        return Verdict.SKIPPED
    if result.grade is None or any(issue.severity is Severity.FATAL for issue in result.issues):
        return Verdict.ERRORED
    return Verdict.PASSED if result.grade.solved else Verdict.FAILED
