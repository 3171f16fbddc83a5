"""What is kept of an experiment. Only `core.scheduler` and its parts change it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from proctor.core.budget import Budget
from proctor.core.durations import Median, microseconds
from proctor.core.gates import Demand, Gates
from proctor.core.order import CLOSED, READY, Place, TaskTable
from proctor.core.parts import Part
from proctor.core.rank import Line
from proctor.core.schedule import ExperimentPlan
from proctor.core.waits import Endpoint
from proctor.model.events import Completion, StopReason


class Stage(StrEnum):
    """Where an experiment stands (S2, S6)."""

    WAITING = "waiting"
    """Has asked for nothing yet: another experiment of this invocation has the same shared state."""
    LEASING = "leasing"
    SETTING_UP = "setting up"
    OPEN = "open"
    """Attempts may start."""
    TEARING_DOWN = "tearing down"
    RELEASING = "releasing"
    DONE = "done"


OPEN = Stage.OPEN
"""Looking up a member in its class takes longer than all else that is done with it, in what every decision does."""


class Run:
    """What is kept of one experiment. `own` are its permits of the gate that no other experiment shares (G2)."""

    __slots__ = (
        "_cap", "_free", "_longest", "_part_of", "_ranked", "_work", "at_a_time", "budget", "completion", "dispatched",
        "durations", "fallback", "graded", "in_flight", "index", "is_known", "lease_held", "need", "offers_again",
        "own", "part_in", "parts", "plan", "sealed", "stage", "stopped", "table", "task_durations", "to_execute",
        "unnamed_model", "width", "width_alone",
    )  # fmt: skip

    def __init__(self, index: int, plan: ExperimentPlan, own: Demand, gates: Gates) -> None:
        self.index = index
        self.plan = plan
        self.own = own
        self._free = gates.free
        self._cap = own[0][0] if own else None
        self.to_execute = plan.slots - plan.reused
        """The number of slots that no saved attempt fills."""
        expected = plan.expected_seconds
        known = [0 if seconds is None else microseconds(seconds) for seconds in expected]
        self.table = TaskTable(len(plan.task_ids), plan.attempts, known if any(known) else ())
        self.durations = Median()
        for duration in known:
            if duration:
                self.durations.add(duration)
        self.task_durations: dict[int, Median | None] = {}
        """Of tasks with slots left; None where one attempt has ended: its duration is what is expected of the next."""
        self.is_known = self.durations.count > 0
        self.fallback = self.durations.value or 1
        """What is expected of a task of which nothing is known, in microseconds; 1 where nothing is known at all."""
        self.need = 0.0
        self.unnamed_model = Endpoint(f"model of {plan.name}")
        """What stands for its model where the plan names none."""
        self.parts: list[Part] = []
        self.graded: dict[int, tuple[Part, int]] = {}
        """By task: the part and the row of its slots that are only graded."""
        self.part_in: dict[Line, Part] = {}
        """The part whose slots stand in a line."""
        self._part_of: list[int] = []
        self._work = self._longest = 0
        """Of queued slots, in microseconds."""
        self.width = self.width_alone = self.at_a_time = 1
        """How many of its attempts may run at a time: as far as all gates go, the global one, that and its cap."""
        self._ranked: tuple[int, bool] = 0, False
        """The fallback, and whether anything was known of it, when its need was reckoned last."""
        self.dispatched = False
        self.in_flight = 0
        self.sealed = 0
        self.stopped: dict[StopReason, int] = {}
        self.budget = Budget(plan)
        self.stage = Stage.WAITING
        self.lease_held = False
        self.offers_again = plan.early_exit or plan.sandbox_reuse or bool(plan.groups)
        """Whether a start may make another line of it ready: a slot becomes speculative, or a lane is not idle."""
        self.completion: Completion | None = None

    @property
    def queued(self) -> int:
        """The number of slots that are neither dispatched, sealed nor stopped."""
        queued = 0
        for part in self.parts:
            queued += part.slots.remaining
        return queued

    @property
    def is_probe(self) -> bool:
        """Whether nothing is known of it, nothing of it started, and it is narrower than the invocation (O1)."""
        return not self.dispatched and not self.is_known and self.width < self.width_alone

    def assign(self, parts_by_task: list[int]) -> None:
        """Note which part each task belongs to, where there are several."""
        self._part_of = parts_by_task

    def part_of(self, task: int) -> Part:
        """Return the part of a task."""
        return self.parts[self._part_of[task]] if self._part_of else self.parts[0]

    def rows_of(self, tasks: Iterable[int]) -> Iterator[tuple[Part, int]]:
        """Yield, task by task, where slots of tasks are: a part, and the row of its table."""
        for task in tasks:
            yield self.part_of(task), task
            if task in self.graded:
                yield self.graded[task]

    def can_start(self, line: Line) -> bool:
        """Say whether a slot could start by this line, as far as the experiment's own gates and budget go."""
        if self.stage is not OPEN:
            return False
        part = self.part_in[line]
        lanes = part.lanes
        if lanes is None:
            if not part.slots.count[line.tier]:
                return False
        elif self.place(part, line.tier) is None or not lanes.allows(in_lane=line.in_lane):
            return False
        if self._cap is not None and not line.in_lane and self._free[self._cap] < 1:
            return False
        return self.budget.limit is None or self.budget.allows()

    def place(self, part: Part, tier: int) -> Place | None:
        """Return the first slot of a part (O2)."""
        slots, mine = part.slots, self.fallback
        version, fallback, place = part.found[tier]
        if version != slots.version or fallback != mine:
            place = slots.head(tier, mine)
            part.found[tier] = slots.version, mine, place
        if tier == READY and place is not None and self._longest * self.width >= self._work:
            longest = slots.at_once(mine, self._work, self.width)
            if longest is not None and longest.shortness < place.shortness:
                return longest
        return place

    def rerank(self) -> None:
        """Reckon the need anew, and the work that waits at shared gates; move up or down in the lines.

        This is done at every start and every end, so that it reckons only what has changed.
        """
        fallback, known = self.fallback, self.is_known
        ranked_fallback, ranked_known = self._ranked
        anew = fallback != ranked_fallback or known is not ranked_known
        work = 0
        for part in self.parts:
            if anew or part.reckoned != part.slots.version:
                part.reckon(fallback, known)
            work += part.work
        longest = self.table.longest_ever
        longest = fallback if fallback > longest else longest
        if longest * self.at_a_time >= work:  # else the longest that is queued decides nothing, whichever it is
            longest = self._longest_queued()
        self._work, self._longest = work, longest
        need = work / self.at_a_time
        if longest > need:
            need = float(longest)
        if anew:
            self._ranked = fallback, known
        if need != self.need or known is not ranked_known:
            self.need = need
            for line in self.part_in:
                line.rank(self)
        else:
            for line in self.part_in:
                line.note(self)

    def _longest_queued(self) -> int:
        """Return how long the longest queued slot is expected to last; 0 where none is queued."""
        found = (part.slots.longest(self.fallback) for part in self.parts)
        return max((longest[0] for longest in found if longest is not None), default=0)

    def _median(self, task: int, duration: int) -> int:
        """Return the median of a task with one more duration."""
        medians = self.task_durations
        if task not in medians:
            medians[task] = None
            return duration
        median = medians[task]
        if median is None:
            median = medians[task] = Median()
            median.add(self.table.expected[task])
        median.add(duration)
        return median.value

    def learn(self, task: int, duration: int) -> None:
        """Take the duration of an attempt into account."""
        table = self.table
        changed, fallback = not self.is_known, self.fallback
        self.durations.add(duration)
        self.is_known = True
        self.fallback = self.durations.value
        left = table.where[task] != CLOSED
        if left and (not table.expected[task] or task in self.task_durations):
            changed = self.part_of(task).slots.learn(task, self._median(task, duration)) or changed
        elif not left:
            self.task_durations.pop(task, None)
        if changed or fallback != self.fallback:
            self.rerank()
