"""What the calls of models cost: by a price that was given, or by the table of the package `genai-prices`.

A price is unknown unless one of these says it, and an unknown price is never 0 (spec 09 M6). Nothing here asks the
network: the table is the one that is installed, and its version says how old it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Protocol

from proctor.model.attempt import Usage
from proctor.model.price import FREE, ModelPrice
from proctor.model.spec import ModelSpec
from proctor.models._price_table import Rates, from_table

REPORTED, GIVEN, LOCAL = "reported", "given", "local"
"""Where a cost comes from: the endpoint or program said it, `model.price` did, or nobody is paid for the model."""

UNKNOWN = "price.unknown"

MOCK = "mock/"
"""How the ids of models begin that nobody sells: what they count as tokens has no price unless it is given."""

_MILLION = Decimal(1_000_000)
_LARGE = 1_000_000_000
"""Tokens of a call that is beyond every step of a price."""

Tell = Callable[[str, str], None]
"""Takes the code of an issue and its message."""


class Tariff(Protocol):
    """The prices of one model."""

    def rates(self, usage: Usage, at: datetime) -> Rates:
        """Return what holds for calls of that size, at that moment."""
        ...


class Fixed:
    """Prices that do not depend on when a call is made, or how large it is."""

    def __init__(self, price: ModelPrice, source: str) -> None:
        self._rates = Rates(price, source)

    def rates(self, usage: Usage, at: datetime) -> Rates:
        """Return the prices."""
        return self._rates


# -------------------------------------------------------------------------------------------------- finding a price


def tariff_of(spec: ModelSpec) -> Tariff | None:
    """Return the prices of a model, or None where nobody says what it costs.

    What was given counts, and then nothing else does. `local/...` is free. `FAMILY/...` without an address is the
    family's own endpoint, an address is looked up by its host: an endpoint of one's own is in no table. The models
    `mock/...` have none.
    """
    if spec.price is not None:
        return Fixed(spec.price, GIVEN)
    family, slash, name = spec.id.partition("/")
    if slash and family == LOCAL:
        return Fixed(FREE, LOCAL)
    if (not slash and spec.base_url is None) or spec.id.startswith(MOCK):
        return None
    return from_table(spec, family, name)


def prices_missing(spec: ModelSpec, at: float) -> list[str]:
    """Return the kinds of tokens that every call has and that have no known price: all kinds where none is known."""
    tariff = tariff_of(spec)
    if tariff is None:
        return list(ModelPrice.__dataclass_fields__)
    price = tariff.rates(Usage(calls=1), datetime.fromtimestamp(at, UTC)).price
    return [kind for kind in ("input", "output") if getattr(price, kind) is None]


def price_words(spec: ModelSpec, at: float) -> str:
    """Return what a model costs in words, for one call of no great size at a moment in seconds after the epoch."""
    tariff = tariff_of(spec)
    if tariff is None:
        return "price unknown"
    moment = datetime.fromtimestamp(at, UTC)
    rates = price, source, per_call = tariff.rates(Usage(calls=1), moment)
    if is_free(rates):
        return f"free ({source})"
    said = [f"${usd:g} {kind.replace('_', ' ')}" for kind, usd in asdict(price).items() if usd is not None]
    if not said:
        return "price unknown"
    more = f" and ${per_call:f} per call" if per_call else ""
    if tariff.rates(Usage(calls=1, input_tokens=_LARGE), moment).price != price:
        more += ", more for large calls"
    return f"{', '.join(said)} per million tokens{more} ({source})"


# ---------------------------------------------------------------------------------------------------------- pricing


class Prices:
    """Prices what the calls of one run used, and says once of each model that it cannot.

    `now` returns the moment in seconds after the epoch: some prices depend on it.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tariffs: dict[tuple[Any, ...], Tariff | None] = {}
        self._told: set[str] = set()

    def price(self, spec: ModelSpec | None, usage: Usage, tell: Tell) -> Usage:
        """Return usage with its cost and where that comes from, as far as both are known.

        A cost that came with it stays. What was used was used by a call, also where none was counted.
        """
        if usage.cost_usd is not None:
            return usage if usage.price_sources else replace(usage, price_sources=(REPORTED,))
        if usage.price_sources or usage == Usage():
            return usage  # priced before, as far as it could be
        if usage.known_cost_usd or usage.priced_calls:
            return replace(usage, price_sources=(REPORTED,))  # a part of it came with it
        usage = usage if usage.calls else replace(usage, calls=1)
        tariff = None if spec is None else self._tariff(spec)
        if spec is None or tariff is None:
            self._say(spec, tell, "no price is known")
            return usage
        rates = tariff.rates(usage, datetime.fromtimestamp(self._now(), UTC))
        usd, missing = cost_in_parts(usage, rates)
        if missing:
            self._say(spec, tell, f"no price of {', '.join(missing)} tokens is known")
        # A call of which no tokens are known has used some all the same: its cost is known only where all is free.
        elif is_free(rates) or any(tokens for _, tokens, _ in _kinds(usage, rates.price)):
            return replace(usage, cost_usd=float(usd), price_sources=(rates.source,))
        return replace(usage, known_cost_usd=float(usd), price_sources=(rates.source,)) if usd else usage

    def _tariff(self, spec: ModelSpec) -> Tariff | None:
        key = (spec.id, spec.base_url, spec.price)
        if key not in self._tariffs:
            self._tariffs[key] = tariff_of(spec)
        return self._tariffs[key]

    def _say(self, spec: ModelSpec | None, tell: Tell, what: str) -> None:
        """Say what is missing, once; mock models have no price, and nobody is surprised by that."""
        if spec is None or spec.id.startswith(MOCK) or (told := f"{what} {spec.id} {spec.base_url}") in self._told:
            return
        self._told.add(told)
        where = f" at {spec.base_url}" if spec.base_url else ""
        tell(UNKNOWN, f"{what} for model `{spec.id}`{where}: what its calls cost is unknown (said once in a run)")


def is_free(rates: Rates) -> bool:
    """Say whether calls cost nothing, however many tokens they use."""
    return not rates.per_call and all(price == 0 for _, _, price in _kinds(Usage(), rates.price))


def cost_in_parts(usage: Usage, rates: Rates) -> tuple[Decimal, list[str]]:
    """Return what the kinds of tokens with a price cost in US dollars, exactly, and the used kinds without one."""
    usd = rates.per_call * usage.calls
    missing: list[str] = []
    for kind, tokens, price in _kinds(usage, rates.price):
        if price is None and tokens:
            missing.append(kind)
        elif price is not None:
            usd += tokens * Decimal(str(price)) / _MILLION
    return usd, missing


def _kinds(usage: Usage, price: ModelPrice) -> Iterator[tuple[str, int, float | None]]:
    cached = 0.0 if price.input == 0 else None
    reasoning = min(usage.reasoning_tokens, usage.output_tokens)
    yield "input", usage.input_tokens, price.input
    yield "output", usage.output_tokens - reasoning, price.output
    yield "reasoning", reasoning, price.output if price.reasoning is None else price.reasoning
    yield "cache read", usage.cache_read_tokens, cached if price.cache_read is None else price.cache_read
    yield "cache write", usage.cache_write_tokens, cached if price.cache_write is None else price.cache_write


__all__ = [
    "GIVEN", "LOCAL", "MOCK", "REPORTED", "UNKNOWN", "Fixed", "Prices", "Rates", "Tariff", "cost_in_parts", "is_free",
    "price_words", "prices_missing", "tariff_of",
]  # fmt: skip
