"""Values as they were typed, and what they mean: by the type of their field, else by JSON or YAML 1.2."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from proctor.config.problems import Problem


class Typed(str):
    """A value as it was typed after `--set KEY=`; the type of its field decides what it means."""

    __slots__ = ()


class Plain(Typed):
    """A scalar that stands in a YAML file without quotes."""

    __slots__ = ()


class Substituted(Typed):
    """Text of a file in which variables were put in; `values` are theirs, which are not to be shown anywhere."""

    values: tuple[str, ...]

    def __new__(cls, text: str, values: tuple[str, ...]) -> Substituted:
        """Make it from the whole text and the values in it."""
        made = super().__new__(cls, text)
        made.values = values
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Return how it is copied: as text."""
        return str, (str(self),)


DIGITS_AT_MOST = 300
"""Longer numbers are text: none is meant, and reading them takes long."""

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FRACTION = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def is_null(text: str) -> bool:
    """Say whether a plain scalar of YAML 1.2 stands for nothing."""
    return text in _NULL


def of_yaml(text: str) -> Any:
    """Return what a plain scalar is in the core schema of YAML 1.2; 1e3 is the whole number 1000.

    `no`, `on`, `1_000` and `2026-01-31` are text there.
    """
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    number = _number(text) if len(text) <= DIGITS_AT_MOST else None
    return str(text) if number is None else number


def _number(text: str) -> int | float | None:
    if _WHOLE.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        return int(text, 0)
    if _FRACTION.fullmatch(text):
        return _shortest(float(text), text)
    return float(text.replace(".", "")) if _SPECIAL.fullmatch(text) else None


def of_json(text: str) -> Any:
    """Return what a number, `true` or `false` is in JSON; anything else is text."""
    try:
        value = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return str(text)
    return _shortest(value, text) if isinstance(value, float) else value


def _shortest(value: float, text: str) -> float | int:
    """Return a number; 1e3 is a whole number in a field of counts, and a field of fractions takes it as well."""
    return int(value) if value.is_integer() and "." not in text else value


def refuse_constant(name: str) -> Any:
    """Refuse what Python takes for JSON and is none: NaN and Infinity. Raises `ValueError`."""
    raise ValueError(f"{name} is no JSON number")


def substituted_in(tree: Any) -> Iterator[str]:
    """Yield the values of all variables that were put into a tree."""
    for value in _leaves(tree):
        if isinstance(value, Substituted):
            yield from value.values


def _leaves(tree: Any) -> Iterator[Any]:
    """Yield the plain values of a tree."""
    if isinstance(tree, Mapping):
        for value in cast("Mapping[Any, Any]", tree).values():
            yield from _leaves(value)
    elif isinstance(tree, list | tuple):
        for value in cast("list[Any]", tree):
            yield from _leaves(value)
    else:
        yield tree


def holds_variable(value: object) -> bool:
    """Say whether a value holds that of a variable."""
    return isinstance(value, Substituted) and bool(value.values)


_NAMED = ("benchmark", "harness", "model", "judge", "benchmarks", "harnesses", "models")
_FREE = {"params", "flags", "env", "labels", "args"}


def is_name(path: tuple[str | int, ...]) -> bool:
    """Say whether what stands at a path names something, and is shown also where it is the value of a variable.

    These are the ids of benchmarks, harnesses, models and providers, and the directory of results.
    """
    keys = [str(part) for part in path if not isinstance(part, int)]
    if not keys or not _FREE.isdisjoint(keys):
        return False
    above = keys[-2] if len(keys) > 1 else ""
    if keys[-1] in ("benchmark", "harness", "model", "judge", "environment") or above == "models":
        return True  # given by its name alone
    if keys[-1] == "id":
        return above in _NAMED or (len(keys) > 2 and keys[-3] == "models")
    return keys[-2:] in (["environment", "provider"], ["runtime", "results_dir"])


def hidden_in(tree: Any, path: tuple[str | int, ...] = ()) -> Iterator[str]:
    """Yield the values of variables in a tree that are not to be shown: all but those in names."""
    if isinstance(tree, Substituted):
        yield from () if is_name(path) else tree.values
    elif isinstance(tree, Mapping):
        for key, value in cast("Mapping[Any, Any]", tree).items():
            yield from hidden_in(value, (*path, str(key)))
    elif isinstance(tree, list | tuple):
        for place, value in enumerate(cast("list[Any]", tree)):
            yield from hidden_in(value, (*path, place))


class Refused:
    """Stands in a tree for a value that cannot be used.

    `why` says what its field refuses it for; without one there are `problems` with the value itself.
    """

    __slots__ = ("problems", "text", "why")

    def __init__(self, text: str, why: str | None = None, problems: tuple[Problem, ...] = ()) -> None:
        self.text = text
        self.why = why
        self.problems = problems


def refused_in(tree: Any) -> Iterator[Problem]:
    """Yield what is wrong with the values themselves that are in a tree, whatever their fields take."""
    for value in _leaves(tree):
        if isinstance(value, Refused):
            yield from value.problems
