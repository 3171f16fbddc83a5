"""Runs the scheduler to its end in virtual time, with durations that are given: nothing happens but what it decides.

Each attempt lasts as long as its `Sample` says and does not break; experiment setups, teardowns and leases take no
time. So what comes out is what the scheduler does under its gates, paces and budgets, not a model of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from proctor.core import commands
from proctor.core.expectations import Draw, Sample
from proctor.core.lifecycle import kind_of
from proctor.core.limits import GateLimits
from proctor.core.schedule import ExperimentPlan
from proctor.core.scheduler import Scheduler
from proctor.errors import InternalError
from proctor.model import events
from proctor.model.attempt import NO_USAGE, Grade, GradingMode, Outcome, Phase, TryResult, Usage
from proctor.model.ids import AttemptId


@dataclass(frozen=True, slots=True)
class Course:
    """What a run in virtual time came to.

    `attempts` were started, at most `peak` of them executed at once; `stopped` slots never were. `cost_usd` is None
    where the cost of one of the attempts is not known.
    """

    seconds: float
    cost_usd: float | None
    attempts: int
    peak: int
    stopped: Mapping[events.StopReason, int]


def run_in_virtual_time(plans: Sequence[ExperimentPlan], limits: GateLimits, draws: Sequence[Draw]) -> Course:
    """Run the scheduler over plans whose slots last as drawn, one draw for each plan; nothing real is done.

    Raises `InternalError` where a draw does not fit its plan, or the scheduler comes to a stop before the end.
    """
    for plan, draw in zip(plans, draws, strict=True):
        if len(draw) != plan.slots:
            raise InternalError(f"{len(draw)} durations were given for the {plan.slots} slots of `{plan.name}`")
    return _Runtime(plans, limits, draws).run()


class _Attempt:
    """A try in flight. Of its steps on their way only those with its present `ticket` are taken.

    `disposes`: there is a sandbox of its own yet to dispose of. `executes`: it does not wait for permits.
    """

    __slots__ = (
        "cancelled", "disposes", "disposing", "executes", "id", "plan", "sample", "since", "start", "ticket",
    )  # fmt: skip

    def __init__(self, start: commands.StartTry, plan: ExperimentPlan, sample: Sample, now: float) -> None:
        self.id, self.start = start.attempt, start
        self.plan, self.sample, self.since = plan, sample, now
        self.disposes = self.disposing = self.executes = self.cancelled = False
        self.ticket = 0

    @property
    def graded_by_grant(self) -> bool:
        """Whether grading asks for permits of its own."""
        return kind_of(self.plan.grading, judged=self.plan.judge is not None).apart

    def cost_at(self, now: float) -> float | None:
        """Return what it has cost: all, or where it was cancelled, the share of the agent's part that was done."""
        sample, worked = self.sample, now - self.since
        if not self.cancelled or sample.cost_usd is None or worked >= sample.agent_seconds:
            return sample.cost_usd
        return sample.cost_usd * worked / sample.agent_seconds


class _Runtime:
    """Carries out commands by putting what comes of them into an agenda."""

    def __init__(self, plans: Sequence[ExperimentPlan], limits: GateLimits, draws: Sequence[Draw]) -> None:
        numbers = itertools.count()
        self._scheduler = Scheduler(plans, limits, lambda: f"a{next(numbers)}")
        self._plans = {plan.name: (plan, draw) for plan, draw in zip(plans, draws, strict=True)}
        self._tasks = {plan.name: {task: index for index, task in enumerate(plan.task_ids)} for plan in plans}
        self._in_flight: dict[AttemptId, _Attempt] = {}
        self._lanes: dict[str, tuple[str, float | None]] = {}  # seconds of disposal, once there is a sandbox
        self._agenda: list[tuple[float, int, Callable[[Any], None], Any, int]] = []
        self._order, self._finished = itertools.count(), False
        self._now, self._wake_at = 0.0, math.inf
        self._started = self._executing = self._peak = 0
        self._cost: float | None = 0.0
        self._stopped: dict[events.StopReason, int] = {}

    def run(self) -> Course:
        """Run to the end."""
        self._obey(self._scheduler.start(now=0.0))
        agenda = self._agenda
        while not self._finished:
            if self._wake_at < (agenda[0][0] if agenda else math.inf):
                self._now, self._wake_at = max(self._now, self._wake_at), math.inf
                self._obey(self._scheduler.handle(events.TimerFired(), now=self._now))
                continue
            if not agenda:
                raise InternalError("a run in virtual time stands still: the scheduler waits for nothing")
            at, _, step, target, ticket = heappop(agenda)
            if not isinstance(target, _Attempt) or target.ticket == ticket:
                self._now = at
                step(target)
        return Course(self._now, self._cost, self._started, self._peak, self._stopped)

    def _later(self, seconds: float, step: Callable[[_Attempt], None], attempt: _Attempt) -> None:
        """Let a try do something, unless it is cancelled before that."""
        heappush(self._agenda, (self._now + seconds, next(self._order), step, attempt, attempt.ticket))

    def _later_send(self, seconds: float, event: events.Event) -> None:
        heappush(self._agenda, (self._now + seconds, next(self._order), self._send, event, 0))

    def _send(self, event: events.Event) -> None:
        self._obey(self._scheduler.handle(event, now=self._now))

    # ------------------------------------------------------------------------------------------------- commands

    def _obey(self, answer: Iterable[commands.Command]) -> None:
        """Carry out commands; none is answered before the last of them is."""
        for command in answer:
            match command:
                case commands.StartTry():
                    self._start(command)
                case commands.StartGrading(attempt):
                    self._begin(self._in_flight[attempt], self._in_flight[attempt].sample.grade_seconds, self._graded)
                case commands.CancelTry(attempt):
                    self._cancel(self._in_flight[attempt])
                case commands.StopDispatch(_, reason, slots):
                    self._stopped[reason] = self._stopped.get(reason, 0) + slots
                case commands.WakeAt(at):
                    self._wake_at = at
                case commands.Finish():
                    self._finished = True
                case _:
                    self._serve(command)

    def _serve(self, command: commands.Command) -> None:
        """Carry out what concerns an experiment as a whole; nothing of it takes time but closing a lane."""
        match command:
            case commands.OpenLane(lane, experiment):
                self._lanes[lane] = experiment, None
            case commands.CloseLane(lane):
                experiment, seconds = self._lanes.pop(lane)
                self._later_send(seconds or 0.0, events.LaneClosed(lane, experiment))
            case commands.AcquireLease(experiment):
                self._later_send(0.0, events.LeaseGranted(experiment))
            case commands.ReleaseLease(experiment):
                self._later_send(0.0, events.LeaseReleased(experiment))
            case commands.RunSetup(experiment):
                self._later_send(0.0, events.SetupEnded(experiment))
            case commands.RunTeardown(experiment):
                self._later_send(0.0, events.TeardownEnded(experiment))
            case _:
                pass  # Seal and FinishRun tell what is known here

    def _start(self, start: commands.StartTry) -> None:
        plan, draw = self._plans[start.slot.experiment]
        task = self._tasks[plan.name][start.slot.task]
        sample = draw[start.slot.ordinal * len(plan.task_ids) + task]
        if start.grading_only:
            sample = sample.of_grading()
        attempt = self._in_flight[start.attempt] = _Attempt(start, plan, sample, self._now)
        self._started += 1
        if start.grading_only:
            return self._begin(attempt, sample.grade_seconds, self._end)
        if start.lane is None:
            attempt.disposes = plan.agent_sandbox[task]
        else:
            self._lanes[start.lane] = plan.name, sample.dispose_seconds
        return self._begin(attempt, sample.agent_seconds, self._worked)

    def _begin(self, attempt: _Attempt, seconds: float, then: Callable[[_Attempt], None]) -> None:
        """Let a try execute what it got permits for."""
        attempt.executes = True
        self._executing += 1
        self._peak = max(self._peak, self._executing)
        self._later(seconds, then, attempt)

    def _cancel(self, attempt: _Attempt) -> None:
        attempt.cancelled = True
        if not attempt.disposing:  # that goes on to its end
            attempt.ticket += 1
            self._later(0.0, self._dispose if attempt.disposes else self._end, attempt)

    # --------------------------------------------------------------------------------------- the life of a try

    def _worked(self, attempt: _Attempt) -> None:
        if attempt.plan.grading is GradingMode.REUSE:
            self._later(attempt.sample.grade_seconds, self._graded, attempt)
        elif attempt.disposes:
            self._dispose(attempt)
        else:
            if attempt.plan.model is not None and not attempt.graded_by_grant:
                self._send(events.PhaseStarted(attempt.id, Phase.GRADE))  # the model is done with
            self._grade(attempt)

    def _dispose(self, attempt: _Attempt) -> None:
        attempt.disposes, attempt.disposing = False, True
        self._later(attempt.sample.dispose_seconds, self._disposed, attempt)
        if attempt.plan.model is not None:  # only a model's permit goes back at this moment
            self._send(events.PhaseStarted(attempt.id, Phase.DISPOSE))

    def _disposed(self, attempt: _Attempt) -> None:
        attempt.disposing = False
        is_graded = attempt.plan.grading is GradingMode.REUSE or attempt.cancelled
        if is_graded or not (attempt.graded_by_grant or attempt.sample.grade_seconds):
            self._end(attempt)
        else:
            self._send(events.PhaseEnded(attempt.id, Phase.DISPOSE, attempt.sample.dispose_seconds))
            self._grade(attempt)

    def _grade(self, attempt: _Attempt) -> None:
        """Grade what has no agent's sandbox of its own any more."""
        if attempt.graded_by_grant:
            attempt.executes = False
            self._executing -= 1
            self._send(events.GradingQueued(attempt.id))
        elif attempt.sample.grade_seconds:
            self._later(attempt.sample.grade_seconds, self._graded, attempt)
        else:
            self._end(attempt)

    def _graded(self, attempt: _Attempt) -> None:
        (self._dispose if attempt.disposes else self._end)(attempt)

    def _end(self, attempt: _Attempt) -> None:
        del self._in_flight[attempt.id]
        self._executing -= attempt.executes
        cost = attempt.cost_at(self._now)
        self._cost = None if cost is None or self._cost is None else self._cost + cost
        usage = NO_USAGE if cost == 0 or attempt.plan.budget_usd is None else Usage(calls=1, cost_usd=cost)
        result = TryResult(Outcome.CANCELLED, usage=usage)
        if not attempt.cancelled:
            result = TryResult(Outcome.GRADED, _PASSED if attempt.sample.passed else _FAILED, usage)
        usable = not attempt.cancelled and self._lanes.get(attempt.start.lane or "", ("", 0.0))[1] is not None
        self._send(events.TryEnded(attempt.id, attempt.start.try_number, result, sandbox_reusable=usable))


_PASSED, _FAILED = Grade(solved=True, score=1.0), Grade(solved=False, score=0.0)
