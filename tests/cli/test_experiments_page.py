"""What docs/experiments.md shows works as it stands there."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

PAGE = (Path(__file__).parents[2] / "docs/experiments.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (experiments/\S+\.py)\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = re.findall(r"^proctor (exp.*?|list.*?)(?: {2,}#.*)?$", PAGE, re.MULTILINE)

EVALS = """
from proctor import task

@task(tags=["smoke"])
async def short(t):
    turn = await t.send("How long is a nap?")
    t.check("answered", turn.answer == "ok")

@task
async def long(t):
    t.check("warm", t.sandbox.state.get("warm", True))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name, text in {**FILES, "evals/naps.py": EVALS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "proctor.yaml").write_text("models: {main: {id: mock/fixed, params: {text: ok}}}\n")
    return tmp_path


def test_the_page_has_what_is_tested_here() -> None:
    assert set(FILES) == {f"experiments/{name}.py" for name in ("smoke", "sizes", "compare", "chosen", "warm")}
    assert len(COMMANDS) == 7


def test_ids_are_those_of_the_page(proctor: Callable[..., Ended], project: Path) -> None:
    ended = proctor("list", "experiments", "--json")
    assert ended.code == 0, ended.err
    rows = {row["id"]: row["tasks"] for row in json.loads(ended.out)["experiments"]}
    compared = {f"compare/{model}-attempts={attempts}": 10 for model in ("mock-echo", "main") for attempts in (1, 5)}
    assert rows == {"chosen": 1, "smoke": 2, "sizes/short": 10, "sizes/long": 10, "warm": 1} | compared
    for name in rows:
        assert f"`{name}`" in PAGE or "/" not in name


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_page_work(proctor: Callable[..., Ended], project: Path, command: str) -> None:
    words = command.split()
    ended = proctor(*words, *(["--dry"] if words[0] == "exp" and "--dry" not in words else []))
    assert ended.code == 0, ended.err


def test_experiments_of_the_page_pass(proctor: Callable[..., Ended], project: Path) -> None:
    for name in ("smoke", "chosen", "warm", "sizes/short"):
        ended = proctor("exp", name)
        assert ended.code == 0, ended.err
    assert not (project / "fixture.txt").exists()
