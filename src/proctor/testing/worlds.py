"""Worlds for simulations: experiments, limits, faults and interrupts, all drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proctor.core.gates import GateLimits, ModelLimits
from proctor.core.schedule import DecidedSlot, ExperimentPlan, Filling, GroupPlan, OnUnavailable, RetryPolicy
from proctor.model.attempt import GradingMode

PROVIDERS = ("local", "docker", "remote")
MODELS = ("large", "small")
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class World:
    """What one simulation is made of; times are virtual seconds."""

    seed: int
    plans: tuple[ExperimentPlan, ...]
    limits: GateLimits
    interrupts: tuple[float, ...] = ()
    store_fails_at: float | None = None
    fault_rate: float = 0.0
    grading_fault_rate: float = 0.0
    """Share of phases of grading that break on top of that; half as many find a checkpoint damaged."""
    severe_rate: float = 0.0
    """Share of faults that concern more than their attempt."""
    backoff_rate: float = 0.0
    """Share of openings that are refused, and of agents that are told to wait, each time."""
    refuse_rate: float = 0.0
    """Share of leases that are refused, of setups and of teardowns that fail."""
    longest_seconds: float = 4.0
    """Phases take from 0 to this long; 0 makes everything happen at once."""
    echo: bool = False
    """Whether events that the loop makes of commands come back to the scheduler."""
    patience: int = 100
    """After so many starts that overtook it a slot becomes the claimant (O4)."""
    image_rate: float = 0.0
    """Share of openings that wait for an image first."""
    keeps: bool = False
    """Whether sandboxes of tries that did not pass are kept; those of lanes never are."""


def world_of(seed: int) -> World:
    """Draw a world. Many are small or without faults, so that what breaks tells its reason."""
    rng = random.Random(f"world {seed}")  # noqa: S311
    rich = rng.random() < 0.7
    plans = tuple(_plan_of(rng, index, rich=rich) for index in range(rng.choice((1, 1, 2, 2, 3, 4, 5))))
    times = sorted(rng.uniform(0, 20) for _ in range(rng.choice((0, 0, 0, 1, 2))))
    return World(
        seed=seed,
        plans=plans,
        limits=_limits_of(rng, rich=rich),
        interrupts=(-1.0, *times) if rng.random() < 0.02 else tuple(times),
        store_fails_at=rng.uniform(0, 20) if rich and rng.random() < 0.05 else None,
        fault_rate=rng.choice((0.0, 0.03, 0.1, 0.3)),
        grading_fault_rate=rng.choice((0.0, 0.0, 0.5)),
        severe_rate=rng.choice((0.0, 0.0, 0.1, 0.9)),
        backoff_rate=rng.choice((0.0, 0.1, 0.5)) if rich else 0.0,
        refuse_rate=rng.choice((0.0, 0.3)) if rich else 0.0,
        longest_seconds=rng.choice((0.0, 4.0, 4.0, 4.0)),
        echo=rng.random() < 0.3,
        patience=rng.choice((100, 100, 2)),
        image_rate=rng.choice((0.0, 0.0, 0.3)),
        keeps=rng.random() < 0.3,
    )


def _limits_of(rng: random.Random, *, rich: bool) -> GateLimits:
    providers: dict[str, int | None] = {name: rng.randint(1, 4) for name in PROVIDERS if rng.random() < 0.6}
    slots = rng.choice((1, 2, 3, 5, 8, 32))
    if not rich:
        return GateLimits(slots, providers)
    # A lane whose attempts are graded in a fresh sandbox needs two of its provider.
    return GateLimits(
        slots,
        {name: max(limit or 0, 2) for name, limit in providers.items()},
        open_per_second={"remote": rng.choice((0.3, 2.0, 10.0))} if rng.random() < 0.4 else {},
        exclusive=frozenset(),
        host_cpus=rng.choice((None, 2.0, 4.0)),
        host_memory_bytes=rng.choice((None, 4 * GIB)),
        host_providers=frozenset({"local", "docker"}),
        models={
            name: ModelLimits(rng.choice((None, 1, 2, 3)), rng.choice((None, None, 30.0, 300.0))) for name in MODELS
        },
    )


def _plan_of(rng: random.Random, index: int, *, rich: bool) -> ExperimentPlan:
    tasks = rng.choice((1, 1, 2, 3, 5, 8))
    share = rng.choice((0.0, 0.5, 1.0))
    grading, attempts = rng.choice(tuple(GradingMode)), rng.choice((1, 1, 2, 3))
    plain = ExperimentPlan(
        name=f"e{index}",
        task_ids=tuple(f"t{task}" for task in range(tasks)),
        attempts=attempts,
        provider=rng.choice(PROVIDERS),
        agent_sandbox=tuple(grading is GradingMode.REUSE or rng.random() < share for _ in range(tasks)),
        grading=grading,
        isolated=rng.random() < 0.6,
        max_concurrency=rng.choice((None, None, 1, 2, 4)),
        decided=_decided_of(rng, tasks, attempts, grading),
    )
    return _enriched(plain, rng) if rich else plain


def _decided_of(rng: random.Random, tasks: int, attempts: int, grading: GradingMode) -> tuple[DecidedSlot, ...]:
    share = rng.choice((0.0, 0.0, 0.0, 0.0, 0.3, 0.7, 1.0))
    fillings = tuple(Filling) if grading is not GradingMode.REUSE else (Filling.REUSED, Filling.REUSED_PASSED)
    only = rng.choice((None, None, *fillings))
    slots = [(task, ordinal) for task in range(tasks) for ordinal in range(attempts) if rng.random() < share]
    return tuple(DecidedSlot(task, ordinal, only or rng.choice(fillings)) for task, ordinal in slots)


def _enriched(plain: ExperimentPlan, rng: random.Random) -> ExperimentPlan:
    tasks = range(len(plain.task_ids))
    groups = ()
    lanes = rng.choice(("none", "none", "none", "reuse", "groups"))
    retries = rng.choice((0, 0, 1, 2))
    if lanes == "groups":
        groups = _groups_of(rng, len(tasks))
    alike = _alike(groups, len(tasks))
    return ExperimentPlan(
        name=plain.name,
        task_ids=plain.task_ids,
        attempts=plain.attempts,
        provider=plain.provider,
        agent_sandbox=_with_sandboxes(plain.agent_sandbox, groups, rng),
        grading=plain.grading,
        isolated=plain.isolated,
        max_concurrency=plain.max_concurrency,
        grading_provider=rng.choice((None, None, "local")),
        model=rng.choice((None, *MODELS)),
        judge=rng.choice((None, None, *MODELS)),
        retry=RetryPolicy(retries, 1.0, 4.0, 10.0, rng.choice(((), ("truncated",)))),
        stop_on_repeated=rng.choice((3, 3, 0, 1)),
        early_exit=rng.random() < 0.3,
        budget_usd=rng.choice((None, None, None, 0.0, 1.0, 5.0)),
        expected_cost_usd=rng.choice((None, 0.5)),
        spent_before_usd=0.75 if plain.decided else 0.0,
        largest_before_usd=0.5 if len(plain.decided) > 1 else None,
        expected_seconds=rng.choice(
            ((), (), tuple(rng.choice((None, 1.0, 2.0, 5.0)) for _ in tasks), tuple(rng.uniform(0, 9) for _ in tasks))
        ),
        cpus=alike(tuple(rng.choice((0.0, 0.5, 1.0, 2.0)) for _ in tasks)) if rng.random() < 0.4 else (),
        memory_bytes=alike(tuple(rng.choice((0, GIB, 3 * GIB, 8 * GIB)) for _ in tasks)) if rng.random() < 0.2 else (),
        environments=alike(tuple(rng.randint(0, 1) for _ in tasks)) if rng.random() < 0.3 else (),
        has_setup=rng.random() < 0.25,
        shared_state_key=rng.choice((None, None, None, "key")),
        sandbox_reuse=lanes == "reuse",
        groups=groups,
        lifetime_seconds=rng.choice((None, 6.0)),
        decided=plain.decided,
    )


def _groups_of(rng: random.Random, tasks: int) -> tuple[GroupPlan, ...]:
    members: dict[str, list[int]] = {}
    for task in range(tasks):
        name = rng.choice(("", "one", "two"))
        if name:
            members.setdefault(name, []).append(task)
    return tuple(
        GroupPlan(name, tuple(mine), rng.choice(tuple(OnUnavailable))) for name, mine in sorted(members.items())
    )


def _alike(groups: tuple[GroupPlan, ...], tasks: int) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return what gives all members of a group the value of its first: they share one sandbox."""
    first = {member: group.members[0] for group in groups for member in group.members}
    return lambda values: tuple(values[first.get(task, task)] for task in range(tasks))


def _with_sandboxes(declared: tuple[bool, ...], groups: tuple[GroupPlan, ...], rng: random.Random) -> tuple[bool, ...]:
    """Return which tasks need a sandbox: in most worlds all members of groups do, as they do in plans of projects."""
    if not groups or rng.random() < 0.3:
        return declared
    members = {member for group in groups for member in group.members}
    return tuple(needed or task in members for task, needed in enumerate(declared))
