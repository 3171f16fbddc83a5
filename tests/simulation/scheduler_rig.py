"""Drives a real scheduler by hand, in the words of the spec, and writes its commands as short lines."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence

from proctor.core.commands import CancelTry, Command, Finish, FinishRun, Seal, StartGrading, StartTry, StopDispatch
from proctor.core.gates import GateLimits
from proctor.core.plan import ExperimentPlan
from proctor.core.scheduler import Scheduler
from proctor.model.attempt import Grade, GradingMode, Issue, Outcome, Phase, TryResult, issue_of
from proctor.model.events import (
    Event,
    GradingQueued,
    Interrupted,
    PhaseEnded,
    Purpose,
    SandboxOpened,
    TryEnded,
)

PASSED = TryResult(Outcome.GRADED, Grade(solved=True, score=1.0))
FAILED = TryResult(Outcome.GRADED, Grade(solved=False, score=0.25))
CANCELLED = TryResult(Outcome.CANCELLED)
SKIPPED = TryResult(Outcome.SKIPPED)


def broken(*codes: str) -> TryResult:
    return TryResult(Outcome.BROKEN, issues=tuple(issue_of(code, "on purpose") for code in codes))


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
) -> ExperimentPlan:
    ids = tuple(f"t{i}" for i in range(tasks)) if isinstance(tasks, int) else tuple(tasks)
    needs = (sandbox,) * len(ids) if isinstance(sandbox, bool) else tuple(sandbox)
    return ExperimentPlan(name, ids, attempts, provider, needs, grading, isolated, cap)


class Rig:
    """A scheduler with its attempts known by `experiment/task#ordinal`."""

    def __init__(self, *plans: ExperimentPlan, slots: int = 32, providers: dict[str, int | None] | None = None) -> None:
        numbers = itertools.count()
        self.scheduler = Scheduler(plans, GateLimits(slots, providers or {}), lambda: f"a{next(numbers)}")
        self.ids: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.log: list[str] = []
        self.now = 0.0

    def start(self) -> list[str]:
        return self._take(self.scheduler.start(now=self.now))

    def feed(self, event: Event) -> list[str]:
        return self._take(self.scheduler.handle(event, now=self.now))

    def end(self, name: str, result: TryResult = PASSED) -> list[str]:
        return self.feed(TryEnded(self.ids[name], 1, result))

    def opened(self, name: str, purpose: Purpose = Purpose.AGENT) -> list[str]:
        return self.feed(SandboxOpened(self.ids[name], 1, f"box of {name}", purpose))

    def disposed(self, name: str) -> list[str]:
        return self.feed(PhaseEnded(self.ids[name], Phase.DISPOSE, 0.0))

    def queue_grading(self, name: str) -> list[str]:
        return self.feed(GradingQueued(self.ids[name]))

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
            case StartTry(attempt, slot, number):
                assert number == 1
                name = f"{slot.experiment}/{slot.task}#{slot.ordinal}"
                assert name not in self.ids, f"{name} was started twice"
                self.ids[name], self.names[attempt] = attempt, name
                return f"start {name}"
            case StartGrading(attempt):
                return f"grade {self.names[attempt]}"
            case CancelTry(attempt):
                return f"cancel {self.names[attempt]}"
            case Seal(attempt, slot, verdict, score, tries):
                assert f"{slot.experiment}/{slot.task}#{slot.ordinal}" == self.names[attempt]
                assert tries == 1
                return f"seal {self.names[attempt]} {verdict}" + ("" if score is None else f" {score}")
            case StopDispatch(name, reason, slots):
                return f"stop {name} {reason} {slots}"
            case FinishRun(name, completion):
                return f"finish {name} {completion}"
            case Finish():
                return "finish"


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
