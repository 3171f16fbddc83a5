"""Slots inside an experiment, what waits, and what is learned, each on its own (spec 03)."""

from __future__ import annotations

import itertools
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.core.durations import SAMPLES_AT_MOST, Median, microseconds
from proctor.core.gates import Gates
from proctor.core.held import Kind
from proctor.core.order import READY, SPECULATIVE, GroupSlots, Slots, TaskTable
from proctor.core.schedule import RetryPolicy
from proctor.core.waits import Ask, Dues, Pace, Queue, backoff_seconds


def slots_of(tasks: int, attempts: int, expected=(), *, serial=False, early_exit=False) -> Slots:
    return Slots(TaskTable(tasks, attempts, expected), range(tasks), serial=serial, early_exit=early_exit)


def drain(slots: Slots, fallback: int = 1, *, free: bool = True) -> list[tuple[int, int]]:
    found = []
    while (place := slots.head(READY, fallback)) is not None:
        found.append((slots.pop(place.task), place.task))
        if free:
            slots.freed(place.task)
    return found


@pytest.mark.parametrize("serial", [False, True])
def test_O2_first_ordinals_go_before_second_ones(serial):
    expected = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert drain(slots_of(3, 2, serial=serial)) == expected


def test_O2_within_an_ordinal_the_longest_expected_goes_first_ties_in_plan_order():
    assert drain(slots_of(4, 2, (5, 0, 9, 5)), fallback=7) == [(o, t) for o in (0, 1) for t in (2, 1, 0, 3)]


def test_O2_what_was_learned_counts_for_later_ordinals():
    slots = slots_of(3, 2)
    for task in range(3):
        assert slots.pop(task) == 0
        slots.freed(task)
    slots.learn(1, 50)
    slots.learn(2, 5)
    assert (slots.known, slots.unknown, slots.longest(10)) == (55, 1, (50, 1))
    assert drain(slots, fallback=10) == [(1, 1), (1, 0), (1, 2)]
    assert (slots.known, slots.unknown, slots.remaining) == (0, 0, 0)


def test_O2_a_slot_as_long_as_the_rest_goes_at_once():
    slots = slots_of(4, 2, (1, 1, 1, 100))
    assert slots.at_once(1, slots.known, 1) is None  # 206 are left, 103 for each of two
    place = slots.at_once(1, slots.known, 3)
    assert place is not None
    assert place.task == 3


def test_G6_a_busy_task_is_not_ready():
    slots = slots_of(2, 2, serial=True)
    assert drain(slots, free=False) == [(0, 0), (0, 1)]
    assert slots.remaining == 2
    slots.freed(1)
    assert drain(slots, free=False) == [(1, 1)]
    slots.freed(1)
    assert (slots.head(READY, 1), slots.remaining) == (None, 1)


def test_E3_a_task_with_an_attempt_in_flight_is_speculative():
    slots = slots_of(2, 3, early_exit=True)
    assert drain(slots, free=False) == [(0, 0), (0, 1)]
    assert slots.head(SPECULATIVE, 1) == (1, -1, 0)
    slots.pop(0)
    slots.freed(0)
    assert slots.head(READY, 1) is None  # one is still in flight
    slots.freed(0)
    assert slots.head(READY, 1) == (2, -1, 0)


def test_nothing_is_left_after_clear_or_drop_whatever_is_freed_later():
    slots = slots_of(3, 2, serial=True)
    slots.pop(0)
    slots.pop(1)
    assert slots.drop(1) == [1]
    assert slots.drop(1) == []
    assert slots.clear() == 3
    slots.freed(0)
    slots.freed(1)
    assert slots.head(READY, 1) is None
    assert slots.clear() == 0


def test_L3_a_group_finishes_one_member_before_the_next():
    slots = GroupSlots(TaskTable(4, 2, (1, 9, 9, 9)), [0, 2, 3])
    assert drain(slots) == [(0, 0), (1, 0), (0, 2), (1, 2), (0, 3), (1, 3)]
    slots = GroupSlots(TaskTable(2, 2, ()), [0, 1])
    slots.pop(0)
    assert slots.head(READY, 1) is None


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(st.integers(1, 5), st.integers(1, 3), st.booleans(), st.data())
def test_O2_each_choice_is_the_first_of_all_free_slots(tasks, attempts, serial, data):
    known = data.draw(st.lists(st.sampled_from([0, 0, 3, 7]), min_size=tasks, max_size=tasks))
    slots = slots_of(tasks, attempts, known if any(known) else (), serial=serial)
    left = {(ordinal, task) for ordinal in range(attempts) for task in range(tasks)}
    busy: list[int] = []
    expected = list(known)
    while left or busy:
        fallback = data.draw(st.sampled_from([1, 3, 5, 9]))
        lengths = [expected[task] or fallback for _, task in left]
        assert slots.remaining == len(left)
        assert slots.known + slots.unknown * fallback == sum(lengths)
        assert (slots.longest(fallback) or (0, 0))[0] == max(lengths, default=0)
        free = [(o, -(expected[t] or fallback), t) for o, t in left if (o - 1, t) not in left and not
                (serial and t in busy)]  # fmt: skip
        assert slots.head(READY, fallback) == min(free, default=None)
        if free and (not busy or data.draw(st.booleans())):
            ordinal, _, task = min(free)
            assert slots.pop(task) == ordinal
            left.remove((ordinal, task))
            busy.append(task)
        else:
            task = busy.pop(data.draw(st.integers(0, len(busy) - 1)))
            slots.freed(task)
            if not any(known) and attempts > 1:
                expected[task] = data.draw(st.integers(1, 9))
                slots.learn(task, expected[task])


# ------------------------------------------------------------------------------------------------------- waiting


def ask_of(gates: Gates, name: str, limit: int) -> Ask:
    demand = ((gates.add(name, limit), 1),)
    return Ask(((Kind.BOX, demand),), demand)


def test_waiting_attempts_go_first_come_first_served_among_those_that_fit():
    gates = Gates()
    small, large = ask_of(gates, "small", 1), ask_of(gates, "large", 9)

    def fits(ask: Ask) -> bool:
        return gates.fits(ask.demand)

    queue = Queue()
    for attempt, ask in (("a", small), ("b", small), ("c", large)):
        queue.put(attempt, ask)
    assert queue.first(fits) == "a"
    gates.take(small.demand)
    assert queue.first(fits) == "c"
    assert queue.discard("c")
    assert not queue.discard("c")
    assert queue.first(fits) is None
    gates.give(small.demand)
    assert queue.discard("a")
    assert queue.first(fits) == "b"
    assert (len(queue), list(queue)) == (1, ["b"])


def test_waits_for_a_moment_end_in_order_and_can_be_cancelled():
    dues = Dues()
    for attempt, at in (("late", 9.0), ("b", 5.0), ("a", 5.0), ("gone", 1.0)):
        dues.put(attempt, at)
    assert dues.discard("gone")
    assert not dues.discard("gone")
    assert dues.earliest() == 5.0
    assert [dues.pop(5.0), dues.pop(5.0), dues.pop(5.0)] == ["b", "a", None]
    assert ("late" in dues, len(dues), dues.pop(9.0), dues.earliest()) == (True, 1, "late", None)


def test_G4_a_pace_never_bursts():
    pace = Pace("open", 0.5)
    assert pace.next_at < 0
    pace.take(100.0)
    assert pace.next_at == 100.5
    pace.take(200.0)
    assert pace.next_at == 200.5


# -------------------------------------------------------------------------------------------------------- delays

POLICY = RetryPolicy(9, min_delay_seconds=5.0, max_delay_seconds=60.0, retry_after_cap_seconds=600.0)


def test_B4_delays_double_up_to_the_longest_and_are_jittered_to_between_half_and_all():
    whole = [5, 10, 20, 40, 60, 60]
    assert [backoff_seconds(POLICY, repeat, 0.0) for repeat in range(1, 7)] == [half / 2 for half in whole]
    assert [backoff_seconds(POLICY, repeat, 1.0) for repeat in range(1, 7)] == whole
    assert backoff_seconds(POLICY, 10_000, 0.5) == 45.0


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [(None, 5.0), (3.0, 5.0), (30.0, 30.0), (6000.0, 600.0), (0.0, 5.0), (-7.0, 5.0), (float("nan"), 5.0)],
)
def test_B4_retry_after_is_obeyed_when_longer_up_to_its_cap_and_ignored_when_past_or_unreadable(asked, seconds):
    assert backoff_seconds(POLICY, 1, 1.0, asked) == seconds


@given(st.lists(st.integers(1, 1000), max_size=50))
@settings(max_examples=100, deadline=None)
def test_O1_a_running_median_is_the_median(values):
    median = Median()
    for number, value in enumerate(values, 1):
        median.add(value)
        assert (median.value, median.count) == (statistics.median_low(values[:number]), number)


def test_O1_a_median_needs_bounded_memory():
    median = Median()
    for value in itertools.islice(itertools.count(1), SAMPLES_AT_MOST + 5):
        median.add(value)
    assert median.count == SAMPLES_AT_MOST
    assert microseconds(0.0) == 1
    assert microseconds(1.5) == 1_500_000
