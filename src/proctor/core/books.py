"""The books of the scheduler: what is queued, in flight, held and done; and the audit that they agree.

Only `core.scheduler` changes them. Each experiment's slots are in exactly one place at any time: queued, in flight,
sealed, or stopped.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from proctor.core.failure import Streak
from proctor.core.gates import NOTHING, Demand, GateLimits, Gates, GateView, demand_of
from proctor.core.lifecycle import State
from proctor.core.order import Line, Slots, Waiting
from proctor.core.plan import ExperimentPlan
from proctor.errors import InternalError
from proctor.model.events import Completion, StopReason
from proctor.model.ids import AttemptId

STORY_LENGTH = 16
"""So many of its last events are told of an attempt to which something impossible happened."""

ENDED_REMEMBERED = 32
"""Of so many attempts that ended last the story can still be told."""


class Run:
    """What is kept of one experiment. `own` are its permits of gates that no other experiment shares (G2)."""

    __slots__ = ("completion", "in_flight", "index", "own", "parts", "plan", "sealed", "stopped", "streak")

    def __init__(self, index: int, plan: ExperimentPlan, own: Demand) -> None:
        self.index = index
        self.plan = plan
        self.own = own
        self.parts: dict[Line, Slots] = {}
        self.in_flight = 0
        self.sealed = 0
        self.stopped: dict[StopReason, int] = {}
        self.streak = Streak()
        self.completion: Completion | None = None

    @property
    def queued(self) -> int:
        """The number of slots that are neither dispatched nor stopped."""
        return sum(slots.remaining for slots in self.parts.values())


class Attempt:
    """What is kept of one attempt in flight. `held` are its shared permits; the run's own it holds to its end."""

    __slots__ = ("held", "id", "ordinal", "run", "slots", "state", "story", "task", "try_number")

    def __init__(self, attempt: AttemptId, run: Run, slots: Slots, task: int, ordinal: int) -> None:
        self.id = attempt
        self.run = run
        self.slots = slots
        self.task = task
        self.ordinal = ordinal
        self.held: Demand = NOTHING
        self.try_number = 1
        self.state = State.WORKING
        self.story: deque[tuple[float, object]] = deque(maxlen=STORY_LENGTH)

    def tell(self) -> str:
        """Return the story of the attempt: where it stands, what it holds, and what happened last."""
        slot = self.run.plan.slot(self.task, self.ordinal)
        lines = [f"@{self.id} ({slot.experiment} {slot}, try {self.try_number}) is `{self.state}`, holds {self.held}:"]
        lines += [f"  {moment:.3f} {happened}" for moment, happened in self.story]
        return "\n".join(lines)


class ExperimentView(NamedTuple):
    """One experiment at one moment; queued + in flight + sealed + stopped = slots."""

    name: str
    slots: int
    queued: int
    in_flight: int
    waiting_for_grading: int
    sealed: int
    stopped: Mapping[StopReason, int]
    completion: Completion | None


class Snapshot(NamedTuple):
    """The books at one moment, never changing afterwards.

    `waiting` counts queued slots by the one gate that blocks them, the first in the order global, experiment,
    provider, same task; the numbers add up to all that are queued.
    """

    gates: tuple[GateView, ...]
    experiments: tuple[ExperimentView, ...]
    waiting: Mapping[str, int]


class Books:
    """Everything that the scheduler knows, and nothing that it decides."""

    def __init__(self, plans: Sequence[ExperimentPlan], limits: GateLimits) -> None:
        if len({plan.name for plan in plans}) != len(plans):
            raise InternalError("two experiments of one scheduler have the same name")
        self.gates = Gates()
        self.global_permit: Demand = ((self.gates.add("global", limits.task_concurrency), 1),)
        self.runs = [Run(index, plan, self._own_permit(plan)) for index, plan in enumerate(plans)]
        self._through: dict[str, Demand] = {}
        for name in dict.fromkeys(plan.provider for plan in plans):
            permit = (self.gates.add(f"provider {name}", limits.of_provider(name)), 1)
            self._through[name] = demand_of((*self.global_permit, permit))
        demands = (self.global_permit, *self._through.values())
        self._line_of = {demand: Line(demand) for demand in demands}
        self.lines = tuple(self._line_of.values())
        for run in self.runs:
            self._queue_slots(run)
        self.in_flight: dict[AttemptId, Attempt] = {}
        self.gradings = Waiting()
        self.ended: deque[Attempt] = deque(maxlen=ENDED_REMEMBERED)

    def _own_permit(self, plan: ExperimentPlan) -> Demand:
        if plan.max_concurrency is None:
            return NOTHING
        return ((self.gates.add(f"experiment {plan.name}", plan.max_concurrency), 1),)

    def _queue_slots(self, run: Run) -> None:
        plan = run.plan
        number = len(plan.task_ids)
        for with_sandbox in (False, True):
            tasks: Sequence[int] = [i for i, needs in enumerate(plan.agent_sandbox) if needs is with_sandbox]
            if tasks:
                line = self._line_of[self.sandbox_demand(run) if with_sandbox else self.global_permit]
                tasks = range(number) if len(tasks) == number else tasks
                run.parts[line] = Slots(tasks, number, plan.attempts, serial=not plan.isolated)
                line.offer(run.index)

    def sandbox_demand(self, run: Run) -> Demand:
        """Return the shared permits for executing in a sandbox of the run's provider."""
        return self._through[run.plan.provider]

    def story_of(self, attempt: AttemptId) -> str:
        """Return the story of an attempt that has ended, or that it was never dispatched as far as one remembers."""
        told = [ended.tell() for ended in self.ended if ended.id == attempt]
        return told[-1] if told else f"no attempt @{attempt} was dispatched, or it ended long ago"

    def snapshot(self) -> Snapshot:
        """Return the state of all gates and experiments now."""
        grading = Counter(self.in_flight[attempt].run.index for attempt in self.gradings)
        experiments = tuple(
            ExperimentView(
                run.plan.name, run.plan.slots, run.queued, run.in_flight, grading[run.index], run.sealed,
                dict(run.stopped), run.completion,
            )
            for run in self.runs
        )  # fmt: skip
        waiting: Counter[str] = Counter()
        for run in self.runs:
            for line, slots in run.parts.items():
                if slots.remaining:
                    waiting[self._blocker(run, line, slots)] += slots.remaining
        return Snapshot(self.gates.snapshot(), experiments, dict(waiting))

    def _blocker(self, run: Run, line: Line, slots: Slots) -> str:
        blocker = self.gates.blocker(demand_of(line.demand + run.own))
        return blocker or ("start" if slots.ready else "same task")

    # --------------------------------------------------------------------------------------------------- audit

    def audit(self) -> None:
        """Check the books against a recount from the attempts in flight; raises `InternalError` where they differ."""
        for disagreement in (*self._audit_gates(), *self._audit_runs(), *self._audit_gradings()):
            raise InternalError(f"the books of the scheduler do not agree: {disagreement}")

    def _audit_gates(self) -> Iterator[str]:
        held: dict[int, int] = {}
        for attempt in self.in_flight.values():
            for index, weight in (*attempt.held, *attempt.run.own):
                held[index] = held.get(index, 0) + weight
        for index, gate in enumerate(self.gates.snapshot()):
            if gate.held != held.get(index, 0):
                yield f"gate `{gate.name}` counts {gate.held} permits, in use are {held.get(index, 0)}"
            if gate.limit is not None and gate.held > gate.limit:
                yield f"gate `{gate.name}` holds {gate.held} permits, above its limit of {gate.limit}"

    def _audit_runs(self) -> Iterator[str]:
        tasks: dict[int, list[int]] = {run.index: [] for run in self.runs}
        for attempt in self.in_flight.values():
            tasks[attempt.run.index].append(attempt.task)
        for run in self.runs:
            name, mine, queued = run.plan.name, tasks[run.index], run.queued
            if len(mine) != run.in_flight:
                yield f"`{name}` counts {run.in_flight} in flight, there are {len(mine)}"
            total = queued + run.in_flight + run.sealed + sum(run.stopped.values())
            if total != run.plan.slots:
                yield f"the parts of `{name}` add up to {total} of {run.plan.slots} slots"
            if not run.plan.isolated and len(set(mine)) != len(mine):
                yield f"attempts of one task of `{name}` overlap"
            if run.completion is not None and (queued or run.in_flight):
                yield f"`{name}` is finished, with something left to do"
            for line, slots in run.parts.items():
                if slots.ready and run.index not in line and self.gates.fits(run.own):
                    yield f"`{name}` could start something and is not in line for {line.demand}"

    def _audit_gradings(self) -> Iterator[str]:
        waiting = set(self.gradings)
        for attempt in self.in_flight.values():
            if (attempt.id in waiting) != (attempt.state is State.GRADING_QUEUED):
                yield f"@{attempt.id} is `{attempt.state}`, and {'' if attempt.id in waiting else 'not '}waiting"
            if attempt.id in waiting and attempt.held:
                yield f"@{attempt.id} holds shared permits while it waits for grading"
        if not waiting <= self.in_flight.keys():
            yield f"waiting for grading and not in flight: {sorted(waiting - self.in_flight.keys())}"
