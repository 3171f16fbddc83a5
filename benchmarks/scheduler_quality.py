"""Measures how near to the best possible the scheduler comes: the table of scheduling quality of spec 12.

Every row is a mean over seeds of makespan / lower bound and of makespan / first-in-first-out, where the lower bound is
max(total / slots, longest attempt, longest capped chain), and first-in-first-out starts whatever fits, in plan order.
Run it as `python benchmarks/scheduler_quality.py`; `--check` exits with 1 where a mean is above what spec 12 allows.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import math
import random
import statistics
import sys
from collections.abc import Callable
from typing import NamedTuple

from proctor.core.commands import StartTry
from proctor.core.gates import GateLimits
from proctor.core.schedule import ExperimentPlan
from proctor.core.scheduler import Scheduler
from proctor.model.attempt import Grade, Outcome, TryResult
from proctor.model.events import TryEnded

PASSED = TryResult(Outcome.GRADED, Grade(solved=True, score=1.0))
SLOTS = 8
CAPS: dict[str, tuple[int | None, ...]] = {"no cap": (None, None, None, None), "caps": (None, 1, 2, None)}
TASKS: dict[str, tuple[int, ...]] = {"no cap": (20, 40, 60, 40), "caps": (60, 10, 20, 70)}


def lognormal(rng: random.Random) -> float:
    return rng.lognormvariate(0.0, 1.0)


def heavy(rng: random.Random) -> float:
    return min(rng.paretovariate(1.3), 200.0)


def bimodal(rng: random.Random) -> float:
    return rng.uniform(0.8, 1.2) if rng.random() < 0.85 else rng.uniform(10.0, 14.0)


DURATIONS: dict[str, Callable[[random.Random], float]] = {"lognormal": lognormal, "heavy": heavy, "bimodal": bimodal}


class Case(NamedTuple):
    """One world: durations by experiment and task, the same for all attempts of a task."""

    seconds: list[list[float]]
    attempts: int
    caps: tuple[int | None, ...]

    def bound(self) -> float:
        totals = [math.fsum(tasks) * self.attempts for tasks in self.seconds]
        chains = [total / min(cap or SLOTS, SLOTS) for total, cap in zip(totals, self.caps, strict=True)]
        longest = max(max(tasks) for tasks in self.seconds)
        return max(math.fsum(totals) / SLOTS, longest, *chains)


def scheduled(case: Case, expected: list[tuple[float | None, ...]]) -> float:
    """Return the makespan of the scheduler."""
    plans = [
        ExperimentPlan(
            f"e{index}", tuple(f"t{task}" for task in range(len(tasks))), case.attempts, "local", (False,) * len(tasks),
            max_concurrency=case.caps[index], expected_seconds=expected[index],
        )
        for index, tasks in enumerate(case.seconds)
    ]  # fmt: skip
    numbers = itertools.count()
    scheduler = Scheduler(plans, GateLimits(SLOTS), lambda: f"a{next(numbers)}")
    agenda: list[tuple[float, int, StartTry]] = []
    now, order = 0.0, itertools.count()
    commands = scheduler.start(now=0.0)
    while True:
        for command in commands:
            if isinstance(command, StartTry):
                seconds = case.seconds[int(command.slot.experiment[1:])][int(command.slot.task[1:])]
                heapq.heappush(agenda, (now + seconds, next(order), command))
        if not agenda:
            return now
        now, _, start = heapq.heappop(agenda)
        commands = scheduler.handle(TryEnded(start.attempt, 1, PASSED), now=now)


def first_in_first_out(case: Case) -> float:
    """Return the makespan of starting whatever fits in plan order."""
    queues = [[s for _ in range(case.attempts) for s in tasks][::-1] for tasks in case.seconds]
    running = [0] * len(queues)
    agenda: list[tuple[float, int, int]] = []
    now, order = 0.0, itertools.count()
    while True:
        for index, queue in enumerate(queues):
            while queue and len(agenda) < SLOTS and running[index] < (case.caps[index] or SLOTS):
                running[index] += 1
                heapq.heappush(agenda, (now + queue.pop(), next(order), index))
        if not agenda:
            return now
        now, _, index = heapq.heappop(agenda)
        running[index] -= 1


def estimates(case: Case, knowledge: str, rng: random.Random) -> list[tuple[float | None, ...]]:
    if knowledge == "unknown":
        return [() for _ in case.seconds]
    sigma = 0.5 if knowledge == "noisy" else 0.0
    return [tuple(seconds * rng.lognormvariate(0.0, sigma) for seconds in tasks) for tasks in case.seconds]


class Row(NamedTuple):
    """Means over seeds: makespan over the lower bound, and over first-in-first-out."""

    to_bound: float
    to_fifo: float
    worst: float


def row(distribution: str, knowledge: str, caps: str, attempts: int, seeds: int) -> Row:
    """Measure one row; raises `AssertionError` where Graham's bound is broken without caps."""
    bounds: list[float] = []
    fifos: list[float] = []
    for seed in range(seeds):
        rng = random.Random(f"{distribution} {caps} {attempts} {seed}")
        draw = DURATIONS[distribution]
        number = [tasks // attempts for tasks in TASKS[caps]]
        case = Case([[draw(rng) for _ in range(tasks)] for tasks in number], attempts, CAPS[caps])
        makespan = scheduled(case, estimates(case, knowledge, rng))
        if caps == "no cap":
            total, longest = math.fsum(map(math.fsum, case.seconds)) * attempts, max(map(max, case.seconds))
            assert makespan <= total / SLOTS + (1 - 1 / SLOTS) * longest + 1e-6, (distribution, knowledge, seed)
        bounds.append(makespan / case.bound())
        fifos.append(makespan / first_in_first_out(case))
    return Row(statistics.fmean(bounds), statistics.fmean(fifos), max(bounds))


def allowed(knowledge: str, caps: str, attempts: int) -> tuple[float, float]:
    """Return what spec 12 allows: the mean to the lower bound, and to first-in-first-out."""
    to_fifo = 1.03 if knowledge == "unknown" else 1.00
    if knowledge == "unknown":
        return math.inf, to_fifo
    if knowledge == "noisy":
        return 1.10, to_fifo
    if caps == "caps" or attempts == 1:
        return 1.02, to_fifo
    return 1.10, to_fifo


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="worlds in a row (default: 100)")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a mean is above what is allowed")
    given = parser.parse_args()
    bad = 0
    print(f"{'durations':10} {'known':8} {'gates':7} {'k':>2} {'/ bound':>8} {'allowed':>8} {'worst':>7} {'/ fifo':>7}")
    for distribution, knowledge, caps, attempts in itertools.product(
        DURATIONS, ("exact", "noisy", "unknown"), CAPS, (1, 4)
    ):
        found = row(distribution, knowledge, caps, attempts, given.seeds)
        most, most_fifo = allowed(knowledge, caps, attempts)
        above = found.to_bound > most or found.to_fifo > most_fifo + 5e-4
        bad += above
        print(
            f"{distribution:10} {knowledge:8} {caps:7} {attempts:2} {found.to_bound:8.3f} {most:8.2f}"
            f" {found.worst:7.2f} {found.to_fifo:7.3f}{'  above' if above else ''}"
        )
    return 1 if bad and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
