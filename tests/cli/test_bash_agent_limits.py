"""Case 141 over real HTTP: a limit of cost of `bash-agent`, with usage that comes, comes oddly, or does not come."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from program import Ended

from proctor.model.attempt import Usage
from proctor.plugins.api import ToolCall
from proctor.testing.model_server import serve
from proctor.testing.replies import Answer

PRICE = ("--set=model.price.input=10", "--set=model.price.output=20")
"""US dollars per million tokens: what `REPORTED` is, costs 0.60."""
REPORTED = Usage(calls=1, input_tokens=40_000, output_tokens=10_000)


@pytest.fixture
def tried(proctor: Callable[..., Ended]) -> Callable[..., tuple[list[str], Usage]]:
    """Run an agent that calls `bash` without end; return the reasons for which it stopped, and what was used."""

    def run(usage: Any, *options: str, price: tuple[str, ...] = PRICE) -> tuple[list[str], Usage]:
        call = ToolCall("", "bash", '{"command": "true"}')
        with serve(lambda request: Answer("", usage=usage, tool_calls=(call,))) as server:
            ended = proctor(
                "run", "trivial", "bash-agent", "openai/m", "--limit", "1", "--set=harness.params.max_cost_usd=1",
                f"--set=model.base_url={server.base_url}", "--set=model.api_key=k", *price,
                *(f"--set=harness.params.{option}" for option in options),
            )  # fmt: skip
        result = json.loads((ended.run_dir / "attempts/t0000/0/result.json").read_text())
        assert result["verdict"] == "failed"  # what is there is graded
        used = result["tries"][0]["usage"]
        reasons = [one["message"] for one in result["tries"][0]["issues"] if one["code"] == "harness.limit"]
        return reasons, Usage(used["calls"], used.get("input_tokens", 0), cost_usd=used.get("cost_usd"))

    return run


def test_141_a_with_usage_it_stops_after_the_second_call(tried: Any) -> None:
    reasons, used = tried(REPORTED)
    assert reasons == ["the limit of 1 USD was reached, with 1.2"]
    assert used == Usage(2, 80_000, cost_usd=1.2)


UNKNOWN = "the limit of 1 USD cannot be held: the cost of a call is unknown"


@pytest.mark.parametrize("usage", [{"tokens_in": 40_000}, None], ids=["c", "d"])
def test_141_c_d_an_unknown_cost_ends_it_with_that_reason(tried: Any, usage: Any) -> None:
    reasons, used = tried(usage)
    assert reasons == [UNKNOWN]
    assert (used.calls, used.cost_usd) == (1, None)


def test_143_a_model_without_a_price_is_not_free(tried: Any) -> None:
    assert tried(REPORTED, price=())[0] == [UNKNOWN]


@pytest.mark.parametrize("usage", [REPORTED, {"tokens_in": 40_000}, None], ids=["ab", "c", "d"])
def test_141_a_cap_on_calls_holds_all_the_same(tried: Any, usage: Any) -> None:
    reasons, used = tried(usage, "allow_unknown_cost=true", "max_calls=4", "max_cost_usd=1000")
    assert reasons == ["the limit of 4 calls was reached, with 4"]
    assert used.calls == 4


@pytest.mark.parametrize(
    ("usage", "calls"), [(REPORTED, 2), ({"tokens_in": 40_000}, 1), (None, 1)], ids=["ab", "c", "d"]
)
def test_141_a_cap_on_tokens_holds_all_the_same(tried: Any, usage: Any, calls: int) -> None:
    reasons, used = tried(usage, "allow_unknown_cost=true", "max_tokens=90000", "max_cost_usd=1000")
    assert reasons[0].startswith("the limit of 90,000 tokens")
    assert used.calls == calls
