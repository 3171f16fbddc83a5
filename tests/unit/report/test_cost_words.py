"""How costs and tokens are worded: an unknown part is never left out in silence (spec 09 M6; cases COST 143, 145)."""

from __future__ import annotations

import pytest

from proctor.model.attempt import NO_USAGE, Usage
from proctor.report.cost_words import cost_of, cost_words, known_part, together, token_words, usage_data
from proctor.report.estimate import Estimate, estimate_items
from proctor.report.panel import Look, Page, frame
from proctor.report.view import RunView

KNOWN = Usage(2, 3, 81, 500_000, 109_075, 20, cost_usd=1.2, price_sources=("given",))
UNKNOWN = Usage(3, 10, 10)


@pytest.mark.parametrize(
    ("used", "said", "cost"),
    [
        (NO_USAGE, "$0.00", 0.0),
        (KNOWN, "$1.20", 1.2),
        (UNKNOWN, "cost unknown", None),
        (KNOWN + UNKNOWN, "at least $1.20, plus 3 calls without price", None),
        (KNOWN + Usage(1), "at least $1.20, plus 1 call without price", None),
        (Usage(2, cost_usd=0.0), "$0.00", 0.0),
        (Usage(2, cost_usd=0.0) + UNKNOWN, "cost unknown", None),
        (Usage(1, 5, known_cost_usd=0.01), "at least $0.01, plus 1 call without price", None),
    ],
)
def test_case_cost_143_a_cost_is_never_a_bare_sum(used: Usage, said: str, cost: float | None) -> None:
    assert (cost_words(used), cost_of(used)) == (said, cost)


def test_case_cost_145_tokens_are_told_by_kind() -> None:
    assert token_words(Usage(1, 1_000, 20)) == "1,000 tokens in, 20 out"
    assert token_words(KNOWN) == (
        "609,078 tokens in (500,000 read from cache, 109,075 written to cache), 81 out (20 reasoning)"
    )


def test_09_M6_usage_as_json() -> None:
    assert usage_data(NO_USAGE) is None
    data = usage_data(KNOWN + UNKNOWN)
    assert data == {
        "calls": 5, "input_tokens": 13, "output_tokens": 91, "cache_read_tokens": 500_000,
        "cache_write_tokens": 109_075, "reasoning_tokens": 20, "cost_usd": None, "cost_at_least_usd": 1.2,
        "unpriced_calls": 3, "price_sources": ["given"],
    }  # fmt: skip


def test_a_part_of_something_else_is_told_likewise() -> None:
    assert known_part(None, 1.5, 2, "attempt") == "at least $1.50, plus 2 attempts without price"
    assert together([]) == NO_USAGE


def test_case_cost_143_the_estimate_and_the_panel_say_what_is_known() -> None:
    assert estimate_items(Estimate(cost_at_least_usd=3.1)) == ["est. at least $3.10"]
    view = RunView("e", total=1)
    view.usage, view.grader_usage = KNOWN, UNKNOWN
    lines = ["".join(text for text, _ in line) for line in frame(Page(now=0.0, views={"e": view}), Look(160, 20))]
    assert any("at least $1.20, plus 3 calls without price" in line for line in lines)
