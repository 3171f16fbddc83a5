"""Runs the program as a user does: in a process of its own, or in this one where that is enough."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import HANG_SECONDS, SUPPORT, Ended

import proctor as proctor_package
from proctor.cli.main import run as run_main


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SUPPORT), str(Path(proctor_package.__file__).parent.parent)]))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PROCTOR_PROVIDER", "local")
    monkeypatch.syspath_prepend(str(SUPPORT))


@pytest.fixture
def proctor(
    environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Run in this process."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Ended:
        capsys.readouterr()
        code = run_main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err, tmp_path)

    return call


@pytest.fixture
def process(environment: None, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start in a process of its own."""

    def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "proctor", *map(str, arguments)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            **options,
        )

    return start


@pytest.fixture
def program(process: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> Callable[..., Ended]:
    """Run in a process of its own, to the end."""

    def call(*arguments: str, **options: Any) -> Ended:
        with process(*arguments, **options) as started:
            out, err = started.communicate(timeout=HANG_SECONDS)
        return Ended(started.returncode, out, err, tmp_path)

    return call
