"""Finds plugins by entry point: lists them without importing them, loads one when it is used.

Groups: `proctor.harnesses`, `proctor.benchmarks`, `proctor.graders`, `proctor.providers`, `proctor.models`. An id of
the form `package.module:Name` is imported as it stands.
"""

from __future__ import annotations

import importlib
from enum import StrEnum
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from proctor.errors import MissingPackage, PluginLoadError, UnknownName, UsageError, describe


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


@cache
def _entries(kind: Kind) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=kind.group)}


def names(kind: Kind) -> list[str]:
    """Return the registered names of a kind in order, importing none of them."""
    return sorted(_entries(kind))


def origin(kind: Kind, name: str) -> str:
    """Return `distribution version` of a registered plugin."""
    distribution = _entries(kind)[name].dist
    return f"{distribution.name} {distribution.version}" if distribution else "unknown distribution"


def load(kind: Kind, name: str) -> Any:
    """Return what is registered as `name`.

    Raises `UnknownName` when nothing is, `PluginLoadError` when it cannot be imported (naming its distribution), and
    lets the `UsageError` of a missing optional package through.
    """
    entry = _entries(kind).get(name)
    if entry is None and ":" in name:
        return _import(kind, name)
    if entry is None:
        raise UnknownName(kind.value, name, names(kind), list_with=kind.list_with)
    try:
        return entry.load()
    except UsageError:
        raise
    except Exception as error:
        raise PluginLoadError(
            f"{kind.value} `{name}` of {origin(kind, name)} cannot be loaded: {describe(error)}",
            hint="reinstall or upgrade that distribution",
        ) from error


def _import(kind: Kind, path: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except MissingPackage:
        raise
    except Exception as error:
        raise PluginLoadError(
            f"{kind.value} `{path}` cannot be loaded: {describe(error)}",
            hint="write it as `package.module:Name`, importable from here",
        ) from error
    return found
