"""The forecast is the scheduler itself, run over expected durations (spec 04 P4): examples worked out by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from forecast_cases import chance, experiment

from proctor.core.expectations import Sample
from proctor.core.forecast import Forecast, Rounds, Spread, forecast, forecasts, rounds, spread
from proctor.core.limits import GateLimits, ModelLimits
from proctor.core.schedule import ExperimentPlan, GroupPlan, OnUnavailable
from proctor.core.virtual_time import run_in_virtual_time
from proctor.errors import InternalError
from proctor.model.attempt import GradingMode


def lasting(*cases: tuple[ExperimentPlan, Sample]) -> dict[str, dict[str, list[Sample]]]:
    """Return a history in which all attempts of an experiment were alike, often enough to leave nothing to chance."""
    return {plan.name: {task: [sample] * 3 for task in plan.task_ids} for plan, sample in cases}


def exactly(limits: GateLimits, *cases: tuple[ExperimentPlan, Sample]) -> Forecast:
    """Return a forecast in which nothing is left to chance."""
    found = forecast([plan for plan, _ in cases], limits, lasting(*cases), rng_of=chance)
    assert found is not None
    assert found.seconds.p10 == found.seconds.p50 == found.seconds.p90
    return found


# -------------------------------------------------------------------------------------------- examples by hand


def test_one_gate() -> None:
    found = exactly(GateLimits(2), (experiment(tasks=5), Sample(2.0, cost_usd=0.5)))
    assert found.seconds.p50 == 6.0  # 2 + 2 + 1
    assert found.cost_usd == Spread(2.5, 2.5, 2.5)
    assert found.attempts == Spread(5, 5, 5)
    assert found.peak == 2


def test_03_O3_two_providers_with_limits_2_and_6_end_at_4_seconds() -> None:
    a, b = experiment("a", 16, provider="a", sandbox=True), experiment("b", 16, provider="b", sandbox=True)
    found = exactly(GateLimits(8, {"a": 2, "b": 6}), (a, Sample(0.5)), (b, Sample(0.5)))
    assert found.seconds.p50 == 4.0
    assert found.peak == 8


def test_03_O2_a_capped_experiment_beside_a_wide_one_ends_at_12_seconds() -> None:
    fast, slow = experiment("fast", 24), experiment("slow", 10, max_concurrency=1)
    assert exactly(GateLimits(3), (fast, Sample(1.0)), (slow, Sample(1.0))).seconds.p50 == 12.0


@pytest.mark.parametrize(
    ("grading", "seconds"),
    [
        # The sandbox is gone at 4, the other one opens; it grades while nobody holds the provider: 4 + 3 + 1 + 2.
        (GradingMode.NONE, 10.0),
        # Grading asks for the provider ahead of the other attempt: one after another, 2 x 6.
        (GradingMode.FRESH, 12.0),
        (GradingMode.REUSE, 12.0),
    ],
)
def test_03_what_is_held_when_decides(grading: GradingMode, seconds: float) -> None:
    plan = experiment(tasks=2, sandbox=True, grading=grading)
    sample = Sample(agent_seconds=3.0, grade_seconds=2.0, dispose_seconds=1.0)
    assert exactly(GateLimits(4, {"docker": 1}), (plan, sample)).seconds.p50 == seconds


def test_03_G2_an_experiment_cap_is_held_through_grading() -> None:
    plan = experiment(tasks=2, sandbox=True, max_concurrency=1)
    assert exactly(GateLimits(4), (plan, Sample(3.0, 2.0, 1.0))).seconds.p50 == 12.0


def test_03_G4_openings_are_paced() -> None:
    plan = experiment(tasks=3, sandbox=True)
    found = exactly(GateLimits(8, open_per_second={"docker": 0.5}), (plan, Sample(1.0)))
    assert found.seconds.p50 == pytest.approx(5.0)  # they start at 0, 2 and 4


def test_03_G11_a_model_is_free_again_when_grading_begins() -> None:
    plan = experiment(tasks=2, model="m")
    found = exactly(GateLimits(8, models={"m": ModelLimits(max_connections=1)}), (plan, Sample(3.0, 2.0)))
    assert found.seconds.p50 == 8.0  # the other one starts at 3


def test_03_G11_a_judge_is_asked_for_when_grading_begins() -> None:
    plan = experiment(tasks=3, judge="j")
    found = exactly(GateLimits(8, models={"j": ModelLimits(max_connections=1)}), (plan, Sample(3.0, 2.0)))
    assert found.seconds.p50 == 9.0  # all agents at once, then one grading after another


def test_03_L1_lanes_dispose_of_their_sandbox_once() -> None:
    plan = experiment(tasks=4, sandbox=True, sandbox_reuse=True)
    assert exactly(GateLimits(8, {"docker": 1}), (plan, Sample(2.0, 1.0, 0.5))).seconds.p50 == 12.5


def test_03_L3_a_task_group_runs_in_one_lane_beside_the_others() -> None:
    groups = (GroupPlan("g", (0, 1), OnUnavailable.REPLACE_SANDBOX),)
    plan = experiment(tasks=4, sandbox=True, groups=groups)
    assert exactly(GateLimits(8), (plan, Sample(2.0))).seconds.p50 == 4.0


def test_03_S6_setup_and_lease_take_no_time() -> None:
    plan = experiment(tasks=2, has_setup=True, shared_state_key="key")
    assert exactly(GateLimits(1), (plan, Sample(2.0))).seconds.p50 == 4.0


def test_03_G6_attempts_of_one_task_do_not_overlap_where_that_is_not_allowed() -> None:
    plan = experiment(tasks=1, attempts=3, isolated=False)
    assert exactly(GateLimits(8), (plan, Sample(2.0))).seconds.p50 == 6.0


def test_03_E2_early_exit_saves_attempts_where_earlier_ones_passed() -> None:
    plan = experiment(tasks=4, attempts=5, early_exit=True, max_concurrency=1)
    found = exactly(GateLimits(4), (plan, Sample(1.0, cost_usd=2.0, passed=True)))
    assert found.attempts == Spread(4, 4, 4)
    assert found.cost_usd == Spread(8, 8, 8)
    never = exactly(GateLimits(4), (plan, Sample(1.0, cost_usd=2.0, passed=False)))
    assert never.attempts == Spread(20, 20, 20)


def test_03_E2_an_attempt_that_early_exit_cancels_costs_its_share() -> None:
    plan = experiment(tasks=1, attempts=2, early_exit=True)
    draw = [Sample(1.0, cost_usd=1.0, passed=True), Sample(4.0, cost_usd=8.0)]
    course = run_in_virtual_time([plan], GateLimits(4), [draw])
    assert course.seconds == 1.0
    assert course.cost_usd == pytest.approx(1.0 + 2.0)


def test_03_E4_a_budget_ends_it() -> None:
    plan = experiment(tasks=10, budget_usd=3.0, expected_cost_usd=1.0)
    found = exactly(GateLimits(4), (plan, Sample(1.0, cost_usd=1.0)))
    assert found.cost_usd == Spread(3, 3, 3)
    assert found.attempts == Spread(3, 3, 3)


def test_a_draw_that_does_not_fit_its_plan_is_refused() -> None:
    with pytest.raises(InternalError, match="1 durations were given for the 2 slots of `e`"):
        run_in_virtual_time([experiment(tasks=2)], GateLimits(1), [[Sample(1.0)]])


# ---------------------------------------------------------------------------------------------- what is not known


def test_nothing_known_is_none_and_never_0() -> None:
    assert forecast([experiment(tasks=3)], GateLimits(2), {}, rng_of=chance) is None


def test_without_durations_a_plan_is_so_many_rounds() -> None:
    assert rounds([experiment(tasks=10)], GateLimits(4), rng_of=chance) == Rounds(3, 4, 1)
    assert rounds([experiment(tasks=3)], GateLimits(32), rng_of=chance) == Rounds(1, 3, 1)
    capped = experiment(tasks=10, max_concurrency=2)
    assert rounds([capped], GateLimits(4), rng_of=chance) == Rounds(5, 2, 1)


def test_rounds_leave_out_what_is_in_seconds_or_dollars() -> None:
    plan = experiment(tasks=8, sandbox=True, model="m", budget_usd=1.0, expected_seconds=(60.0,) * 8)
    models = {"m": ModelLimits(requests_per_minute=1.0)}
    limits = GateLimits(4, open_per_second={"docker": 0.01}, models=models)
    assert rounds([plan], limits, rng_of=chance) == Rounds(2, 4, 1)


def test_an_unknown_cost_is_none_and_never_0() -> None:
    plan = experiment(tasks=2)
    assert exactly(GateLimits(1), (plan, Sample(1.0))).cost_usd is None
    known = {"e": {"t0": [Sample(1.0, cost_usd=None)] * 3, "t1": [Sample(1.0, cost_usd=2.0)] * 3}}
    found = forecast([plan], GateLimits(1), known, rng_of=chance)
    assert found is not None
    assert found.cost_usd == Spread(4, 4, 4)  # the other task says what an attempt costs in this experiment


def test_the_cost_of_another_experiment_says_nothing() -> None:
    known, unknown = experiment("known", 2), experiment("unknown", 2)
    history = lasting((known, Sample(2.0, cost_usd=1.0, passed=True)))
    found = forecast([known, unknown], GateLimits(1), history, rng_of=chance, sigma=0.0)
    assert found is not None
    assert found.seconds == Spread(8, 8, 8)  # its durations do
    assert found.cost_usd is None


def test_a_declared_cost_counts_where_no_history_tells() -> None:
    plan = experiment(tasks=3, expected_cost_usd=0.5, expected_seconds=(1.0, 2.0, None))
    found = forecast([plan], GateLimits(1), {}, rng_of=chance, sigma=0.0)
    assert found is not None
    assert found.cost_usd == Spread(1.5, 1.5, 1.5)


def test_a_free_attempt_costs_0() -> None:
    assert exactly(GateLimits(1), (experiment(tasks=2), Sample(1.0, cost_usd=0.0))).cost_usd == Spread(0, 0, 0)


# ------------------------------------------------------------------------------------------------ several settings


def test_a_table_of_settings_is_monotone_on_a_plan_without_other_gates() -> None:
    rng = random.Random("monotone")
    seconds = tuple(rng.lognormvariate(3, 1) for _ in range(60))
    plan = experiment(tasks=60, expected_seconds=seconds)
    known = {"e": {task: [Sample(value, cost_usd=1.0)] * 3 for task, value in zip(plan.task_ids, seconds, strict=True)}}
    found = forecasts([plan], [GateLimits(slots) for slots in (1, 2, 4, 8, 16, 32, 64)], known, rng_of=chance)
    assert found is not None
    times = [each.seconds.p50 for each in found]
    assert times == sorted(times, reverse=True)
    assert times[0] == pytest.approx(sum(seconds))
    assert times[-1] == pytest.approx(max(seconds))
    assert {each.cost_usd for each in found} == {Spread(60, 60, 60)}


def test_settings_are_compared_on_the_same_draws() -> None:
    plan = experiment(tasks=20)
    known = {"e": {"t0": [Sample(1.0)], "t1": [Sample(30.0)]}}
    found = forecasts([plan], [GateLimits(4), GateLimits(4)], known, rng_of=chance)
    assert found is not None
    assert found[0] == found[1]


def test_a_gate_that_binds_first_makes_more_slots_useless() -> None:
    plan = experiment(tasks=12, sandbox=True)
    known = lasting((plan, Sample(1.0)))
    found = forecasts([plan], [GateLimits(slots, {"docker": 3}) for slots in (2, 3, 6, 12)], known, rng_of=chance)
    assert found is not None
    assert [each.seconds.p50 for each in found] == [6.0, 4.0, 4.0, 4.0]
    assert [each.peak for each in found] == [2, 3, 3, 3]


@pytest.mark.parametrize(
    ("values", "quantiles"),
    [([7.0], (7, 7, 7)), ([3.0, 1.0], (1.2, 2.0, 2.8)), (list(range(11)), (1, 5, 9))],
)
def test_quantiles(values: Sequence[float], quantiles: tuple[float, float, float]) -> None:
    assert spread(values) == Spread(*map(pytest.approx, quantiles))
