"""Values in layers: who set what, and which of them wins (spec 02 Precedence)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import PurePath
from typing import Any, cast

from proctor.authoring.environment_spec import declaration_of

Tree = dict[str, Any]
"""Nested mappings of field names; a leaf is a value, or text as it was typed (`config.load.Typed`)."""

FieldPath = tuple[str | int, ...]
"""The way to a value in a tree; a number is a place in a list."""

NAME_FIELDS: Mapping[str, str] = {
    "benchmark": "id",
    "harness": "id",
    "model": "id",
    "judge": "id",
    "environment": "provider",
}
"""The parts of an experiment that may be given by name alone, and the field that the name is of."""


class Level(IntEnum):
    """Where values come from, weakest first."""

    BUILT_IN = 0
    PROJECT = 1
    """`proctor.yaml`."""
    CONFIG = 2
    """A file of `--config`; of several the later is stronger."""
    DEFAULTS = 3
    """The defaults of a launch file."""
    DECLARED = 4
    """A request of a launch file, an experiment in Python, the arguments of a call."""
    SET = 5
    FLAG = 6
    """An option or argument of the command line."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value was set: a file (as people name it) and a line, or an option."""

    level: Level
    name: str
    line: int | None = None

    def __str__(self) -> str:
        """Return it as errors and provenance name it: `launch.yaml:12`, `--timeout`, `default`."""
        return self.name if self.line is None else f"{self.name}:{self.line}"


BUILT_IN = Source(Level.BUILT_IN, "default")


def _no_lines() -> dict[FieldPath, int]:
    return {}


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source sets; `lines` are of the values of a file, counted from 1."""

    source: Source
    tree: Mapping[str, Any]
    lines: Mapping[FieldPath, int] = field(default_factory=_no_lines)

    def source_of(self, path: FieldPath) -> Source:
        """Return where this layer sets a value: the line of it, or of what it is in."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return Source(self.source.level, self.source.name, self.lines[path[:length]])
        return self.source

    def below(self, *keys: str) -> Layer:
        """Return the layer of a section of it; one that sets nothing where the section is not there."""
        tree: Any = self.tree
        for key in keys:
            tree = tree.get(key) if isinstance(tree, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - a tree is untyped
        lines = {path[len(keys) :]: line for path, line in self.lines.items() if path[: len(keys)] == keys}
        return Layer(self.source, cast("Tree", tree) if isinstance(tree, Mapping) else {}, lines)


class Parts:
    """Takes a file apart; to find the lines of one part, those of all others are not looked at."""

    def __init__(self, file: Layer) -> None:
        self._file = file
        self._lines: dict[FieldPath, dict[FieldPath, int]] = {}
        for path, line in file.lines.items():
            for length in range(1, min(len(path), 2) + 1):
                self._lines.setdefault(path[:length], {})[path[length:]] = line

    def at(self, path: FieldPath, level: Level | None = None) -> Layer:
        """Return what is at a path, of one or two steps, as a layer of its own; it sets nothing where no mapping is.

        It is of the level of the file, or of another.
        """
        tree: Any = self._file.tree
        for key in path:
            if isinstance(tree, Mapping):
                tree = cast("Mapping[Any, Any]", tree).get(key)
            else:
                tree = cast("list[Any]", tree)[int(key)] if isinstance(tree, list) else None
        source = self._file.source if level is None else replace(self._file.source, level=level)
        return Layer(source, cast("Tree", tree) if isinstance(tree, Mapping) else {}, self._lines.get(path, {}))


@dataclass(frozen=True, slots=True)
class Layered:
    """Layers merged into one tree, mappings key by key; `layers` are weakest first."""

    tree: Tree
    layers: tuple[Layer, ...]

    def source_of(self, path: FieldPath) -> Source:
        """Return which source set the value that is in force at `path`; `BUILT_IN` where none did."""
        for layer in reversed(self.layers):
            if _holds(layer.tree, path):
                return layer.source_of(path)
        return BUILT_IN


def _holds(tree: Any, path: FieldPath) -> bool:
    """Say whether a tree sets the value at `path`, or one in whose place it stands."""
    for key in path:
        if isinstance(tree, Mapping):
            if key not in tree:
                return False
            tree = cast("Mapping[Any, Any]", tree)[key]
        else:
            return True
    return True


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """Return `under` with the values of `over` in place of its own, mappings merged key by key."""
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(below, dict) and isinstance(value, dict)
        merged[key] = merge(cast("Tree", below), cast("Tree", value)) if both else value
    return merged


def plain_value(value: Any) -> Any:
    """Return a value as a file would hold it: mappings as dicts, sequences as lists, paths as texts.

    An environment, or a part of one, is written as people declare it.
    """
    value = declaration_of(value)
    if isinstance(value, Mapping):
        return {key: plain_value(inner) for key, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain_value(inner) for inner in cast("Sequence[Any]", value)]
    return str(value) if isinstance(value, PurePath) else value


def layered(layers: Iterable[Layer]) -> Layered:
    """Return layers, weakest first in their levels' order and else as given, as one tree."""
    ordered = tuple(sorted(layers, key=lambda layer: layer.source.level))
    tree: Tree = {}
    for layer in ordered:
        tree = merge(tree, layer.tree)
    return Layered(tree, ordered)
