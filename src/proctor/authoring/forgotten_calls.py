"""Calls of async functions of a project whose `await` was forgotten: found in the source, since they do nothing."""

from __future__ import annotations

import ast
import inspect
from collections import ChainMap
from collections.abc import Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from proctor.authoring.free_names import bound_by
from proctor.authoring.value_digests import contents


def forgotten_call(function: FunctionType, own: ast.AST, nodes: Iterable[ast.AST]) -> tuple[str, int] | None:
    """Return the first call in some nodes that makes a coroutine and drops it: how it is written, and its line.

    `own` is the function in the source, `nodes` is all code that it can use, of its own file. Only what names tell for
    sure is found: a call that is a statement by itself, of an async function, by a name that nothing else is bound to
    where it stands.
    """
    held = dict(zip(function.__code__.co_freevars, contents(function.__closure__), strict=True))
    known = ChainMap(held, function.__globals__)
    for top in [own, *sorted(set(nodes) - set(ast.walk(own)), key=_position)]:
        calls = [
            (node.value.func, node.lineno)
            for node in ast.walk(top)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        ]
        if not calls:
            continue
        asynchronous, other = _bound_inside(top)
        for called, line in calls:
            name = _root(called)
            if name is None or name in other:
                continue
            if isinstance(called, ast.Name) and name in asynchronous:
                return name, line
            if name not in asynchronous and _makes_coroutines(_value(called, known)):
                return ast.unparse(called), line
    return None


def _position(node: ast.AST) -> tuple[int, int]:
    """Return line and column of a node, of a whole file its beginning."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _bound_inside(top: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names of async functions that are made inside of a node, and all else that is bound there."""
    asynchronous: set[str] = set()
    other: set[str] = set()
    for node in ast.walk(top):
        if node is top and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.AsyncFunctionDef) and not node.decorator_list:
            asynchronous.add(node.name)
        elif isinstance(node, ast.arg):
            other.add(node.arg)
        else:
            other |= set(bound_by(node))
    return asynchronous, other


def _root(called: ast.expr) -> str | None:
    if isinstance(called, ast.Attribute):
        called = called.value
    return called.id if isinstance(called, ast.Name) else None


def _value(called: ast.expr, known: Mapping[str, Any]) -> Any:
    """Return what is called: by its name, or by that of a module and its name there."""
    if isinstance(called, ast.Name):
        return known.get(called.id)
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        module = known.get(called.value.id)
        return vars(module).get(called.attr) if isinstance(module, ModuleType) else None
    return None


def _makes_coroutines(value: Any) -> bool:
    return isinstance(value, FunctionType) and inspect.iscoroutinefunction(value)


__all__ = ["forgotten_call"]
