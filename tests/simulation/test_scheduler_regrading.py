"""Examples of tries that only grade (spec 05 T1, T3; 03 B1 and the table "what is held when")."""

from __future__ import annotations

import itertools

import pytest
from scheduler_rig import FAILED, PASSED, Rig, broken, experiment, graded_with

from proctor.core.gates import ModelLimits
from proctor.core.schedule import GroupPlan, OnUnavailable, RetryPolicy
from proctor.errors import InternalError
from proctor.model.attempt import Grade, GradingMode, Outcome, Phase, TryResult, Usage, issue_of
from proctor.model.events import Purpose

NONE, FRESH, REUSE = GradingMode.NONE, GradingMode.FRESH, GradingMode.REUSE
TWICE = RetryPolicy(2, 4.0, 60.0, 600.0)
LIMIT = RetryPolicy(2, 4.0, 60.0, 600.0, ("limit",))
CRASHED = TryResult(Outcome.BROKEN, issues=(issue_of("grader.crashed", "on purpose", Phase.GRADE),))
DAMAGED = TryResult(Outcome.BROKEN, issues=(issue_of("checkpoint.damaged", "on purpose"),))
HARNESS_LIMIT = issue_of("harness.limit", "so many steps", Phase.AGENT)
NAME = "e/t0#0"
MODES_AND_JUDGES = list(itertools.product((NONE, FRESH), (None, "j")))


def started(**more) -> Rig:
    rig = Rig(experiment("e", more.pop("tasks", 1), **({"grading": FRESH, "retry": TWICE} | more)))
    rig.start()
    return rig


def work(rig: Rig, name: str = NAME) -> None:
    """Do the agent's part, save it, and get to grading."""
    rig.opened(name)
    rig.saved(name)
    rig.disposed(name)
    if rig.scheduler._books.runs[0].plan.grading is FRESH:
        assert rig.queue_grading(name) == [f"grade {name}"]


def again(rig: Rig, result: TryResult = CRASHED, *, at: float = 50.0) -> list[str]:
    """End the try, and return what comes when the wait is over."""
    lines = rig.end(NAME, result)
    return [line for line in [*lines, *rig.tick(rig.now + at)] if not line.startswith("wake")]


def held(rig: Rig) -> dict[str, int]:
    return {gate: number for gate, number in rig.held().items() if number}


# ------------------------------------------------------------------------------------------- the whole or grading


@pytest.mark.parametrize("mode", [NONE, FRESH])
def test_T3_saved_work_is_not_done_again_when_grading_breaks(mode):
    rig = started(grading=mode)
    work(rig)
    assert again(rig) == [f"start {NAME} try 2 only grading"]
    assert rig.end(NAME, FAILED) == [f"seal {NAME} failed 0.25", "finish e complete", "finish"]


def test_T3_without_a_checkpoint_the_whole_attempt_is_tried_again():
    rig = started()
    rig.opened(NAME)
    rig.disposed(NAME)
    rig.queue_grading(NAME)
    assert again(rig) == [f"start {NAME} try 2"]


def test_T3_graded_in_the_agents_sandbox_the_whole_attempt_is_tried_again():
    rig = started(grading=REUSE)
    rig.opened(NAME)
    rig.saved(NAME)
    assert again(rig) == [f"start {NAME} try 2"]


def test_T1_tries_of_grading_count_as_retries():
    rig = started()
    work(rig)
    assert again(rig) == [f"start {NAME} try 2 only grading"]
    assert again(rig) == [f"start {NAME} try 3 only grading"]
    assert again(rig) == [f"seal {NAME} errored", "finish e complete", "finish"]


def test_T3_a_damaged_checkpoint_is_forgotten():
    rig = started(retry=RetryPolicy(3, 4.0, 60.0))
    work(rig)
    assert again(rig) == [f"start {NAME} try 2 only grading"]
    assert again(rig, DAMAGED) == [f"start {NAME} try 3"]
    rig.opened(NAME)
    assert again(rig, broken("provider.lost")) == [f"start {NAME} try 4"]


def test_T3_a_try_of_the_whole_makes_a_checkpoint_of_its_own():
    rig = started(retry=RetryPolicy(3, 4.0, 60.0))
    work(rig)
    again(rig)
    again(rig, DAMAGED)
    work(rig)
    assert again(rig) == [f"start {NAME} try 4 only grading"]


def test_T3_work_that_the_user_wants_to_be_done_again_is_done_again():
    rig = started(retry=LIMIT)
    work(rig)
    assert again(rig, graded_with(HARNESS_LIMIT)) == [f"start {NAME} try 2"]


def test_T3_also_where_grading_breaks_on_top():
    rig = started(retry=LIMIT)
    work(rig)
    both = TryResult(Outcome.BROKEN, issues=(HARNESS_LIMIT, *CRASHED.issues))
    assert again(rig, both) == [f"start {NAME} try 2"]


def test_T3_an_error_that_no_pattern_matches_keeps_the_work():
    rig = started(retry=RetryPolicy(2, 4.0, 60.0, 600.0, ("nothing like it",)))
    work(rig)
    both = TryResult(Outcome.BROKEN, issues=(HARNESS_LIMIT, *CRASHED.issues))
    assert again(rig, both) == [f"start {NAME} try 2 only grading"]


def test_T3_an_error_of_grading_that_matches_is_a_matter_of_grading():
    rig = started(retry=LIMIT)
    work(rig)
    assert again(rig, graded_with(issue_of("harness.limit", "", Phase.GRADE))) == [f"start {NAME} try 2 only grading"]


def test_T3_a_wrong_answer_is_not_graded_again():
    rig = started()
    work(rig)
    assert rig.end(NAME, FAILED)[0] == f"seal {NAME} failed 0.25"


def test_T3_a_worker_that_dies_while_it_waits_for_grading_has_lost_nothing():
    rig = started()
    rig.opened(NAME)
    rig.saved(NAME)
    rig.disposed(NAME)
    rig.queue_grading(NAME)
    assert again(rig, broken("worker.lost")) == [f"start {NAME} try 2 only grading"]


# ----------------------------------------------------------------------------------------------------- permits


@pytest.mark.parametrize(("mode", "judge"), MODES_AND_JUDGES)
def test_table_a_try_that_only_grades_holds_gradings_vector_from_its_start_to_its_end(mode, judge):
    """Never a permit of the agent's provider or model, and the place of the experiment throughout."""
    plan = experiment("e", 1, cap=1, provider="agents", grading_provider="graders", grading=mode, model="m",
                      judge=judge, cpus=(1.0,), retry=TWICE)  # fmt: skip
    rig = Rig(plan, host_cpus=4.0, host_providers=frozenset({"graders"}), providers={"agents": 3, "graders": 3})
    rig.start()
    rig.opened(NAME)
    rig.saved(NAME)
    rig.disposed(NAME)
    if mode is FRESH or judge:
        rig.queue_grading(NAME)
    rig.end(NAME, CRASHED)
    assert set(held(rig)) == {"experiment e"}
    assert rig.tick(50.0) == [f"start {NAME} try 2 only grading"]
    of_box = {"provider graders": 1, "host cpus": 1000} if mode is FRESH else {}
    vector = {"global": 1, "experiment e": 1, **of_box, **({"model j": 1} if judge else {})}
    assert held(rig) == vector
    if mode is FRESH:
        rig.phase(NAME, Phase.OPEN)
        rig.opened(NAME, Purpose.GRADE)
    rig.phase(NAME, Phase.GRADE)
    assert held(rig) == vector
    if mode is FRESH:
        rig.phase(NAME, Phase.DISPOSE)
        assert held(rig) == {g: n for g, n in vector.items() if g != "model j"}
        rig.disposed(NAME)
    assert rig.held()["global"] == 1
    rig.end(NAME)
    assert set(rig.held().values()) == {0}


def test_table_a_try_that_only_grades_backs_off_and_resumes():
    rig = started(judge="j")
    work(rig)
    again(rig)
    vector = rig.held()
    rig.back_off(NAME, "provider.open_failed")
    assert rig.held() == vector | {"global": 0}
    assert rig.backed_off(NAME) == [f"resume {NAME}"]
    rig.opened(NAME, Purpose.GRADE)
    rig.phase(NAME, Phase.GRADE)
    rig.back_off(NAME)
    assert rig.held() == vector | {"global": 0}
    assert rig.backed_off(NAME) == [f"resume {NAME}"]
    assert rig.held() == vector


def test_G4_a_try_that_only_grades_obeys_the_pace_of_its_own_provider():
    plans = experiment("e", 1, provider="a", grading_provider="g", grading=FRESH, retry=TWICE), experiment("o", 2)
    rig = Rig(*plans, open_per_second={"g": 0.001, "a": 0.0001, "docker": 0.0})
    rig.start()
    work(rig)
    rig.end(NAME, CRASHED)
    assert rig.tick(50.0) == ["wake at 1000"]
    assert rig.tick(1000.0) == [f"start {NAME} try 2 only grading"]


def test_G11_only_grading_waits_for_the_judge_and_not_for_the_model():
    plans = experiment("e", 1, sandbox=False, model="m", judge="j", retry=TWICE), experiment("o", 1, model="m")
    rig = Rig(*plans, models={"m": ModelLimits(1), "j": ModelLimits(1)})
    assert rig.start() == [f"start {NAME}"]
    rig.saved(NAME)
    assert rig.queue_grading(NAME) == [f"grade {NAME}", "start o/t0#0"]
    rig.end(NAME, CRASHED)
    assert rig.tick(50.0) == [f"start {NAME} try 2 only grading"]


def test_T3_what_a_try_may_not_do_that_only_grades():
    for forbidden in (
        lambda rig: rig.queue_grading(NAME), lambda rig: rig.opened(NAME), lambda rig: rig.saved(NAME),
    ):  # fmt: skip
        rig = started()
        work(rig)
        again(rig)
        with pytest.raises(InternalError, match="only grading fresh"):
            forbidden(rig)


# -------------------------------------------------------------------------------------------- order and stopping


def test_B1_a_try_of_grading_goes_before_undispatched_attempts_and_takes_every_second_start_at_most():
    bad = experiment("e", 3, grading=FRESH, retry=TWICE, provider="a", grading_provider="g")
    rig = Rig(bad, experiment("good", 6, provider="b"), slots=3)
    rig.start()
    for task in range(3):
        name = f"e/t{task}#0"
        if name not in rig.ids:
            rig.end(f"good/t{task - 1}#0")
        work(rig, name)
    for task in range(3):
        rig.end(f"e/t{task}#0", CRASHED, at=1.0)
    rig.now = 100.0
    running = [name for name in rig.ids if name.startswith("good") and rig.ids[name] in rig.scheduler._books.in_flight]
    order = [line for name in running[:4] for line in rig.end(name) if line.startswith("start")]
    kinds = ["only grading" in line for line in order]
    assert kinds.count(True) >= 1
    assert all(kinds[i : i + 2] != [True, True] for i in range(len(kinds)))


def test_T3_only_grading_goes_on_where_the_agents_model_is_stopped():
    """What waits for another try of the whole is sealed; saved work needs the model no more."""
    plan = experiment("e", 3, sandbox=False, grading=FRESH, model="m", retry=TWICE, stop_on_repeated=1)
    rig = Rig(plan, slots=3)
    rig.start()
    rig.saved("e/t0#0")
    rig.queue_grading("e/t0#0")
    rig.end("e/t0#0", CRASHED)
    rig.end("e/t1#0", broken("harness.crashed"))
    assert rig.end("e/t2#0", broken("model.payment")) == ["seal e/t2#0 errored", "seal e/t1#0 errored"]
    assert rig.tick(50.0) == ["start e/t0#0 try 2 only grading"]


@pytest.mark.parametrize("between", ["the whole", "grading only"])
def test_05_only_a_try_that_used_the_model_ends_a_row_of_its_failures(between):
    plan = experiment("e", 3, sandbox=False, model="m", retry=TWICE, stop_on_repeated=2)
    rig = Rig(plan, slots=3)
    rig.start()
    rig.saved(NAME)
    if between == "grading only":
        rig.end(NAME, CRASHED)
        rig.tick(50.0)
    rig.end("e/t1#0", broken("model.payment"))
    rig.end(NAME, CRASHED)
    rig.end("e/t2#0", broken("model.payment"))
    assert rig.scheduler._books.built.endpoints["model", "m"].row == (1 if between == "the whole" else 2)


def test_T3_a_permanent_failure_of_grading_alone_is_that_of_its_own_endpoints():
    plan = experiment("e", 2, provider="a", grading_provider="g", grading=FRESH, retry=TWICE, stop_on_repeated=1)
    rig = Rig(plan, experiment("other", 1, provider="a"), slots=1)
    rig.start()
    work(rig)
    rig.end(NAME, CRASHED)
    rig.end("e/t1#0", PASSED)
    assert f"start {NAME} try 2 only grading" in rig.end("other/t0#0", at=50.0)
    rig.end(NAME, TryResult(Outcome.BROKEN, issues=(issue_of("provider.unavailable", "down", Phase.OPEN),)))
    assert {name: end.row for name, end in rig.scheduler._books.built.endpoints.items() if end.row} == {
        ("provider", "g"): 1
    }


def test_E4_only_grading_is_paid_for_like_any_retry():
    rig = started(budget_usd=1.0, expected_cost_usd=0.6)
    work(rig)
    spent = TryResult(Outcome.BROKEN, usage=Usage(calls=1, cost_usd=0.6), issues=CRASHED.issues)
    assert rig.end(NAME, spent)[0] == f"seal {NAME} errored (budget.no_retry)"


def test_O1_how_long_grading_alone_took_is_nothing_that_an_attempt_is_expected_to_last():
    rig = started(tasks=2, sandbox=False, grading=NONE)
    rig.saved(NAME)
    rig.end(NAME, CRASHED, at=30.0)
    rig.tick(60.0)
    rig.end(NAME, TryResult(Outcome.GRADED, Grade(solved=True, score=1.0)), at=61.0)
    assert rig.scheduler._books.durations.count == 0
    rig.end("e/t1#0", at=90.0)
    assert rig.scheduler._books.durations.value == 90_000_000


def test_B4_a_wait_for_grading_alone_ends_at_once_on_cancellation():
    rig = started()
    work(rig)
    rig.end(NAME, CRASHED)
    assert rig.interrupt() == [f"seal {NAME} cancelled", "finish e interrupted", "finish"]


def test_T3_grading_alone_can_be_cancelled():
    rig = started()
    work(rig)
    again(rig)
    assert rig.interrupt() == [f"cancel {NAME}"]
    rig.opened(NAME, Purpose.GRADE)
    rig.disposed(NAME)
    assert rig.end(NAME, TryResult(Outcome.CANCELLED))[0] == f"seal {NAME} cancelled"


# ------------------------------------------------------------------------------------------------------- lanes


@pytest.mark.parametrize(("mode", "judge"), MODES_AND_JUDGES)
def test_L0_in_a_lane_only_a_slot_and_the_judge_are_asked_for(mode, judge):
    rig = started(tasks=2, sandbox_reuse=True, grading=mode, judge=judge, model="m", cap=1)
    kept = {gate: held for gate, held in rig.held().items() if gate not in ("global", "model m")}
    rig.opened(NAME)
    rig.saved(NAME)
    assert again(rig) == [f"start {NAME} try 2 only grading in e/lane-1"]
    assert rig.held() == kept | {"global": 1, "model m": 0} | ({"model j": 1} if judge else {})
    assert rig.end(NAME)[1] == "start e/t1#0 in e/lane-1"


def test_L2_where_the_sandbox_of_the_lane_is_gone_grading_alone_opens_none():
    """It waits until that is gone and has its place; the next try of the whole opens the next one, in its pace."""
    rig = Rig(experiment("e", 2, sandbox_reuse=True, retry=TWICE), providers={"docker": 1})
    rig.start()
    rig.opened(NAME)
    rig.saved(NAME)
    assert rig.end(NAME, CRASHED, sandbox_reusable=False) == ["close e/lane-1", "wake at 2"]
    assert rig.tick(2.0) == []
    assert rig.lane_closed("e/lane-1") == ["open e/lane-2", f"start {NAME} try 2 only grading in e/lane-2"]
    assert rig.end(NAME, sandbox_reusable=False) == [f"seal {NAME} passed 1.0", "close e/lane-2"]
    assert rig.lane_closed("e/lane-2") == ["open e/lane-3", "start e/t1#0 in e/lane-3"]


def test_L3_a_group_that_stops_with_its_sandbox_is_graded_again_while_it_has_it():
    groups = (GroupPlan("g", (0, 1), OnUnavailable.STOP_GROUP),)
    rig = started(tasks=2, grading=NONE, groups=groups)
    rig.opened(NAME)
    rig.saved(NAME)
    assert again(rig) == [f"start {NAME} try 2 only grading in e/lane-1"]
    assert rig.end(NAME)[1] == "start e/t1#0 in e/lane-1"
