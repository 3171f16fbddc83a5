"""A budget is overshot by no more than what in-flight attempts cost above their reserve (spec 03 E4)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scheduler_rig import PASSED, SKIPPED, Rig, broken, costing, experiment

from proctor.core.commands import StartTry
from proctor.core.schedule import ExperimentPlan, RetryPolicy
from proctor.model.attempt import GradingMode, Outcome, Phase, TryResult, Usage
from proctor.model.events import TryEnded
from proctor.testing.simulate import Report, simulate, world_of

AGAIN = RetryPolicy(2, 4.0, 60.0, 600.0)


def starts(lines: list[str]) -> list[str]:
    return [line.removeprefix("start ") for line in lines if line.startswith("start ")]


@pytest.mark.parametrize("nothing", [broken("provider.lost"), SKIPPED], ids=["broken", "skipped"])
def test_E4_what_ended_before_anything_was_paid_for_does_not_let_all_others_start(nothing: TryResult) -> None:
    rig = Rig(experiment("e", 20, budget_usd=1.0), slots=20)
    assert len(starts(rig.start())) == 1
    assert len(starts(rig.end("e/t0#0", nothing))) == 1, "what an attempt costs is still not known"
    assert len(starts(rig.end("e/t1#0", costing(0.25)))) == 3


def test_E4_what_is_free_is_known_to_be() -> None:
    rig = Rig(experiment("e", 20, budget_usd=1.0), slots=20)
    rig.start()
    assert len(starts(rig.end("e/t0#0", PASSED))) == 19


def test_E4_what_grading_cost_and_the_known_part_of_a_cost_count() -> None:
    partly = Usage(calls=2, known_cost_usd=0.25, priced_calls=1)
    rig = Rig(experiment("e", 20, budget_usd=2.0), slots=20)
    rig.start()
    judged = TryResult(Outcome.GRADED, PASSED.grade, Usage(calls=1, cost_usd=0.25), partly)
    assert len(starts(rig.end("e/t0#0", judged))) == 3


def test_C3_earlier_runs_have_spent_a_part_and_say_what_an_attempt_costs() -> None:
    plan = experiment("e", 20, budget_usd=2.0, spent_before_usd=1.0, largest_before_usd=0.25)
    assert len(starts(Rig(plan, slots=20).start())) == 4
    spent = experiment("e", 20, budget_usd=2.0, spent_before_usd=1.9, largest_before_usd=0.25)
    assert Rig(spent, slots=20).start() == ["stop e budget 20", "finish e stopped", "finish"]


def test_05_a_try_that_dies_while_it_waits_for_grading_disposes_of_what_it_set_aside() -> None:
    plans = experiment("e", 1, grading=GradingMode.FRESH), experiment("o", 1)
    rig = Rig(*plans, slots=2, providers={"docker": 1})
    rig.start()
    rig.opened("e/t0#0")
    rig.saved("e/t0#0")
    assert starts(rig.disposed("e/t0#0")) == ["o/t0#0"]
    assert rig.queue_grading("e/t0#0") == []
    assert rig.phase("e/t0#0", Phase.DISPOSE) == []
    assert rig.disposed("e/t0#0") == []
    assert "seal e/t0#0 errored" in rig.end("e/t0#0", broken("worker.lost"))


# ------------------------------------------------------------------------------ in all worlds, counted by hand


def cost(result: TryResult) -> float:
    return result.usage.cost_at_least_usd + result.grader_usage.cost_at_least_usd


def overshoots(plan: ExperimentPlan, report: Report) -> Iterator[tuple[float, float]]:
    """Yield after each start what will be spent above the budget, and what those in flight cost above their reserve."""
    log = [item for _, item in report.log]
    ends = [item for item in log if isinstance(item, TryEnded)]
    costs = {(end.attempt, end.try_number): cost(end.result) for end in ends}
    mine = {item.attempt for item in log if isinstance(item, StartTry) and item.slot.experiment == plan.name}
    spent, largest = plan.spent_before_usd, plan.largest_before_usd
    by_attempt: dict[str, float] = {}
    flying: set[tuple[str, int]] = set()
    for item in log:
        if isinstance(item, StartTry) and item.attempt in mine:
            flying.add((item.attempt, item.try_number))
            reserve = plan.expected_cost_usd if largest is None else largest
            above = sum(costs[one] - (reserve or 0.0) for one in flying)
            assert reserve is not None or len(flying) == 1, "nobody knows what an attempt costs"
            yield spent + sum(costs[one] for one in flying) - (plan.budget_usd or 0.0), above
        elif isinstance(item, TryEnded) and item.attempt in mine:
            flying.discard((item.attempt, item.try_number))
            spent += cost(item.result)
            total = by_attempt[item.attempt] = by_attempt.get(item.attempt, 0.0) + cost(item.result)
            known = largest is not None or item.result.outcome is Outcome.GRADED
            if total or (known and (plan.expected_cost_usd is None or largest is not None)):
                largest = max(largest or 0.0, total)


def test_E4_no_budget_is_overshot_by_more_than_its_reserve_was_too_small() -> None:
    budgets = judges = retries = reached = 0
    for seed in range(40_000, 40_120):
        world = world_of(seed)
        if all(plan.budget_usd is None for plan in world.plans):
            continue
        report = simulate(world)
        for plan in world.plans:
            if plan.budget_usd is None:
                continue
            over = list(overshoots(plan, report))
            assert all(most <= above + 1e-9 for most, above in over), (seed, plan.name, over)
            budgets += 1
            judges += plan.judge is not None
            reached += bool(over) and over[-1][0] > -0.25
        retries += report.seen["retry"]
    assert min(judges, retries, reached) > 5, (budgets, judges, retries, reached)
