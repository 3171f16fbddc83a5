"""What a model costs: US dollars per million tokens, by kind of token."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Prices of one model in US dollars per million tokens; None is unknown, 0 is free.

    Without a price of its own reasoning costs what output costs. Where input is free, so is the cache.
    Raises `ValueError` for what is no finite number of at least 0.
    """

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    reasoning: float | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            price: Any = getattr(self, one.name)
            if price is not None and (type(price) not in (int, float) or not 0 <= price < math.inf):
                raise ValueError(f"price of {one.name} must be a finite number of at least 0, not {price!r}")


FREE = ModelPrice(0.0, 0.0, 0.0, 0.0, 0.0)
"""The price of a model that nobody is paid for."""
