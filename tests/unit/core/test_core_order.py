from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.core.gates import Gates
from proctor.core.order import Line, Slots, Waiting


def drain(slots: Slots) -> list[tuple[int, int]]:
    found = []
    while slots.ready:
        found.append(slots.pop())
        slots.freed(*found[-1])
    return found


@pytest.mark.parametrize("serial", [False, True])
def test_first_ordinals_go_before_second_ones(serial):
    assert drain(Slots(range(3), 3, 2, serial=serial)) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_places_compare_across_the_parts_of_an_experiment():
    bare, boxed = Slots([1, 2], 4, 2, serial=False), Slots([0, 3], 4, 2, serial=False)
    assert (boxed.first(), bare.first()) == (0, 1)
    merged = []
    while bare.ready or boxed.ready:
        part = min((part for part in (bare, boxed) if part.ready), key=Slots.first)
        merged.append(part.pop())
    assert merged == [(ordinal, task) for ordinal in (0, 1) for task in range(4)]


def test_G6_a_busy_task_is_not_ready():
    slots = Slots(range(2), 2, 2, serial=True)
    assert [slots.pop(), slots.pop()] == [(0, 0), (0, 1)]
    assert not slots.ready
    assert slots.remaining == 2
    with pytest.raises(IndexError):
        slots.first()
    slots.freed(0, 1)
    assert slots.pop() == (1, 1)
    slots.freed(1, 1)
    assert not slots.ready
    assert slots.remaining == 1


def test_nothing_is_left_after_clear_whatever_is_freed_later():
    slots = Slots(range(3), 3, 2, serial=True)
    slots.pop()
    assert slots.clear() == 5
    slots.freed(0, 0)
    assert not slots.ready
    assert slots.clear() == 0


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.data())
def test_G6_each_choice_is_the_first_slot_whose_task_is_free(tasks, attempts, data):
    slots = Slots(range(tasks), tasks, attempts, serial=True)
    left = [(ordinal, task) for ordinal in range(attempts) for task in range(tasks)]
    busy: dict[int, int] = {}
    while left or busy:
        assert slots.remaining == len(left)
        free = [place for place in left if place[1] not in busy]
        assert slots.ready == bool(free)
        if free and (not busy or data.draw(st.booleans())):
            ordinal, task = slots.pop()
            assert (ordinal, task) == free[0]
            left.remove((ordinal, task))
            busy[task] = ordinal
        else:
            task = data.draw(st.sampled_from(sorted(busy)))
            slots.freed(busy.pop(task), task)


def test_a_line_keeps_plan_order_and_each_experiment_once():
    line = Line(())
    for index in (3, 1, 2, 1, 3):
        line.offer(index)
    order = []
    while (head := line.head()) is not None:
        order.append(head)
        line.leave()
        assert head not in line
    assert order == [1, 2, 3]


def test_waiting_attempts_go_first_come_first_served_among_those_that_fit():
    gates = Gates()
    small, large = ((gates.add("small", 1), 1),), ((gates.add("large", 9), 1),)
    waiting = Waiting()
    waiting.put("a", small)
    waiting.put("b", small)
    waiting.put("c", large)
    assert waiting.first(gates) == "a"
    gates.take(small)
    assert waiting.first(gates) == "c"
    waiting.discard("c", large)
    assert waiting.first(gates) is None
    gates.give(small)
    waiting.discard("a", small)
    waiting.discard("a", small)
    assert waiting.first(gates) == "b"
    assert (len(waiting), list(waiting)) == (1, ["b"])
    waiting.clear()
    assert (len(waiting), waiting.first(gates)) == (0, None)
