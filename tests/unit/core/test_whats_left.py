"""What is left of a run, and what it comes to (spec 07: the estimate; spec 04 P4)."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.core.expectations import Sample
from proctor.core.limits import GateLimits
from proctor.core.remaining import (
    SIMULATED_AT_MOST,
    remaining_cost,
    roughly_seconds,
    simulable,
    simulated_seconds,
)
from proctor.core.schedule import DecidedSlot, ExperimentPlan, Filling, RetryPolicy
from proctor.core.whats_left import WhatsLeft
from proctor.model.attempt import Grade, Outcome, Phase, TryResult, Usage, Verdict, issue_of
from proctor.model.events import (
    AttemptSealed,
    BackoffStarted,
    DispatchStopped,
    Event,
    PhaseEnded,
    SlotFilled,
    StopReason,
    TryEnded,
    TryStarted,
)


def plan(tasks: int = 4, attempts: int = 1, **more: object) -> ExperimentPlan:
    names = tuple(f"t{number}" for number in range(tasks))
    return ExperimentPlan("e", names, attempts, "local", (False,) * tasks, **more)  # type: ignore[arg-type]


def attempt(
    task: str, ordinal: int = 0, *, seconds: float = 10.0, cost: float | None = 0.5, passed: bool = True
) -> Iterator[Event]:
    """Yield the events of one attempt that took so long."""
    name = f"{task}-{ordinal}"
    yield TryStarted(name, task, ordinal, 1)
    yield PhaseEnded(name, Phase.AGENT, seconds)
    usage = Usage(calls=1, cost_usd=cost)
    yield TryEnded(name, 1, TryResult(Outcome.GRADED, Grade(passed, float(passed)), usage))
    yield AttemptSealed(name, task, ordinal, Verdict.PASSED if passed else Verdict.FAILED, float(passed), 1)


def fed(left: WhatsLeft, *events: Event, at: float = 0.0) -> WhatsLeft:
    for event in events:
        left.add(event, at)
    return left


def chance(number: int) -> random.Random:
    return random.Random(number)


def seconds_of(left: WhatsLeft, limits: GateLimits, now: float = 0.0) -> float | None:
    rest = left.rest(now)
    return 0.0 if rest is None else simulated_seconds([rest], limits, chance)


ONE = GateLimits(task_concurrency=1)


def test_07_nothing_is_estimated_of_which_nothing_is_known() -> None:
    left = WhatsLeft(plan(), {})
    assert roughly_seconds([left], ONE, 0.0) is None
    assert seconds_of(left, ONE) is None
    assert remaining_cost([left]) is None


def test_07_what_this_run_has_seen_counts_from_then_on() -> None:
    left = WhatsLeft(plan(), {f"t{number}": [Sample(100.0, cost_usd=1.0)] for number in range(4)})
    assert left.seconds.sum_of(left.slots) == pytest.approx(400.0)
    fed(left, *attempt("t0", seconds=10.0))
    assert left.seconds.sum_of(left.slots) == pytest.approx(300.0), "tasks of which history knows are as they were"
    fed(other := WhatsLeft(plan(attempts=2), {}), *attempt("t0", seconds=10.0), *attempt("t1", seconds=30.0))
    # t0 and t1 have one left each, like their own; t2 and t3 were never seen: like the mean of what was.
    assert other.seconds.sum_of(other.slots) == pytest.approx(10.0 + 30.0 + 4 * 20.0)


def test_07_history_gives_way_task_by_task() -> None:
    left = WhatsLeft(plan(attempts=2), {"t0": [Sample(100.0)] * 9})
    fed(left, *attempt("t0", seconds=10.0))
    assert left.seconds.of(0) == pytest.approx(10.0)


def test_07_attempts_in_flight_count_with_what_is_left_of_them() -> None:
    left = WhatsLeft(plan(tasks=2), {name: [Sample(100.0)] * 5 for name in ("t0", "t1")})
    fed(left, TryStarted("a", "t0", 0, 1), TryStarted("b", "t1", 0, 1), at=1000.0)
    two = GateLimits(task_concurrency=2)
    assert seconds_of(left, two, 1040.0) == pytest.approx(60.0)
    assert roughly_seconds([left], two, 1040.0) == pytest.approx(60.0)
    assert roughly_seconds([left], two, 1500.0) == pytest.approx(10.0), "what takes longer than ever is not over"


def test_07_what_is_filled_or_stopped_is_not_left() -> None:
    left = WhatsLeft(plan(), {"t0": [Sample(10.0)] * 5})
    fed(left, SlotFilled("x", "t1", 0, "e/r", Verdict.PASSED, 1.0))
    assert left.slots == 3
    assert seconds_of(left, ONE) is not None
    fed(left, TryStarted("a", "t0", 0, 1), DispatchStopped("e", StopReason.INTERRUPT, 2))
    assert seconds_of(left, ONE) == pytest.approx(10.0)
    assert roughly_seconds([left], ONE, 0.0) == pytest.approx(10.0)


def test_03_E2_a_task_that_was_solved_has_nothing_left_with_early_exit() -> None:
    left = WhatsLeft(plan(tasks=1, attempts=5, early_exit=True), {})
    fed(left, *attempt("t0", 0, passed=False))
    assert left.slots == 4
    fed(left, *attempt("t0", 1, passed=True))
    assert left.slots == 0
    assert left.rest(0.0) is None


def test_07_early_exit_leaves_a_share_out() -> None:
    left = WhatsLeft(plan(tasks=100, attempts=4, early_exit=True), {})
    assert left.share_executed() == 1.0
    for number in range(50):
        fed(left, *attempt(f"t{number}", passed=number % 2 == 0))
    assert 0.4 < left.share_executed() < 0.7


def test_07_a_slot_that_is_only_graded_costs_the_time_of_grading() -> None:
    decided = (DecidedSlot(0, 0, Filling.GRADING_ONLY),)
    left = WhatsLeft(plan(tasks=1, decided=decided), {"t0": [Sample(100.0, grade_seconds=7.0)] * 5})
    assert seconds_of(left, ONE) == pytest.approx(7.0)


@settings(max_examples=40, deadline=None)
@given(
    tasks=st.integers(1, 30),
    attempts=st.integers(1, 4),
    width=st.integers(1, 20),
    done=st.integers(0, 100),
    cap=st.sampled_from([None, 1, 3]),
)
def test_07_the_formula_says_about_what_the_scheduler_does(
    tasks: int, attempts: int, width: int, done: int, cap: int | None
) -> None:
    """Of attempts that last between 10 and 30 s the formula is off by no more than one attempt and a tenth of all."""
    one = plan(tasks, attempts, max_concurrency=cap)
    rng = random.Random(f"{tasks} {attempts} {done}")
    history = {name: [Sample(rng.uniform(10.0, 30.0))] * 5 for name in one.task_ids}
    left = WhatsLeft(one, history)
    for place in range(min(done, one.slots)):
        name = one.task_ids[place % tasks]
        fed(left, *attempt(name, place // tasks, seconds=history[name][0].seconds))
    limits = GateLimits(task_concurrency=width)
    real, rough = seconds_of(left, limits), roughly_seconds([left], limits, 0.0)
    assert real is not None
    assert rough is not None
    assert rough == pytest.approx(real, abs=30.0 + 0.1 * real)


def test_07_the_sums_are_those_of_what_is_left_whatever_came_in_which_order() -> None:
    one = plan(tasks=6, attempts=3)
    slots = [(task, ordinal) for task in one.task_ids for ordinal in range(3)]
    rng = random.Random(7)
    rng.shuffle(slots)
    left, seen = WhatsLeft(one, {"t5": [Sample(50.0)]}), {}
    for number, (task, ordinal) in enumerate(slots):
        seconds = rng.uniform(1.0, 9.0)
        fed(left, *attempt(task, ordinal, seconds=seconds))
        seen.setdefault(task, []).append(seconds)
        rest = slots[number + 1 :]
        everything = [second for of_task in seen.values() for second in of_task]
        mean = sum(everything) / len(everything)
        own = {name: sum(of_task) / len(of_task) for name, of_task in seen.items()}
        expected = sum(own.get(name, 50.0 if name == "t5" else mean) for name, _ in rest)
        assert left.slots == len(rest)
        assert left.seconds.sum_of(left.slots) == pytest.approx(expected)


# ---------------------------------------------------------------------------------------------------------------- cost


def test_07_cost_is_expected_with_its_spread() -> None:
    left = WhatsLeft(plan(tasks=10), {})
    fed(left, *attempt("t0", cost=1.0), *attempt("t1", cost=3.0))
    cost = remaining_cost([left])
    assert cost is not None
    assert cost.usd == pytest.approx(8 * 2.0)
    deviation = 2**0.5
    assert cost.spread_usd == pytest.approx(deviation * (8 + 8**2 / 2) ** 0.5)
    fed(left, TryStarted("x", "t2", 0, 1))
    again = remaining_cost([left])
    assert again is not None
    assert again.usd == pytest.approx(16.0), "what is in flight has cost nothing that was counted yet"


def test_07_an_unknown_cost_stays_unknown() -> None:
    left = fed(WhatsLeft(plan(), {}), *attempt("t0", cost=None))
    assert roughly_seconds([left], ONE, 0.0) is not None
    assert remaining_cost([left]) is None
    known = fed(WhatsLeft(plan(), {}), *attempt("t0", cost=1.0))
    assert remaining_cost([known, left]) is None
    one = remaining_cost([known])
    assert one is not None
    assert one.spread_usd is None, "of one attempt nobody can tell how much they differ"


def test_03_E4_only_whole_attempts_are_expected_of_what_the_budget_has_left() -> None:
    before = fed(WhatsLeft(plan(tasks=100, budget_usd=5.0, spent_before_usd=2.5), {}), *attempt("t0", cost=1.0))
    assert remaining_cost([before]) == (1.0, None), "of the $1.50 that are left"
    spent = fed(WhatsLeft(plan(tasks=100, budget_usd=5.0, spent_before_usd=4.5), {}), *attempt("t0", cost=1.0))
    assert remaining_cost([spent]) == (0.0, 0.0)
    spent.add(TryStarted("t1-0", "t1", 0, 1), 0.0)
    assert remaining_cost([spent]) == (1.0, None), "what is in flight goes on"


def test_03_E4_no_more_is_expected_than_the_budget_has() -> None:
    left = fed(WhatsLeft(plan(tasks=100, budget_usd=5.0), {}), *attempt("t0", cost=1.0), *attempt("t1", cost=1.0))
    cost = remaining_cost([left])
    assert cost is not None
    assert cost.usd == pytest.approx(3.0)


def test_12_of_a_hundred_thousand_slots_the_formula_is_used() -> None:
    left = WhatsLeft(plan(tasks=100_000), {})
    fed(left, *attempt("t0", seconds=10.0))
    assert not simulable([left])
    assert roughly_seconds([left], GateLimits(task_concurrency=100), 0.0) == pytest.approx(10_000, rel=0.01)
    small = WhatsLeft(plan(tasks=SIMULATED_AT_MOST), {})
    assert simulable([small])


def test_07_an_attempt_that_waits_executes_nothing_meanwhile() -> None:
    """It took 4 of its 10 seconds when it began to wait for 30; the wait and the other 6 seconds are left."""
    left = WhatsLeft(plan(1), {"t0": [Sample(10.0)]})
    fed(left, TryStarted("a", "t0", 0, 1))
    fed(left, BackoffStarted("a", "model.rate_limited", 30.0), at=4.0)
    assert list(left.in_flight_seconds(4.0)) == [36.0]
    assert list(left.in_flight_seconds(35.0)) == [5.0]


def test_07_between_two_tries_the_wait_and_a_whole_try_are_left() -> None:
    left = WhatsLeft(plan(1, retry=RetryPolicy(max_retries=1, min_delay_seconds=8.0)), {"t0": [Sample(10.0)]})
    fed(left, TryStarted("a", "t0", 0, 1))
    fed(left, TryEnded("a", 1, TryResult(Outcome.BROKEN, issues=(issue_of("provider.lost", "gone"),))), at=9.0)
    assert list(left.in_flight_seconds(9.0)) == [pytest.approx(16.0)], "half of the jitter: 6 seconds"
    assert seconds_of(left, ONE, now=9.0) == pytest.approx(16.0, rel=0.5)
