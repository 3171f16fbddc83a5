"""Examples of the gates: what is held when, and what may start (spec 03)."""

from __future__ import annotations

import pytest
from scheduler_rig import CANCELLED, FAILED, SKIPPED, Rig, broken, experiment, graded_with, play

from proctor.core.gates import GateLimits
from proctor.errors import InternalError, UsageError
from proctor.model.attempt import GradingMode, issue_of


def starts(lines: list[str]) -> list[str]:
    return [line.removeprefix("start ") for line in lines if line.startswith("start ")]


def test_G1_the_global_limit_counts_over_all_experiments():
    rig = Rig(experiment("a", 2), experiment("b", 3), slots=3)
    assert rig.start() == ["start a/t0#0", "start a/t1#0", "start b/t0#0"]
    assert rig.end("a/t1#0") == ["seal a/t1#0 passed 1.0", "start b/t1#0"]
    assert rig.end("b/t0#0", FAILED) == ["seal b/t0#0 failed 0.25", "start b/t2#0"]


def test_G1_one_slot_runs_everything_one_after_another_in_plan_order():
    rig = Rig(experiment("a", 2, attempts=2), experiment("b", 1), slots=1)
    play(rig, lambda name: 1.0)
    assert starts(rig.log) == ["a/t0#0", "a/t1#0", "a/t0#1", "a/t1#1", "b/t0#0"]
    assert rig.now == 5.0


def test_G1_3_limits_are_integers_in_range():
    for wrong in (0, -1, True, 1.5, "3", None):
        with pytest.raises(UsageError, match="task_concurrency must be an integer of at least 1"):
            GateLimits(wrong)  # type: ignore[arg-type]
    for wrong in (-1, True, 2.0, "8"):
        with pytest.raises(UsageError, match="provider `docker` must be an integer of at least 0"):
            GateLimits(4, {"docker": wrong})  # type: ignore[dict-item]


def test_G2_an_experiment_cap_holds_from_dispatch_to_the_end_of_the_last_sandbox():
    rig = Rig(experiment("slow", 4, grading=GradingMode.FRESH, cap=2), experiment("fast", 2), slots=8)
    assert starts(rig.start()) == ["slow/t0#0", "slow/t1#0", "fast/t0#0", "fast/t1#0"]
    rig.opened("slow/t0#0")
    assert rig.disposed("slow/t0#0") == []
    # Waiting for grading and grading count: neither lets a third attempt of the experiment start.
    assert rig.queue_grading("slow/t0#0") == ["grade slow/t0#0"]
    assert rig.end("slow/t0#0") == ["seal slow/t0#0 passed 1.0", "start slow/t2#0"]


def test_G3_a_provider_limit_counts_over_experiments_and_leaves_others_alone():
    rig = Rig(experiment("a", 2), experiment("b", 1), experiment("c", 2, provider="local"), providers={"docker": 2})
    # Both are narrower than the invocation, and nothing is known of either: each shows first how long it takes (O1).
    assert starts(rig.start()) == ["a/t0#0", "b/t0#0", "c/t0#0", "c/t1#0"]
    assert rig.end("c/t0#0") == ["seal c/t0#0 passed 1.0"]
    assert rig.end("a/t0#0") == ["seal a/t0#0 passed 1.0", "start a/t1#0"]


def test_G3_only_attempts_with_a_sandbox_count_at_the_provider():
    rig = Rig(experiment("e", 4, sandbox=(True, False, True, False)), providers={"docker": 1})
    assert starts(rig.start()) == ["e/t0#0", "e/t1#0", "e/t3#0"]
    assert rig.held() == {"global": 3, "provider docker": 1}
    assert rig.end("e/t1#0") == ["seal e/t1#0 passed 1.0"]
    assert starts(rig.end("e/t0#0")) == ["e/t2#0"]


def test_G3_zero_and_none_are_off():
    for off in ({"docker": 0}, {"docker": None}, {}):
        assert len(Rig(experiment("e", 20), providers=dict(off)).start()) == 20


def test_G3_grading_none_returns_the_providers_permit_when_the_sandbox_is_gone_and_the_global_at_the_end():
    rig = Rig(experiment("e", 3), slots=2, providers={"docker": 1})
    assert starts(rig.start()) == ["e/t0#0"]
    rig.opened("e/t0#0")
    assert rig.disposed("e/t0#0") == ["start e/t1#0"]
    assert rig.held() == {"global": 2, "provider docker": 1}
    rig.opened("e/t1#0")
    assert rig.disposed("e/t1#0") == []  # both slots are busy grading and working
    assert rig.end("e/t0#0") == ["seal e/t0#0 passed 1.0", "start e/t2#0"]


def test_G3_grading_reuse_holds_everything_to_the_end():
    rig = Rig(experiment("e", 2, grading=GradingMode.REUSE), providers={"docker": 1})
    rig.start()
    rig.opened("e/t0#0")
    assert rig.disposed("e/t0#0") == []
    assert rig.held() == {"global": 1, "provider docker": 1}
    assert rig.end("e/t0#0") == ["seal e/t0#0 passed 1.0", "start e/t1#0"]


def test_G3_a_fresh_grading_sandbox_counts_at_its_provider_though_the_agent_had_none():
    rig = Rig(experiment("e", 3, sandbox=False, grading=GradingMode.FRESH), slots=3, providers={"docker": 1})
    assert len(starts(rig.start())) == 3
    assert rig.queue_grading("e/t0#0") == ["grade e/t0#0"]
    assert rig.queue_grading("e/t1#0") == []
    assert rig.held() == {"global": 2, "provider docker": 1}
    assert rig.end("e/t0#0") == ["seal e/t0#0 passed 1.0", "grade e/t1#0"]


def test_fresh_grading_holds_nothing_shared_while_it_waits_so_it_cannot_deadlock():
    """With one slot and one sandbox the attempt gives both back before it asks for both."""
    rig = Rig(experiment("e", 2, grading=GradingMode.FRESH, cap=1), slots=1, providers={"docker": 1})
    assert starts(rig.start()) == ["e/t0#0"]
    rig.opened("e/t0#0")
    assert rig.disposed("e/t0#0") == []
    assert rig.held() == {"global": 1, "experiment e": 1, "provider docker": 0}
    assert rig.queue_grading("e/t0#0") == ["grade e/t0#0"]
    assert rig.end("e/t0#0") == ["seal e/t0#0 passed 1.0", "start e/t1#0"]


def test_a_waiting_grading_goes_ahead_of_undispatched_attempts():
    rig = Rig(experiment("e", 4, grading=GradingMode.FRESH), slots=2, providers={"docker": 2})
    rig.start()
    rig.opened("e/t0#0")
    assert rig.disposed("e/t0#0") == []
    assert rig.queue_grading("e/t0#0") == ["grade e/t0#0"]


def test_O3_a_grading_whose_provider_is_full_holds_up_no_other():
    fresh = GradingMode.FRESH
    rig = Rig(
        experiment("a", 2, grading=fresh, sandbox=False),
        experiment("b", 1, grading=fresh, sandbox=False, provider="local"),
        slots=3,
        providers={"docker": 1, "local": 1},
    )
    rig.start()
    assert rig.queue_grading("a/t0#0") == ["grade a/t0#0"]
    assert rig.queue_grading("a/t1#0") == []
    assert rig.queue_grading("b/t0#0") == ["grade b/t0#0"]
    assert rig.end("b/t0#0") == ["seal b/t0#0 passed 1.0", "finish b complete"]
    assert rig.end("a/t0#0") == ["seal a/t0#0 passed 1.0", "grade a/t1#0"]


def test_gradings_are_granted_in_the_order_in_which_they_asked():
    rig = Rig(experiment("e", 4, sandbox=False, grading=GradingMode.FRESH), slots=4, providers={"docker": 1})
    rig.start()
    rig.queue_grading("e/t3#0")
    rig.queue_grading("e/t1#0")
    rig.queue_grading("e/t2#0")
    assert "grade e/t1#0" in rig.end("e/t3#0")
    assert "grade e/t2#0" in rig.end("e/t1#0")


def test_G6_attempts_of_one_task_do_not_overlap_unless_isolated():
    rig = Rig(experiment("e", 2, attempts=2, isolated=False), slots=8)
    assert starts(rig.start()) == ["e/t0#0", "e/t1#0"]
    assert rig.end("e/t1#0") == ["seal e/t1#0 passed 1.0", "start e/t1#1"]
    assert rig.end("e/t1#1") == ["seal e/t1#1 passed 1.0"]
    assert rig.end("e/t0#0") == ["seal e/t0#0 passed 1.0", "start e/t0#1"]


def test_G6_isolated_attempts_of_one_task_overlap():
    assert starts(Rig(experiment("e", 1, attempts=3, isolated=True)).start()) == ["e/t0#0", "e/t0#1", "e/t0#2"]


def test_G6_the_task_stays_busy_while_its_attempt_waits_for_grading():
    rig = Rig(experiment("e", 1, attempts=2, isolated=False, sandbox=False, grading=GradingMode.FRESH))
    rig.start()
    assert rig.queue_grading("e/t0#0") == ["grade e/t0#0"]
    assert starts(rig.end("e/t0#0")) == ["e/t0#1"]


def test_G6_a_freed_task_waits_for_its_turn_by_ordinal():
    """Second ordinals go after all first ones, also when their task is free earlier."""
    rig = Rig(experiment("e", 3, attempts=2, isolated=False), slots=1)
    play(rig, lambda name: 1.0)
    assert starts(rig.log) == ["e/t0#0", "e/t1#0", "e/t2#0", "e/t0#1", "e/t1#1", "e/t2#1"]


def test_B3_nothing_is_returned_before_the_end_of_the_try_except_by_the_table():
    rig = Rig(experiment("e", 2, grading=GradingMode.NONE), slots=1, providers={"docker": 1})
    rig.start()
    rig.opened("e/t0#0")
    assert rig.disposed("e/t0#0") == []
    assert rig.held() == {"global": 1, "provider docker": 0}
    assert rig.end("e/t0#0") == ["seal e/t0#0 passed 1.0", "start e/t1#0"]


@pytest.mark.parametrize(
    ("result", "sealed"),
    [
        (FAILED, "failed 0.25"),
        (SKIPPED, "skipped"),
        (CANCELLED, "cancelled"),
        (broken("harness.crashed"), "errored"),
        (graded_with(issue_of("time.agent", "reached its limit"), solved=False), "failed 0.0"),
        (graded_with(issue_of("collect.failed", "no files")), "errored"),
        (graded_with(issue_of("grade.time", "too slow"), solved=False), "failed 0.0"),
    ],
)
def test_a_seal_has_a_score_only_with_a_verdict_that_is_one(result, sealed):
    rig = Rig(experiment("e", 1))
    rig.start()
    assert rig.end("e/t0#0", result) == [f"seal e/t0#0 {sealed}", "finish e complete", "finish"]


def test_permits_come_back_whatever_way_an_attempt_ends():
    """Peers leaked a permit for each failure; here ten ends of every kind leave both slots free."""
    rig = Rig(experiment("e", 10), slots=2, providers={"docker": 2})
    rig.start()
    kinds = [broken("provider.open_failed"), broken("harness.crashed"), FAILED, broken("grader.crashed"), SKIPPED]
    for index in range(10):
        rig.end(f"e/t{index}#0", kinds[index % 5])
    assert rig.log[-2:] == ["finish e complete", "finish"]
    assert rig.held() == {"global": 0, "provider docker": 0}


def test_a_limit_of_four_is_a_sliding_window_and_no_barrier():
    rig = Rig(experiment("e", 12), slots=4)
    play(rig, lambda name: 6.0 if name == "e/t0#0" else 1.0)
    assert rig.now == 6.0


def test_a_sandbox_without_a_permit_is_an_internal_error():
    rig = Rig(experiment("e", 1, sandbox=False))
    rig.start()
    with pytest.raises(InternalError, match="planned without"):
        rig.opened("e/t0#0")
