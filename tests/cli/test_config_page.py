"""What docs/config.md shows is so."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

PAGE = (Path(__file__).parents[2] / "docs/config.md").read_text(encoding="utf-8")
Proctor = Callable[..., Ended]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPT_KEY", "sk-0123456789abcdef")


@pytest.mark.parametrize("text", blocks("yaml"))
def test_its_files_are_valid(proctor: Proctor, tmp_path: Path, text: str) -> None:
    assert text.startswith("# proctor.yaml\n")
    (tmp_path / "proctor.yaml").write_text(text)
    ended = proctor("config", "show", "--json")
    assert ended.code == 0, ended.err
    assert "0123456789" not in ended.out


def test_its_first_file_does_what_is_said(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "proctor.yaml").write_text(blocks("yaml")[0])
    ended = proctor("plan", "trivial", "chat", "steady")
    assert ended.out.startswith("PLAN  6 attempts · 3 tasks · concurrency 8 (from proctor.yaml) · local 4")
    told = proctor("plan", "trivial", "chat", "steady", "--set", "execution.attempts=5").out
    assert told.startswith("PLAN  15 attempts")
    shown = {row["field"]: row["value"] for row in json.loads(proctor("config", "show", "--json").out)}
    assert shown["models.gpt-x.api_key"] == "[redacted]"


def test_its_blocks_are_shared_as_is_said(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "proctor.yaml").write_text(blocks("yaml")[1])
    shown = {row["field"]: row["value"] for row in json.loads(proctor("config", "show", "--json").out)}
    sampling = {name.removeprefix("models."): value for name, value in shown.items() if ".params." in name}
    assert sampling == {
        "careful.params.temperature": 0,
        "careful.params.max_tokens": 1000,
        "wild.params.temperature": 1.5,
        "wild.params.max_tokens": 1000,
    }


@pytest.mark.parametrize("line", [line for block in blocks("console") for line in block.splitlines()])
def test_its_commands_run(proctor: Proctor, line: str) -> None:
    assert proctor(*shlex.split(line)[1:]).code == 0


def test_its_errors_are_those_that_are_said(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "proctor.yaml").write_text("task_concurrency: 8\nexecution:\n  attempts: two\n  max_retry: 1\n")
    ended = proctor("run", "trivial", "nop")
    assert ended.err == blocks("text")[0]
