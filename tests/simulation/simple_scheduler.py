"""A scheduler so simple that it can be read off the spec: one list of slots, scanned anew for every decision.

It is the second opinion to which `core.scheduler` is compared; it shares the data types with it and nothing else. It
knows no lanes, leases, setups, hosts and claimants.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable

from simple_order import BETWEEN, FILLED, GRADING, QUEUED, SEALED, STOPPED, WAITING, WORKING, Order, Run, Slot

from proctor.core.commands import (
    CancelTry,
    Command,
    Finish,
    FinishRun,
    ResumeTry,
    Seal,
    StartGrading,
    StartTry,
    StopDispatch,
    WakeAt,
)
from proctor.core.schedule import Filling
from proctor.model.attempt import GradingMode, Issue, Outcome, Phase, TryResult, Verdict, issue_of, verdict_of
from proctor.model.codes import CODES, Owner, Scope, Severity
from proctor.model.events import (
    BackoffEnded,
    BackoffStarted,
    Completion,
    Event,
    GradingQueued,
    Interrupted,
    Notice,
    PhaseEnded,
    PhaseStarted,
    StopReason,
    StoreFailed,
    TimerFired,
    TryEnded,
    WorkCheckpointed,
)
from proctor.testing.worlds import World


class SimpleScheduler(Order):
    def __init__(self, world: World, mint: Callable[[], str], jitter: Callable[[], float] = lambda: 0.5) -> None:
        self.limits, self.mint, self.jitter = world.limits, mint, jitter
        self.runs = [Run(index, plan) for index, plan in enumerate(world.plans)]
        self.slots: list[Slot] = []
        for run in self.runs:
            self.slots += run.slots
        self.invocation = [statistics.median_low(run.durations) for run in self.runs if run.durations]
        self.started = self.retried = False
        self.cut: StopReason | None = None
        self.clock, self.now = 0, 0.0
        self.paced: dict[str, float] = {}
        self.rows: dict[str, tuple[str, int]] = {}
        self.passed: list[Slot] = []
        self.commands: list[Command] = []

    def validate(self) -> None: ...

    # ----------------------------------------------------------------------------------------------- coming in

    def start(self, *, now: float) -> list[Command]:
        self.started, self.commands = True, []
        for run in self.runs:
            passed = {task for task, _, filling in run.plan.decided if filling is Filling.REUSED_PASSED}
            self.stop([s for s in run.slots if run.plan.early_exit and s.task in passed], StopReason.EARLY_EXIT)
        if self.cut:
            self.stop(self.slots, self.cut)
        return self.go_on(self.runs)

    def handle(self, event: Event | Notice, *, now: float) -> list[Command]:
        self.commands, self.now = [], now
        if isinstance(event, Interrupted | StoreFailed):
            return self.interrupt(StopReason.DISK if isinstance(event, StoreFailed) else StopReason.INTERRUPT)
        if isinstance(event, TimerFired):
            return [] if all(run.done for run in self.runs) else self.go_on([])
        slot = next((s for s in self.slots if s.attempt and s.attempt == getattr(event, "attempt", None)), None)
        if slot is None or not slot.in_flight:
            return []
        if isinstance(event, TryEnded):
            return self.ended(slot, event)
        if slot.cancelled:
            return []
        return self.go_on([]) if self.reported(slot, event) else []

    def reported(self, slot: Slot, event: Event | Notice) -> bool:
        plan, held = slot.plan, set(slot.holds)
        disposing = isinstance(event, PhaseStarted | PhaseEnded) and event.phase is Phase.DISPOSE
        if isinstance(event, WorkCheckpointed):
            slot.saved = True
            return False
        if isinstance(event, BackoffStarted):
            provider = plan.graded_at if slot.state == GRADING else plan.provider
            model = (plan.judge or plan.model) if slot.state == GRADING else plan.model
            slot.refused = provider if CODES[event.code].owner is Owner.PROVIDER else ""
            slot.endpoint = f"provider {provider}" if slot.refused or model is None else f"model {model}"
            slot.holds -= {"global"}
            slot.pause(self.now)
        elif isinstance(event, BackoffEnded):
            slot.resuming, slot.asked = True, self.tick()
            return True
        elif isinstance(event, GradingQueued):
            slot.state, slot.asked = WAITING, self.tick()
            slot.holds = {gate for gate in slot.holds if gate.startswith("experiment")}
            slot.pause(self.now)
            return True
        elif slot.endpoint:
            return False
        elif disposing and isinstance(event, PhaseStarted):
            slot.holds = {gate for gate in slot.holds if not gate.startswith("model")}
        elif slot.state == WORKING and plan.grading is not GradingMode.REUSE:
            graded = isinstance(event, PhaseStarted) and event.phase is Phase.GRADE
            if disposing or (graded and plan.grading is GradingMode.NONE):
                slot.holds = {gate for gate in slot.holds if gate.startswith(("global", "experiment"))}
        return slot.holds != held

    def ended(self, slot: Slot, event: TryEnded) -> list[Command]:
        run, plan, result = slot.run, slot.plan, event.result
        slot.pause(self.now)
        slot.endpoint, slot.resuming = "", False
        cost = result.usage.cost_at_least_usd + result.grader_usage.cost_at_least_usd
        run.spent, slot.spent = run.spent + cost, slot.spent + cost
        told = plan.expected_cost_usd is None and result.outcome is Outcome.GRADED
        if slot.spent or run.largest >= 0 or told:
            run.largest = max(run.largest, slot.spent)
        slot.last = result
        again = not slot.cancelled and not self.cut and self.deserves_another(slot, result)
        reserve = run.largest if run.largest >= 0 else plan.expected_cost_usd or 0.0
        limit = plan.budget_usd
        ended_only = slot.only
        if again:
            slot.only = slot.saved = slot.saved and self.grades_only(slot, result)
        spent = limit is not None and round(1e9 * (run.spent + reserve)) > round(1e9 * limit)
        if again and not spent:
            whole = min(plan.retry.max_delay_seconds, plan.retry.min_delay_seconds * 2.0 ** (slot.number - 1))
            wait, asked = whole * (0.5 + 0.5 * self.jitter()), event.retry_after_seconds or 0.0
            slot.due = self.now + (max(wait, min(asked, plan.retry.retry_after_cap_seconds)) if asked > 0 else wait)
            slot.state, slot.asked, slot.let_through = BETWEEN, self.tick(), False
            slot.holds = {gate for gate in slot.holds if gate.startswith("experiment")}
        else:
            self.seal(slot, result, issue_of("budget.no_retry", NO_RETRY) if again else None)
        if verdict_of(result) in (Verdict.PASSED, Verdict.FAILED) and not ended_only:
            micros = max(1, round(slot.seconds * 1e6))
            self.invocation.append(micros)
            run.durations.append(micros)
            if plan.attempts > 1 and not (run.record and run.record[slot.task]):
                run.learned.setdefault(slot.task, []).append(micros)
        self.scopes(slot, result, ended_only)
        return self.go_on([run])

    def deserves_another(self, slot: Slot, result: TryResult) -> bool:
        policy = slot.plan.retry
        if result.outcome in (Outcome.CANCELLED, Outcome.SKIPPED) or slot.number > policy.max_retries:
            return False
        fatal = [issue for issue in result.issues if issue.severity is Severity.FATAL]
        errors = [i for i in result.issues if i.severity is Severity.ERROR and not CODES[i.code].permanent]
        if fatal:
            return not any(CODES[issue.code].permanent for issue in fatal)
        return any(re.search(p, i.code) or re.search(p, i.message) for p in policy.patterns for i in errors)

    def grades_only(self, slot: Slot, result: TryResult) -> bool:
        if slot.plan.grading is GradingMode.REUSE or any(i.code == "checkpoint.damaged" for i in result.issues):
            return False
        of_agent = [i for i in result.issues if i.phase not in (Phase.GRADE, Phase.DISPOSE, None)]
        broken = [i for i in of_agent if i.severity is Severity.FATAL and i.phase is not Phase.OPEN]
        milder = tuple(i for i in of_agent if i.severity is Severity.ERROR)
        asked = self.deserves_another(slot, TryResult(Outcome.BROKEN, issues=milder))
        return not asked and (slot.only or not broken)

    def seal(self, slot: Slot, result: TryResult, issue: Issue | None = None) -> None:
        slot.state, slot.holds = SEALED, set()
        verdict = verdict_of(result)
        score = result.grade.score if result.grade and verdict in ("passed", "failed") else None
        self.commands.append(Seal(slot.attempt, slot.key, verdict, score, slot.number, issue))
        if verdict is Verdict.PASSED and slot.plan.early_exit:
            self.passed.append(slot)

    # ------------------------------------------------------------------------------------------------ stopping

    def interrupt(self, reason: StopReason) -> list[Command]:
        if self.cut or all(run.done for run in self.runs):
            return []
        self.cut = reason
        if not self.started:
            return []
        self.stop(self.slots, reason)
        for slot in sorted((slot for slot in self.slots if slot.in_flight), key=lambda slot: slot.started):
            self.cancel(slot, reason)
        return self.go_on(self.runs)

    def cancel(self, slot: Slot, reason: StopReason) -> None:
        if slot.cancelled:
            return
        slot.cancelled, slot.endpoint, slot.resuming = True, "", False
        slot.pause(self.now)
        if slot.state == BETWEEN:
            self.seal(slot, TryResult(Outcome.CANCELLED))
        else:
            self.commands.append(CancelTry(slot.attempt, reason))

    def stop(self, slots: Iterable[Slot], reason: StopReason) -> None:
        chosen = [slot for slot in slots if slot.state == QUEUED]
        for run in self.runs:
            mine = [slot for slot in chosen if slot.run is run]
            for slot in mine:
                slot.state = STOPPED
                slot.last = None
            if mine:
                run.stopped.add(reason)
                self.commands.append(StopDispatch(run.plan.name, reason, len(mine)))

    def no_more_tries(self, concerned: Callable[[Slot], bool]) -> None:
        for slot in sorted((s for s in self.slots if s.state == BETWEEN), key=lambda s: s.started):
            if concerned(slot):
                assert slot.last is not None
                self.seal(slot, slot.last)

    def endpoints(self, slot: Slot, only: bool | None = None) -> set[str]:
        plan = slot.plan
        if slot.only if only is None else only:
            found = {f"model {plan.judge}"} if plan.judge else set()
            return found | ({f"provider {plan.graded_at}"} if plan.grading is GradingMode.FRESH else set())
        found = {f"model {plan.model}" if plan.model else f"model of {plan.name}"}
        found |= {f"model {plan.judge}"} if plan.judge else set()
        found |= {f"provider {plan.provider}"} if slot.boxes else set()
        return found | ({f"provider {plan.graded_at}"} if plan.grading is GradingMode.FRESH else set())

    def scopes(self, slot: Slot, result: TryResult, only: bool) -> None:
        plan = slot.plan
        scope = {issue.code: CODES[issue.code].scope for issue in result.issues if CODES[issue.code].permanent}
        repeated = next((i for i in result.issues if scope.get(i.code) in (Scope.PROVIDER, Scope.MODEL)), None)
        blamed = ""
        if repeated:
            graded = only or repeated.phase is Phase.GRADE
            model = (plan.judge or plan.model) if graded else plan.model
            blamed = f"model {model}" if model else f"model of {plan.name}"
            if scope[repeated.code] is Scope.PROVIDER:
                blamed = f"provider {plan.graded_at if graded else plan.provider}"
        if result.outcome not in (Outcome.CANCELLED, Outcome.SKIPPED):
            told = self.endpoints(slot, only) - {blamed}
            self.rows = {name: row for name, row in self.rows.items() if name not in told}
        if repeated:
            code, number = self.rows.get(blamed, ("", 0))
            self.rows[blamed] = repeated.code, number + 1 if code == repeated.code else 1
            if plan.stop_on_repeated and self.rows[blamed][1] >= plan.stop_on_repeated:
                self.stop([s for s in self.slots if blamed in self.endpoints(s)], StopReason.SCOPE_STOPPED)
                self.no_more_tries(lambda other: blamed in self.endpoints(other))
        for wanted in (Scope.INVOCATION, Scope.EXPERIMENT, Scope.IMAGE, Scope.TASK):
            issue = next((i for i in result.issues if scope.get(i.code) is wanted), None)
            if issue is not None:
                self.give_up(slot, wanted, issue)
                return

    def give_up(self, slot: Slot, scope: Scope, issue: Issue) -> None:
        if scope is Scope.INVOCATION:
            self.stop(self.slots, StopReason.DISK if issue.code == "store.full" else StopReason.SCOPE_STOPPED)
            self.no_more_tries(lambda _: True)
            return
        run, image = slot.run, slot.plan.environment_of(slot.task)
        tasks = {
            Scope.EXPERIMENT: {s.task for s in run.slots},
            Scope.IMAGE: {s.task for s in run.slots if s.plan.environment_of(s.task) == image},
            Scope.TASK: {slot.task},
        }[scope]
        for other in sorted((s for s in run.queued if s.task in tasks), key=lambda s: (s.task, s.regraded, s.ordinal)):
            other.state = SEALED
            self.commands.append(Seal(self.mint(), other.key, Verdict.ERRORED, None, 0, issue))
        self.no_more_tries(lambda other: other.run is run and other.task in tasks)

    # ------------------------------------------------------------------------------------------------ going on

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def go_on(self, touched: list[Run]) -> list[Command]:
        due = sorted((s for s in self.slots if s.state == BETWEEN and not s.let_through and s.due <= self.now),
                     key=lambda s: (s.due, s.asked))  # fmt: skip
        for slot in due if not self.cut else ():
            if slot.run.allows():
                slot.let_through, slot.asked = True, self.tick()
            else:
                self.refuse(slot)
        self.exit_early()
        self.stop_spent()
        while not self.cut and (slot := self.choose()):
            self.begin(slot)
            self.exit_early()
        self.stop_spent()
        self.wake()
        for run in self.runs:
            if not run.done and all(slot.state in (SEALED, STOPPED, FILLED) for slot in run.slots):
                run.done = True
                stopped = run.stopped - {StopReason.EARLY_EXIT}
                completion = Completion.STOPPED if stopped else Completion.COMPLETE
                self.commands.append(FinishRun(run.plan.name, Completion.INTERRUPTED if self.cut else completion))
                if all(run.done for run in self.runs):
                    self.commands.append(Finish())
        return self.commands

    def refuse(self, slot: Slot) -> None:
        assert slot.last is not None
        self.seal(slot, slot.last, issue_of("budget.no_retry", NO_RETRY))

    def exit_early(self) -> None:
        while self.passed:
            slot = self.passed.pop()
            same = [other for other in slot.run.slots if other.task == slot.task]
            self.stop(same, StopReason.EARLY_EXIT)
            for other in sorted((s for s in same if s.in_flight), key=lambda s: s.started):
                self.cancel(other, StopReason.EARLY_EXIT)

    def stop_spent(self) -> None:
        for run in self.runs if not self.cut else ():
            if not any(slot.in_flight for slot in run.slots) and run.queued and not run.allows():
                self.stop(run.slots, StopReason.BUDGET)

    def wake(self) -> None:
        moments = [s.due for s in self.slots if s.state == BETWEEN and not s.let_through]
        moments += [at for at in self.paced.values() if at > self.now]
        if moments and not self.cut:
            self.commands.append(WakeAt(min(moments)))

    def begin(self, slot: Slot) -> None:
        if slot.state == BETWEEN and not slot.run.allows(0):
            self.refuse(slot)
            return
        slot.holds |= self.asks(slot)
        self.paced |= {name: self.now + apart for name, apart in self.paces(slot).items()}
        if slot.resuming:
            slot.resuming, slot.endpoint, slot.since = False, "", self.now
            self.commands.append(ResumeTry(slot.attempt))
        elif slot.state == WAITING:
            slot.state, slot.since = GRADING, self.now
            self.commands.append(StartGrading(slot.attempt))
        else:
            self.retried = slot.state == BETWEEN
            slot.saved = slot.only
            if slot.state == QUEUED:
                slot.attempt, slot.started, slot.run.dispatched = self.mint(), self.tick(), True
            slot.number, slot.seconds, slot.since = slot.number + 1, 0.0, self.now
            slot.state = GRADING if slot.only else WORKING
            slot.let_through = False
            self.commands.append(StartTry(slot.attempt, slot.key, slot.number, None, slot.only))


NO_RETRY = "the budget leaves no room for another try"
