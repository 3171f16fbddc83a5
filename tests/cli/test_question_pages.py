"""What docs/question-files.md and docs/graders.md show works as it stands there."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from program import Ended

from proctor.benchmarks.code_tasks import CodeTasksOptions
from proctor.benchmarks.jsonl import JsonlOptions
from proctor.graders.choice import chosen
from proctor.graders.model import PLACES
from proctor.plugins.registry import Kind, load

Proctor = Callable[..., Ended]

DOCS = Path(__file__).parents[2] / "docs"
FILES, GRADERS = ((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("question-files", "graders"))
ROWS = re.findall(r"```json\n(.*?)```", FILES, re.DOTALL)
COMMANDS = re.findall(r"^\$ proctor (.*)$", FILES, re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in zip(("questions.jsonl", "tasks.jsonl"), ROWS, strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_11_the_commands_of_the_page_work(proctor: Proctor, folder: Path, command: str) -> None:
    ended = proctor(*command.split())
    assert ended.code == 0, ended.err
    if command.startswith("check"):
        assert "is gradeable" in ended.out


def test_11_the_first_file_of_the_page_works_with_its_configuration(proctor: Proctor, folder: Path) -> None:
    [first, *_] = re.findall(r"```yaml\n(.*?)```", FILES, re.DOTALL)
    (folder / "proctor.yaml").write_text(first)
    ended = proctor("run", "jsonl", "chat", "mock/fixed", "--set", "model.params.text=PARIS")
    assert json.loads((ended.run_dir / "summary.json").read_text())["counts"]["passed"] == 1


def test_11_the_page_has_all_parameters() -> None:
    for options in (JsonlOptions, CodeTasksOptions):
        assert not [name for name in options.model_fields if f"| `{name}` |" not in FILES]
    for grader in ("text", "numeric", "choice", "regex", "model"):
        section = GRADERS.split(f"\n## `{grader}`\n")[1].split("\n## ")[0]
        fields = load(Kind.GRADER, grader).options.model_fields
        assert not [name for name in fields if f"`{name}`" not in section], grader
    assert not [name for name in PLACES if f"`{{{name}}}`" not in GRADERS]


def answers(grader: str) -> list[tuple[str, dict[str, Any], bool]]:
    """Return the rows of the table of answers of a grader."""
    section = GRADERS.split(f"\n## `{grader}`\n")[1].split("\n## ")[0].split("| answer | expected `42`")[1]
    found: list[tuple[str, dict[str, Any], bool]] = []
    for answer, given, verdict in re.findall(r"^\| `(.*?)` \| (.*?) ?\| (passed|failed).*\|$", section, re.MULTILINE):
        named = re.findall(r"`(\w+): (\S+?)`", given) + re.findall(r"(expected) `(.*?)`", given)
        params = {name: float(value) if name == "tolerance" else value for name, value in named}
        found.append((answer, {"expected": "42", **params}, verdict == "passed"))
    return found


@pytest.mark.parametrize(
    ("grader", "answer", "params", "solved"),
    [(grader, *row) for grader in ("text", "numeric") for row in answers(grader)],
)
def test_11_answers_come_to_what_the_page_says(grader: str, answer: str, params: dict[str, Any], solved: bool) -> None:
    make = load(Kind.GRADER, grader)
    made: Any = make(make.options.model_validate(params))
    assert asyncio.run(made.grade(SimpleNamespace(answer=answer))).solved is solved


def test_11_the_page_has_answers_for_both() -> None:
    assert [len(answers(grader)) for grader in ("text", "numeric")] == [5, 10]


def test_11_choices_are_found_as_the_page_says() -> None:
    section = GRADERS.split("| answer (choices: a dog, apple) | chosen |")[1].split("\n## ")[0]
    rows = [
        (["\n".join(texts)] if "line" in given else texts, letter)
        for given, letter in re.findall(r"^\| (`.*?) \| (\w+) \|$", section, re.MULTILINE)
        if (texts := re.findall("`(.*?)`", given))
    ]
    assert len(rows) == 8
    for texts, letter in rows:
        for text in texts:
            assert chosen(text, ("a dog", "apple")) == (None if letter == "none" else letter), text


def test_11_every_kind_of_a_question_file_is_a_grader() -> None:
    module = importlib.import_module("proctor.benchmarks.jsonl")
    for kind in module.Kind.__args__:
        assert f"| `{kind}` | [`{module.GRADERS.get(kind, kind)}`](graders.md#" in FILES
        load(Kind.GRADER, module.GRADERS.get(kind, kind))
