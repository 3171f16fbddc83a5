"""Worlds for simulations: experiments, limits, faults and interrupts, all drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from proctor.core.gates import GateLimits
from proctor.core.plan import ExperimentPlan
from proctor.model.attempt import GradingMode

PROVIDERS = ("local", "docker", "remote")


@dataclass(frozen=True, slots=True)
class World:
    """What one simulation is made of; times are virtual seconds."""

    seed: int
    plans: tuple[ExperimentPlan, ...]
    limits: GateLimits
    interrupts: tuple[float, ...] = ()
    fault_rate: float = 0.0
    severe_rate: float = 0.0
    """Share of faults that concern more than their attempt."""
    longest_seconds: float = 4.0
    """Phases take from 0 to this long; 0 makes everything happen at once."""
    echo: bool = False
    """Whether events that the loop makes of commands come back to the scheduler."""


def world_of(seed: int) -> World:
    """Draw a world. Many are small or without faults, so that what breaks tells its reason."""
    rng = random.Random(f"world {seed}")  # noqa: S311
    plans = tuple(_plan_of(rng, index) for index in range(rng.choice((1, 1, 2, 2, 3, 4, 5))))
    providers: dict[str, int | None] = {name: rng.randint(1, 4) for name in PROVIDERS if rng.random() < 0.6}
    times = sorted(rng.uniform(0, 20) for _ in range(rng.choice((0, 0, 0, 1, 2))))
    return World(
        seed=seed,
        plans=plans,
        limits=GateLimits(rng.choice((1, 2, 3, 5, 8, 32)), providers),
        interrupts=(-1.0, *times) if rng.random() < 0.02 else tuple(times),
        fault_rate=rng.choice((0.0, 0.03, 0.1, 0.3)),
        severe_rate=rng.choice((0.0, 0.0, 0.1, 0.9)),
        longest_seconds=rng.choice((0.0, 4.0, 4.0, 4.0)),
        echo=rng.random() < 0.3,
    )


def _plan_of(rng: random.Random, index: int) -> ExperimentPlan:
    tasks = rng.choice((1, 1, 2, 3, 5, 8))
    share = rng.choice((0.0, 0.5, 1.0))
    grading = rng.choice(tuple(GradingMode))
    return ExperimentPlan(
        name=f"e{index}",
        task_ids=tuple(f"t{task}" for task in range(tasks)),
        attempts=rng.choice((1, 1, 2, 3)),
        provider=rng.choice(PROVIDERS),
        agent_sandbox=tuple(grading is GradingMode.REUSE or rng.random() < share for _ in range(tasks)),
        grading=grading,
        isolated=rng.random() < 0.6,
        max_concurrency=rng.choice((None, None, 1, 2, 4)),
    )
