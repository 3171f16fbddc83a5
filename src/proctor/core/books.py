"""The books of the scheduler: what is queued, in flight, held and done.

Only the scheduler and its parts change them. Each slot of an experiment is in exactly one place at any time: queued, in
flight, sealed, or stopped.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from proctor.core.build import Builder
from proctor.core.durations import Median
from proctor.core.flight import Attempt
from proctor.core.gates import GateLimits, GateView, demand_of
from proctor.core.held import Moment
from proctor.core.lanes import Lane
from proctor.core.lifecycle import State
from proctor.core.parts import Part
from proctor.core.run import OPEN, Run, Stage
from proctor.core.schedule import ExperimentPlan
from proctor.core.waits import Ask, Dues, Queue
from proctor.errors import InternalError
from proctor.model.events import Completion, StopReason
from proctor.model.ids import AttemptId

ENDED_REMEMBERED = 32
"""Of so many attempts that ended last the story can still be told."""

_ENDED = Moment.ENDED


class ExperimentView(NamedTuple):
    """One experiment at one moment; queued + in flight + sealed + stopped = slots, those that are reused left out.

    Of those in flight some wait for grading, some back off inside a try, some wait for another try.
    """

    name: str
    slots: int
    queued: int
    in_flight: int
    waiting_for_grading: int
    sealed: int
    stopped: Mapping[StopReason, int]
    completion: Completion | None
    backing_off: int = 0
    between_tries: int = 0
    lanes: int = 0
    stage: Stage = Stage.OPEN


class Snapshot(NamedTuple):
    """The books at one moment, never changing afterwards."""

    gates: tuple[GateView, ...]
    experiments: tuple[ExperimentView, ...]


class Books:
    """Everything that the scheduler knows, and nothing that it decides."""

    def __init__(self, plans: Sequence[ExperimentPlan], limits: GateLimits, mint: Callable[[], AttemptId]) -> None:
        self.built = Builder(plans, limits)
        self._mint = mint
        self.gates = self.built.gates
        self.slots = limits.task_concurrency
        self.global_permit = self.built.global_permit
        self.runs = self.built.runs
        self.lines = self.built.lines
        self.speculative = self.built.speculative
        self.in_flight: dict[AttemptId, Attempt] = {}
        self.resumes, self.gradings, self.retries = Queue(), Queue(), Queue()
        self.dues = Dues()
        self.backing_off = 0
        """Attempts that back off inside a try."""
        self.durations = Median()
        for run in self.runs:
            if run.is_known:
                self.durations.add(run.durations.value)
        self.lanes: dict[str, Lane] = {}
        self.ended: deque[Attempt] = deque(maxlen=ENDED_REMEMBERED)
        self._lane_numbers: Counter[str] = Counter()

    # ----------------------------------------------------------------------------------------------- looking up

    def story_of(self, attempt: AttemptId) -> str:
        """Return the story of an attempt that has ended, or that it was never dispatched as far as one remembers."""
        told = [ended.tell() for ended in self.ended if ended.id == attempt]
        return told[-1] if told else f"no attempt @{attempt} was dispatched, or it ended long ago"

    def impossible(self, what: str, attempt: Attempt) -> InternalError:
        """Return the error that says what happened to an attempt and cannot."""
        return InternalError(
            f"{what}; the story of the attempt: {attempt.tell()}", hint="keep the run directory and report it"
        )

    def mint(self) -> AttemptId:
        """Return the id of a new attempt."""
        made = self._mint()
        if made in self.in_flight:
            raise self.impossible("its id was given out before", self.in_flight[made])
        return made

    def opens_at(self, attempt: Attempt) -> str:
        """Return the provider at which an attempt opens sandboxes now."""
        plan = attempt.run.plan
        return plan.graded_at if attempt.state is State.GRADING else plan.provider

    # ----------------------------------------------------------------------------------------------- moving permits

    def give(self, attempt: Attempt, moment: Moment) -> bool:
        """Go to another moment and give back what is not held there; say whether that was anything."""
        given = attempt.returned(moment)
        self.gates.give_each(given)
        return bool(given)

    def give_all(self, attempt: Attempt) -> None:
        """Give back everything, at the end."""
        held, attempt.held = attempt.held, {}
        attempt.moment = _ENDED
        self.gates.give_each(held.values())

    def take(self, attempt: Attempt, ask: Ask, moment: Moment, now: float) -> None:
        """Take the whole of an ask for an attempt, and its pace."""
        if not self.gates.take(ask.demand):
            raise self.impossible(f"gate `{self.gates.blocker(ask.demand)}` has no room for what was chosen", attempt)
        if ask.paces:
            for pace in ask.paces:
                pace.take(now)
        attempt.held.update(ask.held)
        attempt.moment = moment
        if attempt.executing_since is None:
            attempt.executing_since = now

    def begin_lane(self, part: Part, now: float) -> Lane:
        """Begin a lane, whose permits were just taken."""
        pool = part.lanes
        assert pool is not None
        name = part.run.plan.name
        self._lane_numbers[name] += 1
        lane = pool.begin(f"{name}/lane-{self._lane_numbers[name]}", demand_of((*part.box, *part.run.own)), now)
        self.lanes[lane.id] = lane
        return lane

    def end_lane(self, lane: Lane) -> None:
        """Forget a lane whose sandbox is gone, and give back what it held."""
        self.gates.give(lane.held)
        del self.lanes[lane.id], lane.pool.lanes[lane.id]

    def replace_lane(self, lane: Lane, now: float) -> Lane:
        """Begin a lane with the permits of one whose sandbox is gone."""
        held = lane.held
        del self.lanes[lane.id], lane.pool.lanes[lane.id]
        begun = self.begin_lane(lane.pool.part, now)
        begun.held = held
        return begun

    def offer(self, run: Run) -> None:
        """Put an experiment in line wherever it could start something."""
        if run.stage is OPEN and run.completion is None:
            index = run.index
            for line in run.part_in:
                if line.careful:
                    line.forget()
                if index not in line.waiting and run.can_start(line):
                    line.offer(run)

    # --------------------------------------------------------------------------------------------------- telling

    def snapshot(self) -> Snapshot:
        """Return the state of all gates and experiments now."""
        grading, backing_off, between = Counter[int](), Counter[int](), Counter[int]()
        for attempt in self.in_flight.values():
            grading[attempt.run.index] += attempt.state is State.GRADING_QUEUED
            backing_off[attempt.run.index] += attempt.backing_off is not None
            between[attempt.run.index] += attempt.moment is Moment.BETWEEN_TRIES
        experiments = tuple(
            ExperimentView(
                run.plan.name, run.to_execute, run.queued, run.in_flight, grading[run.index], run.sealed,
                dict(run.stopped), run.completion, backing_off[run.index], between[run.index],
                sum(len(part.lanes.lanes) for part in run.parts if part.lanes is not None and part.whole is part),
                run.stage,
            )
            for run in self.runs
        )  # fmt: skip
        return Snapshot(self.gates.snapshot(), experiments)
