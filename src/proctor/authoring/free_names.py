"""Which names a piece of code takes from outside of it: not its own arguments, nor what it binds itself."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def free_names(node: ast.AST) -> set[str]:
    """Return the names that a node uses or binds, without those that are local to functions in it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        outside = _of([*node.decorator_list, *_around(node.args), *([node.returns] if node.returns else [])])
        return outside | _inside(node.args, node.body)
    if isinstance(node, ast.Lambda):
        return _of(_around(node.args)) | _inside(node.args, [node.body])
    if isinstance(node, _Comprehension):
        targets = _of(one.target for one in node.generators)
        return _of(ast.iter_child_nodes(node)) - targets
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.Global):
        return set(node.names)
    return _of(ast.iter_child_nodes(node))


def names_when_called(function: _Function) -> set[str]:
    """Return the names that a function uses when it is called: not those of its decorators and defaults."""
    return _inside(function.args, function.body)


def _of(nodes: Iterable[ast.AST]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        found |= free_names(node)
    return found


def _around(arguments: ast.arguments) -> list[ast.AST]:
    """Return what is evaluated where a function is made: defaults and annotations."""
    found: list[ast.AST] = [*arguments.defaults, *(one for one in arguments.kw_defaults if one is not None)]
    return found + [one.annotation for one in _arguments(arguments) if one.annotation is not None]


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    more = [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]


def _inside(arguments: ast.arguments, body: Iterable[ast.AST]) -> set[str]:
    nodes = list(body)
    of_module: set[str] = set()
    bound = {one.arg for one in _arguments(arguments)}
    for node in _of_scope(nodes):
        if isinstance(node, ast.Global):
            of_module |= set(node.names)
        bound |= set(bound_by(node))
    return (_of(nodes) - bound) | of_module


def _of_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes that are in the scope of a function itself, of nested functions and classes the names only."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _Function | ast.ClassDef | ast.Lambda | _Comprehension):
            waiting += ast.iter_child_nodes(node)


def bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node itself binds or deletes where it stands: not what is inside of it."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, _Function | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            if alias.name != "*":
                yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name is not None:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest is not None:
        yield node.rest


__all__ = ["bound_by", "free_names", "names_when_called"]
