"""Examples of O1 to O4: need, what is learned, the probe, the claimant; and of E1 to E4 (spec 03)."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from scheduler_rig import FAILED, Rig, broken, costing, experiment, play

from proctor.core.schedule import RetryPolicy
from proctor.model.attempt import GradingMode, Phase, TryResult
from proctor.model.events import SetupEnded, StoreFailed

AGAIN = RetryPolicy(2, 4.0, 60.0, 600.0)


def starts(lines: list[str]) -> list[str]:
    return [line.removeprefix("start ") for line in lines if line.startswith("start ")]


def test_O1_fast_and_slow_capped_at_one_nothing_learned_takes_about_thirty_seconds():
    rig = Rig(experiment("fast", 60), experiment("slow", 10, cap=1), slots=3)
    play(rig, lambda name: 3.0 if name.startswith("slow") else 1.0)
    assert 30.0 <= rig.now <= 31.0


def test_O1_a_narrow_experiment_of_which_nothing_is_known_shows_first_how_long_it_takes():
    rig = Rig(experiment("wide", 9), experiment("narrow", 3, cap=1), slots=3)
    assert starts(rig.start())[0] == "narrow/t0#0"


def test_O1_the_work_that_waits_at_a_shared_gate_counts_for_all_that_share_it():
    """Each has little work; together they keep their provider busy longer than the large one does all slots."""
    small = [experiment(f"s{i}", 2, provider="tight", expected_seconds=(5.0, 5.0)) for i in range(4)]
    rig = Rig(experiment("large", 12, provider="p", expected_seconds=(5.0,) * 12), *small, slots=4,
              providers={"tight": 1})  # fmt: skip
    assert starts(rig.start())[0] == "s0/t0#0"


def test_O1_without_any_knowledge_plan_order_decides_unless_an_experiment_is_behind():
    rig = Rig(experiment("a", 6), experiment("b", 6), slots=3)
    assert starts(rig.start()) == ["a/t0#0", "a/t1#0", "a/t2#0"]


def test_O2_the_longest_goes_first_and_one_as_long_as_the_rest_at_once():
    expected = (1.0, 1.0, 30.0, 2.0)
    rig = Rig(experiment("e", 4, 2, expected_seconds=expected), slots=2)
    assert starts(rig.start()) == ["e/t2#0", "e/t2#1"]
    assert starts(rig.end("e/t2#0")) == ["e/t3#0"]


def test_O2_durations_learned_in_the_run_order_later_ordinals():
    rig = Rig(experiment("e", 3, 2), slots=1)
    rig.start()
    for task, seconds in enumerate((1.0, 9.0, 2.0)):
        rig.end(f"e/t{task}#0", at=rig.now + seconds)
    rig.end("e/t1#1", at=rig.now + 9)
    rig.end("e/t2#1", at=rig.now + 2)
    assert starts(rig.log)[3:] == ["e/t1#1", "e/t2#1", "e/t0#1"]


def test_O3_a_capped_experiment_never_waits_behind_what_others_had_waiting():
    """Three global slots: slow always occupies one, and its next starts only after the sandbox before is gone."""
    rig = Rig(experiment("fast", 24), experiment("slow", 10, cap=1), slots=3)
    spans = play(rig, lambda name: 1.0)
    assert rig.now == 12.0
    slow = sorted(span for name, span in spans.items() if name.startswith("slow"))
    assert all(slow[i][1] <= slow[i + 1][0] for i in range(9))


def overtaken(patience: int) -> int:
    """Let small attempts run on a host before a large one may; return how many start before it does."""
    large = experiment("large", 1, cpus=(4.0,), expected_seconds=(500.0,), has_setup=True)
    small = experiment("small", 300, cpus=(1.0,) * 300, expected_seconds=(1.0,) * 300)
    rig = Rig(small, large, slots=8, patience=patience, host_cpus=4.0, host_providers=frozenset({"docker"}))
    running = starts(rig.start())
    assert len(running) == 4
    rig.feed(SetupEnded("large"))
    begun = 0
    while running and "large/t0#0" not in rig.ids:
        started = starts(rig.end(running.pop(0)))
        running += started
        begun += len(started)
    assert running == ["large/t0#0"]
    return begun - 1


def test_O4_a_large_task_is_overtaken_so_often_and_no_more():
    assert overtaken(100) == 100
    assert overtaken(5) == 5


def test_O4_the_claimant_reserves_no_global_slot_and_nothing_at_other_gates():
    large = experiment("large", 1, cpus=(2.0,), expected_seconds=(500.0,), has_setup=True)
    small = experiment("small", 20, cpus=(1.0,) * 20)
    free = experiment("free", 9, provider="local")
    rig = Rig(small, large, free, slots=3, patience=1, host_cpus=2.0, host_providers=frozenset({"docker"}))
    assert starts(rig.start()) == ["small/t0#0", "small/t1#0", "free/t0#0"]
    rig.feed(SetupEnded("large"))
    assert starts(rig.end("small/t0#0")) == ["small/t2#0"]
    assert starts(rig.end("small/t1#0")) == ["free/t1#0"]
    assert starts(rig.end("small/t2#0")) == ["large/t0#0"]


def test_O1_with_equal_work_at_a_shared_gate_the_need_of_its_own_decides():
    """Plan order would start the long one last: 575 s instead of 500 s."""
    long = experiment("long", 1, cpus=(2.0,), expected_seconds=(500.0,))
    short = experiment("short", 300, cpus=(1.0,) * 300, expected_seconds=(1.0,) * 300)
    rig = Rig(short, long, slots=8, host_cpus=4.0, host_providers=frozenset({"docker"}))
    play(rig, lambda name: 500.0 if name.startswith("long") else 1.0)
    assert rig.now == 500.0


# ------------------------------------------------------------------------------------------- early exit, budget


def test_E1_all_attempts_run_by_default():
    rig = Rig(experiment("e", 1, 3), slots=1)
    play(rig, lambda name: 1.0)
    assert starts(rig.log) == ["e/t0#0", "e/t0#1", "e/t0#2"]


def test_E2_a_pass_ends_its_task_and_cancels_what_is_in_flight():
    rig = Rig(experiment("e", 1, 5, early_exit=True), slots=3)
    rig.start()
    assert rig.end("e/t0#1", FAILED) == ["seal e/t0#1 failed 0.25", "start e/t0#3"]
    assert rig.end("e/t0#0") == [
        "seal e/t0#0 passed 1.0", "stop e early exit 1", "cancel e/t0#2 early exit", "cancel e/t0#3 early exit",
    ]  # fmt: skip
    rig.end("e/t0#2")  # it had ended before it heard of it, and stands
    assert rig.log[-1] == "seal e/t0#2 passed 1.0"
    assert rig.end("e/t0#3", broken("worker.lost")) == ["seal e/t0#3 errored", "finish e complete", "finish"]


def test_E2_one_that_waits_for_another_try_is_cancelled_at_once():
    rig = Rig(experiment("e", 1, 2, early_exit=True, retry=AGAIN), slots=2)
    rig.start()
    rig.end("e/t0#1", broken("provider.lost"))
    assert rig.end("e/t0#0") == [
        "seal e/t0#0 passed 1.0", "seal e/t0#1 cancelled", "finish e complete", "finish",
    ]  # fmt: skip


def test_E3_a_second_attempt_of_an_undecided_task_waits_for_everything_else():
    rig = Rig(experiment("e", 2, 2, early_exit=True), experiment("o", 2, 2), slots=5)
    assert sorted(starts(rig.start())) == ["e/t0#0", "e/t1#0", "o/t0#0", "o/t0#1", "o/t1#0"]
    assert starts(rig.end("o/t0#0")) == ["o/t1#1"]
    assert starts(rig.end("o/t1#0")) == ["e/t0#1"]


def test_E3_a_cap_of_one_makes_it_strict():
    rig = Rig(experiment("e", 1, 3, early_exit=True, cap=1))
    assert starts(rig.start()) == ["e/t0#0"]
    assert starts(rig.end("e/t0#0", FAILED)) == ["e/t0#1"]
    assert rig.end("e/t0#1")[1:] == ["stop e early exit 1", "finish e complete", "finish"]


def test_E4_one_attempt_at_a_time_until_a_cost_is_known_then_as_many_as_fit():
    rig = Rig(experiment("e", 10, budget_usd=5.0), slots=8)
    assert starts(rig.start()) == ["e/t0#0"]
    assert len(starts(rig.end("e/t0#0", costing(1.0)))) == 4
    for task in range(1, 5):
        rig.end(f"e/t{task}#0", costing(0.5))
    assert len(starts(rig.log)) > 5
    running = [name for name, i in rig.ids.items() if i in rig.scheduler._books.in_flight]
    for name in running:
        rig.end(name, costing(1.0))
    assert rig.log[-3:] == ["stop e budget 3", "finish e stopped", "finish"]


def test_E4_an_expected_cost_is_reserved_and_cancelled_tries_count():
    rig = Rig(experiment("e", 9, budget_usd=4.0, expected_cost_usd=2.0))
    assert starts(rig.start()) == ["e/t0#0", "e/t1#0"]
    assert starts(rig.end("e/t0#0", costing(0.25))) == [f"e/t{i}#0" for i in range(2, 9)]


def test_E4_a_refused_retry_seals_the_attempt_with_its_last_try():
    rig = Rig(experiment("e", 1, budget_usd=1.0, retry=AGAIN))
    rig.start()
    lost = broken("provider.lost")
    spent = TryResult(lost.outcome, usage=costing(0.75).usage, issues=lost.issues)
    assert rig.end("e/t0#0", spent) == ["seal e/t0#0 errored (budget.no_retry)", "finish e complete", "finish"]


def test_E4_a_budget_of_nothing_starts_nothing():
    rig = Rig(experiment("e", 3, budget_usd=0.0), experiment("o", 1))
    assert rig.start() == ["stop e budget 3", "start o/t0#0", "finish e stopped"]


def test_E4_a_budget_that_cannot_be_enforced_holds_nothing_up():
    rig = Rig(experiment("e", 4, budget_usd=1.0))
    rig.start()
    assert len(starts(rig.end("e/t0#0", costing(None)))) == 3


# ----------------------------------------------------------------------------------------------- stopped scopes


def test_a_task_that_is_at_fault_ends_alone():
    rig = Rig(experiment("e", 2, 3, isolated=False), slots=2)
    rig.start()
    assert rig.end("e/t0#0", broken("task.fatal")) == [
        "seal e/t0#0 errored", "seal e/t0#1 errored (task.fatal)", "seal e/t0#2 errored (task.fatal)",
    ]  # fmt: skip


def test_an_image_that_is_missing_ends_the_tasks_that_share_it():
    rig = Rig(experiment("e", 4, environments=(0, 1, 0, 1)), slots=1)
    rig.start()
    assert rig.end("e/t0#0", broken("image.missing")) == [
        "seal e/t0#0 errored", "seal e/t2#0 errored (image.missing)", "start e/t1#0",
    ]  # fmt: skip


def test_an_experiment_at_fault_is_errored_at_once_and_its_waiting_retries_with_their_last_try():
    rig = Rig(experiment("e", 4, retry=AGAIN), slots=2)
    rig.start()
    rig.end("e/t0#0", broken("provider.lost"))
    assert rig.end("e/t1#0", broken("experiment.fatal")) == [
        "seal e/t1#0 errored", "seal e/t3#0 errored (experiment.fatal)", "seal e/t0#0 errored",
    ]  # fmt: skip


@pytest.mark.parametrize(("times", "stops"), [(3, True), (2, False), (0, False)])
def test_a_model_is_given_up_across_experiments_after_so_many_in_a_row(times, stops):
    plans = [experiment(name, 4, model="m", stop_on_repeated=times) for name in "ab"]
    rig = Rig(*plans, experiment("c", 1, model="other"), slots=1)
    rig.start()
    for _ in range(3):
        name = next(name for name, i in rig.ids.items() if i in rig.scheduler._books.in_flight)
        rig.end(name, broken("model.payment"))
    stopped = [line for line in rig.log if line.startswith("stop")]
    assert bool(stopped) == (times > 0)
    assert not any(line.startswith("stop c") for line in stopped)
    if stops:
        assert [line.split()[1] for line in stopped] == ["a", "b"]


def test_a_judge_at_fault_is_not_the_model_of_the_agent():
    rig = Rig(experiment("a", 2, model="m", judge="j", stop_on_repeated=1), experiment("b", 2, model="m"), slots=1)
    rig.start()
    result = broken("model.payment")
    graded = TryResult(result.outcome, issues=(replace(result.issues[0], phase=Phase.GRADE),))
    lines = rig.end("a/t0#0", graded)
    assert "stop a stopped scope 1" in lines
    assert not any(line.startswith("stop b") for line in lines)


def test_trouble_with_the_disk_stops_everything_and_says_why():
    rig = Rig(experiment("e", 3), slots=1)
    rig.start()
    assert rig.feed(StoreFailed()) == ["stop e disk 2", "cancel e/t0#0 disk"]
    assert rig.interrupt() == []


# ------------------------------------------------------------------------------------------------ in bulk


@pytest.mark.parametrize("seed", range(20))
def test_makespan_without_caps_keeps_grahams_bound(seed):
    rng = random.Random(seed)
    seconds = {f"e{e}/t{t}#{o}": rng.lognormvariate(1, 1) for e in range(2) for t in range(12) for o in range(2)}
    rig = Rig(experiment("e0", 12, 2), experiment("e1", 12, 2, grading=GradingMode.REUSE), slots=4)
    play(rig, seconds.__getitem__)
    assert rig.now <= math.fsum(seconds.values()) / 4 + 0.75 * max(seconds.values()) + 1e-9
