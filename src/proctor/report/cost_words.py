"""What calls cost and used, as every display says it: an unknown part is never left out of a sum in silence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from proctor.model.attempt import NO_USAGE, Usage
from proctor.report.wording import money, plural


def usage_data(usage: Usage) -> dict[str, Any] | None:
    """Return usage as JSON, or None where no call was made.

    `cost_usd` is null where a part of the cost is unknown: then it is at least `cost_at_least_usd`, and
    `unpriced_calls` are the calls of which that is no or not the whole cost.
    """
    if not usage.calls:
        return None
    data = asdict(usage)
    del data["known_cost_usd"], data["priced_calls"]
    return {
        **data,
        "cost_at_least_usd": usage.cost_at_least_usd,
        "unpriced_calls": usage.unpriced_calls,
        "price_sources": list(usage.price_sources),
    }


def cost_of(usage: Usage) -> float | None:
    """Return the cost of some usage in US dollars: 0 where no call was made, None where a price is unknown."""
    return usage.cost_usd if usage.calls else 0.0


def cost_words(usage: Usage) -> str:
    """Return what some usage cost: `$1.20`, `at least $1.20, plus 3 calls without price`, `cost unknown`."""
    return known_part(cost_of(usage), usage.cost_at_least_usd, usage.unpriced_calls)


def known_part(whole: float | None, at_least: float, unknown: int, what: str = "call") -> str:
    """Return a cost, or the part of it that is known and how many `what` it does not have."""
    if whole is not None or not at_least:
        return money(whole)
    return f"at least {money(at_least)}, plus {plural(unknown, what)} without price"


def token_words(usage: Usage) -> str:
    """Return the tokens of some usage by kind; the kinds that not every call has only where there are some."""
    read, written, reasoning = usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens
    cached = [f"{read:,} read from cache"] * bool(read) + [f"{written:,} written to cache"] * bool(written)
    into = f"{usage.input_tokens + read + written:,} tokens in" + (f" ({', '.join(cached)})" if cached else "")
    return f"{into}, {usage.output_tokens:,} out" + (f" ({reasoning:,} reasoning)" if reasoning else "")


def together(usages: Iterable[Usage]) -> Usage:
    """Return the sum of usages."""
    return sum(usages, NO_USAGE)


__all__ = ["cost_of", "cost_words", "known_part", "together", "token_words", "usage_data"]
