"""Sums of usage: nothing that was reported is dropped, and an unknown cost never becomes a known one (spec 09)."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.model.attempt import NO_USAGE, Usage

count = st.integers(0, 1000)
usages = st.just(NO_USAGE) | st.builds(
    Usage, count, count, count, count, count, count, st.none() | st.integers(0, 100).map(float)
)
COUNTS = [field.name for field in fields(Usage) if field.name != "cost_usd"]


@given(usages, usages, usages)
@settings(deadline=None)
def test_09_sums_of_usage(a: Usage, b: Usage, c: Usage) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + NO_USAGE == a
    for name in COUNTS:
        assert getattr(a + b, name) == getattr(a, name) + getattr(b, name)


@given(usages, usages)
@settings(deadline=None)
def test_09_a_cost_is_known_only_if_every_part_of_it_is(a: Usage, b: Usage) -> None:
    total = a + b
    unknown = any(part.cost_usd is None and part != NO_USAGE for part in (a, b))
    assert (total.cost_usd is None) == (unknown or total == NO_USAGE)
    if total.cost_usd is not None:
        assert total.cost_usd == (a.cost_usd or 0) + (b.cost_usd or 0)


def test_a_call_of_which_nothing_is_known_makes_the_cost_unknown() -> None:
    known = Usage(calls=1, input_tokens=5, cost_usd=0.5)
    assert known + Usage(calls=1) == replace(known, calls=2, cost_usd=None)
