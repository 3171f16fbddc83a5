"""The table of prices of the package `genai-prices`, as `models.prices` reads it."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from proctor.model.attempt import Usage
from proctor.model.price import ModelPrice
from proctor.model.spec import ModelSpec

TABLE = "genai-prices"
"""The package with the table of prices, whose name and version are the source of what comes from it."""

_FAMILIES = {"gemini": "google", "bedrock": "aws", "xai": "x-ai"}
"""Names of model families that the table knows by another name."""


class Rates(NamedTuple):
    """The prices of some usage: `per_call` is US dollars for each call, beside the tokens."""

    price: ModelPrice
    source: str
    per_call: Decimal = Decimal(0)


class FromTable:
    """Prices of the table. Some hold at some times only, some depend on how much input a call has.

    Of several calls that were reported together nobody knows how large each was: the mean decides, and the source says
    so where that can make a difference.
    """

    def __init__(self, model: Any, source: str) -> None:
        self._model = model
        self._source = source

    def rates(self, usage: Usage, at: datetime) -> Rates:
        """Return what holds for calls of that size, at that moment."""
        prices: Any = self._model.get_prices(at)
        whole = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        mean = Decimal(whole) / max(1, usage.calls)
        kinds = {
            "input": prices.input_mtok,
            "output": prices.output_mtok,
            "cache_read": prices.cache_read_mtok,
            "cache_write": prices.cache_write_mtok,
            "reasoning": prices.output_reasoning_mtok,
        }
        for cache in ("cache_read", "cache_write"):  # what has no price of its own is input like any other
            kinds[cache] = kinds["input"] if kinds[cache] is None else kinds[cache]
        # One call has the size that it has; of several only those may differ that are large enough together.
        vague = usage.calls > 1 and any(whole > tier.start for price in kinds.values() for tier in _tiers(price))
        return Rates(
            ModelPrice(**{kind: _for_size(price, mean) for kind, price in kinds.items()}),
            f"{self._source}, by the mean size of a call" if vague else self._source,
            (prices.requests_kcount or Decimal(0)) / 1000,
        )


def _tiers(price: Any) -> list[Any]:
    return getattr(price, "tiers", [])


def _for_size(price: Any, tokens: Decimal) -> float | None:
    """Return the price for calls with so many tokens of input, as a table has it that may have steps."""
    for tier in reversed(_tiers(price)):
        if tokens > tier.start:
            return float(tier.price)
    base = getattr(price, "base", price)
    return None if base is None else float(base)


def from_table(spec: ModelSpec, family: str, name: str) -> FromTable | None:
    """Return the prices of a model, or None where the table has none for it: by its family, or by its address."""
    # It takes about 0.2 s to import, and is needed where a model is to be priced.
    from genai_prices import __version__  # noqa: PLC0415 - see above
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - see above

    table = get_snapshot()
    provider = None if spec.base_url is not None else _FAMILIES.get(family, family)
    if provider is not None and provider not in {one.id for one in table.providers}:
        return None
    names = [name] if provider is not None else [spec.id.removeprefix("openai/"), *([name] if name else [])]
    for one in names:
        try:
            _, model = table.find_provider_model(one, None, provider, spec.base_url)
        except LookupError:  # the table does not know it by that name
            continue
        return FromTable(model, f"{TABLE} {__version__}")
    return None
