"""What of a file a function of it can use: its own source, and what it names at the top of the file, and so on.

A change of something else in the file, such as another task, does not count. Where the names do not tell what is used
(`globals()`, `eval`), the whole file does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from proctor.authoring.free_names import bound_by, free_names, names_when_called
from proctor.authoring.source_text import normal

UNFOLLOWED = frozenset({"globals", "eval", "exec", "__import__"})
"""Who mentions one of these may use everything."""

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class OwnCode:
    """What counts of one file: the text, and the nodes of the syntax tree that it consists of."""

    text: str
    nodes: tuple[ast.AST, ...]


@dataclass
class Statements:
    """The statements at the top of a file, by the names that they bind or change."""

    tree: ast.Module
    by_name: dict[str, list[ast.stmt]] = field(default_factory=dict[str, list[ast.stmt]])
    always: list[ast.stmt] = field(default_factory=list[ast.stmt])
    """What may do anything to anybody, such as a plain call, or an import of what nobody names."""

    def __post_init__(self) -> None:
        imports: list[tuple[ast.Import | ast.ImportFrom, str]] = []
        mentioned: set[str] = set()
        for statement in self.tree.body:
            if _never_runs(statement):
                continue
            if isinstance(statement, ast.Import | ast.ImportFrom):
                for name in bound_by(statement):
                    imports.append((statement, name))
                    self.by_name.setdefault(name, []).append(statement)
                if any(alias.name == "*" for alias in statement.names):
                    self.always.append(statement)
                continue
            mentioned |= free_names(statement)
            for name in set(_touched(statement)):
                self.by_name.setdefault(name, []).append(statement)
            if any(isinstance(node, ast.Expr) and _is_plain_call(node.value) for node in _outside_scopes(statement)):
                self.always.append(statement)
        self.always += [statement for statement, name in imports if name not in mentioned and name != "annotations"]

    @cached_property
    def functions(self) -> Mapping[tuple[str, int], _Function]:
        """The functions of the file, by name and first line, that of a decorator if there is one."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        return {(node.name, _first_line(node)): node for node in reversed(nodes)}

    def enclosing(self, line: int) -> ast.stmt | None:
        """Return the statement at the top of the file that a line belongs to."""
        for statement in self.tree.body:
            if _first_line(statement) <= line <= (statement.end_lineno or statement.lineno):
                return statement
        return None


_normal_whole = lru_cache(maxsize=4)(normal)
"""Of a file with thousands of tasks it is asked for again and again."""


@lru_cache(maxsize=4)
def _looks_at_docstrings(source: str) -> bool:
    return any(word in source for word in ("__doc__", "getdoc", ".description"))


@lru_cache(maxsize=4)
def _lines_of(source: str) -> list[str]:
    return source.splitlines()


def own_code(
    source: str, statements: Statements, function: _Function | None, made_at: Iterable[int], also: Iterable[int] = ()
) -> OwnCode:
    """Return what counts of a file for a function of it; all of the file where the function is not known.

    `made_at` are lines of decorators that do not count: what they say is known by its value, as that of defaults is.
    `also` are lines of other things that the function has from elsewhere.
    """
    if function is None:
        return OwnCode(_normal_whole(source), (statements.tree,))
    made = set(made_at)
    kept = [
        one for one in function.decorator_list if not made & set(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    ]
    roots: list[ast.AST] = [*kept, *function.body]
    found: dict[ast.stmt, None] = dict.fromkeys(statements.always)
    found |= dict.fromkeys(one for line in also if (one := statements.enclosing(line)) is not None)
    names: set[str] = set()
    waiting = names_when_called(function).union(*map(free_names, [*kept, *found]))
    while waiting:
        name = waiting.pop()
        names.add(name)
        for statement in statements.by_name.get(name, ()):
            if statement not in found:
                found[statement] = None
                waiting |= free_names(statement) - names
    if names & UNFOLLOWED:
        return OwnCode(_normal_whole(source), (statements.tree,))
    lines = _lines_of(source)
    wanted: set[int] = set(range(function.lineno, (function.end_lineno or function.lineno) + 1))
    wanted -= _lines_for_people(function, source)
    for node in [*kept, *found]:
        wanted |= set(range(_first_line(node), (getattr(node, "end_lineno", None) or _first_line(node)) + 1))
    text = "\n".join(lines[number - 1] for number in sorted(wanted) if number <= len(lines))
    return OwnCode(normal(text), (*roots, *found))


def _lines_for_people(function: _Function, source: str) -> set[int]:
    """Return the lines of the docstring of a task, which says what it is about; none where code may look at it."""
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is None or len(function.body) == 1 or _looks_at_docstrings(source):
        return set()
    lines = set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines - {function.lineno, function.body[1].lineno}


def _first_line(node: ast.AST) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([getattr(node, "lineno", 1), *(one.lineno for one in decorators)])


def _never_runs(statement: ast.stmt) -> bool:
    """Say whether it is what runs only where the file is a program."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test).replace('"', "'") == "__name__ == '__main__'"


def _outside_scopes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes that are executed when the file is imported: not those inside of functions and classes."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*_SCOPES, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def _touched(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds, or whose values it may change."""
    for node in _outside_scopes(statement):
        yield from bound_by(node)
        if (isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)) or (
            isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
        ):
            yield from free_names(node)


def _is_plain_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


__all__ = ["OwnCode", "Statements", "own_code"]
