"""Finds plugins by entry point: lists them without importing them, loads one when it is used.

Groups: `proctor.harnesses`, `proctor.benchmarks`, `proctor.graders`, `proctor.providers`, `proctor.models`. An id of
the form `package.module:Name` is imported as it stands.

What is found makes a plugin when it is called, and must have `options` and `needs_model` before that, where the
protocol of its kind in `plugins.api` names them. The rest of the protocol must be there once the plugin is made.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from proctor.errors import MissingPackage, PluginLoadError, UnknownName, UsageError, describe
from proctor.model.attempt import GradingMode
from proctor.plugins.api import Benchmark, Grader, Harness, Model, Provider


class Kind(StrEnum):
    """What can be plugged in; the value is the word for one of it."""

    HARNESS = "harness"
    BENCHMARK = "benchmark"
    GRADER = "grader"
    PROVIDER = "provider"
    MODEL = "model family"

    @property
    def group(self) -> str:
        """The entry point group."""
        plural = {"harness": "harnesses", "model family": "models"}
        return f"proctor.{plural.get(self.value, self.value + 's')}"

    @property
    def list_with(self) -> str:
        """The command that lists all of the kind."""
        return f"proctor list {self.group.removeprefix('proctor.')}"


_PROTOCOLS: dict[Kind, type] = {
    Kind.HARNESS: Harness,
    Kind.BENCHMARK: Benchmark,
    Kind.GRADER: Grader,
    Kind.PROVIDER: Provider,
    Kind.MODEL: Model,
}
"""What a plugin of each kind looks like."""

_READ_FIRST = ("options", "needs_model")
"""Attributes that are read before the plugin is made."""

_REINSTALL = "reinstall or upgrade that distribution"
_NAME_ONE = "write it as `package.module:Name`, importable from here"
_MEND = "mend the plugin: `proctor.plugins.api` says what it must have"


@cache
def _installed() -> Any:
    """Return all there are: to look for those of one group takes as long, since every distribution is read."""
    return entry_points()


@cache
def _entries(kind: Kind) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in _installed().select(group=kind.group)}


def names(kind: Kind) -> list[str]:
    """Return the registered names of a kind in order, importing none of them."""
    return sorted(_entries(kind))


def origin(kind: Kind, name: str) -> str:
    """Return `distribution version` of a registered plugin."""
    distribution = _entries(kind)[name].dist
    return f"{distribution.name} {distribution.version}" if distribution else "unknown distribution"


def load(kind: Kind, name: str) -> Any:
    """Return what is registered as `name`.

    Raises `UnknownName` when nothing is, `PluginLoadError` when it cannot be imported (naming its distribution) or
    cannot make a plugin of this kind, and lets the `UsageError` of a missing optional package through.
    """
    entry = _entries(kind).get(name)
    if entry is None and ":" in name:
        hint = f"name one that is; `{kind.list_with}` lists all that are installed"
        return _checked(kind, lambda: f"`{name}`", _import(kind, name), hint=hint)
    if entry is None:
        raise UnknownName(kind.value, name, names(kind), list_with=kind.list_with)

    def what() -> str:  # to ask for the version of a distribution means to read a file of it
        return f"`{name}` of {origin(kind, name)}"

    try:
        found = entry.load()
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginLoadError(f"{kind.value} {what()} cannot be loaded: {describe(error)}", hint=_REINSTALL) from error
    return _checked(kind, what, found, hint=_REINSTALL)


def _import(kind: Kind, path: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except MissingPackage:
        raise
    except (Exception, SystemExit) as error:
        raise PluginLoadError(f"{kind.value} `{path}` cannot be loaded: {describe(error)}", hint=_NAME_ONE) from error
    return found


def _checked(kind: Kind, what: Callable[[], str], found: Any, *, hint: str) -> Any:
    """Return what was found if it can be called to make a plugin of its kind; `what` names it in an error."""
    if not callable(found):
        raise PluginLoadError(f"{what()} is no {kind.value}: it cannot be called to make one", hint=hint)
    fields, methods = _required(kind)
    missing = [name for name in _READ_FIRST if name in fields and not hasattr(found, name)]
    if isinstance(found, type):
        missing += _missing_methods(found, methods)
    if missing:
        _refuse(kind, what(), missing, hint=hint)
    options: Any = getattr(found, "options", None)
    if "options" in fields and not _is_model(options):
        raise PluginLoadError(f"{what()} is no {kind.value}: its `options` is no pydantic model", hint=hint)
    return found


def check_made(kind: Kind, name: str, plugin: object) -> None:
    """Check that a plugin, now that it is made, has everything that its kind needs. Raises `PluginLoadError`."""
    fields, methods = _required(kind)
    missing = [field for field in fields if not hasattr(plugin, field)] + _missing_methods(plugin, methods)
    _refuse(kind, f"`{name}`", missing, hint=_MEND)
    if wrong := _wrong_value(kind, plugin):
        raise PluginLoadError(f"`{name}` is no {kind.value}: {wrong}", hint=_MEND)


def _wrong_value(kind: Kind, plugin: Any) -> str | None:
    """Say what is wrong with what a plugin declares, if anything: what is used much later, in the middle of a run."""
    if kind is Kind.BENCHMARK:
        gradings: Any = plugin.gradings
        if not isinstance(gradings, tuple) or any(mode not in tuple(GradingMode) for mode in cast("Any", gradings)):
            return f"its `gradings` must be a tuple of grading modes, not {gradings!r}"
        if plugin.grading not in gradings:
            return f"its `grading` ({plugin.grading}) is not among its `gradings`"
    if kind is Kind.GRADER:
        paths: Any = plugin.reward_files
        if not isinstance(paths, tuple) or not all(_is_path(path) for path in cast("Any", paths)):
            return f"its `reward_files` must be a tuple of paths in the sandbox, not {paths!r}"
    return None


def _is_path(path: Any) -> bool:
    return isinstance(path, str) and bool(path.strip("/")) and "\0" not in path


def _missing_methods(found: Any, methods: list[str]) -> list[str]:
    return [name for name in methods if not callable(getattr(found, name, None))]


def _refuse(kind: Kind, what: str, missing: list[str], *, hint: str) -> None:
    if missing:
        words = ", ".join(f"`{name}`" for name in missing)
        raise PluginLoadError(f"{what} is no {kind.value}: it has no {words}", hint=hint)


def _required(kind: Kind) -> tuple[list[str], list[str]]:
    """Return the names of the attributes and of the methods of a kind's protocol."""
    protocol = _PROTOCOLS[kind]
    methods = [name for name, value in vars(protocol).items() if not name.startswith("_") and callable(value)]
    return list(getattr(protocol, "__annotations__", ())), methods


def _is_model(options: Any) -> bool:
    from pydantic import BaseModel  # noqa: PLC0415 - whoever only lists plugins does not need it

    return isinstance(options, type) and issubclass(options, BaseModel)
