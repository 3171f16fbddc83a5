"""Which fields hold credentials: by their names, wherever people write them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

_SECRET_NAME = re.compile(
    r"(?:.*[^a-z])?(?:key|token|secret|password|passwd|authorization|credentials?)", re.IGNORECASE
)


def is_secret_name(name: str) -> bool:
    """Say whether a field of this name holds a credential: its last word is key, token, secret or the like."""
    return _SECRET_NAME.fullmatch(name) is not None


def secrets_in(tree: Any) -> Iterator[str]:
    """Yield the texts that stand under secret names anywhere in a JSON value."""
    if isinstance(tree, Mapping):
        for name, value in cast("Mapping[str, Any]", tree).items():
            if isinstance(value, str) and is_secret_name(name):
                yield value
            else:
                yield from secrets_in(value)
    elif isinstance(tree, list | tuple):
        for value in cast("list[Any]", tree):
            yield from secrets_in(value)


def without_secrets(tree: Any, among: Collection[str] | None = None) -> Any:
    """Return a JSON value without the texts that stand under secret names; their names stay.

    With `among` only those texts are left out that are in it.
    """
    if isinstance(tree, Mapping):
        return {
            name: None
            if isinstance(value, str) and is_secret_name(name) and (among is None or value in among)
            else without_secrets(value, among)
            for name, value in cast("Mapping[str, Any]", tree).items()
        }
    if isinstance(tree, list | tuple):
        return [without_secrets(value, among) for value in cast("list[Any]", tree)]
    return tree
