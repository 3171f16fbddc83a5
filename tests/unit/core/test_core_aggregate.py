from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.core.aggregate import Counts, headline, mean_score, pass_rate, percent
from proctor.model.attempt import Verdict


def counts(**parts) -> Counts:
    stopped = parts.get("not_dispatched", {})
    total = sum(value for name, value in parts.items() if name != "not_dispatched") + sum(stopped.values())
    return Counts(total=total, **parts)


@pytest.mark.parametrize(
    ("given_counts", "text"),
    [
        (counts(passed=102, failed=62), "62.2% (102/164 passed)"),
        (counts(passed=100, failed=61, errored=3), "61.0\u201362.8% incomplete (100/164 passed, 3 errored)"),
        (counts(passed=108, failed=64), "62.8% (108/172 passed)"),
        (counts(passed=0, failed=5), "0.0% (0/5 passed)"),
        (counts(passed=5), "100.0% (5/5 passed)"),
        (counts(passed=4, failed=3, errored=3), "40.0\u201370.0% incomplete (4/10 passed, 3 errored)"),
        (counts(passed=1, failed=1, skipped=2), "50.0% (1/2 passed, 2 skipped)"),
        (
            counts(passed=1, failed=1, errored=1, cancelled=2, not_dispatched={"interrupt": 3, "disk": 2}),
            "10.0\u201390.0% incomplete (1/10 passed, 1 errored, 2 cancelled, 5 not dispatched)",
        ),
        (counts(passed=1, running=2, queued=1), "25.0\u2013100.0% incomplete (1/4 passed, 2 running, 1 queued)"),
        (counts(errored=164), "no score (164 errored)"),
        (counts(skipped=4), "no score (4 skipped)"),
        (counts(not_dispatched={"interrupt": 7}), "no score (7 not dispatched)"),
        (counts(), "no score"),
    ],
)
def test_M1_the_headline_says_the_rate_its_base_and_what_is_missing(given_counts, text):
    assert headline(given_counts) == text


def test_M1_the_rate_is_data_too():
    complete = pass_rate(counts(passed=102, failed=62, skipped=3))
    assert complete == (102, 164, 164, 102 / 164, 102 / 164, 102 / 164)
    assert complete.complete
    partly = pass_rate(counts(passed=100, failed=61, errored=3))
    assert (partly.low, partly.high, partly.rate) == (100 / 164, 103 / 164, None)
    assert not partly.complete


def test_M5_without_a_scored_slot_there_is_no_rate_and_no_division_by_zero():
    for empty in (counts(), counts(errored=3), counts(skipped=3), counts(queued=3)):
        rate = pass_rate(empty)
        assert (rate.low, rate.high, rate.rate, rate.scored) == (None, None, None, 0)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 100_000), st.integers(0, 100_000))
def test_percentages_are_rounded_half_up_from_whole_numbers(whole, part):
    part = min(part, whole)
    exact = Fraction(100 * part, whole)
    tenths = math.floor(exact * 10 + Fraction(1, 2))
    assert Decimal(percent(part, whole)) == Decimal(tenths) / 10
    assert abs(Fraction(percent(part, whole)) - exact) <= Fraction(1, 20)


def test_percentages_on_the_edge_go_up_where_floats_would_not():
    for part, whole in ((1, 2000), (5, 10_000), (449, 800), (9995, 10_000)):
        exact = Decimal(100 * part) / Decimal(whole)
        assert percent(part, whole) == str(exact.quantize(Decimal("0.1"), ROUND_HALF_UP))


@pytest.mark.parametrize(("part", "whole"), [(0, 0), (1, 0), (-1, 2), (3, 2)])
def test_what_has_no_percentage_is_refused(part, whole):
    with pytest.raises(ValueError, match="no percentage"):
        percent(part, whole)


def test_mean_scores_are_exact_and_never_of_nothing():
    assert mean_score([]) is None
    assert mean_score([0.1] * 10) == 0.1
    assert mean_score(iter([1.0, 0.0, 0.5])) == 0.5
    assert mean_score([1e16, 1.0, -1e16]) == mean_score([1.0, 1e16, -1e16]) == 1 / 3


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_M5_scores_that_are_no_numbers_are_refused(score):
    with pytest.raises(ValueError, match="finite"):
        mean_score([1.0, score])


def test_counts_that_do_not_add_up_are_refused():
    for wrong in ({"total": 3}, {"total": 3, "queued": 4}, {"total": 1, "queued": 2, "running": -1},
                  {"total": 2, "queued": 1, "not_dispatched": {"disk": 2}}):  # fmt: skip
        with pytest.raises(ValueError, match="do not add up"):
            Counts(**wrong)


def test_every_verdict_has_a_part():
    assert {verdict.value for verdict in Verdict} < {field.name for field in fields(Counts)}


def test_counts_of_several_experiments_add_up_by_reason():
    one = counts(passed=1, queued=2, not_dispatched={"interrupt": 1})
    two = counts(failed=3, not_dispatched={"disk": 2, "interrupt": 4})
    both = one + two
    assert both == counts(passed=1, queued=2, failed=3, not_dispatched={"disk": 2, "interrupt": 5})
    assert (both.scored, both.stopped) == (4, 7)


def test_counts_can_be_written_as_json():
    written = json.loads(json.dumps(asdict(Counts(3, queued=2, not_dispatched={"interrupt": 1}))))
    assert written["queued"] == 2
    assert written["not_dispatched"] == {"interrupt": 1}
