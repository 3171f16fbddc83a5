"""Values as the databases of the record take them."""

from __future__ import annotations

import hashlib
from typing import Any

from proctor.store.plain import escape_surrogates

Row = tuple[Any, ...]

MOST = 2**63 - 1
"""The largest whole number of the databases; a larger one in a journal is written as this."""


def text(value: str) -> str:
    """Return a text as every database takes it: NUL is written as two characters."""
    return value.replace("\0", "\\0") if "\0" in value else value


def whole(value: int) -> int:
    """Return a whole number as the databases can hold it."""
    return max(-MOST, min(value, MOST))


def run_key_of(root: str, directory: str) -> int:
    """Return the key of the run in a directory: a number of 63 bits, made of the names alone."""
    digest = hashlib.sha256(escape_surrogates(f"{root}\0{directory}").encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
