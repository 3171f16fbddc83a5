"""What the tests about the code itself read."""

from __future__ import annotations

import ast
import io
import subprocess
import tokenize
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Source:
    """One module of the package."""

    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @cached_property
    def name(self) -> str:
        """The path below src/proctor, such as `core/plan.py`."""
        return self.path.relative_to(ROOT / "src/proctor").as_posix()

    @cached_property
    def commented_lines(self) -> frozenset[int]:
        """The numbers of the lines that carry a comment."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return frozenset(token.start[0] for token in tokens if token.type == tokenize.COMMENT)

    def at(self, node: ast.AST) -> str:
        """Name the place of a node."""
        return f"src/proctor/{self.name}:{getattr(node, 'lineno', 1)}"


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the project."""
    return ROOT


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    """Every module of the package."""
    found = [Source(path) for path in sorted((ROOT / "src/proctor").rglob("*.py"))]
    assert found
    return found


@pytest.fixture(scope="session")
def pyproject() -> dict[str, Any]:
    """The content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def texts() -> dict[str, str]:
    """The text files that are, or would be, under version control, by path."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    # The owner of a checkout in a container may be another user; reading a listing is harmless.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found: dict[str, str] = {}
    for name in filter(None, listing.split("\0")):
        try:
            found[name] = (ROOT / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue  # not text, or deleted and not yet committed
    assert "pyproject.toml" in found
    return found
