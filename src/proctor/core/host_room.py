"""What tasks declare of CPUs and memory, set against what this machine has for its sandboxes (spec 03 G10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain, repeat
from typing import NamedTuple

from proctor.core.asks import AskBuilder
from proctor.core.environments import as_graded, environment_of
from proctor.core.limits import GateLimits
from proctor.core.schedule import ExperimentPlan
from proctor.model.attempt import GradingMode
from proctor.model.environment import EnvironmentSpec, Resources
from proctor.model.spec import Task


class Declared(NamedTuple):
    """CPUs and bytes of memory by task, 0 where a task declares none; () where none does."""

    cpus: tuple[float, ...]
    memory_bytes: tuple[int, ...]


def declared_by(tasks: Sequence[Task], own: EnvironmentSpec) -> Declared:
    """Return what the sandboxes of tasks declare; `own` is the environment of their experiment."""
    by_object: dict[int, Resources] = {}  # many tasks share one object, which is looked at once

    def of(task: Task) -> Resources:
        resources = by_object.get(id(task.environment))
        if resources is None:
            resources = by_object[id(task.environment)] = environment_of(task, own).resources
        return resources

    both = [(of(task), of(as_graded(task))) for task in tasks]  # the larger of the two holds for either
    cpus = tuple(max(one.cpus or 0.0 for one in pair) for pair in both)
    memory = tuple(max(one.memory_bytes or 0 for one in pair) for pair in both)
    return Declared(cpus if any(cpus) else (), memory if any(memory) else ())


class TooLarge(NamedTuple):
    """A task whose sandboxes this machine has no room for: what it needs of `cpus` or `memory`, and what there is.

    `sandboxes` is how many it needs at once: two where a lane holds one for grading beside the agent's.
    """

    experiment: str
    task: str
    what: str
    need: float
    whole: float
    sandboxes: int


def too_large(plans: Sequence[ExperimentPlan], limits: GateLimits) -> Iterator[TooLarge]:
    """Yield the tasks that would wait for ever, by the permits that the scheduler will ask for them."""
    here = [plan for plan in plans if plan.cpus or plan.memory_bytes]
    if not here or not limits.host_providers:
        return
    asks = AskBuilder(plans, limits)
    names = {"host cpus": ("cpus", limits.host_cpus), "host memory": ("memory", limits.host_memory_bytes)}
    gates = {index: names[gate.name] for index, gate in enumerate(asks.gates.snapshot()) if gate.name in names}
    for plan in here:
        grouped = {member for group in plan.groups for member in group.members}
        for place, task in enumerate(plan.task_ids):
            boxes = _boxes(plan, place)
            at_once = len(boxes) if plan.sandbox_reuse or place in grouped else min(1, len(boxes))
            permits: dict[int, int] = {}
            for provider in boxes:
                for gate, weight in asks.host_permits(plan, place, provider):
                    permits[gate] = permits.get(gate, 0) + weight if at_once > 1 else weight
            for gate, weight in permits.items():
                limit = asks.gates.limit(gate)
                if limit is not None and weight > limit:
                    what, whole = gates[gate]
                    need = (plan.cpus if what == "cpus" else plan.memory_bytes)[place]
                    yield TooLarge(plan.name, task, what, float(need), float(whole or 0), at_once)


def _boxes(plan: ExperimentPlan, place: int) -> list[str]:
    """Return the provider of each sandbox that an attempt of a task opens."""
    agent = [plan.provider] if plan.agent_sandbox[place] else []
    return [*agent, *([plan.graded_at] if plan.grading is GradingMode.FRESH else [])]


def binding(plans: Sequence[ExperimentPlan], limits: GateLimits) -> frozenset[str]:
    """Return which of `cpus` and `memory` keep attempts waiting that all other limits would let through."""
    here = [plan for plan in plans if limits.host_providers & {plan.provider, plan.graded_at}]
    slots: dict[str, int] = {}
    for plan in here:
        slots[plan.provider] = slots.get(plan.provider, 0) + plan.slots - plan.reused
    at_once = min(
        limits.task_concurrency,
        sum(min(limits.of_provider(name) or number, number) for name, number in slots.items()),
    )
    wholes: Mapping[str, float | None] = {"cpus": limits.host_cpus, "memory": limits.host_memory_bytes}
    demands = {"cpus": [(one, one.cpus) for one in here], "memory": [(one, one.memory_bytes) for one in here]}
    found: set[str] = set()
    for what, whole in wholes.items():
        if whole is not None:
            each = chain.from_iterable(
                repeat(value, plan.attempts) for plan, values in demands[what] for value in values if value
            )
            if sum(nlargest(at_once, each)) > whole:
                found.add(what)
    return frozenset(found)


__all__ = ["Declared", "TooLarge", "binding", "declared_by", "too_large"]
