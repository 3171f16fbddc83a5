"""Who may import whom. The contracts between our own modules are in pyproject.toml; here is what they cannot say."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FORBIDDEN_IN_CORE = {
    "asyncio", "datetime", "os", "pathlib", "random", "secrets", "socket", "subprocess", "threading", "time",
}  # fmt: skip
"""core decides and does nothing else: what it needs to know of the world is an argument."""

ONLY_FOR_TYPES_IN_CORE = {"random"}
"""May be named under TYPE_CHECKING, as the type of an argument."""

MODEL_MAY_IMPORT = set(sys.stdlib_module_names) | {"proctor"}


def test_contracts_between_modules(root: Path) -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]
    result = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_folder_with_modules_is_a_package(sources) -> None:
    folders = {source.path.parent for source in sources}
    found = sorted(str(folder) for folder in folders if not (folder / "__init__.py").exists())
    assert not found, "\n".join(found)


def test_core_does_no_io_and_reads_no_clock(sources) -> None:
    found = [
        f"{source.at(node)} imports {name}"
        for source in sources
        if source.name.startswith("core/")
        for node, name, for_types in imports(source.tree)
        if name in FORBIDDEN_IN_CORE and not (for_types and name in ONLY_FOR_TYPES_IN_CORE)
    ]
    assert not found, "\n".join(found)


def test_model_needs_the_standard_library_only(sources) -> None:
    found = [
        f"{source.at(node)} imports {name}"
        for source in sources
        if source.name.startswith("model/")
        for node, name, _ in imports(source.tree)
        if name not in MODEL_MAY_IMPORT
    ]
    assert not found, "\n".join(found)


def imports(tree: ast.AST, *, for_types: bool = False) -> Iterator[tuple[ast.stmt, str, bool]]:
    """Yield each import with the top-level package that it names, and whether it stands under TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name.partition(".")[0], for_types
        elif isinstance(node, ast.ImportFrom):
            yield node, (node.module or "").partition(".")[0] if node.level == 0 else "proctor", for_types
        elif isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            yield from imports(ast.Module(node.body, []), for_types=True)
            yield from imports(ast.Module(node.orelse, []), for_types=for_types)
        else:
            yield from imports(node, for_types=for_types)
