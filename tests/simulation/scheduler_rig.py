"""Drives a real scheduler by hand, in the words of the spec, and writes its commands as short lines."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from proctor.core.commands import (
    AcquireLease,
    CancelTry,
    CloseLane,
    Command,
    Finish,
    FinishRun,
    OpenLane,
    ReleaseLease,
    ResumeTry,
    RunSetup,
    RunTeardown,
    Seal,
    StartGrading,
    StartTry,
    StopDispatch,
    WakeAt,
)
from proctor.core.gates import GateLimits
from proctor.core.schedule import ExperimentPlan
from proctor.core.scheduler import Scheduler
from proctor.model.attempt import NO_USAGE, Grade, GradingMode, Issue, Outcome, Phase, TryResult, Usage, issue_of
from proctor.model.events import (
    BackoffEnded,
    BackoffStarted,
    Event,
    GradingQueued,
    Interrupted,
    LaneClosed,
    Notice,
    PhaseEnded,
    PhaseStarted,
    Purpose,
    SandboxOpened,
    StopReason,
    TimerFired,
    TryEnded,
    WorkCheckpointed,
)

PASSED = TryResult(Outcome.GRADED, Grade(solved=True, score=1.0))
FAILED = TryResult(Outcome.GRADED, Grade(solved=False, score=0.25))
CANCELLED = TryResult(Outcome.CANCELLED)
SKIPPED = TryResult(Outcome.SKIPPED)


def broken(*codes: str) -> TryResult:
    return TryResult(Outcome.BROKEN, issues=tuple(issue_of(code, "on purpose") for code in codes))


def costing(usd: float | None, *, solved: bool = True) -> TryResult:
    grade = Grade(solved=solved, score=float(solved))
    return TryResult(Outcome.GRADED, grade, Usage(calls=1, cost_usd=usd))


def graded_with(*issues: Issue, solved: bool = True) -> TryResult:
    return TryResult(Outcome.GRADED, Grade(solved=solved, score=float(solved)), issues=issues)


def experiment(
    name: str = "e",
    tasks: int | Sequence[str] = 3,
    attempts: int = 1,
    *,
    provider: str = "docker",
    sandbox: bool | Sequence[bool] = True,
    grading: GradingMode = GradingMode.NONE,
    isolated: bool = True,
    cap: int | None = None,
    **more: Any,
) -> ExperimentPlan:
    ids = tuple(f"t{i}" for i in range(tasks)) if isinstance(tasks, int) else tuple(tasks)
    needs = (sandbox,) * len(ids) if isinstance(sandbox, bool) else tuple(sandbox)
    return ExperimentPlan(name, ids, attempts, provider, needs, grading, isolated, cap, **more)


class Rig:
    """A scheduler with its attempts known by `experiment/task#ordinal`."""

    def __init__(
        self,
        *plans: ExperimentPlan,
        slots: int = 32,
        providers: dict[str, int | None] | None = None,
        jitter: float = 0.0,
        patience: int = 100,
        **limits: Any,
    ) -> None:
        numbers = itertools.count()
        self.scheduler = Scheduler(
            plans, GateLimits(slots, providers or {}, **limits), lambda: f"a{next(numbers)}", jitter=lambda: jitter,
            patience=patience,
        )  # fmt: skip
        self.ids: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.tries: dict[str, int] = {}
        self.log: list[str] = []
        self.now = 0.0

    def start(self) -> list[str]:
        return self._take(self.scheduler.start(now=self.now))

    def feed(self, event: Event | Notice) -> list[str]:
        return self._take(self.scheduler.handle(event, now=self.now))

    def end(self, name: str, result: TryResult = PASSED, *, at: float | None = None, **more: Any) -> list[str]:
        self.now = self.now if at is None else at
        return self.feed(TryEnded(self.ids[name], self.tries[name], result, **more))

    def opened(self, name: str, purpose: Purpose = Purpose.AGENT) -> list[str]:
        return self.feed(SandboxOpened(self.ids[name], self.tries[name], f"box of {name}", purpose))

    def disposed(self, name: str) -> list[str]:
        return self.feed(PhaseEnded(self.ids[name], Phase.DISPOSE, 0.0))

    def phase(self, name: str, phase: Phase) -> list[str]:
        return self.feed(PhaseStarted(self.ids[name], phase))

    def saved(self, name: str) -> list[str]:
        return self.feed(WorkCheckpointed(self.ids[name], self.tries[name], None, NO_USAGE))

    def queue_grading(self, name: str) -> list[str]:
        return self.feed(GradingQueued(self.ids[name]))

    def back_off(self, name: str, code: str = "model.overloaded") -> list[str]:
        return self.feed(BackoffStarted(self.ids[name], code, 1.0))

    def backed_off(self, name: str) -> list[str]:
        return self.feed(BackoffEnded(self.ids[name], 1.0))

    def tick(self, at: float) -> list[str]:
        self.now = at
        return self.feed(TimerFired())

    def lane_closed(self, lane: str) -> list[str]:
        return self.feed(LaneClosed(lane, lane.partition("/")[0]))

    def interrupt(self) -> list[str]:
        return self.feed(Interrupted(2))

    def held(self) -> dict[str, int]:
        return {gate.name: gate.held for gate in self.scheduler.snapshot().gates}

    def _take(self, commands: list[Command]) -> list[str]:
        self.scheduler.validate()
        lines = [self._line(command) for command in commands]
        self.log += lines
        return lines

    def _line(self, command: Command) -> str:
        match command:
            case StartTry(attempt, slot, number, lane, grading_only):
                name = f"{slot.experiment}/{slot.task}#{slot.ordinal}"
                assert self.tries.get(name, 0) == number - 1, f"try {number} of {name} was started"
                self.ids[name], self.names[attempt], self.tries[name] = attempt, name, number
                again = f" try {number}" if number > 1 else ""
                only = " only grading" if grading_only else ""
                return f"start {name}{again}{only}" + (f" in {lane}" if lane else "")
            case StartGrading(attempt):
                return f"grade {self.names[attempt]}"
            case CancelTry(attempt, reason):
                return f"cancel {self.names[attempt]}" + ("" if reason is StopReason.INTERRUPT else f" {reason}")
            case Seal(attempt, slot, verdict, score, tries, issue):
                name = f"{slot.experiment}/{slot.task}#{slot.ordinal}"
                assert tries == self.tries.get(name, 0)
                told = "" if score is None else f" {score}"
                return f"seal {name} {verdict}{told}" + (f" ({issue.code})" if issue else "")
            case StopDispatch(name, reason, slots):
                return f"stop {name} {reason} {slots}"
            case FinishRun(name, completion):
                return f"finish {name} {completion}"
            case Finish():
                return "finish"
            case _:
                return self._other(command)

    def _other(self, command: Command) -> str:
        match command:
            case ResumeTry(attempt):
                return f"resume {self.names[attempt]}"
            case WakeAt(at):
                return f"wake at {at:g}"
            case AcquireLease(name, key):
                return f"lease {name} {key}"
            case ReleaseLease(name):
                return f"release {name}"
            case RunSetup(name):
                return f"setup {name}"
            case RunTeardown(name):
                return f"teardown {name}"
            case OpenLane(lane, _, group):
                return f"open {lane}" + (f" of {group}" if group else "")
            case CloseLane(lane):
                return f"close {lane}"
            case _:
                raise AssertionError(command)


def play(rig: Rig, seconds: Callable[[str], float]) -> dict[str, tuple[float, float]]:
    """Run to the end in virtual time, every attempt taking `seconds(name)`; return start and end of each.

    `rig.now` is the time of the end.
    """
    spans: dict[str, tuple[float, float]] = {}
    agenda: list[tuple[float, int, str]] = []
    order = itertools.count()
    lines = rig.start()
    while True:
        for line in lines:
            verb, _, name = line.partition(" ")
            if verb == "start":
                heapq.heappush(agenda, (rig.now + seconds(name), next(order), name))
                spans[name] = rig.now, rig.now + seconds(name)
        if not agenda:
            return spans
        rig.now, _, name = heapq.heappop(agenda)
        lines = rig.end(name)
