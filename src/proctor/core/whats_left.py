"""What is left of an experiment that goes on, and what it comes to: from what was expected and what has been seen.

A fold of the events of one run, beside the plan: which slots are still to be executed, which attempts are in flight
since when, and how long and how dear the finished ones were. A task of which this run has finished an attempt is like
that from then on; others are as earlier runs were; a task that was never seen is like the others of its experiment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar, NamedTuple

from proctor.core.decided import only_tasks
from proctor.core.executed import Executed
from proctor.core.expectations import Sample, Samples
from proctor.core.schedule import DecidedSlot, ExperimentPlan, Filling
from proctor.core.sum_of_left import SumOfLeft
from proctor.core.waits import backoff_seconds
from proctor.model.attempt import Verdict
from proctor.model.events import (
    AttemptSealed,
    BackoffStarted,
    DispatchStopped,
    Event,
    GradingStarted,
    PhaseEnded,
    SlotFilled,
    StopReason,
    TryEnded,
    TryStarted,
)
from proctor.model.ids import AttemptId

_LEFT, _IN_FLIGHT, _DONE = range(3)

SAMPLES_OF_A_TASK = 32
"""So many attempts of one task are remembered."""


class Rest(NamedTuple):
    """What is left, as a plan of its own: what is done is decided in it. `elapsed` is by task's place and ordinal."""

    plan: ExperimentPlan
    known: Samples
    elapsed: Mapping[tuple[int, int], float]


class WhatsLeft:
    """One experiment of which events come in order; `history` has samples of earlier runs by task id."""

    def __init__(self, plan: ExperimentPlan, history: Samples) -> None:
        self.plan = plan
        self.stopped = False
        """Whether nothing more is dispatched."""
        self._tasks = {task: index for index, task in enumerate(plan.task_ids)}
        self._state = bytearray(plan.slots)
        self._left = [plan.attempts] * len(plan.task_ids)
        self.slots = plan.slots
        """So many are left to be started."""
        self._history = history
        self._seen: dict[str, list[Sample]] = {}
        self._flights: dict[AttemptId, Executed] = {}
        self.seconds, self.cost = (SumOfLeft(len(plan.task_ids), self._left) for _ in range(2))
        self.spent_usd = plan.spent_before_usd
        """What counts to the budget, as far as it is known: what earlier runs paid, and the tries that ended."""
        self._passed = self._scored = 0
        for task, samples in history.items():
            if (index := self._tasks.get(task)) is not None:
                for sample in samples:
                    self._learn(index, sample, here=False)

    @property
    def in_flight(self) -> int:
        """How many attempts are in flight."""
        return len(self._flights)

    def add(self, event: Event, at: float) -> None:
        """Take the next event."""
        take = self._TAKES.get(type(event))
        if take is not None:
            take(self, event, at)

    def _end_phase(self, event: PhaseEnded, at: float) -> None:
        flight = self._flights.get(event.attempt)
        if flight is not None:
            flight.phase_ended(event.phase, event.seconds)

    def _start(self, event: TryStarted, at: float) -> None:
        flight = self._flights.get(event.attempt)
        if flight is None:
            task = self._tasks[event.task]
            self._take(task, event.ordinal, _IN_FLIGHT)
            self._flights[event.attempt] = Executed(task, event.ordinal, at)
        else:
            flight.began_at, flight.grading = at, False

    def _back_off(self, event: BackoffStarted, at: float) -> None:
        flight = self._flights.get(event.attempt)
        if flight is not None:
            flight.began_at += event.seconds  # it executes nothing meanwhile

    def _grade(self, event: GradingStarted, at: float) -> None:
        flight = self._flights.get(event.attempt)
        if flight is not None:
            flight.grading = True

    def _end_try(self, event: TryEnded, at: float) -> None:
        result = event.result
        flight = self._flights.get(event.attempt)
        if flight is not None and result.issues:  # there may be another one, after a wait
            wait = backoff_seconds(self.plan.retry, event.try_number, 0.5, event.retry_after_seconds)
            flight.began_at = at + wait
        if not (result.usage.calls or result.grader_usage.calls):
            return
        used = result.usage + result.grader_usage
        self.spent_usd += used.cost_at_least_usd
        if flight is not None:
            flight.usage += used

    def _seal(self, event: AttemptSealed, at: float) -> None:
        task = self._tasks[event.task]
        self._take(task, event.ordinal, _DONE)
        flight = self._flights.pop(event.attempt, None)
        if event.verdict in (Verdict.PASSED, Verdict.FAILED):
            passed = event.verdict is Verdict.PASSED
            self._scored += 1
            self._passed += passed
            if flight is not None:
                self._learn(task, flight.sample(passed=passed), here=True)
            if passed and self.plan.early_exit:
                for ordinal in range(self.plan.attempts):
                    if self._state[self._place(task, ordinal)] == _LEFT:
                        self._take(task, ordinal, _DONE)

    def _fill(self, event: SlotFilled, at: float) -> None:
        self._take(self._tasks[event.task], event.ordinal, _DONE)

    def _stop(self, event: DispatchStopped, at: float) -> None:
        self.stopped = self.stopped or event.reason is not StopReason.EARLY_EXIT

    _TAKES: ClassVar[Mapping[type[Event], Callable[..., None]]] = {
        PhaseEnded: _end_phase,
        TryStarted: _start,
        BackoffStarted: _back_off,
        GradingStarted: _grade,
        TryEnded: _end_try,
        AttemptSealed: _seal,
        SlotFilled: _fill,
        DispatchStopped: _stop,
    }

    def _place(self, task: int, ordinal: int) -> int:
        return ordinal * len(self._left) + task

    def _take(self, task: int, ordinal: int, state: int) -> None:
        place = self._place(task, ordinal)
        if self._state[place] == _LEFT:
            self.seconds.taken(task, 1)
            self.cost.taken(task, 1)
            self._left[task] -= 1
            self.slots -= 1
        self._state[place] = state

    def _learn(self, task: int, sample: Sample, *, here: bool) -> None:
        name = self.plan.task_ids[task]
        if here:
            own = self._seen.setdefault(name, [])
            if not own:
                self.seconds.forget(task)
                self.cost.forget(task)
            if len(own) < SAMPLES_OF_A_TASK:
                own.append(sample)
        self.seconds.add(task, sample.seconds, here=here)
        if sample.cost_usd is not None:
            self.cost.add(task, sample.cost_usd, here=here)

    # ---------------------------------------------------------------------------------------------- what it comes to

    def share_executed(self) -> float:
        """Return which share of the slots that are left will be executed: with early exit not all of them."""
        depth = self.slots / max(1, sum(map(bool, self._left))) if self.plan.early_exit else 1.0
        if depth <= 1.0 or not self._scored:
            return 1.0
        fails = 1.0 - self._passed / self._scored
        return (1.0 - fails**depth) / (1.0 - fails) / depth if fails < 1.0 else 1.0

    def in_flight_seconds(self, now: float) -> Iterator[float | None]:
        """Yield how long each attempt in flight is still expected to take."""
        for flight in self._flights.values():
            expected = self.seconds.of(flight.task)
            yield None if expected is None else _rest_of(expected, now - flight.began_at)

    def in_flight_costs(self) -> Iterator[float | None]:
        """Yield what each attempt in flight is expected to cost beyond what is counted of its tries."""
        for flight in self._flights.values():
            yield self.cost.of(flight.task)

    def rest(self, now: float) -> Rest | None:
        """Return what is left as a plan for the forecast; None where nothing is."""
        flights = {(flight.task, flight.ordinal): flight for flight in self._flights.values()}
        busy = {task for task, _ in flights}
        left = () if self.stopped else (task for task, number in enumerate(self._left) if number)
        tasks = sorted(busy.union(left))
        if not tasks:
            return None
        whole = self.plan
        fresh = {(task, ordinal) for task, ordinal, how in whole.decided if how is Filling.GRADING_ONLY}
        plan = only_tasks(replace(whole, decided=(), budget_usd=None), tasks)
        decided: list[DecidedSlot] = []
        elapsed: dict[tuple[int, int], float] = {}
        for place, task in enumerate(tasks):
            for ordinal in range(whole.attempts):
                state = self._state[self._place(task, ordinal)]
                if state == _IN_FLIGHT and (task, ordinal) in flights:
                    elapsed[place, ordinal] = now - flights[task, ordinal].began_at
                elif state == _DONE or self.stopped:
                    decided.append(DecidedSlot(place, ordinal, Filling.REUSED))
                elif (task, ordinal) in fresh:
                    decided.append(DecidedSlot(place, ordinal, Filling.GRADING_ONLY))
        names = plan.task_ids
        known = {name: self._seen.get(name) or self._history.get(name, ()) for name in names}
        pool = {**self._history, **self._seen}
        others = {name: samples for name, samples in pool.items() if name not in known}
        return Rest(replace(plan, decided=tuple(decided)), {**others, **known}, elapsed)


def rest_of(sample: Sample, elapsed: float) -> Sample:
    """Return what is left of an attempt that goes on for `elapsed` seconds."""
    return sample.times(_rest_of(sample.seconds, elapsed) / sample.seconds) if sample.seconds > 0 else sample


LEAST_SHARE = 0.1
"""What has taken longer than expected takes so much of its expected time still."""


def _rest_of(seconds: float, elapsed: float) -> float:
    return max(seconds - elapsed, LEAST_SHARE * seconds)
