"""A scheduler so simple that it can be read off the spec: one list of slots, scanned anew for every decision.

It is the second opinion to which `core.scheduler` is compared; it shares the data types with it and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proctor.core.commands import CancelTry, Command, Finish, FinishRun, Seal, StartGrading, StartTry, StopDispatch
from proctor.core.gates import GateLimits
from proctor.core.plan import ExperimentPlan
from proctor.model.attempt import GradingMode, Outcome, Phase, verdict_of
from proctor.model.codes import CODES, Scope
from proctor.model.events import (
    Completion,
    Event,
    GradingQueued,
    Interrupted,
    PhaseEnded,
    StopReason,
    TryEnded,
)

QUEUED, WORKING, SANDBOX_GONE, WAITING, GRADING, SEALED, STOPPED = range(7)


class Slot:
    def __init__(self, plan: ExperimentPlan, task: int, ordinal: int) -> None:
        self.plan, self.task, self.ordinal = plan, task, ordinal
        self.key = plan.slot(task, ordinal)
        self.state = QUEUED
        self.attempt: str | None = None
        self.started = self.asked = -1
        self.cancelled = False

    @property
    def in_flight(self) -> bool:
        return self.state not in (QUEUED, SEALED, STOPPED)

    @property
    def holds_global(self) -> bool:
        return self.state in (WORKING, SANDBOX_GONE, GRADING)

    @property
    def holds_provider(self) -> bool:
        return self.state == GRADING or (self.state == WORKING and self.plan.agent_sandbox[self.task])


class SimpleScheduler:
    def __init__(self, plans: Sequence[ExperimentPlan], limits: GateLimits, mint: Callable[[], str]) -> None:
        self.plans, self.limits, self.mint = plans, limits, mint
        self.slots = [
            Slot(plan, task, ordinal)
            for plan in plans
            for ordinal in range(plan.attempts)
            for task in range(len(plan.task_ids))
        ]
        self.started = self.interrupted = False
        self.clock = 0
        self.done: set[str] = set()
        self.rows: dict[str, list[str | None]] = {plan.name: [] for plan in plans}

    def validate(self) -> None: ...

    def start(self, *, now: float) -> list[Command]:
        self.started = True
        return [*(self.stop(StopReason.INTERRUPT) if self.interrupted else ()), *self.go_on()]

    def handle(self, event: Event, *, now: float) -> list[Command]:
        if isinstance(event, Interrupted):
            if self.interrupted or len(self.done) == len(self.plans) or not self.started:
                self.interrupted = self.interrupted or not self.started
                return []
            self.interrupted = True
            flying = sorted((slot for slot in self.slots if slot.in_flight), key=lambda slot: slot.started)
            commands = self.stop(StopReason.INTERRUPT)
            for slot in flying:
                slot.cancelled = True
                commands.append(CancelTry(slot.attempt or ""))
            return [*commands, *self.go_on()]
        slot = next((s for s in self.slots if s.attempt == getattr(event, "attempt", None)), None)
        if slot is None or not slot.in_flight:
            return []
        if isinstance(event, TryEnded):
            return self.ended(slot, event)
        if slot.cancelled:
            return []
        if isinstance(event, GradingQueued):
            slot.state, slot.asked = WAITING, self.tick()
            return self.go_on()
        if isinstance(event, PhaseEnded) and event.phase is Phase.DISPOSE and slot.state == WORKING:
            if slot.plan.grading is not GradingMode.REUSE:
                slot.state = SANDBOX_GONE
            return self.go_on()
        return []

    def ended(self, slot: Slot, event: TryEnded) -> list[Command]:
        slot.state = SEALED
        verdict = verdict_of(event.result)
        score = event.result.grade.score if event.result.grade and verdict in ("passed", "failed") else None
        commands: list[Command] = [Seal(event.attempt, slot.key, verdict, score, 1)]
        scopes = {CODES[issue.code].scope: issue.code for issue in event.result.issues if CODES[issue.code].permanent}
        row = self.rows[slot.plan.name]
        repeated = scopes.get(Scope.PROVIDER) or scopes.get(Scope.MODEL)
        if repeated or event.result.outcome not in (Outcome.CANCELLED, Outcome.SKIPPED):
            row.append(repeated)
        if Scope.INVOCATION in scopes:
            full = scopes[Scope.INVOCATION] == "store.full"
            commands += self.stop(StopReason.DISK if full else StopReason.SCOPE_STOPPED)
        elif Scope.EXPERIMENT in scopes or (repeated and row[-3:] == [repeated] * 3):
            commands += self.stop(StopReason.SCOPE_STOPPED, slot.plan)
        return [*commands, *self.go_on()]

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def stop(self, reason: StopReason, only: ExperimentPlan | None = None) -> list[Command]:
        commands: list[Command] = []
        for plan in self.plans if only is None else [only]:
            queued = [slot for slot in self.slots if slot.plan is plan and slot.state == QUEUED]
            for slot in queued:
                slot.state = STOPPED
            if queued:
                commands.append(StopDispatch(plan.name, reason, len(queued)))
        return commands

    def go_on(self) -> list[Command]:
        commands: list[Command] = []
        while not self.interrupted and (slot := self.choose()):
            if slot.state == WAITING:
                slot.state = GRADING
                commands.append(StartGrading(slot.attempt or ""))
            else:
                slot.state, slot.attempt, slot.started = WORKING, self.mint(), self.tick()
                commands.append(StartTry(slot.attempt, slot.key, 1))
        for plan in self.plans:
            mine = [slot for slot in self.slots if slot.plan is plan]
            if plan.name not in self.done and all(slot.state in (SEALED, STOPPED) for slot in mine):
                self.done.add(plan.name)
                stopped = any(slot.state == STOPPED for slot in mine)
                completion = Completion.STOPPED if stopped else Completion.COMPLETE
                completion = Completion.INTERRUPTED if self.interrupted else completion
                commands.append(FinishRun(plan.name, completion))
                if len(self.done) == len(self.plans):
                    commands.append(Finish())
        return commands

    def choose(self) -> Slot | None:
        waiting = sorted((slot for slot in self.slots if slot.state == WAITING), key=lambda slot: slot.asked)
        queued = [slot for slot in self.slots if slot.state == QUEUED]
        return next((slot for slot in [*waiting, *queued] if self.fits(slot)), None)

    def fits(self, slot: Slot) -> bool:
        plan = slot.plan
        if sum(other.holds_global for other in self.slots) >= self.limits.task_concurrency:
            return False
        limit = self.limits.providers.get(plan.provider) or len(self.slots)
        at_provider = [other for other in self.slots if other.holds_provider and other.plan.provider == plan.provider]
        if (slot.state == WAITING or plan.agent_sandbox[slot.task]) and len(at_provider) >= limit:
            return False
        if slot.state == WAITING:
            return True
        flying = [other for other in self.slots if other.plan is plan and other.in_flight]
        if plan.max_concurrency is not None and len(flying) >= plan.max_concurrency:
            return False
        return plan.isolated or all(other.task != slot.task for other in flying)
