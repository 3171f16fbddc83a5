"""A package of the tests in place of the real one that a benchmark drives, and the end of what serves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest


@contextmanager
def in_place(
    module: ModuleType, install: Callable[[Path], object], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Let `module`, of a benchmark, find what `install` puts into a folder, and work there; its workers are ended."""
    install(folder / "packages")
    monkeypatch.setenv("PYTHONPATH", str(folder / "packages"))
    monkeypatch.setenv("SECRET_API_KEY", "sk-secret")
    monkeypatch.syspath_prepend(folder / "packages")
    monkeypatch.chdir(folder)
    module.version.cache_clear()
    module.close()
    try:
        yield folder
    finally:
        module.close()
        module.version.cache_clear()
