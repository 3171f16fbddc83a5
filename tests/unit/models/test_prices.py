"""What calls cost (spec 09 M6; cases COST 143, 144, 145). The expected sums are worked out by hand, in the comments."""

from __future__ import annotations

import math
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from proctor.model.attempt import NO_USAGE, Outcome, TryResult, Usage
from proctor.model.price import ModelPrice
from proctor.model.spec import ModelSpec
from proctor.models.prices import Prices, price_words, prices_missing, tariff_of

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()

SONNET = ModelPrice(3, 15, 0.3, 3.75)
HAIKU = ModelPrice(1, 5, 0.1, 1.25)
OPUS = ModelPrice(5, 25, 0.5, 6.25)
GPT_5 = ModelPrice(1.25, 10, 0.125)
MINI = ModelPrice(0.15, 0.6, 0.075)
THINKER = ModelPrice(2, 8, reasoning=12)
GEMINI = ModelPrice(1.25, 10, 0.31)
DEEPSEEK = ModelPrice(0.27, 1.1, 0.07)
MISTRAL = ModelPrice(0.4, 2)
LLAMA = ModelPrice(0.59, 0.79)
GROK = ModelPrice(3, 15, 0.75)
OWN = ModelPrice(0, 0)

RECORDED: list[tuple[str, ModelPrice, Usage, float]] = [
    # 3 x 3 + 81 x 15 + 500,000 x 0.30 + 109,075 x 3.75 = 9 + 1,215 + 150,000 + 409,031.25 = 560,255.25
    ("case COST 145", SONNET, Usage(1, 3, 81, 500_000, 109_075), 0.56025525),
    # 21 x 3 + 393 x 15 + 188,086 x 3.75 = 63 + 5,895 + 705,322.5 = 711,280.5
    ("the first call of a cached session", SONNET, Usage(1, 21, 393, 0, 188_086), 0.7112805),
    # 4 x 1 + 1,200 x 5 + 30,000 x 0.1 + 2,500 x 1.25 = 4 + 6,000 + 3,000 + 3,125 = 12,129
    ("a small model with a cache", HAIKU, Usage(1, 4, 1_200, 30_000, 2_500), 0.012129),
    # 12 x 5 + 2,048 x 25 + 250,000 x 0.5 + 18,000 x 6.25 = 60 + 51,200 + 125,000 + 112,500 = 288,760
    ("a large model with a cache", OPUS, Usage(1, 12, 2_048, 250_000, 18_000), 0.28876),
    # 93 x 1.25 + 446 x 10 + 1,024 x 0.125 = 116.25 + 4,460 + 128 = 4,704.25
    ("reasoning that costs what output costs", GPT_5, Usage(1, 93, 446, 1_024, 0, 384), 0.00470425),
    # 86 x 0.15 + 300 x 0.6 + 1,920 x 0.075 = 12.9 + 180 + 144 = 336.9
    ("most of the prompt from a cache", MINI, Usage(1, 86, 300, 1_920), 0.0003369),
    # 1,000 x 2 + 200 x 8 + 500 x 12 = 2,000 + 1,600 + 6,000 = 9,600
    ("reasoning with a price of its own", THINKER, Usage(1, 1_000, 700, 0, 0, 500), 0.0096),
    # 10,240 x 1.25 + 900 x 10 + 4,096 x 0.31 = 12,800 + 9,000 + 1,269.76 = 23,069.76
    ("a long prompt", GEMINI, Usage(1, 10_240, 900, 4_096, 0, 600), 0.02306976),
    # 512 x 0.27 + 2,048 x 1.1 + 12,800 x 0.07 = 138.24 + 2,252.8 + 896 = 3,287.04
    ("a cheap model", DEEPSEEK, Usage(1, 512, 2_048, 12_800), 0.00328704),
    # 5,000 x 0.4 + 1,250 x 2 = 2,000 + 2,500 = 4,500
    ("no cache at all", MISTRAL, Usage(1, 5_000, 1_250), 0.0045),
    # 1,024 x 0.59 + 256 x 0.79 = 604.16 + 202.24 = 806.4
    ("an open model", LLAMA, Usage(1, 1_024, 256), 0.0008064),
    # 300 x 3 + 100 x 15 + 700 x 0.75 = 900 + 1,500 + 525 = 2,925
    ("nearly all of the output is reasoning", GROK, Usage(1, 300, 100, 700, 0, 80), 0.002925),
    # 37 calls reported together: 120,000 x 3 + 9,000 x 15 + 4,000,000 x 0.3 + 260,000 x 3.75 = 2,670,000
    ("a whole session in one report", SONNET, Usage(37, 120_000, 9_000, 4_000_000, 260_000), 2.67),
    ("a server of one's own", OWN, Usage(1, 100_000, 5_000, 3_000, 50), 0.0),
]
TOTAL = 4.2916541  # the sum of the numbers above
BY_NAME = {name: (price, used, usd) for name, price, used, usd in RECORDED}


class Told(list[tuple[str, str]]):
    def __call__(self, code: str, message: str) -> None:
        self.append((code, message))


def priced(usage: Usage, spec: ModelSpec | None, told: Told | None = None) -> Usage:
    return Prices(lambda: NOON).price(spec, usage, Told() if told is None else told)


def given(price: ModelPrice | None = None, name: str = "openai/any") -> ModelSpec:
    return ModelSpec(name, "http://127.0.0.1:1/v1", price=price)


@pytest.mark.parametrize("name", BY_NAME)
def test_case_cost_145_a_cost_is_that_of_the_hand(name: str) -> None:
    price, used, usd = BY_NAME[name]
    found = priced(used, given(price))
    assert found.cost_usd == pytest.approx(usd, rel=1e-12, abs=0)
    assert found.price_sources == ("given",)
    assert (found.calls, found.input_tokens, found.cache_write_tokens) == (
        used.calls, used.input_tokens, used.cache_write_tokens,
    ), "the kinds stay apart"  # fmt: skip


def test_case_cost_145_the_sum_of_all_is_that_of_the_hand() -> None:
    found = sum((priced(used, given(price)) for _, price, used, _ in RECORDED), NO_USAGE)
    assert found.cost_usd is not None
    assert f"{found.cost_usd:.6f}" == f"{TOTAL:.6f}" == "4.291654"
    assert (found.cache_write_tokens, found.cache_read_tokens) == (577_711, 4_803_540)
    assert (found.reasoning_tokens, found.unpriced_calls) == (1_564, 0)


def test_case_cost_143_a_sum_keeps_the_known_part_and_counts_the_rest() -> None:
    told = Told()
    prices = Prices(lambda: NOON)
    known = [prices.price(given(MISTRAL, "openai/a"), Usage(1, 5_000, 1_250), told) for _ in range(2)]
    unknown = [prices.price(given(None, "openai/b"), Usage(1, 7, 7), told) for _ in range(3)]
    total = sum(known + unknown, NO_USAGE)
    assert total.cost_usd is None
    assert (total.cost_at_least_usd, total.unpriced_calls, total.calls) == (0.009, 3, 5)
    [(code, message)] = told
    assert code == "price.unknown", "said once, for the model without a price"
    assert "`openai/b` at http://127.0.0.1:1/v1" in message


# --------------------------------------------------------------------------------------------------- unknown and free


@pytest.mark.parametrize("zero", [0, 0.0])
def test_case_cost_144_a_price_of_zero_is_free_and_known(zero: float) -> None:
    for usage in (Usage(1, 1_000, 10), Usage(1, 1, 1, 5, 5, 1), Usage(calls=1)):
        assert priced(usage, given(ModelPrice(zero, zero))).cost_usd == 0


@pytest.mark.parametrize("wrong", [-1, -0.01, math.nan, math.inf, "0", True])
def test_case_cost_144_what_is_no_price_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="price of output must be a finite number"):
        ModelPrice(output=wrong)


def test_case_cost_144_a_kind_without_a_price_is_unknown_where_it_is_used() -> None:
    told = Told()
    plain = ModelPrice(1, 2)
    assert priced(Usage(1, 100, 10), given(plain), told).cost_usd == 0.00012
    assert not told
    found = priced(Usage(1, 100, 10, 1_000, 7), given(plain), told)
    assert (found.cost_usd, found.cost_at_least_usd, found.unpriced_calls) == (None, 0.00012, 1)
    assert "no price of cache read, cache write tokens is known" in told[0][1]


def test_09_a_call_of_which_no_tokens_are_known_costs_nobody_knows_what() -> None:
    told = Told()
    found = priced(Usage(calls=1), given(SONNET), told)
    assert (found.cost_usd, found.unpriced_calls) == (None, 1)
    assert not told, "it is the usage that is missing, not the price"


def test_09_M6_a_part_of_a_cost_that_was_reported_stays_and_says_so() -> None:
    part = Usage(calls=2, input_tokens=9, known_cost_usd=0.5, priced_calls=1)
    for spec in (None, given(), given(MISTRAL)):
        found = priced(part, spec)
        assert (found.cost_at_least_usd, found.unpriced_calls, found.price_sources) == (0.5, 1, ("reported",))
        assert priced(found, spec) == found, "once"


def test_09_M6_a_cost_that_was_reported_stays_and_says_so() -> None:
    reported = Usage(12, 1_000, 10, cost_usd=0.75)
    for spec in (None, given(SONNET), ModelSpec("openai/gpt-5"), ModelSpec("mock/echo"), ModelSpec("local/m")):
        found = priced(reported, spec)
        assert (found.cost_usd, found.price_sources) == (0.75, ("reported",))


def test_09_M6_nothing_is_priced_twice() -> None:
    once = priced(Usage(1, 100, 10, 1_000), given(ModelPrice(1, 2)))
    assert priced(once, given(SONNET)) == once
    known = priced(Usage(1, 100, 10), given(ModelPrice(1, 2)))
    assert priced(known, given(SONNET)) == known
    assert priced(NO_USAGE, given(SONNET)) == NO_USAGE


def test_09_what_was_used_was_used_by_a_call() -> None:
    assert priced(Usage(input_tokens=7), None).calls == 1
    assert priced(Usage(input_tokens=1_000_000), given(MISTRAL)) == Usage(
        1, 1_000_000, cost_usd=0.4, price_sources=("given",)
    )


def test_a_mock_model_has_no_price_and_nobody_is_told() -> None:
    told = Told()
    spec = ModelSpec("mock/echo")
    assert priced(Usage(1, 10, 10), spec, told) == Usage(1, 10, 10)
    assert priced(Usage(1, 1_000_000, 0), ModelSpec("mock/echo", price=MISTRAL), told).cost_usd == 0.4
    assert not told
    assert price_words(spec, NOON) == "price unknown"


def test_a_model_that_runs_here_is_free() -> None:
    found = priced(Usage(3, 10, 10), ModelSpec("local/qwen"))
    assert (found.cost_usd, found.price_sources) == (0, ("local",))
    assert price_words(ModelSpec("local/qwen"), NOON) == "free (local)"


# ---------------------------------------------------------------------------------------------------------- the table


def by_the_table(provider: str, model: str, usage: Usage) -> float:
    """Return what the package itself makes of some usage; it counts cached tokens as input as well."""
    from genai_prices import calc_price
    from genai_prices.types import Usage as Theirs

    theirs = Theirs(
        input_tokens=usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    moment = datetime.fromtimestamp(NOON, UTC)
    found = calc_price(theirs, model, provider_id=provider, genai_request_timestamp=moment)
    return float(found.total_price)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-5"),
        ("anthropic", "claude-sonnet-4-5"),
        ("google", "gemini-2.5-pro"),
        ("deepseek", "deepseek-chat"),
    ],
)
@pytest.mark.parametrize("name", [name for name, (_, used, _) in BY_NAME.items() if used.calls == 1])
def test_09_M6_the_table_says_what_a_call_costs(provider: str, model: str, name: str) -> None:
    used = BY_NAME[name][1]
    found = priced(used, ModelSpec(f"{provider}/{model}"))
    assert found.cost_usd == pytest.approx(by_the_table(provider, model, used), rel=1e-9, abs=0)
    [source] = found.price_sources
    assert source.startswith("genai-prices "), "the version of the table is its date"
    assert source.removeprefix("genai-prices ").split(".")[0].isdigit()


def test_09_M6_two_models_of_the_table_by_hand() -> None:
    """The prices are those of the vendors in 2025, which the table keeps for calls of any time since."""
    # 93 x 1.25 + 446 x 10 + 1,024 x 0.125 = 4,704.25
    gpt = priced(Usage(1, 93, 446, 1_024, 0, 384), ModelSpec("openai/gpt-5"))
    # 12 x 5 + 2,048 x 25 + 250,000 x 0.5 + 18,000 x 6.25 = 288,760
    opus = priced(Usage(1, 12, 2_048, 250_000, 18_000), ModelSpec("anthropic/claude-opus-4-5"))
    assert [f"{one.cost_usd:.6f}" for one in (gpt, opus, gpt + opus)] == ["0.004704", "0.288760", "0.293464"]


def test_09_M6_the_size_of_a_call_decides_where_the_table_has_steps() -> None:
    spec = ModelSpec("anthropic/claude-sonnet-4-5")
    small, large = Usage(1, 200_000, 0), Usage(1, 200_001, 0)
    assert priced(small, spec).cost_usd == pytest.approx(0.6)  # 200,000 x 3
    assert priced(large, spec).cost_usd == pytest.approx(1.200006)  # 200,001 x 6
    together = priced(Usage(10, 1_000_000, 0), spec)  # ten calls of 100,000 in the mean
    assert together.cost_usd == pytest.approx(3.0)
    assert together.price_sources[0].endswith(", by the mean size of a call")
    assert "mean" not in priced(Usage(10, 100_000, 0), spec).price_sources[0], "none of them can have been large"
    assert ", more for large calls (genai-prices" in price_words(spec, NOON)


@pytest.mark.parametrize(
    ("spec", "known"),
    [
        (ModelSpec("openai/gpt-5"), True),
        (ModelSpec("openai/gpt-5", "https://api.openai.com/v1"), True),
        (ModelSpec("gpt-5", "https://api.openai.com/v1"), True),
        (ModelSpec("anthropic/claude-opus-4-5", "https://api.anthropic.com/v1"), True),
        (ModelSpec("openai/gpt-5", "http://127.0.0.1:8000/v1"), False),
        (ModelSpec("openai/gpt-5", "https://models.example.com/v1"), False),
        (ModelSpec("openai/no-such-model"), False),
        (ModelSpec("example/gpt-5"), False),
        (ModelSpec("gpt-5"), False),
    ],
)
def test_09_M6_a_price_goes_by_model_and_endpoint(spec: ModelSpec, known: bool) -> None:
    assert (tariff_of(spec) is not None) == known
    assert bool(prices_missing(spec, NOON)) != known


def test_09_M6_what_was_given_counts_and_nothing_else() -> None:
    spec = ModelSpec("openai/gpt-5", price=ModelPrice(input=1))
    assert prices_missing(spec, NOON) == ["output"]
    assert price_words(spec, NOON) == "$1 input per million tokens (given)"
    assert priced(Usage(1, 1, 1), spec).cost_usd is None


def test_the_table_is_imported_where_it_is_needed_and_asks_no_network() -> None:
    """Neither a start of the program nor a model with a price of its own pays for the import."""
    code = (
        "import sys; import proctor.cli.beforehand; from proctor.models.prices import tariff_of;"
        "from proctor.model.price import ModelPrice; from proctor.model.spec import ModelSpec;"
        "tariff_of(ModelSpec('openai/gpt-5', price=ModelPrice(1))); tariff_of(ModelSpec('mock/echo'));"
        "assert 'genai_prices' not in sys.modules;"
        "import socket; socket.socket = None; assert tariff_of(ModelSpec('openai/gpt-5'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_03_E4_what_grading_costs_counts_to_the_budget() -> None:
    from proctor.core.budget import least_cost_of

    work, grading = (priced(Usage(1, 5_000, 1_250), given(MISTRAL)) for _ in range(2))
    both = least_cost_of(TryResult(Outcome.BROKEN, usage=work, grader_usage=grading))
    assert both == 9_000_000, "in billionths of a dollar"
    unknown = priced(Usage(1, 5, 5), given(None))
    assert least_cost_of(TryResult(Outcome.BROKEN, usage=work, grader_usage=unknown)) == both // 2
