"""Slots of which planning decided (spec 04): those that saved attempts fill, and those that are only graded.

Both are taken out of the heaps as if they had been dispatched, so that what is left of a task goes in the order in
which a task goes on of which so many attempts are done. Those that are only graded come back as rows of a table of
their own, since they ask for other permits: such a slot starts whenever grading's vector is there, whatever the rest of
its task waits for. Where nothing was decided, nothing of this exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from proctor.core.order import BUSY, READY, SPECULATIVE, GroupSlots, Slots, TaskTable
from proctor.core.parts import Names, Part
from proctor.core.run import Run
from proctor.core.schedule import ExperimentPlan, Filling
from proctor.core.waits import Ask

_T = TypeVar("_T")


class OfTask(NamedTuple):
    """The ordinals of one task of which planning decided, in order."""

    decided: Sequence[int]
    graded: Sequence[int]
    """Those of them that are only graded."""


_Row = tuple[int, Sequence[int]]
"""A task, and those of its ordinals that are only graded."""


def by_task(plan: ExperimentPlan) -> dict[int, OfTask]:
    """Return what planning decided, by task."""
    found: dict[int, tuple[list[int], list[int]]] = {}
    for task, ordinal, filling in sorted(plan.decided):
        decided, graded = found.setdefault(task, ([], []))
        decided.append(ordinal)
        if filling is Filling.GRADING_ONLY:
            graded.append(ordinal)
    return {task: OfTask(*lists) for task, lists in found.items()}


def closed_tasks(plan: ExperimentPlan) -> list[int]:
    """Return the tasks that a saved attempt closes, which passed (03 E2), in plan order."""
    if not plan.early_exit or not plan.decided:
        return []
    return sorted({task for task, _, filling in plan.decided if filling is Filling.REUSED_PASSED})


# ------------------------------------------------------------------------------------------------- whose slot it is


class _Left(Names):
    """Names of the slots that are left of tasks of which some were decided."""

    def __init__(self, decided: Mapping[int, OfTask]) -> None:
        self._decided = decided

    def slot(self, row: int, place: int) -> tuple[int, int]:
        """Return task and ordinal: of those not decided, the one at `place`, the decided ones counted first."""
        of_task = self._decided.get(row)
        if of_task is None:
            return row, place
        ordinal = place - len(of_task.decided)
        for taken in of_task.decided:
            if taken > ordinal:
                break
            ordinal += 1
        return row, ordinal


class _Graded(Names):
    """Names of the slots that are only graded; rows follow the tasks, so that they are after them in plan order."""

    def __init__(self, first_row: int, depth: int, rows: Sequence[_Row]) -> None:
        self._first_row = first_row
        self._depth = depth
        self._rows = rows

    def slot(self, row: int, place: int) -> tuple[int, int]:
        """Return task and ordinal."""
        task, ordinals = self._rows[row - self._first_row]
        return task, ordinals[place - self._depth + len(ordinals)]


class PairedSlots(Slots):
    """Slots of tasks of which others are in a second table: one that starts here counts there as well (03 G6, E3)."""

    __slots__ = ("_other", "_twins")

    def __init__(self, table: TaskTable, tasks: Sequence[int], *, serial: bool, early_exit: bool) -> None:
        super().__init__(table, tasks, serial=serial, early_exit=early_exit)
        self._other: PairedSlots | None = None
        self._twins: dict[int, int] = {}

    def pair(self, other: PairedSlots, twins: Mapping[int, int]) -> None:
        """Let rows of this table and of another one stand for the same tasks."""
        self._other, other._other = other, self
        self._twins.update(twins)
        other._twins.update({theirs: mine for mine, theirs in twins.items()})

    def pop(self, task: int) -> int:
        """Take the next slot of a task and return its ordinal; its twin has an attempt in flight now."""
        twin = self._twins.get(task)
        if twin is not None and self._other is not None:
            self._other._hold(twin)
        return super().pop(task)

    def freed(self, task: int) -> None:
        """Note that an attempt of a task has ended, here and for its twin."""
        super().freed(task)
        twin = self._twins.get(task)
        if twin is not None and self._other is not None:
            Slots.freed(self._other, twin)

    def _hold(self, task: int) -> None:
        """Note that an attempt of a task is in flight whose slot was not here."""
        table = self._table
        self.version += 1
        table.busy[task] = table.busy.get(task, 0) + 1
        if table.where[task] == READY:
            self._move(task, BUSY if self._serial else SPECULATIVE)
            if not self._serial:
                self._pools[SPECULATIVE].push(task)


def kind_of_slots(plan: ExperimentPlan) -> type[Slots]:
    """Return what keeps the slots of tasks that are in no group."""
    matters = (plan.early_exit or not plan.isolated) and plan.reused < len(plan.decided)
    return PairedSlots if matters else Slots


# --------------------------------------------------------------------------------------------- into the parts of a run


def decide(run: Run, opening_of: Callable[[Part], Ask | None]) -> None:
    """Take slots of which planning decided out of the parts of an experiment, and add parts for what is only graded.

    `opening_of` returns what a try asks for that only grades and opens a lane, for a part with lanes.
    """
    decided = by_task(run.plan)
    names = _Left(decided)
    for task, of_task in decided.items():
        part = run.part_of(task)
        part.names = names
        _skip(part.slots, task, len(of_task.decided), run.plan.attempts)
    graded = [(task, of_task.graded) for task, of_task in decided.items() if of_task.graded]
    if graded:
        _add_graded(run, graded, opening_of)


def _skip(slots: Slots, task: int, number: int, depth: int) -> None:
    """Take the first slots of a task out: as many attempts of it are done."""
    if number == depth:
        slots.drop(task)
        return
    for _ in range(number):
        slots.pop(task)
        slots.freed(task)


def _add_graded(run: Run, graded: Sequence[_Row], opening_of: Callable[[Part], Ask | None]) -> None:
    first, depth = len(run.plan.task_ids), max(len(ordinals) for _, ordinals in graded)
    expected = [run.table.expected[task] for task, _ in graded]
    table = TaskTable(first + len(graded), depth, [*[0] * first, *expected] if any(expected) else ())
    names = _Graded(first, depth, graded)
    rows_of: dict[int, tuple[Part, list[int]]] = {}
    for row, (task, _) in enumerate(graded, first):
        part = run.part_of(task)
        rows_of.setdefault(id(part), (part, []))[1].append(row)
    for whole, rows in rows_of.values():
        slots = _slots_like(whole.slots, run.plan, table, rows)
        for row in rows:
            _skip(slots, row, depth - len(graded[row - first][1]), depth)
        twins = {graded[row - first][0]: row for row in rows}
        if isinstance(slots, PairedSlots) and isinstance(whole.slots, PairedSlots):
            whole.slots.pair(slots, twins)
        part = whole.regrading
        part.slots, part.table, part.names = slots, table, names
        part.opening = opening_of(whole)
        run.parts.append(part)
        run.graded.update((task, (part, row)) for task, row in twins.items())


def _slots_like(whole: Slots, plan: ExperimentPlan, table: TaskTable, rows: Sequence[int]) -> Slots:
    if isinstance(whole, GroupSlots):
        return GroupSlots(table, rows)
    early_exit = plan.early_exit and plan.isolated
    return kind_of_slots(plan)(table, rows, serial=not plan.isolated, early_exit=early_exit)


# --------------------------------------------------------------------------------------------------------- what is left


def what_is_left(plan: ExperimentPlan) -> ExperimentPlan | None:
    """Return a plan without the tasks of which nothing will be executed; None where that are all of them."""
    if not plan.decided:
        return plan
    reused = Counter(task for task, _, filling in plan.decided if filling is not Filling.GRADING_ONLY)
    gone = {task for task, number in reused.items() if number == plan.attempts} | set(closed_tasks(plan))
    if not gone:
        return plan
    left = [task for task in range(len(plan.task_ids)) if task not in gone]
    return only_tasks(plan, left) if left else None


def only_tasks(plan: ExperimentPlan, left: Sequence[int]) -> ExperimentPlan:
    """Return a plan with some of its tasks, at least one, in the order given."""
    place = {task: index for index, task in enumerate(left)}
    decided = tuple(slot._replace(task=place[slot.task]) for slot in plan.decided if slot.task in place)
    groups = [
        replace(group, members=tuple(place[member] for member in group.members if member in place))
        for group in plan.groups
    ]
    return replace(
        plan,
        task_ids=tuple(plan.task_ids[task] for task in left),
        agent_sandbox=tuple(plan.agent_sandbox[task] for task in left),
        expected_seconds=_of(plan.expected_seconds, left),
        cpus=_of(plan.cpus, left),
        memory_bytes=_of(plan.memory_bytes, left),
        environments=_of(plan.environments, left),
        groups=tuple(group for group in groups if group.members),
        decided=decided,
    )


def _of(values: tuple[_T, ...], tasks: Sequence[int]) -> tuple[_T, ...]:
    return tuple(values[task] for task in tasks) if values else ()
