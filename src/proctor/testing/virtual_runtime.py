"""A runtime in virtual time, for simulations: it obeys commands, and tries run by scripts drawn from a seed.

Tries break in any phase, with codes of every reach; disposal runs out of time; a worker dies while its attempt waits
for grading; a cancellation comes at once, or only after the event that was on its way.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Generator

from proctor.core.commands import CancelTry, Command, StartGrading, StartTry
from proctor.core.plan import ExperimentPlan
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
from proctor.testing.referee import Violation
from proctor.testing.worlds import World

BREAKDOWNS = {
    Phase.OPEN: ("provider.open_failed", "provider.unavailable"),
    Phase.SETUP: ("task.setup_failed", "experiment.fatal"),
    Phase.AGENT: ("harness.crashed", "model.refused_auth", "model.payment", "model.server"),
    Phase.COLLECT: ("collect.failed",),
    Phase.GRADE: ("grader.crashed", "store.full", "internal"),
}
"""Codes with which a phase may break."""


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
        grade: Grade | None = None
        try:
            outcome, grade = yield from self._body()
        except _Cancelled:
            outcome = Outcome.CANCELLED
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


class Runtime:
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
