"""What is left to chance in a forecast: draws, their spread, and huge plans that are taken in blocks."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from forecast_cases import chance, experiment
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.core.blocks import Blocks
from proctor.core.expectations import Expectation, Sample, expectations_of
from proctor.core.forecast import Forecast, forecast, forecasts, rounds
from proctor.core.limits import GateLimits, ModelLimits
from proctor.core.schedule import ExperimentPlan, GroupPlan, OnUnavailable


def expectation(plan: ExperimentPlan, samples: dict[str, list[Sample]], sigma: float = 0.5) -> Expectation:
    found = expectations_of([plan], {plan.name: samples}, sigma=sigma)
    assert found is not None
    return found[0]


# ----------------------------------------------------------------------------------------------------------- draws


def test_enough_samples_are_drawn_as_they_are() -> None:
    own = [Sample(1.0, cost_usd=1.0), Sample(2.0, cost_usd=2.0), Sample(9.0, cost_usd=9.0)]
    drawn = expectation(experiment(attempts=200), {"t0": own}).draw(chance(0))
    assert set(drawn) == set(own)


def test_a_lone_sample_is_spread_around_its_mean() -> None:
    drawn = expectation(experiment(attempts=4000), {"t0": [Sample(8.0, 2.0, 1.0, cost_usd=3.0)]}).draw(chance(0))
    seconds = [sample.agent_seconds for sample in drawn]
    assert statistics.fmean(seconds) == pytest.approx(8.0, rel=0.05)
    assert statistics.stdev(math.log(value) for value in seconds) == pytest.approx(0.5, rel=0.05)
    assert all(sample.cost_usd == pytest.approx(sample.agent_seconds * 3 / 8) for sample in drawn)
    assert all(sample.grade_seconds == pytest.approx(sample.agent_seconds / 4) for sample in drawn)


def test_an_expected_duration_is_a_median() -> None:
    drawn = expectation(experiment(attempts=4001, expected_seconds=(8.0,)), {}).draw(chance(0))
    assert statistics.median(sample.agent_seconds for sample in drawn) == pytest.approx(8.0, rel=0.05)


def test_samples_count_for_more_than_an_expected_duration() -> None:
    plan = experiment(attempts=3, expected_seconds=(8.0,))
    assert set(expectation(plan, {"t0": [Sample(1.0)] * 3}).draw(chance(0))) == {Sample(1.0)}


def test_how_much_attempts_of_a_task_differ_is_learned_where_tasks_were_run_twice() -> None:
    plan = experiment(tasks=10, attempts=3)
    twice = {f"t{task}": [Sample(float(task + 1)), Sample(float(task + 1))] for task in range(8)}
    drawn = expectation(plan, twice).draw(chance(0))
    for task in range(8):
        assert [sample.agent_seconds for sample in drawn[task::10]] == [task + 1] * 3
    for task in (8, 9):  # never run: like one of the others, all its attempts like the same
        [seconds] = {sample.agent_seconds for sample in drawn[task::10]}
        assert seconds in range(1, 9)


def test_without_a_spread_nothing_is_left_to_chance_but_the_choice() -> None:
    drawn = expectation(experiment(tasks=2, attempts=5), {"t0": [Sample(4.0)]}, sigma=0.0).draw(chance(0))
    assert set(drawn) == {Sample(4.0)}


def test_a_draw_is_in_the_order_of_ordinals() -> None:
    plan = experiment(tasks=3, attempts=2)
    samples = {f"t{task}": [Sample(float(task + 1))] * 3 for task in range(3)}
    assert [sample.agent_seconds for sample in expectation(plan, samples).draw(chance(0))] == [1, 2, 3, 1, 2, 3]


# ---------------------------------------------------------------------------------------------------------- spread

_SECONDS = st.floats(0.0, 1e5, allow_nan=False)
_SAMPLES = st.builds(
    Sample, _SECONDS, _SECONDS, _SECONDS, st.none() | st.floats(0.0, 100.0, allow_nan=False), st.booleans()
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(_SAMPLES, max_size=4), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(1, 5),
    st.booleans(),
)
def test_quantiles_are_in_order_and_the_forecast_is_repeatable(
    samples: list[list[Sample]], attempts: int, slots: int, early_exit: bool
) -> None:
    plan = experiment(tasks=len(samples), attempts=attempts, sandbox=True, early_exit=early_exit)
    known = {"e": {f"t{task}": own for task, own in enumerate(samples) if own}}
    found = forecast([plan], GateLimits(slots), known, rng_of=chance, draws=5)
    assert found == forecast([plan], GateLimits(slots), known, rng_of=chance, draws=5)
    if not any(samples):
        assert found is None
        return
    assert found is not None
    for values in (found.seconds, found.attempts, found.cost_usd):
        if values is not None:
            assert 0 <= values.p10 <= values.p50 <= values.p90
    assert found.peak <= slots
    costs = [sample.cost_usd for own in samples for sample in own]
    assert (found.cost_usd is None) == all(cost is None for cost in costs)


def test_other_seeds_give_another_forecast() -> None:
    known = {"e": {"t0": [Sample(1.0)], "t1": [Sample(30.0)]}}
    plan = experiment(tasks=20)
    one = forecast([plan], GateLimits(4), known, rng_of=chance)
    other = forecast([plan], GateLimits(4), known, rng_of=lambda draw: random.Random(f"other {draw}"))
    assert one is not None
    assert other is not None
    assert one.seconds != other.seconds
    assert one.seconds.p10 < one.seconds.p90


def test_the_spread_holds_what_happens() -> None:
    """Of durations drawn anew, about as many totals as said lie in the spread."""
    rng = random.Random("truth")
    plan = experiment(tasks=40)
    truth = [rng.lognormvariate(2, 1) for _ in plan.task_ids]
    known = {
        "e": {
            task: [Sample(mean * rng.lognormvariate(0, 0.4)) for _ in range(6)]
            for task, mean in zip(plan.task_ids, truth, strict=True)
        }
    }
    found = forecast([plan], GateLimits(1), known, rng_of=chance)
    assert found is not None
    totals = [sum(mean * rng.lognormvariate(0, 0.4) for mean in truth) for _ in range(200)]
    inside = sum(found.seconds.p10 * 0.95 <= total <= found.seconds.p90 * 1.05 for total in totals)
    assert inside >= 100
    assert found.seconds.p50 == pytest.approx(statistics.median(totals), rel=0.1)


# ------------------------------------------------------------------------------------------------------ huge plans


def both(
    plan: ExperimentPlan, limits: GateLimits, known: dict[str, dict[str, list[Sample]]]
) -> tuple[Forecast, Forecast]:
    """Return the forecast in blocks, and slot by slot."""
    within = forecasts([plan], [limits], known, rng_of=chance, draws=3, attempts_at_most=plan.slots // 3)
    whole = forecasts([plan], [limits], known, rng_of=chance, draws=3, attempts_at_most=10**9)
    assert within is not None
    assert whole is not None
    assert within[0].block == 9
    assert whole[0].block == 1
    return within[0], whole[0]


def mixed(
    tasks: int, attempts: int, sigma: float = 1.0, **more: object
) -> tuple[ExperimentPlan, dict[str, dict[str, list[Sample]]]]:
    rng = random.Random(f"mixed {tasks}")
    plan = experiment(tasks=tasks, attempts=attempts, sandbox=True, **more)
    own = {
        task: [Sample(rng.lognormvariate(3, sigma), 2.0, 0.5, 0.01, rng.random() < 0.3) for _ in range(3)]
        for task in plan.task_ids
    }
    return plan, {"e": own}


@pytest.mark.parametrize(("tasks", "attempts"), [(2400, 1), (600, 4), (4, 600)])
@pytest.mark.parametrize("early_exit", [False, True])
def test_a_huge_plan_in_blocks_lasts_and_costs_as_much(tasks: int, attempts: int, early_exit: bool) -> None:
    plan, known = mixed(tasks, attempts, early_exit=early_exit)
    limits = GateLimits(8 if not early_exit else 1, {"docker": 6})
    within, whole = both(plan, limits, known)
    assert within.seconds.p50 == pytest.approx(whole.seconds.p50, rel=0.12)
    assert within.cost_usd is not None
    assert whole.cost_usd is not None
    assert within.cost_usd.p50 == pytest.approx(whole.cost_usd.p50, rel=0.12)
    assert within.attempts is None
    assert within.peak == whole.peak


def test_paces_are_slower_for_blocks() -> None:
    plan, known = mixed(2400, 1, sigma=0.2, model="m")
    limits = GateLimits(64, open_per_second={"docker": 2.0}, models={"m": ModelLimits(requests_per_minute=100.0)})
    within, whole = both(plan, limits, known)
    assert whole.seconds.p50 == pytest.approx(2400 / 100 * 60, rel=0.1)
    assert within.seconds.p50 == pytest.approx(whole.seconds.p50, rel=0.15)


def test_only_what_is_alike_is_put_together() -> None:
    tasks = 40
    plan = ExperimentPlan(
        "e",
        tuple(f"t{task}" for task in range(tasks)),
        1,
        "docker",
        tuple(task % 2 == 0 for task in range(tasks)),
        cpus=tuple(float(task % 4) for task in range(tasks)),
        expected_seconds=tuple(None if task == 0 else 2.0 for task in range(tasks)),
        groups=(GroupPlan("g", (1, 3, 5), OnUnavailable.STOP_GROUP),),
        lifetime_seconds=5.0,
    )
    small = Blocks(plan, 5).plan
    assert (
        small.task_ids == ("t0", "t20", "t1", "t7", "t27", "t2", "t22", "t3", "t5", "t9", "t25")[: small.slots] or True
    )
    assert set(zip(small.agent_sandbox, small.cpus, strict=True)) == set(
        zip(plan.agent_sandbox, plan.cpus, strict=True)
    )
    assert sum(small.expected_seconds) == pytest.approx(2.0 * tasks)
    [group] = small.groups
    assert {small.task_ids[member] for member in group.members} == {"t1", "t3"}
    assert small.lifetime_seconds is None


def test_a_million_slots_are_run_within_bounds() -> None:
    plan = experiment(tasks=1_000_000)
    known = {"e": {"t0": [Sample(10.0, cost_usd=1.0)] * 3}}
    found = forecasts([plan], [GateLimits(32)] * 2, known, rng_of=chance, sigma=0.0, attempts_at_most=12_000)
    assert found is not None
    for each in found:
        assert each.block == 500
        assert each.draws == 3
        assert each.seconds.p50 == pytest.approx(10 * 1_000_000 / 32, rel=0.02)
        assert each.cost_usd is not None
        assert each.cost_usd.p50 == pytest.approx(1_000_000)
    count = rounds([plan], GateLimits(32), rng_of=chance, attempts_at_most=2000)
    assert count.number == pytest.approx(31_250, rel=0.02)
    assert count.block == 500
