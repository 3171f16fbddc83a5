"""Makes a huge plan small enough to be run in virtual time in seconds: slots that are alike are put into blocks.

A block stands for so many slots one after another, and lasts as long as they do together. So every gate has as much
work as before, and the scheduler as much choice as it can use; only the end is coarser, by at most one block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from proctor.core.decided import by_task
from proctor.core.expectations import Draw, Expectation, Sample
from proctor.core.limits import GateLimits
from proctor.core.schedule import ExperimentPlan, GroupPlan

if TYPE_CHECKING:
    from random import Random

REPRESENTATIVES = 4
"""Of so many tasks of a block, chosen by lot, the durations are drawn; the others are like them."""

_T = TypeVar("_T")


class Blocks:
    """An experiment in blocks of about `factor` slots; with factor 1 it is as it was."""

    def __init__(self, plan: ExperimentPlan, factor: int) -> None:
        self._whole = plan
        self._decided = by_task(plan)
        depth = plan.attempts
        if len(self._decided) == len(plan.task_ids):
            depth -= min(len(of_task.decided) - len(of_task.graded) for of_task in self._decided.values())
        self._depth = depth
        """So many slots are left to be executed of the task of which most are."""
        alike = _alike(plan)
        self._members = [tasks[start : start + factor] for tasks in alike for start in range(0, len(tasks), factor)]
        # Where there are too few tasks, attempts of one task are put together as well.
        together = min(depth, max(1, factor * len(self._members) // len(plan.task_ids)))
        self._ordinals = [range(start, min(start + together, depth)) for start in range(0, depth, together)]
        self.plan = plan if factor == 1 else self._small_plan()

    def _small_plan(self) -> ExperimentPlan:
        plan, members = self._whole, self._members
        first = [tasks[0] for tasks in members]
        weight = (plan.slots - plan.reused) / (len(members) * len(self._ordinals))
        place = {task: block for block, tasks in enumerate(members) for task in tasks} if plan.groups else {}
        return replace(
            plan,
            task_ids=tuple(plan.task_ids[task] for task in first),
            attempts=len(self._ordinals),
            agent_sandbox=tuple(plan.agent_sandbox[task] for task in first),
            expected_seconds=tuple(_sum_of(plan.expected_seconds, tasks) for tasks in members)
            if plan.expected_seconds
            else (),
            cpus=_of(plan.cpus, first),
            memory_bytes=_of(plan.memory_bytes, first),
            environments=_of(plan.environments, first),
            groups=tuple(_group(group, place) for group in plan.groups),
            expected_cost_usd=None if plan.expected_cost_usd is None else plan.expected_cost_usd * weight,
            largest_before_usd=None if plan.largest_before_usd is None else plan.largest_before_usd * weight,
            early_exit=False,  # the durations take it into account
            lifetime_seconds=None,
            decided=(),  # likewise
        )

    def draw(self, expectation: Expectation, rng: Random) -> Draw:
        """Return one way in which the experiment may go, in blocks."""
        if self.plan is self._whole:
            return expectation.draw(rng)
        blocks = len(self._members)
        drawn: list[Sample] = [Sample(0.0)] * (blocks * len(self._ordinals))
        for block, tasks in enumerate(self._members):
            drawn[block::blocks] = self._draw_block(tasks, expectation, rng)
        return drawn

    def _draw_block(self, tasks: Sequence[int], expectation: Expectation, rng: Random) -> list[Sample]:
        chosen = tasks if len(tasks) <= REPRESENTATIVES else rng.sample(tasks, REPRESENTATIVES)
        rows = [self._until_passed(self._left_of(task, expectation.draw_task(task, rng))) for task in chosen]
        weight = len(tasks) / len(chosen)
        return [_together(row[o] for row in rows for o in ordinals).times(weight) for ordinals in self._ordinals]

    def _left_of(self, task: int, attempts: list[Sample]) -> list[Sample]:
        """Return what is executed of the attempts of one task, filled up with nothing."""
        of_task = self._decided.get(task)
        if of_task is not None:
            graded = [attempts[ordinal].of_grading() for ordinal in of_task.graded]
            decided = set(of_task.decided)
            attempts = graded + [sample for ordinal, sample in enumerate(attempts) if ordinal not in decided]
        return attempts + [_SAVED] * (self._depth - len(attempts))

    def _until_passed(self, attempts: list[Sample]) -> list[Sample]:
        """Return the attempts of one task, with nothing in place of those that early exit saves."""
        if self._whole.early_exit:
            for ordinal, sample in enumerate(attempts):
                if sample.passed:
                    return attempts[: ordinal + 1] + [_SAVED] * (len(attempts) - ordinal - 1)
        return attempts


_SAVED = Sample(0.0, cost_usd=0.0)


def in_blocks(limits: GateLimits, factor: int) -> GateLimits:
    """Return the limits for plans in blocks: what is paced goes slower, as each start stands for many."""
    models = {
        name: replace(model, requests_per_minute=model.requests_per_minute / factor)
        if model.requests_per_minute
        else model
        for name, model in limits.models.items()
    }
    paces = {name: rate / factor for name, rate in limits.open_per_second.items()}
    return replace(limits, open_per_second=paces, models=models)


def _alike(plan: ExperimentPlan) -> Iterable[Sequence[int]]:
    """Return the tasks in parts that are alike in everything that a block has to have in common."""
    columns: list[Sequence[object]] = [
        values
        for values in (plan.agent_sandbox, plan.cpus, plan.memory_bytes, plan.environments)
        if len(set(values)) > 1
    ]
    if plan.groups:
        group_of = {member: group.name for group in plan.groups for member in group.members}
        columns.append([group_of.get(task) for task in range(len(plan.task_ids))])
    if not columns:
        return [range(len(plan.task_ids))]
    parts: dict[tuple[object, ...], list[int]] = {}
    for task, kind in enumerate(zip(*columns, strict=True)):
        parts.setdefault(kind, []).append(task)
    return parts.values()


def _of(values: tuple[_T, ...], tasks: Sequence[int]) -> tuple[_T, ...]:
    return tuple(values[task] for task in tasks) if values else ()


def _sum_of(values: Sequence[float | None], tasks: Sequence[int]) -> float | None:
    """Return the sum over the tasks, those without a value like the others; None where none has one."""
    known = [value for task in tasks if (value := values[task]) is not None]
    return sum(known) * len(tasks) / len(known) if known else None


def _group(group: GroupPlan, place: Mapping[int, int]) -> GroupPlan:
    return replace(group, members=tuple(dict.fromkeys(place[member] for member in group.members)))


def _together(samples: Iterable[Sample]) -> Sample:
    agent = grade = dispose = 0.0
    cost: float | None = 0.0
    for sample in samples:
        agent += sample.agent_seconds
        grade += sample.grade_seconds
        dispose += sample.dispose_seconds
        cost = None if cost is None or sample.cost_usd is None else cost + sample.cost_usd
    return Sample(agent, grade, dispose, cost)
