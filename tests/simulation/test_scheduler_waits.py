"""Examples of backoff, retries, paces and the table "what is held when" (spec 03 B1 to B4, G4, G5, G10, G11)."""

from __future__ import annotations

import heapq
import itertools

import pytest
from scheduler_rig import PASSED, Rig, broken, experiment

from proctor.core.gates import GateLimits, ModelLimits
from proctor.core.held import HELD, Kind, Moment
from proctor.core.schedule import RetryPolicy
from proctor.errors import UsageError
from proctor.model.attempt import GradingMode, Phase
from proctor.model.events import Purpose

AGAIN = RetryPolicy(2, 4.0, 60.0, 600.0)
LOST = broken("provider.lost")


def starts(lines: list[str]) -> list[str]:
    return [line.removeprefix("start ") for line in lines if line.startswith("start ")]


# ------------------------------------------------------------------------------------- the table, cell by cell

COLUMNS = ("global", "experiment e", "provider docker", "host cpus", "model m", "model j")


def held(rig: Rig) -> dict[str, int]:
    found = rig.held()
    return {name: found.get(name, 0) for name in COLUMNS}


def row(*cells: int) -> dict[str, int]:
    return dict(zip(COLUMNS, cells, strict=True))


def full(grading: GradingMode, **more) -> Rig:
    plan = experiment("e", 1, cap=1, grading=grading, model="m", cpus=(1.0,), retry=AGAIN, **more)
    rig = Rig(plan, host_cpus=4.0, host_providers=frozenset({"docker"}), providers={"docker": 3})
    assert held(rig) == row(0, 0, 0, 0, 0, 0)  # waiting to be dispatched
    rig.start()
    return rig


def test_table_executing_backing_off_and_resumed():
    rig = full(GradingMode.NONE)
    assert held(rig) == row(1, 1, 1, 1000, 1, 0)
    rig.opened("e/t0#0")
    rig.back_off("e/t0#0")
    assert held(rig) == row(0, 1, 1, 1000, 1, 0)
    assert rig.backed_off("e/t0#0") == ["resume e/t0#0"]
    assert held(rig) == row(1, 1, 1, 1000, 1, 0)


def test_table_disposing_and_grading_none():
    rig = full(GradingMode.NONE)
    rig.opened("e/t0#0")
    rig.phase("e/t0#0", Phase.DISPOSE)
    assert held(rig) == row(1, 1, 1, 1000, 0, 0)
    rig.disposed("e/t0#0")
    rig.phase("e/t0#0", Phase.GRADE)
    assert held(rig) == row(1, 1, 0, 0, 0, 0)
    rig.end("e/t0#0")
    assert held(rig) == row(0, 0, 0, 0, 0, 0)


def test_table_grading_none_with_a_judge_asks_for_a_vector_of_its_own():
    rig = full(GradingMode.NONE, judge="j")
    rig.opened("e/t0#0")
    rig.disposed("e/t0#0")
    assert rig.queue_grading("e/t0#0") == ["grade e/t0#0"]
    assert held(rig) == row(1, 1, 0, 0, 0, 1)


def test_table_grading_fresh_holds_its_own_sandbox_and_the_judge():
    rig = full(GradingMode.FRESH, judge="j")
    rig.opened("e/t0#0")
    rig.disposed("e/t0#0")
    assert rig.queue_grading("e/t0#0") == ["grade e/t0#0"]
    assert held(rig) == row(1, 1, 1, 1000, 0, 1)
    rig.opened("e/t0#0", Purpose.GRADE)
    rig.back_off("e/t0#0")
    assert held(rig) == row(0, 1, 1, 1000, 0, 1)


def test_table_grading_reuse_takes_the_judge_from_dispatch():
    rig = full(GradingMode.REUSE, judge="j")
    assert held(rig) == row(1, 1, 1, 1000, 1, 1)
    rig.opened("e/t0#0")
    rig.phase("e/t0#0", Phase.GRADE)
    assert held(rig) == row(1, 1, 1, 1000, 1, 1)


def test_table_backoff_between_tries_keeps_the_experiments_place_only():
    rig = full(GradingMode.NONE)
    assert rig.end("e/t0#0", LOST) == ["wake at 2"]
    assert held(rig) == row(0, 1, 0, 0, 0, 0)
    assert rig.tick(2.0) == ["start e/t0#0 try 2"]
    assert held(rig) == row(1, 1, 1, 1000, 1, 0)


def test_table_as_data_has_every_column_of_the_spec():
    kept = {moment: set(kinds) for moment, kinds in HELD.items()}
    always = {Kind.EXPERIMENT, Kind.TASK, Kind.LANE}
    assert kept[Moment.WAITING] == kept[Moment.PACING] == kept[Moment.ENDED] == set()
    assert kept[Moment.EXECUTING] == set(Kind)
    assert kept[Moment.BACKING_OFF] == set(Kind) - {Kind.GLOBAL}
    assert kept[Moment.BETWEEN_TRIES] == kept[Moment.AWAITING_GRADING] == always
    assert kept[Moment.GRADING_FRESH] == set(Kind)
    assert kept[Moment.GRADING_JUDGED] == always | {Kind.GLOBAL, Kind.MODEL}
    assert kept[Moment.GRADING_NONE] == always | {Kind.GLOBAL}
    assert kept[Moment.DISPOSING] == set(Kind) - {Kind.MODEL}


# --------------------------------------------------------------------------------------------- gates and paces


def test_G4_starts_at_a_provider_are_apart_and_wait_holding_nothing():
    rig = Rig(experiment("e", 3), experiment("free", 1, provider="local"), open_per_second={"docker": 2.0})
    assert rig.start() == ["start e/t0#0", "start free/t0#0", "wake at 0.5"]
    assert rig.held()["global"] == 2
    assert rig.tick(0.4) == ["wake at 0.5"]  # a timer that fires too early does no harm
    assert rig.tick(0.5) == ["start e/t1#0", "wake at 1"]
    assert rig.tick(9.0) == ["start e/t2#0"]
    assert rig.tick(10.0) == []


def test_G4_no_burst_after_a_quiet_time_and_grading_counts_too():
    rig = Rig(experiment("e", 2, sandbox=False, grading=GradingMode.FRESH), open_per_second={"docker": 1.0})
    assert starts(rig.start()) == ["e/t0#0", "e/t1#0"]
    rig.now = 100.0
    assert rig.queue_grading("e/t0#0") == ["grade e/t0#0"]
    assert rig.queue_grading("e/t1#0") == ["wake at 101"]
    assert rig.tick(101.0) == ["grade e/t1#0"]


def test_G4_a_refused_open_keeps_its_place_and_repeats_in_the_pace():
    rig = Rig(experiment("e", 2), slots=2, open_per_second={"docker": 1.0}, providers={"docker": 2})
    rig.start()
    rig.tick(1.0)
    assert rig.held() == {"global": 2, "provider docker": 2}
    rig.back_off("e/t0#0", "provider.open_failed")
    assert rig.held() == {"global": 1, "provider docker": 2}
    rig.now = 1.5
    assert rig.backed_off("e/t0#0") == ["wake at 2"]
    assert rig.tick(2.0) == ["resume e/t0#0"]


def test_G5_an_exclusive_provider_has_one_at_a_time_whatever_its_limit():
    rig = Rig(experiment("e", 3), exclusive=frozenset({"docker"}), providers={"docker": 9})
    assert starts(rig.start()) == ["e/t0#0"]
    assert starts(rig.end("e/t0#0")) == ["e/t1#0"]


def test_G10_weights_share_the_host_and_a_task_too_large_is_errored_at_once():
    plan = experiment("e", 4, cpus=(1.0, 1.5, 0.5, 3.0))
    rig = Rig(plan, host_cpus=2.0, host_providers=frozenset({"docker"}))
    assert rig.start() == ["seal e/t3#0 errored (environment.too_large)", "start e/t0#0", "start e/t2#0"]
    assert starts(rig.end("e/t2#0")) == []
    assert starts(rig.end("e/t0#0")) == ["e/t1#0"]


def test_G10_counts_only_sandboxes_on_this_host():
    away = experiment("e", 3, provider="remote", cpus=(64.0,) * 3)
    assert len(starts(Rig(away, host_cpus=2.0, host_providers=frozenset({"docker"})).start())) == 3


def test_G10_three_thirds_fill_a_host():
    """Rounded up to 1/64 each, only two would fit: with few different demands they are exact."""
    rig = Rig(experiment("e", 4, cpus=(2.0,) * 4), host_cpus=6.0, host_providers=frozenset({"docker"}))
    assert len(starts(rig.start())) == 3


def test_G11_connections_of_one_endpoint_count_over_all_experiments_with_judges():
    plans = experiment("a", 2, model="m"), experiment("b", 2, sandbox=False, judge="m", model="other")
    rig = Rig(*plans, models={"m": ModelLimits(max_connections=2)})
    assert starts(rig.start()) == ["a/t0#0", "a/t1#0", "b/t0#0", "b/t1#0"]
    assert rig.queue_grading("b/t0#0") == []  # the judge is the model that two attempts use
    assert rig.end("a/t0#0") == ["seal a/t0#0 passed 1.0", "grade b/t0#0"]


def test_G11_requests_per_minute_pace_the_starts():
    rig = Rig(experiment("a", 2, model="m"), models={"m": ModelLimits(requests_per_minute=30.0)})
    assert rig.start() == ["start a/t0#0", "wake at 2"]
    assert rig.tick(2.0) == ["start a/t1#0"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"open_per_second": {"docker": -1.0}}, {"open_per_second": {"docker": True}}, {"host_cpus": 0.0},
        {"models": {"m": ModelLimits(0)}}, {"models": {"m": ModelLimits(None, 0.0)}}, {"host_memory_bytes": True},
    ],
)  # fmt: skip
def test_G1_3_limits_outside_their_range_are_refused(wrong):
    with pytest.raises(UsageError):
        GateLimits(4, **wrong)


# ------------------------------------------------------------------------------------------ backoff and retries


def test_B1_another_attempt_runs_while_one_backs_off_and_resumes_come_first():
    rig = Rig(experiment("e", 4), slots=2)
    rig.start()
    assert rig.back_off("e/t0#0") == ["start e/t2#0"]
    assert rig.backed_off("e/t0#0") == []
    assert rig.end("e/t1#0") == ["seal e/t1#0 passed 1.0", "resume e/t0#0"]


def test_B1_resumes_then_gradings_then_retries_then_undispatched():
    rig = Rig(experiment("e", 5, grading=GradingMode.FRESH, retry=AGAIN), slots=3)
    rig.start()
    rig.end("e/t0#0", LOST)  # t3 starts
    for name in ("e/t1#0", "e/t2#0"):
        rig.opened(name)
    rig.back_off("e/t1#0")  # t4 starts
    rig.backed_off("e/t1#0")
    rig.disposed("e/t2#0")
    rig.now = 50.0
    order = [*rig.queue_grading("e/t2#0"), *rig.end("e/t3#0"), *rig.end("e/t4#0")]
    assert [line for line in order if not line.startswith("seal")] == ["resume e/t1#0", "grade e/t2#0",
                                                                       "start e/t0#0 try 2"]  # fmt: skip


def test_B1_retries_take_at_most_every_second_start_while_another_experiment_could_start():
    rig = Rig(experiment("bad", 4, retry=AGAIN, provider="a"), experiment("good", 8, provider="b"), slots=4)
    rig.start()
    for task in range(4):
        rig.end(f"bad/t{task}#0", LOST, at=1.0)
    rig.now = 100.0
    order = list(itertools.chain.from_iterable(starts(rig.end(f"good/t{task}#0")) for task in range(6)))
    kinds = ["retry" if "try 2" in name else "first" for name in order]
    assert kinds.count("retry") >= 3
    assert all(kinds[i : i + 2] != ["retry", "retry"] for i in range(5))


def test_B1_a_retry_has_every_start_where_nobody_else_could():
    rig = Rig(experiment("bad", 3, retry=AGAIN), slots=3)
    rig.start()
    for task in range(3):
        rig.end(f"bad/t{task}#0", LOST)
    assert len(starts(rig.tick(50.0))) == 3


def test_B2_while_as_many_back_off_as_there_are_slots_nothing_else_starts_on_the_endpoint():
    rig = Rig(experiment("e", 6, model="m"), experiment("o", 1, model="other", provider="local"), slots=2)
    rig.start()
    assert starts(rig.back_off("e/t0#0")) != []
    while "o/t0#0" not in rig.ids:
        rig.back_off(next(name for name in list(rig.ids)[::-1] if rig.ids[name]))
    running = [name for name in rig.ids if name.startswith("e/")]
    assert len(running) <= 4  # at most twice the slots have a sandbox
    assert starts(rig.end("o/t0#0")) == []
    assert rig.backed_off("e/t0#0") == ["resume e/t0#0"]


def test_B2_at_most_twice_the_slots_have_a_sandbox_at_one_endpoint():
    rig = Rig(experiment("e", 20, model="m"), slots=3)
    rig.start()
    for _ in range(10):
        working = [n for n, i in rig.ids.items() if rig.scheduler._books.in_flight[i].backing_off is None]
        if not working:
            break
        rig.back_off(working[0])
    assert len(rig.ids) <= 6
    assert rig.held()["global"] <= 3


def test_B3_a_retry_starts_after_the_end_of_the_try_before_with_the_same_attempt():
    rig = Rig(experiment("e", 1, retry=AGAIN))
    rig.start()
    first = rig.ids["e/t0#0"]
    assert rig.end("e/t0#0", LOST) == ["wake at 2"]
    assert rig.tick(2.0) == ["start e/t0#0 try 2"]
    assert rig.ids["e/t0#0"] == first
    assert rig.end("e/t0#0", LOST) == ["wake at 6"]
    rig.tick(6.0)
    assert rig.end("e/t0#0") == ["seal e/t0#0 passed 1.0", "finish e complete", "finish"]


def test_B4_the_last_try_counts_and_retry_after_is_obeyed():
    rig = Rig(experiment("e", 1, retry=RetryPolicy(1, 4.0, 60.0, 100.0)))
    rig.start()
    assert rig.end("e/t0#0", LOST, retry_after_seconds=30.0) == ["wake at 30"]
    rig.tick(30.0)
    assert rig.end("e/t0#0", LOST, retry_after_seconds=9e9) == ["seal e/t0#0 errored", "finish e complete", "finish"]


def test_B4_waits_end_at_once_on_cancellation():
    rig = Rig(experiment("e", 2, retry=AGAIN), slots=2)
    rig.start()
    rig.end("e/t0#0", LOST)
    rig.back_off("e/t1#0")
    assert rig.interrupt() == ["seal e/t0#0 cancelled", "cancel e/t1#0"]
    assert rig.tick(50.0) == []


def test_W2_other_tasks_run_while_every_task_fails_once_and_backs_off():
    """Concurrency 2, eight tasks of 0.05 s that each fail once: held slots would take some 16 s."""
    rig = Rig(experiment("e", 8, retry=RetryPolicy(1, 4.0, 4.0)), slots=2, jitter=0.5)
    agenda: list[tuple[float, int, str]] = []
    order = itertools.count()

    def take(lines: list[str]) -> None:
        for line in lines:
            verb, _, rest = line.partition(" ")
            if verb == "start":
                heapq.heappush(agenda, (rig.now + 0.05, next(order), rest.split()[0]))
            elif verb == "wake":
                heapq.heappush(agenda, (float(rest.split()[1]), next(order), ""))

    take(rig.start())
    while agenda:
        rig.now, _, name = heapq.heappop(agenda)
        take(rig.end(name, LOST if rig.tries[name] == 1 else PASSED) if name else rig.tick(rig.now))
    assert rig.log[-1] == "finish"
    assert rig.now < 4.0
