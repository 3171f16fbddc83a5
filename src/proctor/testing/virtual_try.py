"""The script of one try in virtual time: a generator of its events, drawn from a seed.

It breaks in any phase, with codes of every reach; openings are refused and models overloaded, so that it backs off;
disposal runs out of time. One that only grades may find its checkpoint damaged.
"""

from __future__ import annotations

import random
from collections.abc import Generator

from proctor.core.commands import StartTry
from proctor.core.schedule import ExperimentPlan
from proctor.model.attempt import NO_USAGE, Grade, GradingMode, Issue, Outcome, Phase, TryResult, Usage, issue_of
from proctor.model.events import (
    BackoffEnded,
    BackoffStarted,
    GradingQueued,
    ImageWaitEnded,
    ImageWaitStarted,
    IssueRaised,
    PhaseEnded,
    PhaseStarted,
    Purpose,
    SandboxDisposed,
    SandboxKept,
    SandboxOpened,
    TryEnded,
    TryEvent,
    WorkCheckpointed,
)
from proctor.testing.worlds import World

BREAKDOWNS = {
    Phase.OPEN: ("provider.open_failed", "provider.unavailable", "image.missing"),
    Phase.SETUP: ("task.setup_failed", "sandbox.setup_failed", "experiment.fatal", "task.fatal"),
    Phase.AGENT: (
        "harness.crashed",
        "model.refused_auth",
        "model.payment",
        "model.server",
        "experiment.fatal",
        "task.fatal",
    ),
    Phase.COLLECT: ("collect.failed",),
    Phase.GRADE: ("grader.crashed", "store.full", "internal", "model.not_found"),
}
"""Codes with which a phase may break."""

WAITS = (GradingQueued, BackoffEnded)
"""Events after which a try waits for a word of the scheduler."""


class Cancelled(Exception):
    """Thrown into the script of a try, where a real one would get its cancellation."""


class Lost(Exception):
    """Thrown into the script of a try whose process died while it waited."""


_JUDGES = (NO_USAGE, Usage(calls=1, cost_usd=0.25), Usage(calls=2, known_cost_usd=0.5, priced_calls=1))
"""What a judge used, also where grading broke, by the number of the try."""

Step = tuple[float, TryEvent]
"""Seconds since the event before, and the event."""


class Box:
    """The sandbox of a lane, or the place where it will be."""

    def __init__(self, lane: str) -> None:
        self.lane = lane
        self.opened = False


class VirtualTry:
    """One try. `shielded` says that it is disposing or ending, which a cancellation does not interrupt."""

    def __init__(self, world: World, plan: ExperimentPlan, start: StartTry, box: Box | None) -> None:
        self._world = world
        self._rng = random.Random(f"{world.seed} {start.slot.experiment} {start.slot} {start.try_number}")  # noqa: S311
        self._plan = plan
        self._start = start
        self._box = box
        self._sandbox: str | None = None
        self._purpose = Purpose.AGENT
        self._keeps = world.keeps and box is None
        self._aside: list[tuple[str, Purpose]] = []
        self._issues: list[Issue] = []
        self._graded = False
        self.shielded = False
        self.waiting = False
        self.cancelled = False
        self.lost = False
        self.ticket = 0
        self.script = self._events()

    def _events(self) -> Generator[Step, None, None]:
        """Yield all events; after those in `WAITS` the runtime waits for the word to go on."""
        grade: Grade | None = None
        try:
            outcome, grade = yield from self._body()
        except Cancelled:
            outcome = Outcome.CANCELLED
        except Lost:
            outcome = Outcome.BROKEN
            self._issues.append(issue_of("worker.lost", "simulated"))
        passed = grade is not None and grade.solved and not any(issue.fatal for issue in self._issues)
        late = None
        if self._keeps:
            yield from self._end_aside(keep=outcome is not Outcome.CANCELLED and not passed)
        else:
            late = yield from self._dispose()
        self.shielded = True
        rng = self._rng
        cost = rng.choice((None, 0.1, 1.0, 1.5)) if rng.random() < 0.5 else 0.25
        usage = Usage(calls=1, cost_usd=cost) if cost is not None or rng.random() < 0.2 else NO_USAGE
        judged = NO_USAGE if self._plan.judge is None or not self._graded else _JUDGES[self._start.try_number % 3]
        result = TryResult(outcome, grade, usage, judged, issues=tuple(self._issues))
        usable = self._box is None or (self._box.opened and outcome is not Outcome.CANCELLED and rng.random() < 0.8)
        retry_after = rng.choice((None, None, -1.0, 3.0, 99.0))
        yield self._seconds(0.1), TryEnded(self._start.attempt, self._start.try_number, result, usable, retry_after)
        if late is not None:
            yield self._seconds(1.0), SandboxDisposed(self._start.attempt, late)

    def _body(self) -> Generator[Step, None, tuple[Outcome, Grade | None]]:
        plan, attempt, mode = self._plan, self._start.attempt, self._plan.grading
        if self._start.grading_only:
            if self._rng.random() < max(self._world.fault_rate, self._world.grading_fault_rate) / 2:
                self._issues.append(issue_of("checkpoint.damaged", "simulated", self._rng.choice((None, Phase.GRADE))))
                return Outcome.BROKEN, None
            return (yield from self._grade())
        phases = [Phase.SETUP, Phase.AGENT, Phase.COLLECT]
        in_box = self._box is not None and self._box.opened
        if plan.agent_sandbox[plan.task_ids.index(self._start.slot.task)] and not in_box:
            phases.insert(0, Phase.OPEN)
        for phase in phases:
            if (yield from self._phase(phase, Purpose.AGENT)):
                return Outcome.BROKEN, None
        if self._rng.random() < 0.05:
            return Outcome.SKIPPED, None
        if mode is not GradingMode.REUSE:
            yield 0.0, WorkCheckpointed(attempt, self._start.try_number, None, NO_USAGE)
            yield from self._dispose()
        if mode is GradingMode.FRESH or (mode is GradingMode.NONE and plan.judge is not None):
            yield 0.0, GradingQueued(attempt)
        return (yield from self._grade())

    def _grade(self) -> Generator[Step, None, tuple[Outcome, Grade | None]]:
        if self._plan.grading is GradingMode.FRESH and (yield from self._phase(Phase.OPEN, Purpose.GRADE)):
            return Outcome.BROKEN, None
        self._graded = True
        if (yield from self._phase(Phase.GRADE, Purpose.GRADE)):
            return Outcome.BROKEN, None
        solved = self._rng.random() < 0.5
        return Outcome.GRADED, Grade(solved=solved, score=float(solved))

    def _phase(self, phase: Phase, purpose: Purpose) -> Generator[Step, None, bool]:
        """Yield the events of a phase; return whether it broke. Some that do not break raise a warning or an error."""
        attempt = self._start.attempt
        if phase is Phase.OPEN and self._rng.random() < self._world.image_rate:
            seconds = self._seconds(1.0)
            yield 0.0, ImageWaitStarted(attempt, "simulated")
            yield seconds, ImageWaitEnded(attempt, seconds)
        yield 0.0, PhaseStarted(attempt, phase)
        waits_for = (Phase.OPEN, Phase.AGENT) if self._plan.judge is None else (Phase.OPEN, Phase.AGENT, Phase.GRADE)
        while phase in waits_for and self._rng.random() < self._world.backoff_rate:
            code = "provider.open_failed" if phase is Phase.OPEN else "model.rate_limited"
            waits = self._seconds(1.0)
            yield self._seconds(0.1), BackoffStarted(attempt, code, waits)
            yield waits, BackoffEnded(attempt, waits)
        seconds = self._seconds(1.0)
        rate = self._world.fault_rate
        if purpose is Purpose.GRADE:
            rate = max(rate, self._world.grading_fault_rate)
        broken = self._rng.random() < rate
        if broken:
            ordinary, *others = BREAKDOWNS[phase]
            severe = others and self._rng.random() < self._world.severe_rate
            self._issues.append(issue_of(self._rng.choice(others) if severe else ordinary, "simulated", phase))
        elif self._rng.random() < 0.05:
            issue = issue_of(self._rng.choice(("output.truncated", "harness.limit")), "truncated", phase)
            self._issues.append(issue)
            yield seconds / 2, IssueRaised(attempt, issue)
        if phase is Phase.OPEN and not broken:
            yield seconds, self._opened(purpose)
            seconds = 0.0
        yield seconds, PhaseEnded(attempt, phase, seconds)
        return broken

    def _opened(self, purpose: Purpose) -> SandboxOpened:
        number = self._start.try_number
        sandbox = f"{self._start.attempt}-{number}-{purpose}"
        if self._box is not None and purpose is Purpose.AGENT:
            self._box.opened = True
            sandbox = self._box.lane
        else:
            self._sandbox, self._purpose = sandbox, purpose
        return SandboxOpened(self._start.attempt, number, sandbox, purpose)

    def _dispose(self) -> Generator[Step, None, str | None]:
        """Dispose of the sandbox, if one is open; return it where that runs out of time."""
        if self._sandbox is None:
            return None
        attempt, sandbox = self._start.attempt, self._sandbox
        self._sandbox = None
        self.shielded = True
        yield 0.0, PhaseStarted(attempt, Phase.DISPOSE)
        seconds = self._seconds(0.3)
        if self._keeps:  # set aside, until the verdict is known
            self._aside.append((sandbox, self._purpose))
            yield seconds, PhaseEnded(attempt, Phase.DISPOSE, seconds)
            self.shielded = False
            return None
        in_time = self._rng.random() < 0.95
        if in_time:
            yield seconds, SandboxDisposed(attempt, sandbox)
        yield 0.0, PhaseEnded(attempt, Phase.DISPOSE, seconds)
        self.shielded = False
        return None if in_time else sandbox

    def _end_aside(self, *, keep: bool) -> Generator[Step, None, None]:
        """Keep what is open or was set aside, or dispose of it."""
        self.shielded = True
        attempt, number = self._start.attempt, self._start.try_number
        if self._sandbox is not None:
            self._aside.append((self._sandbox, self._purpose))
            self._sandbox = None
        for sandbox, purpose in self._aside:
            yield 0.0, PhaseStarted(attempt, Phase.DISPOSE)
            seconds = self._seconds(0.3)
            yield seconds, PhaseEnded(attempt, Phase.DISPOSE, seconds)
            if keep:
                yield 0.0, SandboxKept(attempt, number, sandbox, purpose, "simulated")
            else:
                yield 0.0, SandboxDisposed(attempt, sandbox)

    def _seconds(self, share: float) -> float:
        return self._rng.random() ** 3 * share * self._world.longest_seconds
