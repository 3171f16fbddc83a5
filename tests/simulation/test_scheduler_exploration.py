"""Every order of events in small worlds: no deadlock, no broken rule (spec 03)."""

from __future__ import annotations

import itertools

import pytest
from scheduler_rig import experiment

from proctor.core.gates import GateLimits, ModelLimits
from proctor.core.schedule import DecidedSlot, ExperimentPlan, Filling, GroupPlan, OnUnavailable, RetryPolicy
from proctor.model.attempt import GradingMode
from proctor.testing.explore import explore
from proctor.testing.worlds import World

ONLY = Filling.GRADING_ONLY
FRESH, NONE, REUSE = GradingMode.FRESH, GradingMode.NONE, GradingMode.REUSE
AGAIN, TWICE = RetryPolicy(1, 4.0, 60.0), RetryPolicy(2, 4.0, 60.0)


def small(*plans: ExperimentPlan, slots: int, limit: int, **more) -> World:
    limits = GateLimits(slots, {"docker": limit}, models=more.pop("models", {}))
    return World(0, plans, limits, longest_seconds=0.0, **more)


@pytest.mark.parametrize(("slots", "limit", "grading"), list(itertools.product((1, 2), (1, 2), (NONE, FRESH))))
def test_two_attempts_with_backoff_and_retries(slots, limit, grading):
    world = small(experiment("e", 2, grading=grading, retry=AGAIN), slots=slots, limit=limit,
                  fault_rate=1.0, backoff_rate=1.0)  # fmt: skip
    assert explore(world) >= 10


@pytest.mark.parametrize(("slots", "grading"), list(itertools.product((1, 2), (NONE, FRESH, REUSE))))
def test_two_attempts_in_lanes_with_losses(slots, grading):
    world = small(experiment("e", 2, grading=grading, sandbox_reuse=True, retry=AGAIN), slots=slots, limit=2,
                  fault_rate=1.0, interrupts=(0.0,))  # fmt: skip
    assert explore(world) >= 10


@pytest.mark.parametrize("policy", list(OnUnavailable))
def test_a_group_beside_another_attempt(policy):
    plan = experiment("e", 3, groups=(GroupPlan("g", (0, 1), policy),), retry=AGAIN)
    assert explore(small(plan, slots=2, limit=1, fault_rate=1.0)) >= 10


@pytest.mark.parametrize("policy", [None, *OnUnavailable])
def test_05_tasks_and_experiments_that_stop_themselves(policy):
    """Beside retries that wait, without a lane, or in that of a group and with another experiment that goes on."""
    groups = () if policy is None else (GroupPlan("g", (0, 1), policy),)
    plan = experiment("e", 2, 2, groups=groups, retry=AGAIN)
    others, slots = ((), 1) if policy is None else ((experiment("other", 1),), 2)
    assert explore(small(plan, *others, slots=slots, limit=2, severe_rate=1.0, fault_rate=1.0)) >= 30


@pytest.mark.sampled
@pytest.mark.parametrize(("slots", "limit", "grading", "judge"),
                         list(itertools.product((1, 2), (1, 2), (NONE, FRESH), (None, "m"))))  # fmt: skip
def test_T3_two_attempts_whose_grading_breaks_again_and_again(slots, limit, grading, judge):
    plan = experiment("e", 2, grading=grading, retry=TWICE, judge=judge)
    models = {"m": ModelLimits(1)}
    world = small(plan, slots=slots, limit=limit, models=models, grading_fault_rate=1.0, fault_rate=1.0)
    assert explore(world) >= 50


@pytest.mark.parametrize(("grading", "policy"), list(itertools.product((NONE, FRESH), (None, *OnUnavailable))))
def test_T3_lanes_in_which_grading_breaks(grading, policy):
    """With the sandbox or without: only grading is tried again, in a lane with the permits of the one before."""
    shape = {"sandbox_reuse": True} if policy is None else {"groups": (GroupPlan("g", (0, 1), policy),)}
    plan = experiment("e", 2, grading=grading, retry=TWICE, **shape)
    limit = 3 if grading is FRESH else 1
    assert explore(small(plan, slots=2, limit=limit, grading_fault_rate=1.0, interrupts=(0.0,))) >= 30


@pytest.mark.parametrize(("slots", "grading", "early_exit", "isolated"),
                         list(itertools.product((1, 2), (NONE, FRESH), (False, True), (False, True))))  # fmt: skip
def test_E3_G6_saved_work_beside_the_rest_of_its_task(slots, grading, early_exit, isolated):
    shape = {"grading": grading, "early_exit": early_exit, "isolated": isolated, "retry": AGAIN}
    plan = experiment("e", 1, 3, decided=(DecidedSlot(0, 1, ONLY), DecidedSlot(0, 2, Filling.REUSED)), **shape)
    assert explore(small(plan, slots=slots, limit=1, grading_fault_rate=1.0, interrupts=(0.0,))) >= 10


@pytest.mark.parametrize(("grading", "policy"), list(itertools.product((NONE, FRESH), (None, *OnUnavailable))))
def test_L4_saved_work_of_lanes(grading, policy):
    shape = {"sandbox_reuse": True} if policy is None else {"groups": (GroupPlan("g", (0, 1), policy),)}
    decided = (DecidedSlot(0, 0, ONLY), DecidedSlot(1, 1, ONLY), DecidedSlot(0, 1, Filling.REUSED))
    plan = experiment("e", 2, 2, grading=grading, retry=AGAIN, decided=decided, **shape)
    limit = 3 if grading is FRESH else 1
    assert explore(small(plan, slots=2, limit=limit, grading_fault_rate=1.0)) >= 30


def test_two_attempts_that_ask_for_grading_at_one_provider_and_one_judge():
    plans = experiment("a", 1, grading=FRESH, judge="m", model="m"), experiment("b", 1, judge="m", model="m")
    world = small(*plans, slots=2, limit=1, models={"m": ModelLimits(1)}, backoff_rate=1.0, interrupts=(0.0,))
    assert explore(world) >= 50


def test_two_experiments_with_one_lease_setups_that_fail_and_an_interrupt():
    plans = [experiment(name, 1, has_setup=True, shared_state_key="k") for name in "ab"]
    assert explore(small(*plans, slots=1, limit=1, refuse_rate=1.0, interrupts=(0.0,))) >= 50


@pytest.mark.long
def test_early_exit_with_a_budget_and_retries():
    plan = experiment("e", 1, 3, early_exit=True, retry=AGAIN, budget_usd=2.0, expected_cost_usd=1.0)
    assert explore(small(plan, slots=2, limit=2, fault_rate=1.0, interrupts=(0.0,))) >= 50


def test_a_claimant_and_lanes_of_others():
    """An idle lane holds what the claimant needs, and the claimant holds back its next attempt."""
    lanes = experiment("lanes", 3, sandbox_reuse=True, model="m")
    plain = experiment("plain", 2, model="m", expected_seconds=(9.0, 9.0))
    world = small(lanes, plain, slots=2, limit=1, models={"m": ModelLimits(1)}, patience=1, fault_rate=1.0)
    assert explore(world) >= 10
