"""A runtime in virtual time, for simulations: it obeys commands, and what comes of them is an event at a later time.

A worker dies while its attempt waits; a cancellation comes at once, or only after the event that was on its way; leases
are refused, or granted while the word to wait no longer is under way; setups and teardowns fail; timers that were
replaced still fire now and then.
"""

from __future__ import annotations

import heapq
import itertools
import random

from proctor.core.commands import (
    AcquireLease,
    CancelTry,
    CloseLane,
    Command,
    OpenLane,
    ReleaseLease,
    ResumeTry,
    RunSetup,
    RunTeardown,
    StartGrading,
    StartTry,
    WakeAt,
)
from proctor.model.attempt import issue_of
from proctor.model.events import (
    Event,
    GradingStarted,
    Interrupted,
    LaneClosed,
    LeaseGranted,
    LeaseRefused,
    LeaseReleased,
    Notice,
    SetupEnded,
    StoreFailed,
    TeardownEnded,
    TimerFired,
    TryResumed,
    TryStarted,
)
from proctor.model.ids import AttemptId
from proctor.testing.referee import Violation
from proctor.testing.virtual_try import WAITS, Box, Cancelled, Lost, Step, VirtualTry
from proctor.testing.worlds import World

_Entry = tuple[float, int, Event | Notice, VirtualTry | None, int]


class Runtime:
    """Obeys commands."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._plans = {plan.name: plan for plan in world.plans}
        self._rng = random.Random(f"runtime {world.seed}")  # noqa: S311
        self._tries: dict[AttemptId, VirtualTry] = {}
        self._boxes: dict[str, Box] = {}
        self._experiment_of: dict[str, str] = {}
        self._order = itertools.count()
        self._agenda: list[_Entry] = []
        self._timer = 0
        self.now = 0.0
        for at in world.interrupts:
            if at >= 0:
                self._push_at(at, Interrupted(2))
        if world.store_fails_at is not None:
            self._push_at(world.store_fails_at, StoreFailed())

    def next_event(self) -> Event | Notice | None:
        """Return the next event in time, or None when nothing is left to happen."""
        while self._agenda:
            at, order, event, script, ticket = heapq.heappop(self._agenda)
            if script is not None and script.ticket != ticket:
                continue  # a cancellation took its place
            if isinstance(event, TimerFired) and order != self._timer and order % 4:
                continue  # the timer was replaced
            self.now = at
            if script is not None:
                self._after(script, event)
            return event
        return None

    def _after(self, script: VirtualTry, event: Event | Notice) -> None:
        if script.cancelled and not script.shielded:
            self._throw(script)
        elif isinstance(event, WAITS):
            script.waiting = True
            if self._rng.random() < self._world.fault_rate / 2:
                script.lost = True
                self._push(script, script.script.throw(Lost()))
        else:
            self._advance(script)

    def obey(self, command: Command) -> Event | None:
        """Carry out a command; return the event that a loop would make of it for the journal, if any."""
        match command:
            case StartTry(attempt, slot, try_number, lane, grading_only):
                box = self._boxes[lane] if lane is not None else None
                script = VirtualTry(self._world, self._plans[slot.experiment], command, box)
                self._tries[attempt] = script
                self._advance(script)
                return TryStarted(attempt, slot.task, slot.ordinal, try_number, grading_only)
            case StartGrading(attempt):
                self._grant(attempt)
                return GradingStarted(attempt)
            case ResumeTry(attempt):
                self._grant(attempt)
                return TryResumed(attempt)
            case CancelTry(attempt):
                self._cancel(attempt)
            case WakeAt(at):
                self._timer = self._push_at(max(at, self.now), TimerFired())
            case OpenLane(lane, experiment):
                self._boxes[lane] = Box(lane)
                self._experiment_of[lane] = experiment
            case CloseLane(lane):
                del self._boxes[lane]
                failed = self._rng.random() < self._world.refuse_rate
                issue = issue_of("sandbox.teardown_failed", "simulated") if failed else None
                self._push_at(self._later(0.3), LaneClosed(lane, self._experiment_of[lane], issue=issue))
            case _:
                self._obey_stage(command)
        return None

    def _obey_stage(self, command: Command) -> None:
        failed = self._rng.random() < self._world.refuse_rate
        match command:
            case AcquireLease(experiment):
                answer = LeaseRefused(experiment, "simulated") if failed else LeaseGranted(experiment)
                self._push_at(self._later(1.0), answer)
            case ReleaseLease(experiment):
                crossing = [entry for entry in self._agenda if _is_lease_of(entry[2], experiment)]
                at = max((entry[0] for entry in crossing), default=self._later(0.2))
                self._push_at(at, LeaseReleased(experiment))
            case RunSetup(experiment):
                issue = issue_of("experiment.setup_failed", "simulated") if failed else None
                self._push_at(self._later(1.0), SetupEnded(experiment, issue))
            case RunTeardown(experiment):
                issue = issue_of("experiment.teardown_failed", "simulated") if failed else None
                self._push_at(self._later(1.0), TeardownEnded(experiment, issue))
            case _:
                pass

    def _later(self, share: float) -> float:
        return self.now + self._rng.random() ** 3 * share * self._world.longest_seconds

    def _grant(self, attempt: AttemptId) -> None:
        script = self._tries[attempt]
        if not script.waiting:
            raise Violation(f"@{attempt} was told to go on and had not asked for it")
        script.waiting = False
        if not script.lost:
            self._advance(script)

    def _cancel(self, attempt: AttemptId) -> None:
        """Cancel a try: now, or (slow) after the event that is on its way; disposing is not interrupted."""
        script = self._tries[attempt]
        script.cancelled = True
        slow = self._rng.random() < 0.3
        if not script.lost and (script.waiting or not (script.shielded or slow)):
            script.waiting = False
            self._throw(script)

    def _throw(self, script: VirtualTry) -> None:
        script.cancelled = False
        script.ticket += 1
        self._push(script, script.script.throw(Cancelled()))

    def _advance(self, script: VirtualTry) -> None:
        step = next(script.script, None)
        if step is not None:
            self._push(script, step)

    def _push(self, script: VirtualTry, step: Step) -> None:
        delay, event = step
        heapq.heappush(self._agenda, (self.now + delay, next(self._order), event, script, script.ticket))

    def _push_at(self, at: float, event: Event | Notice) -> int:
        order = next(self._order)
        heapq.heappush(self._agenda, (at, order, event, None, 0))
        return order


def _is_lease_of(event: Event | Notice, experiment: str) -> bool:
    return isinstance(event, LeaseGranted | LeaseRefused) and event.experiment == experiment
