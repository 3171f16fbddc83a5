"""Runs the real scheduler in virtual time against a runtime with faults, all drawn from a seed.

`python -m proctor.testing.simulate --seeds 2000` tries many worlds; `--seed 17` tells the story of one. After every
event the scheduler validates itself, and a referee that knows nothing of it, only commands and events, recounts what
is held and checks what must hold (`Referee`). Whatever is wrong raises `Violation`, which names the seed.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from proctor.core.commands import CancelTry, Command, FinishRun, Seal, StartGrading, StartTry, StopDispatch
from proctor.core.gates import GateLimits
from proctor.core.plan import ExperimentPlan
from proctor.core.scheduler import Scheduler
from proctor.model.attempt import NO_USAGE, Grade, GradingMode, Issue, Outcome, Phase, TryResult, issue_of
from proctor.model.events import (
    Event,
    GradingQueued,
    GradingStarted,
    Interrupted,
    IssueRaised,
    PhaseEnded,
    PhaseStarted,
    Purpose,
    SandboxDisposed,
    SandboxOpened,
    TryEnded,
    TryEvent,
    TryStarted,
    WorkCheckpointed,
)
from proctor.model.ids import AttemptId
from proctor.testing.referee import Referee, Violation

__all__ = ["Decides", "Report", "Violation", "World", "check", "main", "simulate", "world_of"]

PROVIDERS = ("local", "docker", "remote")
BREAKDOWNS = {
    Phase.OPEN: ("provider.open_failed", "provider.unavailable"),
    Phase.SETUP: ("task.setup_failed", "experiment.fatal"),
    Phase.AGENT: ("harness.crashed", "model.refused_auth", "model.payment", "model.server"),
    Phase.COLLECT: ("collect.failed",),
    Phase.GRADE: ("grader.crashed", "store.full", "internal"),
}
"""Codes with which a phase may break."""


@dataclass(frozen=True, slots=True)
class World:
    """What one simulation is made of; times are virtual seconds."""

    seed: int
    plans: tuple[ExperimentPlan, ...]
    limits: GateLimits
    interrupts: tuple[float, ...] = ()
    fault_rate: float = 0.0
    severe_rate: float = 0.0
    """Share of faults that concern more than their attempt."""
    longest_seconds: float = 4.0
    """Phases take from 0 to this long; 0 makes everything happen at once."""
    echo: bool = False
    """Whether events that the loop makes of commands come back to the scheduler."""


class Decides(Protocol):
    """A scheduler, as a simulation sees it."""

    def start(self, *, now: float) -> list[Command]:
        """Return the first commands."""
        ...

    def handle(self, event: Event, *, now: float) -> list[Command]:
        """Return what follows from an event."""
        ...

    def validate(self) -> None:
        """Raise if anything is wrong."""
        ...


@dataclass(slots=True)
class Report:
    """What happened in one world."""

    seed: int
    ended_at: float = 0.0
    log: list[tuple[float, Event | Command]] = field(default_factory=list[tuple[float, Event | Command]])
    seen: Counter[str] = field(default_factory=Counter[str])

    @property
    def commands(self) -> list[tuple[float, Command]]:
        """Commands with their times, in order."""
        return [(at, item) for at, item in self.log if isinstance(item, Command)]

    def story(self) -> str:
        """Return everything that happened, one line each."""
        return "\n".join(f"{at:9.3f}  {'' if isinstance(i, Command) else '    '}{i}" for at, i in self.log)


# ------------------------------------------------------------------------------------------------------- worlds


def world_of(seed: int) -> World:
    """Draw a world. Many are small or without faults, so that what breaks tells its reason."""
    rng = random.Random(f"world {seed}")  # noqa: S311
    plans = tuple(_plan_of(rng, index) for index in range(rng.choice((1, 1, 2, 2, 3, 4, 5))))
    providers: dict[str, int | None] = {name: rng.randint(1, 4) for name in PROVIDERS if rng.random() < 0.6}
    times = sorted(rng.uniform(0, 20) for _ in range(rng.choice((0, 0, 0, 1, 2))))
    return World(
        seed=seed,
        plans=plans,
        limits=GateLimits(rng.choice((1, 2, 3, 5, 8, 32)), providers),
        interrupts=(-1.0, *times) if rng.random() < 0.02 else tuple(times),
        fault_rate=rng.choice((0.0, 0.03, 0.1, 0.3)),
        severe_rate=rng.choice((0.0, 0.0, 0.1, 0.9)),
        longest_seconds=rng.choice((0.0, 4.0, 4.0, 4.0)),
        echo=rng.random() < 0.3,
    )


def _plan_of(rng: random.Random, index: int) -> ExperimentPlan:
    tasks = rng.choice((1, 1, 2, 3, 5, 8))
    share = rng.choice((0.0, 0.5, 1.0))
    grading = rng.choice(tuple(GradingMode))
    return ExperimentPlan(
        name=f"e{index}",
        task_ids=tuple(f"t{task}" for task in range(tasks)),
        attempts=rng.choice((1, 1, 2, 3)),
        provider=rng.choice(PROVIDERS),
        agent_sandbox=tuple(grading is GradingMode.REUSE or rng.random() < share for _ in range(tasks)),
        grading=grading,
        isolated=rng.random() < 0.6,
        max_concurrency=rng.choice((None, None, 1, 2, 4)),
    )


# ---------------------------------------------------------------------------------------------- a fake runtime


class _Cancelled(Exception):
    """Thrown into the script of a try, where a real one would get its cancellation."""


class _Lost(Exception):
    """Thrown into the script of a try whose process died while it waited for grading."""


Step = tuple[float, TryEvent]
"""Seconds since the event before, and the event."""


class _Try:
    """The script of one try: a generator of its events, which a cancellation interrupts.

    `shielded` says that the script is disposing or ending, which a cancellation does not interrupt.
    """

    def __init__(self, world: World, plan: ExperimentPlan, start: StartTry) -> None:
        self._world = world
        self._rng = random.Random(f"{world.seed} {start.slot.experiment} {start.slot} {start.try_number}")  # noqa: S311
        self._plan = plan
        self._start = start
        self._sandbox: str | None = None
        self._issues: list[Issue] = []
        self.shielded = False
        self.waiting = False
        self.cancelled = False
        self.lost = False
        self.ticket = 0
        self.script = self._events()

    def _events(self) -> Generator[Step, None, None]:
        """Yield all events; after `GradingQueued` the runtime waits for the grant."""
        outcome, grade = Outcome.CANCELLED, None
        try:
            outcome, grade = yield from self._body()
        except _Cancelled:
            pass
        except _Lost:
            outcome = Outcome.BROKEN
            self._issues.append(issue_of("worker.lost", "simulated"))
        late = yield from self._dispose()
        self.shielded = True
        result = TryResult(outcome, grade, issues=tuple(self._issues))
        yield self._seconds(0.1), TryEnded(self._start.attempt, self._start.try_number, result)
        if late is not None:
            yield self._seconds(1.0), SandboxDisposed(self._start.attempt, late)

    def _body(self) -> Generator[Step, None, tuple[Outcome, Grade | None]]:
        attempt, mode = self._start.attempt, self._plan.grading
        phases = [Phase.SETUP, Phase.AGENT, Phase.COLLECT]
        if self._plan.agent_sandbox[self._plan.task_ids.index(self._start.slot.task)]:
            phases.insert(0, Phase.OPEN)
        for phase in phases:
            if (yield from self._phase(phase, Purpose.AGENT)):
                return Outcome.BROKEN, None
        if self._rng.random() < 0.05:
            return Outcome.SKIPPED, None
        if mode is not GradingMode.REUSE:
            yield 0.0, WorkCheckpointed(attempt, self._start.try_number, None, NO_USAGE)
            yield from self._dispose()
        if mode is GradingMode.FRESH:
            yield 0.0, GradingQueued(attempt)
            if (yield from self._phase(Phase.OPEN, Purpose.GRADE)):
                return Outcome.BROKEN, None
        if (yield from self._phase(Phase.GRADE, Purpose.GRADE)):
            return Outcome.BROKEN, None
        solved = self._rng.random() < 0.5
        return Outcome.GRADED, Grade(solved=solved, score=float(solved))

    def _phase(self, phase: Phase, purpose: Purpose) -> Generator[Step, None, bool]:
        """Yield the events of a phase; return whether it broke. Some that do not break raise a warning."""
        attempt = self._start.attempt
        yield 0.0, PhaseStarted(attempt, phase)
        seconds = self._seconds(1.0)
        broken = self._rng.random() < self._world.fault_rate
        if broken:
            ordinary, *others = BREAKDOWNS[phase]
            severe = others and self._rng.random() < self._world.severe_rate
            self._issues.append(issue_of(self._rng.choice(others) if severe else ordinary, "simulated", phase))
        elif self._rng.random() < 0.05:
            issue = issue_of("output.truncated", "simulated", phase)
            self._issues.append(issue)
            yield seconds / 2, IssueRaised(attempt, issue)
        if phase is Phase.OPEN and not broken:
            self._sandbox = f"{attempt}-{purpose}"
            yield seconds, SandboxOpened(attempt, self._start.try_number, self._sandbox, purpose)
            seconds = 0.0
        yield seconds, PhaseEnded(attempt, phase, seconds)
        return broken

    def _dispose(self) -> Generator[Step, None, str | None]:
        """Dispose of the sandbox, if one is open; return it where that runs out of time."""
        if self._sandbox is None:
            return None
        attempt, sandbox = self._start.attempt, self._sandbox
        self._sandbox = None
        self.shielded = True
        yield 0.0, PhaseStarted(attempt, Phase.DISPOSE)
        seconds = self._seconds(0.3)
        in_time = self._rng.random() < 0.95
        if in_time:
            yield seconds, SandboxDisposed(attempt, sandbox)
        yield 0.0, PhaseEnded(attempt, Phase.DISPOSE, seconds)
        self.shielded = False
        return None if in_time else sandbox

    def _seconds(self, share: float) -> float:
        return self._rng.random() ** 3 * share * self._world.longest_seconds


_Entry = tuple[float, int, Event, AttemptId | None, int]


class _Runtime:
    """Obeys commands; what comes of them is an event at some later time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._plans = {plan.name: plan for plan in world.plans}
        self._rng = random.Random(f"runtime {world.seed}")  # noqa: S311
        self._tries: dict[AttemptId, _Try] = {}
        self._order = itertools.count()
        self._agenda: list[_Entry] = []
        self.now = 0.0
        for at in world.interrupts:
            if at >= 0:
                heapq.heappush(self._agenda, (at, next(self._order), Interrupted(2), None, 0))

    def next_event(self) -> Event | None:
        """Return the next event in time, or None when nothing is left to happen."""
        while self._agenda:
            at, _, event, attempt, ticket = heapq.heappop(self._agenda)
            script = None if attempt is None else self._tries[attempt]
            if script is not None and script.ticket != ticket:
                continue  # a cancellation took its place
            self.now = at
            if script is not None and attempt is not None:
                self._after(attempt, script, event)
            return event
        return None

    def _after(self, attempt: AttemptId, script: _Try, event: Event) -> None:
        if script.cancelled and not script.shielded:
            self._throw(attempt, script)
        elif isinstance(event, GradingQueued):
            script.waiting = True
            if self._rng.random() < self._world.fault_rate / 2:
                script.lost = True
                self._push(attempt, script, script.script.throw(_Lost()))
        else:
            self._advance(attempt, script)

    def obey(self, command: Command) -> Event | None:
        """Carry out a command; return the event that a loop would make of it for the journal, if any."""
        if isinstance(command, StartTry):
            script = _Try(self._world, self._plans[command.slot.experiment], command)
            self._tries[command.attempt] = script
            self._advance(command.attempt, script)
            return TryStarted(command.attempt, command.slot.task, command.slot.ordinal, command.try_number)
        if isinstance(command, StartGrading):
            script = self._tries[command.attempt]
            if not script.waiting:
                raise Violation(f"@{command.attempt} was sent to grading and had not asked for it")
            script.waiting = False
            if not script.lost:
                self._advance(command.attempt, script)
            return GradingStarted(command.attempt)
        if isinstance(command, CancelTry):
            self._cancel(command.attempt)
        return None

    def _cancel(self, attempt: AttemptId) -> None:
        """Cancel a try: now, or (slow) after the event that is on its way; disposing is not interrupted."""
        script = self._tries[attempt]
        script.cancelled = True
        slow = self._rng.random() < 0.3
        if not script.lost and (script.waiting or not (script.shielded or slow)):
            script.waiting = False
            self._throw(attempt, script)

    def _throw(self, attempt: AttemptId, script: _Try) -> None:
        script.cancelled = False
        script.ticket += 1
        self._push(attempt, script, script.script.throw(_Cancelled()))

    def _advance(self, attempt: AttemptId, script: _Try) -> None:
        step = next(script.script, None)
        if step is not None:
            self._push(attempt, script, step)

    def _push(self, attempt: AttemptId, script: _Try, step: Step) -> None:
        delay, event = step
        heapq.heappush(self._agenda, (self.now + delay, next(self._order), event, attempt, script.ticket))


# ------------------------------------------------------------------------------------------------ a simulation

MakeScheduler = Callable[[Sequence[ExperimentPlan], GateLimits, Callable[[], AttemptId]], Decides]


def simulate(world: World, make: MakeScheduler = Scheduler) -> Report:
    """Run a world to its end and return what happened; raises `Violation` with the story where a rule is broken."""
    report = Report(world.seed)
    try:
        _simulate(world, make, report)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
        raise Violation(f"seed {world.seed}: {wrong}\n{world}\n{report.story()}") from error
    return report


def _simulate(world: World, make: MakeScheduler, report: Report) -> None:
    minted = itertools.count()
    scheduler = make(world.plans, world.limits, lambda: f"a{next(minted)}")
    runtime, referee = _Runtime(world), Referee(world.plans, world.limits)

    def carry_out(event: Event | None, commands: list[Command]) -> None:
        for command in commands:
            report.log.append((runtime.now, command))
            echo = runtime.obey(command)
            if world.echo and echo is not None and scheduler.handle(echo, now=runtime.now):
                raise Violation(f"{echo} is an echo and was answered")
        scheduler.validate()
        referee.see(event, commands)

    for _ in (at for at in world.interrupts if at < 0):
        early = Interrupted(2)
        report.log.append((runtime.now, early))
        carry_out(early, scheduler.handle(early, now=0.0))
    carry_out(None, scheduler.start(now=0.0))
    while (event := runtime.next_event()) is not None:
        report.log.append((runtime.now, event))
        carry_out(event, scheduler.handle(event, now=runtime.now))
    referee.end()
    report.ended_at = runtime.now
    for _, item in report.log:
        report.seen[_name(item)] += 1


def _name(item: Event | Command) -> str:
    if isinstance(item, Seal):
        return f"sealed {item.verdict}"
    if isinstance(item, StopDispatch):
        return f"stopped: {item.reason}"
    return f"run {item.completion}" if isinstance(item, FinishRun) else type(item).__name__


def check(seed: int) -> Report:
    """Run the world of a seed twice; raises `Violation` if a rule is broken or the runs differ (O5)."""
    report = simulate(world_of(seed))
    if simulate(world_of(seed)).log != report.log:
        raise Violation(f"seed {seed}: the same world went two ways")
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns 1 where a rule is broken."""
    parser = argparse.ArgumentParser(prog="python -m proctor.testing.simulate", description="simulate the scheduler")
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many worlds to try (default: 1000)")
    parser.add_argument("--first", type=int, default=0, metavar="S", help="the first seed (default: 0)")
    parser.add_argument("--seed", type=int, metavar="S", help="tell the story of one world")
    given = parser.parse_args(arguments)
    try:
        if given.seed is not None:
            print(world_of(given.seed))
            print(check(given.seed).story())
            return 0
        seen: Counter[str] = Counter()
        for seed in range(given.first, given.first + given.seeds):
            seen += check(seed).seen
    except Violation as violation:
        print(violation, file=sys.stderr)
        return 1
    print(f"{given.seeds} worlds, all rules held")
    for name, number in sorted(seen.items()):
        print(f"{number:10,}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
