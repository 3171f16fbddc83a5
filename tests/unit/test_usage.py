"""Sums of usage: nothing that was reported is dropped, and an unknown cost never becomes a known one (spec 09)."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.model.attempt import NO_USAGE, Usage

count = st.integers(0, 1000)
cost = st.none() | st.integers(0, 100).map(float)
SOURCES = ((), ("given",), ("reported",), ("a table 1.0", "given"))


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    if draw(st.booleans()):
        return NO_USAGE
    calls, usd = draw(count), draw(cost)
    partly = draw(cost) or None if usd is None else None
    priced = draw(st.integers(0, calls)) if usd is None else 0
    tokens = [draw(count) for _ in range(5)]
    return Usage(calls, *tokens, usd, partly, priced, draw(st.sampled_from(SOURCES)))


COUNTS = [field.name for field in fields(Usage) if field.name.endswith("_tokens") or field.name == "calls"]


@given(usages(), usages(), usages())
@settings(deadline=None)
def test_09_sums_of_usage(a: Usage, b: Usage, c: Usage) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + NO_USAGE == a
    for name in (*COUNTS, "cost_at_least_usd", "unpriced_calls"):
        assert getattr(a + b, name) == getattr(a, name) + getattr(b, name)
    assert set((a + b).price_sources) == {*a.price_sources, *b.price_sources}


@given(usages(), usages())
@settings(deadline=None)
def test_09_a_cost_is_known_only_if_every_part_of_it_is(a: Usage, b: Usage) -> None:
    total = a + b
    unknown = any(part.cost_usd is None and part != NO_USAGE for part in (a, b))
    assert (total.cost_usd is None) == (unknown or total == NO_USAGE)
    if total.cost_usd is not None:
        assert total.cost_usd == (a.cost_usd or 0) + (b.cost_usd or 0)


def test_a_call_of_which_nothing_is_known_makes_the_cost_unknown() -> None:
    known = Usage(calls=1, input_tokens=5, cost_usd=0.5)
    total = known + Usage(calls=1)
    assert total == replace(known, calls=2, cost_usd=None, known_cost_usd=0.5, priced_calls=1)
    assert (total.cost_at_least_usd, total.unpriced_calls) == (0.5, 1)


def test_case_cost_143_a_usage_of_an_older_proctor_has_no_call_with_a_price() -> None:
    old = Usage(calls=3, input_tokens=9)
    assert (old.cost_at_least_usd, old.unpriced_calls) == (0, 3)


@pytest.mark.parametrize(
    "given",
    [
        {"priced_calls": 1}, {"calls": 1, "priced_calls": 2}, {"calls": 1, "cost_usd": 1.0, "known_cost_usd": 1.0},
        {"cost_usd": 1.0, "calls": 1, "priced_calls": 1}, {"known_cost_usd": -1.0}, {"known_cost_usd": float("nan")},
        {"cost_usd": float("inf")}, {"cost_usd": True}, {"price_sources": ["given"]}, {"price_sources": (1,)},
    ],
)  # fmt: skip
def test_09_what_is_no_usage_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|is known only"):
        Usage(**given)
