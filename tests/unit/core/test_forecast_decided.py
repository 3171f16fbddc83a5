"""The forecast of what is left (spec 04 P4): what saved attempts fill counts nothing, saved work counts its grading."""

from __future__ import annotations

import math

import pytest
from forecast_cases import chance, experiment

from proctor.core.decided import what_is_left
from proctor.core.expectations import Sample
from proctor.core.forecast import Forecast, Rounds, Spread, forecast, forecasts, rounds
from proctor.core.limits import GateLimits
from proctor.core.schedule import DecidedSlot, ExperimentPlan, Filling, GroupPlan, OnUnavailable
from proctor.model.attempt import GradingMode

SAMPLE = Sample(3.0, 2.0, 1.0, cost_usd=0.5)
ZERO = Spread(0.0, 0.0, 0.0)


def decided(by: Filling, *places: tuple[int, int]) -> tuple[DecidedSlot, ...]:
    return tuple(DecidedSlot(task, ordinal, by) for task, ordinal in places)


def history(plan: ExperimentPlan, sample: Sample = SAMPLE) -> dict[str, dict[str, list[Sample]]]:
    return {plan.name: {task: [sample] * 3 for task in plan.task_ids}}


def exactly(plan: ExperimentPlan, limits: GateLimits, sample: Sample = SAMPLE) -> Forecast:
    found = forecast([plan], limits, history(plan, sample), rng_of=chance)
    assert found is not None
    return found


def test_what_is_reused_takes_no_time_and_costs_nothing() -> None:
    plan = experiment(tasks=3, attempts=2, sandbox=True, decided=decided(Filling.REUSED, (0, 0), (0, 1), (1, 0)))
    found = exactly(plan, GateLimits(1))
    assert found.seconds.p50 == 18.0
    assert found.cost_usd == Spread(1.5, 1.5, 1.5)
    assert found.attempts == Spread(3, 3, 3)


GROUPS = (GroupPlan("g", (0, 1), OnUnavailable.STOP_GROUP),)


@pytest.mark.parametrize("shape", [{}, {"sandbox_reuse": True}, {"groups": GROUPS}])
@pytest.mark.parametrize("mode", [GradingMode.NONE, GradingMode.FRESH])
def test_saved_work_takes_the_time_of_its_grading(mode: GradingMode, shape: dict) -> None:
    only = decided(Filling.GRADING_ONLY, (0, 0), (1, 0))
    plan = experiment(tasks=2, sandbox=True, grading=mode, decided=only, **shape)
    found = exactly(plan, GateLimits(1))
    assert found.seconds.p50 == 4.0
    assert found.cost_usd == ZERO
    assert found.attempts == Spread(2, 2, 2)


def test_nothing_is_left_where_everything_is_reused() -> None:
    plan = experiment(tasks=2, decided=decided(Filling.REUSED, (0, 0), (1, 0)))
    found = exactly(plan, GateLimits(4))
    assert (found.seconds, found.cost_usd, found.attempts, found.peak) == (ZERO, ZERO, ZERO, 0)
    assert rounds([plan], GateLimits(4), rng_of=chance) == Rounds(0, 0, 1)


def test_an_experiment_of_which_nothing_is_left_takes_nothing_from_the_others() -> None:
    done, other = experiment("done", decided=decided(Filling.REUSED, (0, 0))), experiment("other", tasks=2)
    found = forecast([done, other], GateLimits(1), history(done) | history(other), rng_of=chance)
    assert found is not None
    assert found.seconds.p50 == 10.0


def test_what_was_reused_still_tells_how_long_the_others_last() -> None:
    """Of the second task nothing is known; it is taken to be like the first, which is done."""
    plan = experiment(tasks=2, decided=decided(Filling.REUSED, (0, 0)))
    found = forecast([plan], GateLimits(1), {"e": {"t0": [SAMPLE] * 3}}, rng_of=chance, sigma=0.0)
    assert found is not None
    assert found.seconds.p50 == 5.0


def test_E2_a_task_that_a_saved_pass_closes_takes_no_time() -> None:
    plan = experiment(tasks=2, attempts=3, early_exit=True, decided=decided(Filling.REUSED_PASSED, (0, 1)))
    assert exactly(plan, GateLimits(1)).attempts == Spread(3, 3, 3)


@pytest.mark.parametrize("share", [2, 3])
def test_a_huge_plan_in_blocks_counts_what_is_left(share: int) -> None:
    tasks = 4000
    places = [(task, ordinal) for task in range(tasks) for ordinal in range(2) if (task + ordinal) % share]
    plan = experiment(tasks=tasks, attempts=2, decided=decided(Filling.REUSED, *places))
    whole = forecasts([plan], [GateLimits(8)], history(plan), rng_of=chance, draws=3)
    blocks = forecasts([plan], [GateLimits(8)], history(plan), rng_of=chance, draws=3, attempts_at_most=1000)
    assert whole is not None
    assert blocks is not None
    assert blocks[0].block > 1
    assert whole[0].seconds.p50 == math.ceil((2 * tasks - len(places)) / 8) * 5.0
    assert blocks[0].seconds.p50 == pytest.approx(whole[0].seconds.p50, rel=0.05)
    assert blocks[0].cost_usd is not None
    assert blocks[0].cost_usd.p50 == pytest.approx((2 * tasks - len(places)) * 0.5)


def test_a_huge_plan_in_blocks_counts_the_grading_of_saved_work() -> None:
    tasks = 4000
    only = decided(Filling.GRADING_ONLY, *((task, 0) for task in range(tasks)))
    plan = experiment(tasks=tasks, decided=only)
    found = forecasts([plan], [GateLimits(8)], history(plan), rng_of=chance, draws=3, attempts_at_most=1000)
    assert found is not None
    assert found[0].seconds.p50 == pytest.approx(tasks * 2.0 / 8, rel=0.05)


def test_what_is_left_of_a_plan_keeps_everything_else_in_its_place() -> None:
    groups = GroupPlan("g", (1, 3), OnUnavailable.STOP_GROUP), GroupPlan("h", (0,), OnUnavailable.STOP_GROUP)
    done = decided(Filling.REUSED, (0, 0), (0, 1), (1, 0), (1, 1), (2, 1))
    plan = experiment(
        tasks=4, attempts=2, sandbox=True, groups=groups, expected_seconds=(1.0, 2.0, 3.0, 4.0), decided=done
    )
    left = what_is_left(plan)
    assert left is not None
    assert left.task_ids == ("t2", "t3")
    assert left.expected_seconds == (3.0, 4.0)
    assert left.groups == (GroupPlan("g", (1,), OnUnavailable.STOP_GROUP),)
    assert left.decided == (DecidedSlot(0, 1, Filling.REUSED),)
    assert what_is_left(experiment()) == experiment()
