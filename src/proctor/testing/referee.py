"""An independent judge of a scheduler: it sees events and commands, and recounts everything from them alone.

It shares no code with `core.scheduler` beyond the data, counts by names where that counts by vectors, and scans where
that keeps heaps. Rules are those of spec 03; each check names its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from proctor.core.commands import CancelTry, Command, Finish, FinishRun, Seal, StartGrading, StartTry, StopDispatch
from proctor.core.gates import GateLimits
from proctor.core.plan import ExperimentPlan
from proctor.model.attempt import GradingMode, Outcome, Phase, TryResult, Verdict
from proctor.model.codes import CODES, Scope
from proctor.model.events import (
    Completion,
    Event,
    GradingQueued,
    Interrupted,
    PhaseEnded,
    PhaseStarted,
    SandboxDisposed,
    SandboxOpened,
    StopReason,
    TryEnded,
    TryEvent,
)
from proctor.model.ids import AttemptId


class Violation(Exception):
    """A rule was broken."""


def require(holds: bool, message: str) -> None:
    """Raise `Violation` unless something holds."""
    if not holds:
        raise Violation(message)


@dataclass(slots=True)
class _Live:
    """An attempt in flight, as commands and events tell it."""

    index: int
    ordinal: int
    task: int
    gates: set[str]
    cancelled: bool = False
    graded_apart: bool = False
    """Whether it was let go on to grading with a vector of its own."""
    sandbox: str | None = None


@dataclass(slots=True)
class _Experiment:
    plan: ExperimentPlan
    queued: list[tuple[int, int]]
    """(ordinal, task) of undispatched slots, in order."""
    busy: Counter[int] = field(default_factory=Counter[int])
    sealed: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    stopped: dict[StopReason, int] = field(default_factory=dict[StopReason, int])
    ends: list[TryResult] = field(default_factory=list[TryResult])
    completion: Completion | None = None


class Referee:
    """Judges one run of a scheduler, answer by answer."""

    def __init__(self, plans: Sequence[ExperimentPlan], limits: GateLimits) -> None:
        self._experiments = [_Experiment(plan, _all_slots(plan)) for plan in plans]
        self._by_name = {experiment.plan.name: experiment for experiment in self._experiments}
        self._limits: dict[str, int | None] = {"global": limits.task_concurrency}
        for plan in plans:
            self._limits[f"provider {plan.provider}"] = limits.providers.get(plan.provider) or None
            self._limits[f"experiment {plan.name}"] = plan.max_concurrency
        self._held: Counter[str] = Counter()
        self._live: dict[AttemptId, _Live] = {}
        self._gradings: list[AttemptId] = []
        self._ids: set[AttemptId] = set()
        self._interrupts = 0
        self._broken = False  # a scope that is the whole invocation
        self._finished = False
        self._started = False

    # --------------------------------------------------------------------------------------------------- seeing

    def see(self, event: Event | None, commands: Sequence[Command]) -> None:
        """Judge the answer to an event; None is the start."""
        expected = list(commands)
        if event is None:
            self._started = True
            self._expect_all_stopped(expected)
        elif isinstance(event, Interrupted):
            self._interrupted(expected)
        elif isinstance(event, TryEnded):
            self._try_ended(event, expected)
        elif isinstance(event, TryEvent):
            self._reported(event)
        for command in expected:
            self._command(command)
        self._settle()

    def end(self) -> None:
        """Judge the whole, after the last event (liveness, and every slot in exactly one place)."""
        require(self._finished, "nothing more can happen, and the scheduler has not finished")
        require(not self._live and not +self._held, f"left at the end: {self._live}, {+self._held}")
        for experiment in self._experiments:
            number = len(experiment.sealed) + sum(experiment.stopped.values())
            plan = experiment.plan
            require(number == plan.slots, f"{number} of {plan.slots} slots of {plan.name} came to an end")

    def _reported(self, event: TryEvent) -> None:
        live = self._live.get(event.attempt)
        if live is None:
            return  # a late disposal, or the scheduler would have refused it
        plan = self._experiments[live.index].plan
        provider = f"provider {plan.provider}"
        if isinstance(event, PhaseStarted):
            require("global" in live.gates, f"G1: {event} without a global permit")
        if isinstance(event, SandboxOpened):
            require(provider in live.gates, f"G3: {event} without a permit of its provider")
            require(live.sandbox is None, f"{event}, with another one still open")
            live.sandbox = event.sandbox
            open_now = sum(
                other.sandbox is not None and self._experiments[other.index].plan.provider == plan.provider
                for other in self._live.values()
            )
            require(open_now <= (self._limits[provider] or open_now), f"G3: {open_now} sandboxes at {plan.provider}")
        disposed = isinstance(event, PhaseEnded) and event.phase is Phase.DISPOSE
        if disposed or isinstance(event, SandboxDisposed):
            live.sandbox = None
        if live.cancelled:
            return
        if disposed and plan.grading is not GradingMode.REUSE and not live.graded_apart:
            self._give(live, {provider})
        if isinstance(event, GradingQueued):
            self._give(live, {provider, "global"})
            self._gradings.append(event.attempt)

    def _give(self, live: _Live, gates: set[str]) -> None:
        given = gates & live.gates
        self._held.subtract(given)
        live.gates -= given

    def _take(self, live: _Live, gates: set[str]) -> None:
        live.gates |= gates
        self._held.update(gates)
        for gate in gates:
            limit = self._limits[gate]
            require(limit is None or self._held[gate] <= limit, f"{gate} is above its limit of {limit}")

    def _try_ended(self, event: TryEnded, expected: list[Command]) -> None:
        live = self._live.pop(event.attempt)
        experiment = self._experiments[live.index]
        self._give(live, set(live.gates))
        experiment.busy[live.task] -= 1
        if event.attempt in self._gradings:
            self._gradings.remove(event.attempt)
        require(bool(expected) and isinstance(expected[0], Seal), f"{event} was not answered by a seal first")
        seal = expected.pop(0)
        assert isinstance(seal, Seal)
        verdict, score = _verdict(event.result)
        slot = experiment.plan.slot(live.task, live.ordinal)
        require(seal == Seal(event.attempt, slot, verdict, score, 1), f"{event} was sealed as {seal}")
        place = (live.ordinal, live.task)
        require(place not in experiment.sealed, f"{slot} was sealed twice")
        experiment.sealed.add(place)
        experiment.ends.append(event.result)
        codes = {issue.code for issue in event.result.issues}
        if codes & {"store.full", "internal"}:
            self._broken = True
            self._expect_stops(expected, StopReason.SCOPE_STOPPED if "internal" in codes else StopReason.DISK)
        elif _must_stop(experiment.ends) and experiment.queued:
            self._expect_stop(expected, experiment, StopReason.SCOPE_STOPPED)

    def _interrupted(self, expected: list[Command]) -> None:
        self._interrupts += not self._finished
        if self._interrupts > 1 or self._finished or not self._started:
            require(not expected, f"an interrupt that changes nothing was answered by {expected}")
            return
        self._expect_all_stopped(expected)
        for attempt, live in self._live.items():
            require(
                bool(expected) and expected.pop(0) == CancelTry(attempt), f"@{attempt} was not cancelled in its turn"
            )
            live.cancelled = True
        self._gradings.clear()

    def _expect_all_stopped(self, expected: list[Command]) -> None:
        if self._interrupts:
            self._expect_stops(expected, StopReason.INTERRUPT)

    def _expect_stops(self, expected: list[Command], reason: StopReason) -> None:
        for experiment in self._experiments:
            if experiment.queued:
                self._expect_stop(expected, experiment, reason)

    def _expect_stop(self, expected: list[Command], experiment: _Experiment, reason: StopReason) -> None:
        number = len(experiment.queued)
        stop = StopDispatch(experiment.plan.name, reason, number)
        require(bool(expected) and expected.pop(0) == stop, f"expected {stop}")
        experiment.queued.clear()
        experiment.stopped[reason] = experiment.stopped.get(reason, 0) + number

    # ------------------------------------------------------------------------------------------------- commands

    def _command(self, command: Command) -> None:
        require(not self._finished, f"{command} came after the end")
        if isinstance(command, StartTry):
            self._start_try(command)
        elif isinstance(command, StartGrading):
            self._start_grading(command)
        elif isinstance(command, FinishRun):
            self._finish_run(command)
        elif isinstance(command, Finish):
            require(all(e.completion for e in self._experiments), "finished before all runs were")
            self._finished = True
        else:
            raise Violation(f"{command} has no reason")

    def _start_try(self, command: StartTry) -> None:
        require(command.attempt not in self._ids, f"{command} uses an id again")
        require(command.try_number == 1, f"{command} is no first try")
        require(self._next_grading() is None, f"{command} went before a grading that fits")
        self._ids.add(command.attempt)
        first = self._next_slot()
        if first is None:
            raise Violation(f"{command} cannot start under the gates")
        index, ordinal, task = first
        experiment = self._experiments[index]
        slot = experiment.plan.slot(task, ordinal)
        require(command.slot == slot, f"order: {command} started, {slot.experiment} {slot} was first")
        experiment.queued.remove((ordinal, task))
        experiment.busy[task] += 1
        live = self._live[command.attempt] = _Live(index, ordinal, task, set())
        self._take(live, self._vector(experiment.plan, task))

    def _start_grading(self, command: StartGrading) -> None:
        first = self._next_grading()
        require(command.attempt == first, f"{command}, and @{first} was first")
        self._gradings.remove(command.attempt)
        live = self._live[command.attempt]
        live.graded_apart = True
        self._take(live, {"global", f"provider {self._experiments[live.index].plan.provider}"})

    def _finish_run(self, command: FinishRun) -> None:
        experiment = self._by_name[command.experiment]
        name = experiment.plan.name
        require(experiment.completion is None, f"{name} was finished twice")
        in_flight = [live for live in self._live.values() if self._experiments[live.index] is experiment]
        require(not in_flight and not experiment.queued, f"{name} was finished with something left to do")
        right = Completion.STOPPED if experiment.stopped else Completion.COMPLETE
        right = Completion.INTERRUPTED if self._interrupts else right
        require(command.completion is right, f"{command} should be {right}")
        experiment.completion = command.completion

    # ----------------------------------------------------------------------------------------------- the gates

    def _room(self, gate: str) -> bool:
        limit = self._limits[gate]
        return limit is None or self._held[gate] < limit

    def _vector(self, plan: ExperimentPlan, task: int) -> set[str]:
        gates = {"global", f"experiment {plan.name}"}
        return gates | {f"provider {plan.provider}"} if plan.agent_sandbox[task] else gates

    def _next_grading(self) -> AttemptId | None:
        """Return the first grading in order of arrival that fits (O3)."""
        if not self._room("global"):
            return None
        for attempt in self._gradings:
            if self._room(f"provider {self._experiments[self._live[attempt].index].plan.provider}"):
                return attempt
        return None

    def _next_slot(self) -> tuple[int, int, int] | None:
        return next(self._startable(), None)

    def _startable(self) -> Iterator[tuple[int, int, int]]:
        """Yield (experiment, ordinal, task) of all slots that could start now, in order."""
        if not self._room("global"):
            return
        for index, experiment in enumerate(self._experiments):
            plan = experiment.plan
            if not experiment.queued or not self._room(f"experiment {plan.name}"):
                continue
            provider = self._room(f"provider {plan.provider}")
            for ordinal, task in experiment.queued:
                free = plan.isolated or not experiment.busy[task]
                if free and (provider or not plan.agent_sandbox[task]):
                    yield index, ordinal, task

    def _settle(self) -> None:
        """Judge the state between two events."""
        for experiment in self._experiments:
            plan = experiment.plan
            overlap = max(experiment.busy.values(), default=0)
            require(plan.isolated or overlap <= 1, f"G6: attempts of one task of {plan.name} overlap")
        if self._started and not self._interrupts:
            slot, grading = self._next_slot(), self._next_grading()
            require(slot is None and grading is None, f"O3: {slot or grading} could start, and nothing did")


def _all_slots(plan: ExperimentPlan) -> list[tuple[int, int]]:
    return [(ordinal, task) for ordinal in range(plan.attempts) for task in range(len(plan.task_ids))]


def _verdict(result: TryResult) -> tuple[Verdict, float | None]:
    if result.outcome is Outcome.CANCELLED:
        return Verdict.CANCELLED, None
    if result.outcome is Outcome.SKIPPED:
        return Verdict.SKIPPED, None
    if result.grade is None:
        return Verdict.ERRORED, None
    return (Verdict.PASSED if result.grade.solved else Verdict.FAILED), result.grade.score


def _must_stop(ends: Sequence[TryResult]) -> bool:
    """Say whether the last ends of an experiment stop the rest of it: three in a row, or one of its own scope."""
    last = ends[-1]
    if any(CODES[issue.code].scope is Scope.EXPERIMENT for issue in last.issues):
        return True
    telling = [end for end in ends if _repeatable(end) or end.outcome in (Outcome.GRADED, Outcome.BROKEN)]
    codes = [_repeatable(end) for end in telling[-3:]]
    return bool(telling) and telling[-1] is last and len(codes) == 3 and len(set(codes)) == 1 and codes[0] is not None


def _repeatable(end: TryResult) -> str | None:
    repeated = (Scope.PROVIDER, Scope.MODEL)
    return next((issue.code for issue in end.issues if CODES[issue.code].scope in repeated), None)
