"""Whether bubblewrap works on this machine, and what is said where it does not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from proctor.providers.bwrap import program as bwrap_program
from proctor.providers.bwrap.provider import BwrapProvider
from support.bwrap import needs_bwrap


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bwrap_program, "chosen", [])


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def unavailable(monkeypatch: pytest.MonkeyPatch, base: Path, *programs: str) -> str | None:
    monkeypatch.setattr(bwrap_program, "candidates", lambda: programs)
    return asyncio.run(BwrapProvider(base).unavailable())


@needs_bwrap
def test_it_works_where_it_works_and_leaves_nothing(tmp_path: Path) -> None:
    provider = BwrapProvider(tmp_path / "base")
    assert asyncio.run(provider.unavailable()) is None
    assert not (tmp_path / "base").exists()


def test_what_a_program_says_is_handed_on_with_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = program(tmp_path / "bwrap", "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    said = unavailable(monkeypatch, tmp_path / "base", broken)
    assert said is not None
    assert said.startswith("bwrap: No permissions to create new namespace (")


def test_the_next_program_is_tried_and_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken, silent = program(tmp_path / "one", "exit 3"), program(tmp_path / "two", "exit 0")
    assert unavailable(monkeypatch, tmp_path / "base", broken, silent) is None
    assert bwrap_program.best() == silent


@pytest.mark.parametrize(("names", "says"), [((), "install the package `bubblewrap`"), (("gone",), "cannot be run")])
def test_where_there_is_none_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: tuple[str, ...], says: str
) -> None:
    said = unavailable(monkeypatch, tmp_path / "base", *(str(tmp_path / name) for name in names))
    assert said is not None
    assert says in said
