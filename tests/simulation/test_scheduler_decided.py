"""Examples of slots of which planning decided: reused, or only graded (spec 04; 03 E2, G6, E3, O1 to O3, S6, L4)."""

from __future__ import annotations

import pytest
from scheduler_rig import PASSED, Rig, broken, experiment

from proctor.core.gates import ModelLimits
from proctor.core.schedule import DecidedSlot, Filling, GroupPlan, OnUnavailable, RetryPolicy
from proctor.errors import InternalError
from proctor.model.attempt import GradingMode, Outcome, Phase, TryResult, issue_of
from proctor.model.events import LeaseGranted, Purpose, SetupEnded

FRESH, NONE, REUSE = GradingMode.FRESH, GradingMode.NONE, GradingMode.REUSE
AGAIN = RetryPolicy(2, 4.0, 60.0)
CRASHED = TryResult(Outcome.BROKEN, issues=(issue_of("grader.crashed", "on purpose", Phase.GRADE),))
DAMAGED = TryResult(Outcome.BROKEN, issues=(issue_of("checkpoint.damaged", "on purpose"),))


def filled(*places: tuple[int, int], by: Filling = Filling.REUSED) -> tuple[DecidedSlot, ...]:
    return tuple(DecidedSlot(task, ordinal, by) for task, ordinal in places)


def graded(*places: tuple[int, int]) -> tuple[DecidedSlot, ...]:
    return filled(*places, by=Filling.GRADING_ONLY)


def passed(*places: tuple[int, int]) -> tuple[DecidedSlot, ...]:
    return filled(*places, by=Filling.REUSED_PASSED)


def starts(lines: list[str]) -> list[str]:
    return [line.removeprefix("start ") for line in lines if line.startswith("start ")]


# ------------------------------------------------------------------------------------------------------- reused


def test_S6_a_run_with_everything_reused_finishes_at_once_without_lease_and_setup():
    everything = filled((0, 0), (0, 1), (1, 0)) + passed((1, 1))
    plan = experiment("e", 2, 2, decided=everything, has_setup=True, shared_state_key="k")
    rig = Rig(plan)
    assert rig.start() == ["finish e complete", "finish"]


def test_S6_where_one_slot_is_left_lease_and_setup_come_first():
    plan = experiment("e", 2, decided=filled((0, 0)), has_setup=True, shared_state_key="k")
    rig = Rig(plan, experiment("done", 1, decided=filled((0, 0)), has_setup=True))
    assert rig.start() == ["lease e k", "finish done complete"]
    assert rig.feed(LeaseGranted("e")) == ["setup e"]
    assert rig.feed(SetupEnded("e")) == ["start e/t1#0"]


def test_04_what_is_reused_is_neither_dispatched_nor_counted_as_queued():
    rig = Rig(experiment("e", 3, 2, decided=filled((0, 0), (1, 0), (1, 1))), slots=1)
    assert rig.start() == ["start e/t2#0"]
    [view] = rig.scheduler.snapshot().experiments
    assert (view.slots, view.queued, view.in_flight) == (3, 2, 1)
    assert starts(rig.end("e/t2#0")) == ["e/t0#1"]
    assert starts(rig.end("e/t0#1")) == ["e/t2#1"]
    assert rig.end("e/t2#1")[-2:] == ["finish e complete", "finish"]


def test_04_any_ordinal_may_be_filled():
    rig = Rig(experiment("e", 1, 5, decided=filled((0, 1), (0, 3))))
    assert starts(rig.start()) == ["e/t0#0", "e/t0#2", "e/t0#4"]


def test_O2_a_task_goes_on_as_if_what_is_filled_had_been_done_first():
    """The first task has its first result, whichever ordinal that has: it waits until the others have theirs."""
    rig = Rig(experiment("e", 3, 2, decided=filled((0, 1))), slots=1)
    order = starts(rig.start())
    while len(order) < 5:
        order += starts(rig.end(order[-1]))
    assert order == ["e/t1#0", "e/t2#0", "e/t0#0", "e/t1#1", "e/t2#1"]


def test_E2_a_reused_attempt_that_passed_closes_its_task_at_planning():
    decided = passed((0, 1)) + filled((1, 0)) + graded((0, 2))
    rig = Rig(experiment("e", 2, 3, early_exit=True, decided=decided, isolated=False))
    assert rig.start() == ["stop e early exit 2", "start e/t1#1"]
    rig.end("e/t1#1")
    assert rig.log[-3:] == ["stop e early exit 1", "finish e complete", "finish"]


def test_E2_that_is_a_complete_run_where_it_closes_everything():
    rig = Rig(experiment("e", 1, 3, early_exit=True, decided=passed((0, 0)), has_setup=True))
    assert rig.start() == ["stop e early exit 2", "finish e complete", "finish"]


def test_E1_without_early_exit_a_reused_pass_closes_nothing():
    assert Rig(experiment("e", 1, 3, decided=passed((0, 0)))).start() == ["start e/t0#1", "start e/t0#2"]


def test_G10_a_task_whose_slots_are_all_reused_may_be_larger_than_the_host():
    plan = experiment("e", 2, cpus=(9.0, 9.0), decided=filled((0, 0)))
    rig = Rig(plan, host_cpus=2.0, host_providers=frozenset({"docker"}))
    assert rig.start()[0] == "seal e/t1#0 errored (environment.too_large)"
    assert rig.log[1:] == ["finish e complete", "finish"]


def test_O1_need_counts_what_will_be_executed():
    wide, narrow = (
        experiment("wide", 8, expected_seconds=(1.0,) * 8),
        experiment("narrow", 4, expected_seconds=(1.0,) * 4),
    )
    assert starts(Rig(narrow, wide, slots=1).start()) == ["wide/t0#0"]
    mostly = experiment("wide", 8, expected_seconds=(1.0,) * 8, decided=filled((0, 0), (1, 0), (2, 0), (3, 0), (4, 0)))
    rig = Rig(narrow, mostly, slots=1)
    assert starts(rig.start()) == ["narrow/t0#0"]
    assert rig.scheduler._books.runs[1].need == 3_000_000


def test_E4_what_is_reused_is_not_paid_for():
    rig = Rig(experiment("e", 3, budget_usd=1.0, expected_cost_usd=0.6, decided=filled((0, 0), (1, 0))))
    assert rig.start() == ["start e/t2#0"]


def test_I1_an_interrupt_before_the_start_stops_what_is_left():
    rig = Rig(experiment("e", 2, 2, early_exit=True, decided=passed((0, 0)) + filled((1, 0))))
    rig.interrupt()
    assert rig.start() == ["stop e early exit 1", "stop e interrupt 1", "finish e interrupted", "finish"]


# --------------------------------------------------------------------------------------------------- only graded


@pytest.mark.parametrize("mode", [NONE, FRESH])
def test_T3_the_first_try_of_saved_work_only_grades(mode):
    plan = experiment("e", 1, grading=mode, provider="a", grading_provider="g", model="m", judge="j", cap=1,
                      decided=graded((0, 0)))  # fmt: skip
    rig = Rig(plan, providers={"a": 1, "g": 1})
    assert rig.start() == ["start e/t0#0 only grading"]
    held = {gate for gate, number in rig.held().items() if number}
    assert held == {"global", "experiment e", "model j"} | ({"provider g"} if mode is FRESH else set())
    if mode is FRESH:
        rig.opened("e/t0#0", Purpose.GRADE)
    rig.phase("e/t0#0", Phase.GRADE)
    assert rig.end("e/t0#0") == ["seal e/t0#0 passed 1.0", "finish e complete", "finish"]
    assert set(rig.held().values()) == {0}


def test_04_it_counts_as_a_slot_to_be_executed():
    rig = Rig(experiment("e", 2, decided=graded((0, 0), (1, 0))), slots=1)
    assert starts(rig.start()) == ["e/t0#0 only grading"]
    [view] = rig.scheduler.snapshot().experiments
    assert (view.slots, view.queued, view.in_flight) == (2, 1, 1)


def test_O3_saved_work_is_graded_while_the_rest_of_its_task_waits_for_the_agents_provider():
    rig = Rig(experiment("e", 2, 2, decided=graded((0, 1), (1, 1))), providers={"docker": 1})
    assert starts(rig.start()) == ["e/t0#1 only grading", "e/t1#1 only grading", "e/t0#0"]


def test_O3_and_the_other_way_round():
    plan = experiment("e", 2, 2, judge="j", decided=graded((0, 0), (1, 0)))
    rig = Rig(plan, models={"j": ModelLimits(1)})
    assert starts(rig.start()) == ["e/t0#0 only grading", "e/t0#1", "e/t1#1"]


def test_G6_grading_counts_as_an_attempt_of_its_task():
    rig = Rig(experiment("e", 2, 2, isolated=False, decided=graded((0, 1))))
    assert starts(rig.start()) == ["e/t1#0", "e/t0#1 only grading"]
    assert starts(rig.end("e/t0#1")) == ["e/t0#0"]
    assert starts(rig.end("e/t1#0")) == ["e/t1#1"]


def test_G6_also_where_the_agent_works_first():
    plan = experiment("e", 1, 2, isolated=False, judge="j", decided=graded((0, 1)))
    rig = Rig(plan, experiment("o", 1, model="j"), models={"j": ModelLimits(1)}, slots=2)
    first = starts(rig.start())
    assert len(first) == 2
    assert len([name for name in first if name.startswith("e/")]) == 1


def test_E3_of_an_undecided_task_one_goes_at_a_time_while_others_wait():
    early = experiment("e", 1, 3, early_exit=True, decided=graded((0, 2)))
    rig = Rig(early, experiment("o", 3), slots=2)
    assert starts(rig.start()) == ["e/t0#2 only grading", "o/t0#0"]
    assert starts(rig.end("o/t0#0")) == ["o/t1#0"]
    assert rig.end("e/t0#2") == ["seal e/t0#2 passed 1.0", "stop e early exit 2", "start o/t2#0", "finish e complete"]


def test_E2_a_pass_elsewhere_gives_up_what_was_only_to_be_graded():
    early = experiment("e", 1, 2, early_exit=True, grading=FRESH, grading_provider="g", decided=graded((0, 1)))
    other = experiment("o", 1, provider="g", expected_seconds=(99.0,))
    rig = Rig(other, early, providers={"g": 1})
    assert starts(rig.start()) == ["o/t0#0", "e/t0#0"]
    assert rig.end("e/t0#0", PASSED) == ["seal e/t0#0 passed 1.0", "stop e early exit 1", "finish e complete"]


def test_T3_work_that_was_saved_by_an_earlier_run_is_graded_again_and_forgotten_where_it_is_damaged():
    rig = Rig(experiment("e", 1, 2, isolated=False, retry=AGAIN, decided=graded((0, 1))))
    rig.start()
    rig.end("e/t0#1", CRASHED)
    assert rig.tick(50.0) == ["start e/t0#1 try 2 only grading"]
    rig.end("e/t0#1", DAMAGED)
    assert rig.tick(99.0) == ["start e/t0#1 try 3"]
    rig.opened("e/t0#1")
    assert starts(rig.end("e/t0#1")) == ["e/t0#0"]


def test_T1_without_retries_damaged_work_is_an_error():
    rig = Rig(experiment("e", 1, decided=graded((0, 0))))
    rig.start()
    assert rig.end("e/t0#0", DAMAGED) == ["seal e/t0#0 errored", "finish e complete", "finish"]


def test_05_saved_work_is_graded_where_the_agents_model_is_stopped():
    plan = experiment("e", 3, model="m", grading=FRESH, provider="a", grading_provider="g", stop_on_repeated=1,
                      decided=graded((2, 0)))  # fmt: skip
    rig = Rig(plan, providers={"a": 1, "g": 1}, slots=1)
    assert starts(rig.start()) == ["e/t0#0"]
    lines = rig.end("e/t0#0", broken("model.payment"))
    assert lines[1:] == ["stop e stopped scope 1", "start e/t2#0 only grading"]


def test_05_a_task_that_is_given_up_is_given_up_with_its_saved_work():
    rig = Rig(experiment("e", 1, 2, isolated=False, decided=graded((0, 1))), slots=1)
    assert starts(rig.start()) == ["e/t0#1 only grading"]
    lines = rig.end("e/t0#1", broken("task.fatal"))
    assert lines[:2] == ["seal e/t0#1 errored", "seal e/t0#0 errored (task.fatal)"]


def test_S6_a_failed_setup_gives_up_saved_work_as_well():
    rig = Rig(experiment("e", 1, 2, has_setup=True, decided=graded((0, 0))))
    rig.start()
    code = "(experiment.setup_failed)"
    lines = rig.feed(SetupEnded("e", issue_of("experiment.setup_failed", "on purpose")))
    assert lines[:2] == [f"seal e/t0#1 errored {code}", f"seal e/t0#0 errored {code}"]


def test_G10_what_needs_no_sandbox_to_be_graded_fits_on_any_host():
    plan = experiment("e", 1, 2, cpus=(9.0,), decided=graded((0, 1)))
    rig = Rig(plan, host_cpus=2.0, host_providers=frozenset({"docker"}))
    assert rig.start() == ["seal e/t0#0 errored (environment.too_large)", "start e/t0#1 only grading"]


def test_O1_how_long_it_took_to_grade_saved_work_teaches_nothing():
    rig = Rig(experiment("e", 1, 2, isolated=False, decided=graded((0, 0))))
    rig.start()
    rig.end("e/t0#0", at=5.0)
    assert rig.scheduler._books.durations.count == 0


# --------------------------------------------------------------------------------------------------------- lanes


def test_L4_no_lane_is_begun_where_all_attempts_are_carried():
    rig = Rig(experiment("e", 2, sandbox_reuse=True, decided=filled((0, 0), (1, 0))))
    assert rig.start() == ["finish e complete", "finish"]


def test_L4_saved_work_is_graded_in_a_lane_without_opening_its_sandbox():
    plan = experiment("e", 1, 2, sandbox_reuse=True, decided=graded((0, 0)))
    rig = Rig(plan, providers={"docker": 1})
    assert rig.start() == ["open e/lane-1", "start e/t0#0 only grading in e/lane-1"]
    assert rig.end("e/t0#0", sandbox_reusable=False) == ["seal e/t0#0 passed 1.0", "close e/lane-1"]
    assert rig.lane_closed("e/lane-1") == ["open e/lane-2", "start e/t0#1 in e/lane-2"]
    rig.opened("e/t0#1")
    assert rig.end("e/t0#1") == ["seal e/t0#1 passed 1.0", "close e/lane-2"]


def test_L0_saved_work_is_graded_in_an_idle_lane_with_its_sandbox():
    plan = experiment("e", 2, sandbox_reuse=True, decided=graded((0, 0)))
    rig = Rig(plan, providers={"docker": 1})
    assert rig.start() == ["open e/lane-1", "start e/t1#0 in e/lane-1"]
    rig.opened("e/t1#0")
    assert rig.end("e/t1#0")[-1] == "start e/t0#0 only grading in e/lane-1"
    assert rig.end("e/t0#0")[-1] == "close e/lane-1"


def test_L3_a_group_does_not_stop_because_a_lane_had_no_sandbox():
    groups = (GroupPlan("g", (0, 1), OnUnavailable.STOP_GROUP),)
    rig = Rig(experiment("e", 2, 2, groups=groups, decided=filled((1, 0), (1, 1)) + graded((0, 0))))
    assert rig.start() == ["open e/lane-1 of g", "start e/t0#0 only grading in e/lane-1"]
    assert rig.end("e/t0#0", sandbox_reusable=False) == ["seal e/t0#0 passed 1.0", "close e/lane-1"]
    assert rig.lane_closed("e/lane-1") == ["open e/lane-2 of g", "start e/t0#1 in e/lane-2"]


def test_T3_damaged_work_of_a_lane_is_done_again_in_a_lane():
    plan = experiment("e", 1, sandbox_reuse=True, retry=AGAIN, decided=graded((0, 0)))
    rig = Rig(plan, providers={"docker": 1})
    rig.start()
    assert rig.end("e/t0#0", DAMAGED, sandbox_reusable=False) == ["close e/lane-1", "wake at 2"]
    rig.lane_closed("e/lane-1")
    assert rig.tick(2.0) == ["open e/lane-2", "start e/t0#0 try 2 in e/lane-2"]


# ----------------------------------------------------------------------------------------------------- what is said


@pytest.mark.parametrize(
    ("mode", "decided"),
    [
        (NONE, filled((0, 0), (0, 0))), (NONE, filled((2, 0))), (NONE, filled((0, 2))), (NONE, filled((-1, 0))),
        (NONE, filled((0, 0)) + graded((0, 0))), (REUSE, graded((0, 0))),
    ],
)  # fmt: skip
def test_what_was_decided_has_to_fit_the_plan(mode, decided):
    with pytest.raises(InternalError, match="does not fit together"):
        experiment("e", 2, 2, grading=mode, decided=decided)


def test_a_plan_counts_what_is_reused():
    plan = experiment("e", 2, 2, decided=filled((0, 0)) + passed((0, 1)) + graded((1, 0)))
    assert (plan.slots, plan.reused) == (4, 2)
