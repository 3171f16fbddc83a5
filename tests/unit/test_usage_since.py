"""What a program used since it was asked last: the part of a cost that is known stays known (09 M6; case COST 143)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proctor.harnesses.command_output import minus
from proctor.model.attempt import NO_USAGE, Usage

CALLS = st.lists(st.sampled_from([Usage(1, 10, cost_usd=0.5), Usage(1, 20), Usage(1, 5, cost_usd=0.25)]), max_size=6)


def test_case_cost_143_the_part_of_a_cost_that_is_known_is_told_once() -> None:
    partly = Usage(calls=3, input_tokens=30, known_cost_usd=0.5, priced_calls=1)
    assert minus(partly, NO_USAGE) == partly
    more = Usage(calls=5, input_tokens=50, known_cost_usd=1.5, priced_calls=2)
    assert minus(more, partly) == Usage(calls=2, input_tokens=20, known_cost_usd=1.0, priced_calls=1)
    assert minus(partly, Usage(calls=1, cost_usd=0.5)) == Usage(calls=2, input_tokens=30)


def test_a_cost_is_known_where_both_are() -> None:
    assert minus(Usage(2, cost_usd=1.5), Usage(1, cost_usd=0.5)) == Usage(1, cost_usd=1.0)
    assert minus(Usage(2, cost_usd=1.5), NO_USAGE) == Usage(2, cost_usd=1.5)


@given(CALLS, CALLS)
def test_what_was_told_and_what_was_used_since_are_all_that_was_used(first: list[Usage], then: list[Usage]) -> None:
    told = sum(first, NO_USAGE)
    whole = sum(then, told)
    again = told + minus(whole, told)
    assert (again.calls, again.input_tokens) == (whole.calls, whole.input_tokens)
    assert again.unpriced_calls == whole.unpriced_calls
    assert abs(again.cost_at_least_usd - whole.cost_at_least_usd) < 1e-9
