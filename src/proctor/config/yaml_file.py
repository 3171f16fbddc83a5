"""Reads a YAML file (version 1.2) as a layer of configuration: its values, and the line of each."""

from __future__ import annotations

import os
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proctor.config.layers import FieldPath, Layer, Level, Source, Tree
from proctor.config.problems import Problem
from proctor.config.scalars import Plain, Refused, is_null
from proctor.config.substitute import substitute
from proctor.config.yaml_nodes import DEPTH_AT_MOST, BadYaml, Mapping, Node, Scalar, Sequence, nodes_of

BYTES_AT_MOST = 2 * 1024 * 1024
VALUES_AT_MOST = 100_000
"""So many values may a file stand for, with what aliases repeat."""

STEPS_UP_AT_MOST = 4
KEY_CHARACTERS_SHOWN = 60

MERGE = "<<"
NOTES = "x-"
"""Keys at the top of a file that begin so are for notes and shared blocks."""


@dataclass(slots=True)
class YamlFile:
    """What a file says, and what is wrong with it; where something is wrong the tree holds `Refused`."""

    layer: Layer
    problems: list[Problem]


def name_of(path: Path) -> str:
    """Return how people name a file: relative to where they are if that is near, else by its whole path."""
    try:
        near = os.path.relpath(path)
    except (ValueError, OSError):  # the current directory is gone
        return str(path)
    return near if near.count("..") <= STEPS_UP_AT_MOST else str(path)


def read_yaml(path: Path, level: Level, environ: MappingOf[str, str]) -> YamlFile:
    """Read a file. Whatever is wrong with it is among the problems; an empty file sets nothing."""
    name = name_of(path)
    source = Source(level, name)
    try:
        root = nodes_of(_text(path))
        if root is not None and not isinstance(root, Mapping) and not _is_empty(root):
            raise BadYaml("expected `key: value` at the top of the file", root.line)
    except BadYaml as error:
        return _unreadable(source, error)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        problem = Problem(f"cannot read `{name}`: {why}", "name a file that can be read")
        return YamlFile(Layer(source, {}), [problem])
    reading = _Reading(source, environ)
    if not isinstance(root, Mapping):
        return YamlFile(Layer(source, {}, {(): 1}), [])
    try:
        tree = reading.top(root)
    except BadYaml as error:
        return _unreadable(source, error)
    return YamlFile(Layer(source, tree, reading.lines), reading.problems)


def _unreadable(source: Source, error: BadYaml) -> YamlFile:
    at = Source(source.level, source.name, error.line)
    return YamlFile(Layer(source, {}), [Problem(error.message, error.hint, at)])


def _text(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(BYTES_AT_MOST + 1)
    if len(content) > BYTES_AT_MOST:
        raise BadYaml(f"the file is above {BYTES_AT_MOST:,} bytes, which is no configuration", 1)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadYaml("the file is not in UTF-8 here", line, "save it as UTF-8") from None


def _is_empty(node: Node) -> bool:
    return isinstance(node, Scalar) and node.plain and is_null(node.text)


@dataclass(slots=True)
class _Reading:
    """Makes values of the nodes of one file."""

    source: Source
    environ: MappingOf[str, str]
    lines: dict[FieldPath, int] = field(default_factory=lambda: {(): 1})
    problems: list[Problem] = field(default_factory=list[Problem])
    values: int = 0
    notes: bool = False

    def top(self, root: Mapping) -> Tree:
        """Return the whole file, without its notes."""
        tree: Tree = {}
        for key, value in self._items(root, ()):
            self.notes = key.text.startswith(NOTES)
            made = self._value(value, (key.text,))
            if not self.notes:
                self.lines[key.text,] = key.line
                tree[key.text] = made
        return tree

    def _value(self, node: Node, path: FieldPath) -> Any:
        self.values += 1
        if self.values > VALUES_AT_MOST:
            raise BadYaml(f"the file stands for more than {VALUES_AT_MOST:,} values: its aliases multiply", node.line)
        if len(path) > DEPTH_AT_MOST:
            raise BadYaml(f"values are more than {DEPTH_AT_MOST} deep in each other here", node.line)
        if isinstance(node, Scalar):
            return self._scalar(node, path)
        if isinstance(node, Sequence):
            made: list[Any] = []
            for place, item in enumerate(node.items):
                self._mark((*path, place), item.line)
                made.append(self._value(item, (*path, place)))
            return made
        tree: Tree = {}
        for key, value in self._items(node, path):
            self._mark((*path, key.text), key.line)
            tree[key.text] = self._value(value, (*path, key.text))
        return tree

    def _mark(self, path: FieldPath, line: int) -> None:
        if not self.notes:
            self.lines[path] = line

    def _scalar(self, node: Scalar, path: FieldPath) -> Any:
        if node.plain and is_null(node.text):
            return None
        text = Plain(node.text) if node.plain else node.text
        if self.notes or "${" not in text:
            return text
        found: list[Problem] = []

        def complain(message: str, hint: str) -> None:
            at = Source(self.source.level, self.source.name, node.line)
            found.append(Problem(f"`{dotted(path)}`: {message}", hint, at, value_at=path))

        done = substitute(text, self.environ, complain)
        self.problems += found
        return Refused(node.text, problems=tuple(found)) if found else done

    def _items(self, node: Mapping, path: FieldPath) -> list[tuple[Scalar, Node]]:
        """Return the keys of a mapping with their values; those of merged blocks come behind its own."""
        own: dict[str, tuple[Scalar, Node]] = {}
        merged: list[tuple[Scalar, Node]] = []
        merge_line: int | None = None
        for key, value in node.items:
            if not isinstance(key, Scalar) or (key.plain and not key.text):
                self._complain(f"a key{_in(path)} is no text", key.line, "write `name: value`")
            elif key.plain and key.text == MERGE:
                if merge_line is not None:
                    self._complain(
                        f"`<<`{_in(path)} is there twice, first in line {merge_line}",
                        key.line,
                        "write one: `<<: [*first, *second]`, of which the first wins",
                    )
                merge_line = merge_line or key.line
                merged += self._merged(value, path)
            elif key.text in own:
                first = own[key.text][0].line
                self._complain(
                    f"the key `{shown_key(key.text)}`{_in(path)} is there twice, first in line {first}",
                    key.line,
                    "leave one of them out, or put them together",
                )
            else:
                if "${" in key.text:
                    self._complain(f"a key{_in(path)} holds `${{`", key.line, "only values can refer to variables")
                own[key.text] = (key, value)
        for key, value in merged:
            own.setdefault(key.text, (key, value))
        return list(own.values())

    def _merged(self, value: Node, path: FieldPath) -> list[tuple[Scalar, Node]]:
        """Return what `<<` brings in; of several blocks the first that has a key wins."""
        blocks = value.items if isinstance(value, Sequence) else [value]
        found: list[tuple[Scalar, Node]] = []
        for block in blocks:
            if isinstance(block, Mapping):
                self.values += len(block.items)
                if self.values > VALUES_AT_MOST:
                    raise BadYaml(f"the file stands for more than {VALUES_AT_MOST:,} values", block.line)
                found += self._items(block, path)
            else:
                self._complain(
                    f"`<<`{_in(path)} needs a block of keys and values, or a list of such",
                    block.line,
                    "such as `*name`",
                )
        return found

    def _complain(self, message: str, line: int, hint: str) -> None:
        at = Source(self.source.level, self.source.name, line)
        self.problems.append(Problem(message, hint, at))


def dotted(path: FieldPath) -> str:
    """Return a path as people write it."""
    return ".".join(shown_key(str(part)) for part in path)


def shown_key(key: str) -> str:
    """Return a key for a message, shortened if it is long."""
    return key if len(key) <= KEY_CHARACTERS_SHOWN else f"{key[:KEY_CHARACTERS_SHOWN]}..."


def _in(path: FieldPath) -> str:
    return f" in `{dotted(path)}`" if path else ""
