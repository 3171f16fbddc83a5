"""The forecast runs the scheduler as the simulation does: the same durations give the same course."""

from __future__ import annotations

import random

import pytest

from proctor.core.commands import StartGrading, StartTry
from proctor.core.expectations import Sample
from proctor.core.limits import GateLimits
from proctor.core.schedule import DecidedSlot, ExperimentPlan, Filling
from proctor.core.virtual_time import run_in_virtual_time
from proctor.model.attempt import GradingMode, Phase
from proctor.model.events import PhaseEnded, PhaseStarted, TryEnded
from proctor.model.ids import SlotKey
from proctor.testing.simulate import Report, simulate
from proctor.testing.worlds import World, world_of

PROVIDERS = ("local", "docker")


def healthy_world(seed: int) -> World:
    """Draw a world in which nothing goes wrong and nothing but attempts takes time."""
    rng = random.Random(f"healthy {seed}")
    plans = tuple(_plan(rng, index) for index in range(rng.choice((1, 2, 3, 4))))
    limits = GateLimits(
        rng.choice((1, 2, 3, 5, 8)),
        {name: rng.choice((1, 2, 3)) for name in PROVIDERS if rng.random() < 0.6},
        open_per_second={"docker": rng.choice((0.5, 2.0))} if rng.random() < 0.3 else {},
        host_cpus=rng.choice((None, 2.0, 4.0)),
        host_providers=frozenset({"local"}),
    )
    return World(seed, plans, limits)


def _plan(rng: random.Random, index: int) -> ExperimentPlan:
    tasks = rng.choice((1, 2, 5, 12))
    grading = rng.choice(tuple(GradingMode))
    share = rng.choice((0.0, 0.5, 1.0))
    attempts = rng.choice((1, 1, 2, 3))
    fillings = tuple(Filling) if grading is not GradingMode.REUSE else (Filling.REUSED,)
    decides = rng.choice((0.0, 0.0, 0.5))
    slots = [(task, ordinal) for task in range(tasks) for ordinal in range(attempts) if rng.random() < decides]
    return ExperimentPlan(
        name=f"e{index}",
        task_ids=tuple(f"t{task}" for task in range(tasks)),
        attempts=attempts,
        decided=tuple(DecidedSlot(*slot, rng.choice(fillings)) for slot in slots),
        provider=rng.choice(PROVIDERS),
        agent_sandbox=tuple(grading is GradingMode.REUSE or rng.random() < share for _ in range(tasks)),
        grading=grading,
        isolated=rng.random() < 0.7,
        max_concurrency=rng.choice((None, None, 1, 2)),
        grading_provider=rng.choice((None, "local")),
        expected_seconds=rng.choice(((), tuple(rng.uniform(1, 9) for _ in range(tasks)))),
        cpus=rng.choice(((), tuple(rng.choice((0.0, 1.0, 2.0)) for _ in range(tasks)))),
    )


class _Seen:
    """The moments of one attempt."""

    def __init__(self, slot: SlotKey, started: float, *, only: bool) -> None:
        self.only = only
        self.slot = slot
        self.started = started
        self.disposing: float | None = None
        self.disposed: float | None = None
        self.grading: float | None = None
        self.ended = started

    def sample(self, grading: GradingMode) -> Sample:
        if self.only:
            return Sample(0.0, self.ended - self.started)
        if grading is GradingMode.FRESH:
            assert self.grading is not None
            agent_until = self.disposing if self.disposing is not None else self.grading_asked
            disposal = 0.0 if self.disposing is None or self.disposed is None else self.disposed - self.disposing
            return Sample(agent_until - self.started, self.ended - self.grading, disposal)
        if self.disposing is None:
            return Sample(self.ended - self.started)
        if grading is GradingMode.REUSE:
            return Sample(self.disposing - self.started, 0.0, self.ended - self.disposing)
        assert self.disposed is not None
        return Sample(self.disposing - self.started, self.ended - self.disposed, self.disposed - self.disposing)

    grading_asked = 0.0


def samples_of(report: Report, world: World) -> list[list[Sample]]:
    """Return how long the parts of each attempt took in a simulation, in the order in which a forecast takes them."""
    seen: dict[str, _Seen] = {}
    for at, item in report.log:
        if isinstance(item, StartTry):
            seen[item.attempt] = _Seen(item.slot, at, only=item.grading_only)
            continue
        one = seen.get(getattr(item, "attempt", ""))
        if one is None:
            continue
        if type(item).__name__ == "GradingQueued":
            one.grading_asked = at
        elif isinstance(item, StartGrading):
            one.grading = at
        elif isinstance(item, PhaseStarted) and item.phase is Phase.DISPOSE and one.grading is None:
            one.disposing = at
        elif isinstance(item, PhaseEnded) and item.phase is Phase.DISPOSE and one.grading is None:
            one.disposed = at
        elif isinstance(item, TryEnded):
            one.ended = at
    by_slot = {one.slot: one for one in seen.values()}
    return [
        [
            by_slot[slot].sample(plan.grading) if (slot := plan.slot(task, ordinal)) in by_slot else Sample(0.0)
            for ordinal in range(plan.attempts)
            for task in range(len(plan.task_ids))
        ]
        for plan in world.plans
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_a_forecast_over_the_durations_of_a_simulation_ends_when_it_did(first: int) -> None:
    compared = 0
    for seed in range(first, first + 20):
        world = healthy_world(seed)
        report = simulate(world)
        if report.seen["sealed skipped"]:
            continue  # a skipped attempt is not graded, which no forecast foresees
        course = run_in_virtual_time(world.plans, world.limits, samples_of(report, world))
        last = max((at for at, item in report.log if isinstance(item, TryEnded)), default=0.0)
        assert course.seconds == pytest.approx(last, abs=1e-6), f"seed {seed}"
        assert course.attempts == sum(plan.slots - plan.reused for plan in world.plans)
        compared += 1
    assert compared >= 3


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_any_plan_runs_to_its_end_within_its_limits_the_same_way_each_time(first: int) -> None:
    """Whatever plans are made of (lanes, groups, budgets, early exit, leases, setups, paces): nothing stands still."""
    for seed in range(first, first + 50):
        world, rng = world_of(seed), random.Random(f"draws {seed}")
        draws = [[_any_sample(rng) for _ in range(plan.slots)] for plan in world.plans]
        course = run_in_virtual_time(world.plans, world.limits, draws)
        assert course == run_in_virtual_time(world.plans, world.limits, draws), f"seed {seed}"
        assert course.attempts + sum(course.stopped.values()) <= sum(plan.slots for plan in world.plans)
        assert course.peak <= world.limits.task_concurrency


def _any_sample(rng: random.Random) -> Sample:
    cost = rng.choice((None, 0.0, 0.3, 1.0))
    return Sample(rng.choice((0.0, 4 * rng.random())), rng.choice((0.0, 1.0)), rng.random(), cost, rng.random() < 0.4)
