"""Identifiers: parse, format, order.

A slot is one place in a run's denominator, (experiment, task, ordinal). An attempt fills it; its id is 12 random
base32 characters and is shown as `@id`. A run id is the start time, unless the user named one.
"""

from __future__ import annotations

import random
from datetime import datetime
from typing import NamedTuple

AttemptId = str

ID_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"  # RFC 4648 base32, lower case
ID_LENGTH = 12


class SlotKey(NamedTuple):
    """One place in the denominator of one experiment; orders as the plan lists it only within one task list."""

    experiment: str
    task: str
    ordinal: int

    def __str__(self) -> str:
        return f"{self.task} #{self.ordinal}"


def new_id(rng: random.Random) -> AttemptId:
    """Return 12 random base32 characters (60 bits) drawn from `rng`."""
    bits = rng.getrandbits(5 * ID_LENGTH)
    return "".join(ID_ALPHABET[(bits >> (5 * i)) & 31] for i in range(ID_LENGTH))


def run_id_of(moment: datetime) -> str:
    """Return the default run id for a start time: `YYYYMMDD_HHMMSS` of the moment as given (pass UTC)."""
    return moment.strftime("%Y%m%d_%H%M%S")
