"""Where in a project's code a call is written, and on which line each of its arguments, for errors and provenance."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import FrameType

from proctor.authoring.project_files import shown

ArgumentPath = tuple[str | int, ...]
"""The way to a value in the keyword arguments of a call: the keyword, then keys and places in what it is given."""


def _no_lines() -> dict[ArgumentPath, int]:
    return {}


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call in a file; `lines` are of its keyword arguments, as far as they are written in the call itself."""

    file: str
    line: int
    lines: Mapping[ArgumentPath, int] = field(default_factory=_no_lines)

    def line_of(self, path: ArgumentPath) -> int:
        """Return the line of the value at a path, or of what it is in."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return self.line

    def place(self, path: ArgumentPath = ()) -> str:
        """Return where the value at a path is written, as `experiments/x.py:12`; without one, the call itself."""
        return f"{shown(Path(self.file))}:{self.line_of(path)}"


def call_site(frame: FrameType) -> CallSite:
    """Return the call that a frame is executing."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    found = _call_of(frame)
    if found is None:
        return CallSite(file, line)
    lines = {(word.arg,): word.arg_line for word in _keywords(found)}
    for word in _keywords(found):
        lines |= {(word.arg, *path): number for path, number in _inside(word.value)}
    return CallSite(file, found.lineno, lines)


@dataclass(frozen=True, slots=True)
class _Keyword:
    arg: str
    arg_line: int
    value: ast.expr


def _keywords(call: ast.Call) -> Iterator[_Keyword]:
    for keyword in call.keywords:
        if keyword.arg is not None:  # a `**` stands for arguments that are written elsewhere
            yield _Keyword(keyword.arg, keyword.lineno, keyword.value)


def _inside(value: ast.expr) -> Iterator[tuple[ArgumentPath, int]]:
    """Yield the way to each value that is written inside a literal, and its line."""
    inner: list[tuple[str | int, ast.expr, int]] = []
    if isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                inner.append((key.value, item, key.lineno))
    elif isinstance(value, ast.List | ast.Tuple):
        inner = [(place, item, item.lineno) for place, item in enumerate(value.elts)]
    for key, item, line in inner:
        yield (key,), line
        for path, number in _inside(item):
            yield (key, *path), number


def _call_of(frame: FrameType) -> ast.Call | None:
    """Return the call in the source, or None where the source, or the place in it, is not known."""
    positions = list(frame.f_code.co_positions())
    place = frame.f_lasti // 2
    if place >= len(positions):
        return None
    line, end_line, column, end_column = positions[place]
    if line is None or column is None:
        return None
    linecache.checkcache(frame.f_code.co_filename)
    tree = _parsed("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    if tree is None:
        return None
    wanted = (line, end_line, column, end_column)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
            if found == wanted:
                return node
    return None


@lru_cache(maxsize=32)
def _parsed(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):  # the file was changed since it was imported
        return None
