"""What a try in flight shows of itself, beside what its events say."""

from __future__ import annotations

from typing import NamedTuple


class Sign(NamedTuple):
    """How long there was no output, and the limit that ends it, None where there is none.

    `limit` says which where it is not that of the phase.
    """

    silent_seconds: float
    limit_seconds: float | None = None
    limit: str = ""
