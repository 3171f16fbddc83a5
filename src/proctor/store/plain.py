"""Plain JSON values from what programs hold, by documented rules, or an error that names the place.

Rules: None, booleans, whole numbers, finite floats and text stay; subclasses of them become the plain type; an
enumeration becomes its value; a tuple becomes a list; a mapping with text keys becomes an object; a dataclass becomes
an object of its fields, without those that it hides from its `repr` (credentials are declared so). Anything else is
refused: sets, bytes, dates, NaN, infinities, objects, and nesting deeper than `DEPTH_LIMIT`.

Text may hold half of a surrogate pair, which UTF-8 cannot: each half is written as the six characters `\\udXXX`
(backslash, u, four hexadecimal digits) and is not turned back when it is read.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from proctor.errors import StoreError

DEPTH_LIMIT = 256
"""Deepest nesting of a value that is written; common readers of JSON refuse deeper ones."""

_ENCODER = msgspec.json.Encoder()


class NotEncodable(StoreError):
    """A value has no JSON form; names its place. Nothing was written because of it, and writing can go on."""


class _Refused(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []


def plain_json(value: object, name: str = "value") -> Any:
    """Return `value` as plain JSON by the rules above.

    Raises `NotEncodable`, naming the place by a path that starts with `name`.
    """
    try:
        return _plain(value, 0)
    except _Refused as refused:
        steps = refused.path[::-1]
        if len(steps) > 8:  # a value that contains itself has a path without an end
            steps = [*steps[:6], "...", steps[-1]]
        raise NotEncodable(
            f"cannot be written as JSON: `{name}{''.join(steps)}` is {refused.reason}",
            hint="use text, finite numbers, booleans, lists, and objects with text keys",
        ) from None


def encode_json(value: object, name: str = "value") -> bytes:
    """Return `value` as compact JSON in UTF-8 without a newline; raises `NotEncodable` as `plain_json` does."""
    return _ENCODER.encode(plain_json(value, name))


def escape_surrogates(text: str) -> str:
    """Return `text` with each half of a surrogate pair written out as `\\udXXX`; other text comes back unchanged."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain(value: object, depth: int) -> Any:
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return escape_surrogates(str.__str__(value))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _finite(value)
    return _plain_container(value, depth)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise _Refused(f"{float(value)!r}, not a finite number")
    return float(value)


def _plain_container(value: object, depth: int) -> Any:
    if depth >= DEPTH_LIMIT:
        raise _Refused(f"nested deeper than {DEPTH_LIMIT} levels")
    if isinstance(value, list | tuple):
        return _plain_items(enumerate(cast("Iterable[object]", value)), depth)
    if isinstance(value, Mapping):
        return _plain_members(cast("Mapping[object, object]", value).items(), depth, "[{!r}]")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.repr)
        return _plain_members(shown, depth, ".{}")
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    raise _Refused(f"of type `{module}{kind.__qualname__}`")


def _plain_items(items: Iterable[tuple[int, object]], depth: int) -> list[Any]:
    result: list[Any] = []
    index = 0
    try:
        for index, item in items:  # noqa: B007 (read by the handler)
            result.append(_plain(item, depth + 1))
    except _Refused as refused:
        refused.path.append(f"[{index}]")
        raise
    return result


def _plain_members(members: Iterable[tuple[object, object]], depth: int, step: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    key: object = None
    try:
        for key, member in members:
            if not isinstance(key, str):
                raise _Refused(f"under a key of type `{type(key).__qualname__}`, not text")
            result[_plain(key, depth)] = _plain(member, depth + 1)
    except _Refused as refused:
        refused.path.append(step.format(key))
        raise
    return result
