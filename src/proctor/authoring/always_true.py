"""Values that are true whatever happened: to check one is a mistake that would let everybody pass."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from math import isnan
from subprocess import CompletedProcess
from types import ModuleType
from typing import Any, cast

from proctor.plugins.api import ExecResult, Turn


def why_always_true(value: Any) -> str | None:  # noqa: PLR0911 - one for each kind of value
    """Say what is wrong with a value that is true whatever happened, if it is one; in words that go on `was given`."""
    if value is True or value is False or value is None or type(value) is str:
        return None
    if inspect.isawaitable(value):
        return "something that has to be awaited first: write `await` in front of it"
    if isinstance(value, ExecResult):
        return "the result of a command, which is true whatever the command did: write `.ok` behind it"
    if isinstance(value, CompletedProcess):
        return "the result of a command, which is true whatever it did: compare its `.returncode`"
    if isinstance(value, Turn):
        return "a turn, which is true whatever the agent answered: compare its `.answer`"
    if inspect.isroutine(value):
        return f"the function `{getattr(value, '__name__', value)}` itself, which is always true: call it"
    if inspect.isclass(value) or isinstance(value, ModuleType):
        return f"the {'module' if isinstance(value, ModuleType) else 'class'} `{value.__name__}`, which is always true"
    given: Any = value
    kind = cast("type[object]", type(given))
    if isinstance(value, Iterator) and not hasattr(kind, "__bool__"):
        return f"a {kind.__name__}, which is true whatever it yields: write `all(...)` or `any(...)`"
    if kind is tuple and len(given) == 2 and isinstance(given[0], bool):
        return "a tuple, which is always true: give the value alone, and texts as `expected` and `actual`"
    if kind is float and isnan(given):
        return "NaN, which is true: compare it with something"
    return None


__all__ = ["why_always_true"]
