"""House rules about names, docstrings and exceptions that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

EMPTY_WORDS = {"manager", "managers", "helper", "helpers", "util", "utils"}
"""Names that say nothing of what a thing does."""

BROAD = {"Exception", "BaseException"}


def test_no_name_says_nothing(sources) -> None:
    named = [(source.at(source.tree), source.path.stem) for source in sources]
    named += [(source.at(node), node.name) for source in sources for node in ast.walk(source.tree) if is_class(node)]
    found = [f"{where} {name}" for where, name in named if EMPTY_WORDS & set(words(name))]
    assert not found, "\n".join(found)


def test_everything_public_has_a_docstring(sources) -> None:
    found = [
        f"{source.at(node)} {name}"
        for source in sources
        if not is_private(source)
        for name, node in public(source.tree, "module")
        if not ast.get_docstring(node)
    ]
    assert not found, "\n".join(found)


def test_exports_are_sorted_and_exist(sources) -> None:
    found: list[str] = []
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names: list[str] = ast.literal_eval(node.value)
                if names != sorted(set(names), key=export_order):
                    found.append(f"{source.at(node)} is not sorted: constants, classes, the rest")
                if "__getattr__" not in source.text:
                    found += [
                        f"{source.at(node)} exports {name!r}, unknown" for name in names if name not in source.text
                    ]
    assert not found, "\n".join(found)


def test_no_exception_is_swallowed_in_silence(sources) -> None:
    found: list[str] = []
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ExceptHandler) and node.type is None:
                found.append(f"{source.at(node)} `except:` catches what belongs to the interpreter")
            elif (isinstance(node, ast.ExceptHandler) and does_nothing(node)) or suppresses_everything(node):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                if source.commented_lines.isdisjoint(lines):
                    found.append(f"{source.at(node)} swallows an exception and no comment says why that is right")
    assert not found, "\n".join(found)


def is_class(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef)


def is_private(source) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in source.name.split("/"))


def words(name: str) -> list[str]:
    """Split a name in CamelCase or snake_case into its words in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def export_order(name: str) -> tuple[int, str]:
    """Order constants first, then classes, then the rest, as ruff does."""
    plain = name.lstrip("_")
    return (0 if plain.isupper() and len(plain) > 1 else 1 if plain[:1].isupper() else 2), name


def public(tree: ast.AST, name: str) -> Iterator[tuple[str, ast.Module | ast.ClassDef | ast.FunctionDef]]:
    """Yield what others may use: the module, its classes and functions, and their methods."""
    yield name, tree
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public(node, node.name)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
            if decorators.isdisjoint({"overload", "override", "setter"}):
                yield node.name, node


def does_nothing(handler: ast.ExceptHandler) -> bool:
    """Whether the body is only `pass`, `...` or `continue`."""
    return all(
        isinstance(node, ast.Pass | ast.Continue)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...)
        for node in handler.body
    )


def suppresses_everything(node: ast.AST) -> bool:
    """Whether it is `suppress(Exception)` or wider."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] != "suppress":
        return False
    return bool(BROAD & {ast.unparse(argument) for argument in node.args})
