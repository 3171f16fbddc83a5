"""From the groups that tasks are members of to what the scheduler has to know of them (spec 03 L1, L3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter

from proctor.core.environments import environment_of
from proctor.core.schedule import GroupPlan, OnUnavailable
from proctor.errors import UsageError
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Experiment, Task

_others_of = attrgetter(*(field.name for field in fields(EnvironmentSpec) if field.name != "env"))
"""Returns all fields but the variables, which cannot be hashed as they are."""


def group_plans(
    experiment: Experiment,
    tasks: Sequence[Task],
    groups: Mapping[str, OnUnavailable],
    environments: Sequence[int],
    *,
    provider_reuses: bool,
) -> tuple[GroupPlan, ...]:
    """Return the groups of the tasks that were chosen, in the order of their first members.

    `groups` are all that there are, `environments` number the physical environments of the tasks. Raises `UsageError`
    for what cannot share a sandbox, before one is opened.
    """
    members: dict[str, list[int]] = {}
    for place, task in enumerate(tasks):
        if task.group is not None:
            members.setdefault(task.group, []).append(place)
    for name, places in members.items():
        what = f"experiment `{experiment.name}`: task group `{name}`"
        first = tasks[places[0]].id
        if name not in groups:
            raise UsageError(
                f"{what}, of which task `{first}` is a member, is not declared by its benchmark",
                hint="the benchmark is at fault: its `groups()` has to name every group of its tasks",
            )
        if experiment.sandbox_reuse:
            raise UsageError(
                f"{what} cannot be run with `sandbox_reuse`",
                hint="leave `sandbox_reuse` out: the members of a group share a sandbox by themselves; or choose tasks "
                "that are in no group",
            )
        if not provider_reuses:
            raise UsageError(
                f"{what} needs a provider that can reuse sandboxes, which `{experiment.environment.provider}` cannot",
                hint="choose another with `--env`, or leave the tasks of the group out",
            )
        odd = next((place for place in places if environments and environments[place] != environments[places[0]]), None)
        if odd is not None:
            raise UsageError(
                f"{what}: its members share one sandbox, and `{tasks[odd].id}` declares another environment than "
                f"`{first}`",
                hint="give them the same environment, or take one out of the group",
            )
    return tuple(GroupPlan(name, tuple(places), groups[name]) for name, places in members.items())


def environment_numbers(tasks: Sequence[Task], own: EnvironmentSpec) -> tuple[int, ...]:
    """Return a number for the physical environment of each task, equal where they are equal; () where all are.

    `own` is that of the experiment, which tasks without one are worked on in.
    """
    if all(task.environment is None for task in tasks):
        return ()
    numbers: dict[object, int] = {}
    by_object: dict[int, int] = {}  # many tasks share one object, which is looked at once
    found: list[int] = []
    for task in tasks:
        number = by_object.get(id(task.environment))
        if number is None:
            physical = _physical(environment_of(task, own))
            number = by_object[id(task.environment)] = numbers.setdefault(physical, len(numbers))
        found.append(number)
    return tuple(found) if len(numbers) > 1 else ()


def _physical(one: EnvironmentSpec) -> object:
    """Return what is equal for equal environments: every field counts, so that none can be forgotten."""
    return (*_others_of(one), *sorted(one.env.items()))
