from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.core.gates import NOTHING, GateLimits, Gates, GateView, demand_of
from proctor.errors import InternalError


def two() -> Gates:
    gates = Gates()
    assert gates.add("global", 3) == 0
    assert gates.add("provider", 1) == 1
    return gates


def held(gates: Gates) -> list[int]:
    return [view.held for view in gates.snapshot()]


def test_a_vector_is_taken_whole_or_not_at_all():
    gates = two()
    both = demand_of([(0, 1), (1, 1)])
    assert gates.take(both)
    assert not gates.take(both)
    assert held(gates) == [1, 1]
    assert gates.blocker(both) == "provider"
    gates.give(both)
    assert held(gates) == [0, 0]
    assert gates.blocker(both) is None


def test_a_demand_counts_a_gate_once_with_the_sum_of_its_weights():
    assert demand_of([(2, 1), (0, 2), (2, 3)]) == ((0, 2), (2, 4))
    assert demand_of([]) == NOTHING
    gates = two()
    assert not gates.fits(demand_of([(0, 2), (0, 2)]))


@pytest.mark.parametrize("weight", [0, -1, True, 1.5])
def test_a_demand_refuses_what_is_not_a_positive_number(weight):
    with pytest.raises(ValueError, match="positive"):
        demand_of([(0, weight)])


def test_a_gate_that_is_off_never_blocks_and_still_counts():
    gates = Gates()
    gates.add("off", None)
    for _ in range(1000):
        assert gates.take(((0, 1),))
    assert gates.snapshot() == (GateView("off", None, 1000),)


def test_giving_back_more_than_is_held_is_an_error_and_changes_nothing():
    gates = two()
    gates.take(((0, 1),))
    with pytest.raises(InternalError, match="`provider` was given back 1 permits of the 0"):
        gates.give(((0, 1), (1, 1)))
    assert held(gates) == [1, 0]


def test_resizing_keeps_who_holds_a_permit_and_counts_on():
    gates = two()
    for _ in range(3):
        gates.take(((0, 1),))
    gates.resize(0, 1)
    assert not gates.fits(((0, 1),))
    gates.give(((0, 2),))
    assert not gates.fits(((0, 1),))
    gates.give(((0, 1),))
    assert gates.take(((0, 1),))
    gates.resize(0, None)
    assert gates.fits(((0, 100),))


def test_a_snapshot_never_changes():
    gates = two()
    before = gates.snapshot()
    gates.take(((0, 2),))
    gates.resize(1, 9)
    assert before == (GateView("global", 3, 0), GateView("provider", 1, 0))


@pytest.mark.parametrize("limit", [0, -1, True, 2.0, "3"])
def test_a_limit_is_an_integer_of_at_least_1_or_none(limit):
    gates = two()
    with pytest.raises(ValueError, match="at least 1"):
        gates.add("wrong", limit)
    with pytest.raises(ValueError, match="at least 1"):
        gates.resize(0, limit)


def test_limits_of_providers_that_are_off_are_none():
    limits = GateLimits(4, {"a": 0, "b": None, "c": 3})
    assert [limits.of_provider(name) for name in "abcd"] == [None, None, 3, None]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.none() | st.integers(1, 5), min_size=1, max_size=4),
    st.lists(st.tuples(st.booleans(), st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=4))),
)
def test_no_gate_is_ever_above_its_limit_or_below_zero(limits, moves):
    gates = Gates()
    for index, limit in enumerate(limits):
        gates.add(f"gate {index}", limit)
    taken = []
    for take, permits in moves:
        demand = demand_of([(index % len(limits), weight) for index, weight in permits])
        if take and gates.take(demand):
            taken.append(demand)
        elif taken:
            gates.give(taken.pop(0))
        for index, view in enumerate(gates.snapshot()):
            assert view.held == sum(weight for demand in taken for gate, weight in demand if gate == index)
            assert view.limit is None or view.held <= view.limit
