"""Examples of lanes (spec 03 L0 to L5), and of leases, setup and teardown (S1, S2, S3, S6, G8, G9)."""

from __future__ import annotations

import pytest
from scheduler_rig import CANCELLED, Rig, broken, costing, experiment

from proctor.core.schedule import GroupPlan, OnUnavailable, RetryPolicy
from proctor.errors import InternalError, UsageError
from proctor.model.attempt import GradingMode, issue_of
from proctor.model.events import LaneClosed, LeaseGranted, LeaseRefused, LeaseReleased, SetupEnded, TeardownEnded

AGAIN = RetryPolicy(2, 4.0, 60.0, 600.0)
LOST = broken("provider.lost")


def reusing(tasks: int = 4, attempts: int = 1, **more):
    return experiment("e", tasks, attempts, sandbox_reuse=True, **more)


# -------------------------------------------------------------------------------------------------------- lanes


def test_L0_a_lane_takes_its_vector_once_and_its_attempts_only_slots_and_models():
    rig = Rig(reusing(3, cap=2, model="m"), providers={"docker": 2}, slots=1)
    assert rig.start() == ["open e/lane-1", "start e/t0#0 in e/lane-1"]
    everything = {"global": 1, "experiment e": 1, "provider docker": 1, "model m": 1}
    assert rig.held() == everything
    assert rig.end("e/t0#0") == ["seal e/t0#0 passed 1.0", "start e/t1#0 in e/lane-1"]
    assert rig.held() == everything
    rig.end("e/t1#0")
    assert rig.end("e/t2#0") == ["seal e/t2#0 passed 1.0", "close e/lane-1"]
    assert rig.held() == {"global": 0, "experiment e": 1, "provider docker": 1, "model m": 0}
    assert rig.lane_closed("e/lane-1") == ["finish e complete", "finish"]
    assert set(rig.held().values()) == {0}


def test_L1_lanes_run_side_by_side_up_to_the_width_and_an_idle_one_is_used_first():
    rig = Rig(reusing(5), providers={"docker": 2})
    assert rig.start() == ["open e/lane-1", "start e/t0#0 in e/lane-1", "open e/lane-2", "start e/t1#0 in e/lane-2"]
    assert rig.end("e/t1#0") == ["seal e/t1#0 passed 1.0", "start e/t2#0 in e/lane-2"]


def test_L1_attempts_whose_environment_differs_never_share_a_lane():
    rig = Rig(reusing(4, environments=(0, 1, 0, 1)), slots=1, providers={"docker": 1})
    rig.start()
    assert rig.end("e/t0#0") == ["seal e/t0#0 passed 1.0", "start e/t2#0 in e/lane-1"]
    assert rig.end("e/t2#0") == ["seal e/t2#0 passed 1.0", "close e/lane-1"]
    assert rig.lane_closed("e/lane-1") == ["open e/lane-2", "start e/t1#0 in e/lane-2"]


def test_L0_between_tries_the_lane_stays_with_its_attempt():
    rig = Rig(reusing(3, retry=AGAIN, model="m"), slots=1, providers={"docker": 1})
    rig.start()
    assert rig.end("e/t0#0", LOST) == ["wake at 2"]  # the one slot is free, and nobody else has a lane
    assert rig.held() == {"global": 0, "provider docker": 1, "model m": 0}
    assert rig.tick(2.0) == ["start e/t0#0 try 2 in e/lane-1"]


def test_L2_a_sandbox_of_no_more_use_is_retired_and_replaced():
    rig = Rig(reusing(2), providers={"docker": 1})
    rig.start()
    assert rig.end("e/t0#0", sandbox_reusable=False) == ["seal e/t0#0 passed 1.0", "close e/lane-1"]
    assert rig.lane_closed("e/lane-1") == ["open e/lane-2", "start e/t1#0 in e/lane-2"]


@pytest.mark.parametrize("first", ["closed", "due"])
def test_L2_a_retry_gets_the_place_of_its_lost_sandbox(first):
    rig = Rig(reusing(2, retry=AGAIN), experiment("o", 3), providers={"docker": 1})
    rig.start()
    assert rig.end("e/t0#0", LOST, sandbox_reusable=False) == ["close e/lane-1", "wake at 2"]
    if first == "closed":
        assert rig.lane_closed("e/lane-1") == []
        assert rig.tick(2.0) == ["open e/lane-2", "start e/t0#0 try 2 in e/lane-2"]
    else:
        assert rig.tick(2.0) == []
        assert rig.lane_closed("e/lane-1") == ["open e/lane-2", "start e/t0#0 try 2 in e/lane-2"]


def test_L2_a_cancelled_attempt_leaves_its_lane_to_be_closed():
    rig = Rig(reusing(2), providers={"docker": 1})
    rig.start()
    assert rig.interrupt() == ["stop e interrupt 1", "cancel e/t0#0"]
    assert rig.end("e/t0#0", CANCELLED, sandbox_reusable=False) == ["seal e/t0#0 cancelled", "close e/lane-1"]
    assert rig.lane_closed("e/lane-1") == ["finish e interrupted", "finish"]


def group(policy: OnUnavailable = OnUnavailable.REPLACE_SANDBOX) -> tuple[GroupPlan, ...]:
    return (GroupPlan("g", (1, 3), policy),)


def test_L3_a_group_has_one_lane_and_finishes_a_member_before_the_next():
    rig = Rig(experiment("e", 4, 2, groups=group()), slots=8)
    assert sorted(rig.start()) == [
        "open e/lane-1 of g", "start e/t0#0", "start e/t0#1", "start e/t1#0 in e/lane-1", "start e/t2#0",
        "start e/t2#1",
    ]  # fmt: skip
    assert rig.end("e/t1#0")[-1] == "start e/t1#1 in e/lane-1"
    assert rig.end("e/t1#1")[-1] == "start e/t3#0 in e/lane-1"


@pytest.mark.parametrize("policy", list(OnUnavailable))
def test_L3_a_group_without_its_sandbox_stops_or_gets_another(policy):
    rig = Rig(experiment("e", 4, groups=group(policy), retry=AGAIN), slots=8)
    rig.start()
    lines = rig.end("e/t1#0", LOST, sandbox_reusable=False)
    if policy is OnUnavailable.STOP_GROUP:
        assert lines == ["seal e/t1#0 errored", "close e/lane-1", "stop e stopped scope 1"]
    else:
        assert lines == ["close e/lane-1", "wake at 2"]


def test_L4_a_sandbox_is_replaced_when_it_would_not_outlive_the_next_attempt():
    rig = Rig(reusing(3, lifetime_seconds=10.0, expected_seconds=(4.0, 4.0, 4.0)), providers={"docker": 1})
    rig.start()
    assert rig.end("e/t0#0", at=4.0) == ["seal e/t0#0 passed 1.0", "start e/t1#0 in e/lane-1"]
    assert rig.end("e/t1#0", at=8.0) == ["seal e/t1#0 passed 1.0", "close e/lane-1"]
    assert rig.lane_closed("e/lane-1") == ["open e/lane-2", "start e/t2#0 in e/lane-2"]


def test_L0_a_lane_that_the_budget_holds_is_closed_at_once():
    rig = Rig(reusing(9, budget_usd=3.0, expected_cost_usd=1.0), providers={"docker": 2})
    rig.start()
    assert rig.end("e/t0#0", costing(1.5)) == ["seal e/t0#0 passed 1.0", "close e/lane-1"]


def test_L0_a_fresh_grading_sandbox_is_in_the_lanes_vector_and_a_limit_too_small_is_refused():
    rig = Rig(reusing(2, grading=GradingMode.FRESH), providers={"docker": 3})
    assert rig.start() == ["open e/lane-1", "start e/t0#0 in e/lane-1"]
    assert rig.held() == {"global": 1, "provider docker": 2}
    rig.opened("e/t0#0")
    assert rig.queue_grading("e/t0#0") == ["grade e/t0#0"]
    assert rig.held() == {"global": 1, "provider docker": 2}
    with pytest.raises(UsageError, match="needs 2 sandboxes"):
        Rig(reusing(2, grading=GradingMode.FRESH), providers={"docker": 1})


def test_a_lane_that_nobody_closed_cannot_be_gone():
    rig = Rig(reusing(2))
    rig.start()
    with pytest.raises(InternalError, match="nobody was to close it"):
        rig.feed(LaneClosed("e/lane-1", "e"))


# ----------------------------------------------------------------------------------- leases, setup and teardown


def test_S2_lease_setup_attempts_teardown_release():
    rig = Rig(experiment("e", 1, has_setup=True, shared_state_key="k"), experiment("o", 1), slots=1)
    assert rig.start() == ["lease e k", "start o/t0#0"]
    assert rig.feed(LeaseGranted("e")) == ["setup e"]
    rig.end("o/t0#0")
    assert rig.held() == {"global": 0, "provider docker": 0}  # neither the lease nor the setup holds a permit
    assert rig.feed(SetupEnded("e")) == ["start e/t0#0"]
    assert rig.end("e/t0#0") == ["seal e/t0#0 passed 1.0", "teardown e"]
    assert rig.feed(TeardownEnded("e")) == ["release e"]
    assert rig.feed(LeaseReleased("e")) == ["finish e complete", "finish"]


def test_S2_a_lease_that_is_not_to_be_had_leaves_the_slots_undispatched():
    rig = Rig(experiment("e", 3, has_setup=True, shared_state_key="k"), experiment("o", 1))
    rig.start()
    assert rig.feed(LeaseRefused("e", "held by another run")) == ["stop e lease 3", "finish e stopped"]
    assert rig.end("o/t0#0")[-1] == "finish"


def test_S1_experiments_of_one_invocation_take_turns_with_one_key():
    rig = Rig(experiment("a", 1, shared_state_key="k"), experiment("b", 1, shared_state_key="k"))
    assert rig.start() == ["lease a k"]
    assert rig.feed(LeaseGranted("a")) == ["start a/t0#0"]
    assert rig.end("a/t0#0") == ["seal a/t0#0 passed 1.0", "release a"]
    assert rig.feed(LeaseReleased("a")) == ["lease b k", "finish a complete"]


def test_S3_after_a_failed_teardown_the_lease_stays_held_and_nobody_here_waits_for_it():
    plans = [experiment(name, 1, shared_state_key="k", has_setup=True) for name in "ab"]
    rig = Rig(*plans)
    rig.start()
    rig.feed(LeaseGranted("a"))
    rig.feed(SetupEnded("a"))
    rig.end("a/t0#0")
    failed = TeardownEnded("a", issue_of("experiment.teardown_failed", "no"))
    assert rig.feed(failed) == ["stop b lease 1", "finish a complete", "finish b stopped", "finish"]


def test_S6_a_failed_setup_makes_the_slots_errored_and_is_torn_down_all_the_same():
    rig = Rig(experiment("e", 2, has_setup=True), experiment("o", 1))
    assert rig.start() == ["setup e", "start o/t0#0"]
    assert rig.feed(SetupEnded("e", issue_of("experiment.setup_failed", "no"))) == [
        "seal e/t0#0 errored (experiment.setup_failed)", "seal e/t1#0 errored (experiment.setup_failed)", "teardown e",
    ]  # fmt: skip
    assert rig.feed(TeardownEnded("e")) == ["finish e complete"]


def test_S6_an_interrupt_during_the_setup_still_tears_down():
    rig = Rig(experiment("e", 2, has_setup=True, shared_state_key="k"))
    rig.start()
    rig.feed(LeaseGranted("e"))
    assert rig.interrupt() == ["stop e interrupt 2"]
    assert rig.feed(SetupEnded("e")) == ["teardown e"]
    assert rig.feed(TeardownEnded("e")) == ["release e"]
    assert rig.feed(LeaseReleased("e")) == ["finish e interrupted", "finish"]


@pytest.mark.parametrize("crossing", [LeaseGranted("e"), LeaseRefused("e", "late"), None])
def test_S2_an_interrupt_ends_the_wait_for_a_lease_whatever_was_on_its_way(crossing):
    rig = Rig(experiment("e", 2, shared_state_key="k"))
    rig.start()
    assert rig.interrupt() == ["stop e interrupt 2", "release e"]
    assert crossing is None or rig.feed(crossing) == []
    assert rig.feed(LeaseReleased("e")) == ["finish e interrupted", "finish"]


def test_S6_nothing_is_set_up_where_nothing_will_be_executed():
    rig = Rig(experiment("e", 2, has_setup=True, shared_state_key="k", budget_usd=0.0))
    assert rig.start() == ["stop e budget 2", "finish e stopped", "finish"]


def test_what_cannot_happen_to_an_experiment_is_said():
    rig = Rig(experiment("e", 1))
    rig.start()
    with pytest.raises(InternalError, match="the experiment is `open`"):
        rig.feed(SetupEnded("e"))
    with pytest.raises(InternalError, match="no such experiment"):
        rig.feed(SetupEnded("x"))
