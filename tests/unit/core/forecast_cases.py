"""What the tests of the forecast share: plans, and sources of chance that are the same each time."""

from __future__ import annotations

import random
from typing import Any

from proctor.core.schedule import ExperimentPlan


def chance(draw: int) -> random.Random:
    return random.Random(f"test {draw}")


def experiment(
    name: str = "e", tasks: int = 1, attempts: int = 1, *, provider: str = "docker", sandbox: bool = False, **more: Any
) -> ExperimentPlan:
    ids = tuple(f"t{index}" for index in range(tasks))
    return ExperimentPlan(name, ids, attempts, provider, (sandbox,) * tasks, **more)
