"""The kinds of values that fields take, and what is refused of each."""

from __future__ import annotations

import posixpath
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from proctor.authoring.field_values import Count, LimitOrOff, Positive, not_boolean

SECONDS_AT_MOST = 10 * 365 * 86400.0
"""Ten years: a longer limit is a mistake, or meant to be none."""


def _finite_positive(value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueError("must be a finite number of seconds above 0")
    if value > SECONDS_AT_MOST:
        raise ValueError(f"must be at most ten years, {SECONDS_AT_MOST:.0f} seconds")
    return value


def _directory(value: str) -> str:
    if not value or "\0" in value:
        raise ValueError("must be the name of a directory")
    return value


def _not_negative(value: float) -> float:
    if not 0 <= value < float("inf"):
        raise ValueError("must be a finite number of at least 0")
    return value


def _path_inside(value: str) -> str:
    """Return a path of a sandbox in its shortest form."""
    if not value or "\0" in value:
        raise ValueError("must be the path of a file or directory in the sandbox")
    if ".." in value.split("/"):
        raise ValueError("must hold no `..`: write the path itself")
    path = posixpath.normpath(value)
    return path[1:] if path.startswith("//") else path


def _pattern(value: str) -> str:
    if not value:
        raise ValueError("a pattern must not be empty: it would match everything")
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from None
    return value


RateOrOff = Annotated[
    float,
    BeforeValidator(not_boolean),
    AfterValidator(_not_negative),
    Field(json_schema_extra={"minimum": 0}),
]
"""A finite number above 0, or 0 for off."""

Pattern = Annotated[str, AfterValidator(_pattern), Field(json_schema_extra={"minLength": 1})]
"""A regular expression."""

Patterns = Annotated[tuple[Pattern, ...], BeforeValidator(lambda value: () if value is None else value)]
"""Regular expressions; null is as good as none."""

Seconds = Annotated[
    float,
    BeforeValidator(not_boolean),
    AfterValidator(_finite_positive),
    Field(json_schema_extra={"exclusiveMinimum": 0, "maximum": SECONDS_AT_MOST}),
]
"""A finite time above 0, at most `SECONDS_AT_MOST`.

`inf`, `nan`, 0 and negative times are errors, so that no limit can be switched off by one.
"""

PathInside = Annotated[str, AfterValidator(_path_inside)]
"""A path in a sandbox, relative to the work directory or absolute."""

Directory = Annotated[str, AfterValidator(_directory), Field(json_schema_extra={"minLength": 1})]
"""The name of a directory; the empty text is none."""


def _word(value: str) -> str:
    if not value.strip():
        raise ValueError("must be a text that is not empty")
    return value


Word = Annotated[str, AfterValidator(_word), Field(json_schema_extra={"minLength": 1})]
"""A text of more than white space."""


def _list(value: Any) -> Any:
    if isinstance(value, str | dict) or not hasattr(value, "__len__"):
        raise ValueError("must be a list")
    return value


Listed = BeforeValidator(_list)
"""For a field of several things that are no plain values."""


class _AsTyped:
    """Marks a field."""


AS_TYPED = _AsTyped()
"""Marks a field whose values stay as they were typed, as only a plugin knows their types."""

Params = Annotated[dict[str, Any], AS_TYPED]
"""The parameters of a plugin or a model."""


def not_yet(supported: Any) -> BeforeValidator:
    """Return what refuses every value but one: a field that has a name already, and no effect yet."""

    def check(value: Any) -> Any:
        if value != supported:
            instead = "leave it out" if supported is None else f"`{supported}` is the only one that is"
            raise ValueError(f"is not supported yet; {instead}")
        return value

    return BeforeValidator(check)


__all__ = [
    "AS_TYPED", "SECONDS_AT_MOST", "Count", "Directory", "LimitOrOff", "Listed", "Params", "PathInside", "Pattern",
    "Patterns", "Positive", "RateOrOff", "Seconds", "Word", "not_yet",
]  # fmt: skip
