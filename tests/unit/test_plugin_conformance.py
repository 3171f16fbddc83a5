"""The shipped harnesses, benchmarks and graders do what their contracts say (spec 11)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from proctor.authoring.recorded_checks import RECORD_NAME, CheckRecord
from proctor.model.attempt import Check
from proctor.model.spec import Component, ModelSpec, Reference, Task
from proctor.models.mock import MockModel
from proctor.plugins.registry import Kind, load
from proctor.providers.bwrap.provider import BwrapProvider
from proctor.testing import NotConforming, PluginCheck, Work, check_benchmark, check_grader, check_harness
from support.bwrap import needs_bwrap

pytestmark = pytest.mark.integration

HARBOR = Path(__file__).parents[1] / "data/harbor"
SCRIPT = "sleep 0; echo made > made.txt"
BY_SCRIPT = Task(
    "t", Component("text", {"expected": "42"}), "Do it.", reference=Reference("42", SCRIPT), needs_sandbox=True
)
SOLVE = """\
from proctor.plugins.api import ChatMessage


async def solve(task, sandbox, model):
    await sandbox.write("prompt.txt", task.prompt)
    await sandbox.exec("cat prompt.txt")
    return (await model.complete([ChatMessage("user", task.prompt)])).text
"""


def failed(checks: Iterable[PluginCheck]) -> dict[str, str]:
    """Run all checks; return what those said that failed."""
    found: dict[str, str] = {}
    for check in checks:
        try:
            asyncio.run(check())
        except NotConforming as error:
            found[str(check)] = str(error)
    return found


HARNESSES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("chat", {}, {}),
    ("chat", {"system": "Be brief."}, {}),
    ("nop", {}, {}),
    ("oracle", {}, {}),
    ("oracle", {}, {"task": BY_SCRIPT}),
    ("bash-agent", {}, {}),
    ("bash-agent", {"max_steps": 1, "output_limit_bytes": 256}, {}),
    ("command", {"command": ["sh", "-c", "cat {prompt_file}"]}, {}),
    ("command", {"command": ["cat"], "stdin": "{prompt}", "resume": ["printf", "%s", "{prompt}"]}, {}),
]


@pytest.mark.parametrize(("name", "params", "more"), HARNESSES)
def test_11_a_shipped_harness_conforms(name: str, params: dict[str, Any], more: dict[str, Any]) -> None:
    assert failed(check_harness(load(Kind.HARNESS, name), params, **more)) == {}


def test_11_the_harness_python_conforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agents.py").write_text(SOLVE)
    monkeypatch.chdir(tmp_path)
    assert failed(check_harness(load(Kind.HARNESS, "python"), {"path": "agents.py:solve"})) == {}


def write_rows(folder: Path, *rows: dict[str, Any]) -> dict[str, str]:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"path": str(path)}


@pytest.mark.parametrize(
    ("name", "params"), [("trivial", {}), ("trivial", {"tasks": 3, "sandbox": True}), ("humaneval", {})]
)
def test_11_a_shipped_benchmark_conforms(name: str, params: dict[str, Any]) -> None:
    assert failed(check_benchmark(load(Kind.BENCHMARK, name), params, sample=3)) == {}


def test_11_the_benchmark_jsonl_conforms(tmp_path: Path) -> None:
    params = write_rows(tmp_path, {"question": "6 x 7?", "answer": 42}, {"question": "1 + 1?", "answer": "2"})
    assert failed(check_benchmark(load(Kind.BENCHMARK, "jsonl"), {**params, "grader": {"kind": "numeric"}})) == {}


def test_11_the_benchmark_code_conforms(tmp_path: Path) -> None:
    row = {
        "task_id": 1,
        "text": "Add.",
        "code": "def add(a, b):\n    return a + b",
        "test_list": ["assert add(1, 2) == 3"],
    }
    assert failed(check_benchmark(load(Kind.BENCHMARK, "code"), write_rows(tmp_path, row))) == {}


def test_11_the_benchmark_evals_conforms(tmp_path: Path) -> None:
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/sums.py").write_text(
        'from proctor import task\n\n\n@task(files={"a.txt": b"1"})\nasync def one(t):\n    "One."\n'
        '    turn = await t.send("1 + 1?")\n    t.check("two", turn.answer == "2")\n'
    )
    assert failed(check_benchmark(load(Kind.BENCHMARK, "evals"), {"project": str(tmp_path)})) == {}


@needs_bwrap
@pytest.mark.parametrize("folder", ["plain", "separate"])
def test_11_the_benchmark_harbor_conforms(folder: str) -> None:
    params = {"path": str(HARBOR / folder)}
    checks = check_benchmark(load(Kind.BENCHMARK, "harbor"), params, provider=BwrapProvider, sample=2)
    assert failed(checks) == {}


def judge() -> MockModel:
    """A model that is for Paris."""
    return MockModel(
        ModelSpec("mock/judge"), lambda said: json.dumps({"verdict": "yes" if "PARIS" in said[-1].text else "no"})
    )


def checked(ok: bool) -> Work:
    return Work(files={RECORD_NAME: CheckRecord([Check("is well", ok)], ended=True).encoded()})


FORTY_TWO = {"right": Work(script="echo 42 > answer.txt"), "wrong": Work(script="echo 41 > answer.txt")}
REWARD = "mkdir -p out; if grep -q 42 answer.txt; then echo 1; else echo 0; fi > out/reward.txt"
CODE = "```python\ndef f(x):\n    return x + {}\n```"
GRADERS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("text", {"expected": "ok"}, {"right": "ok", "wrong": "no"}),
    (
        "text",
        {"expected": ["a b", "c"], "mode": "contains", "take": "marked", "ignore_case": True, "unicode": "NFKC"},
        {"right": "Answer: A b.", "wrong": "a b"},
    ),
    ("numeric", {"expected": "42"}, {"right": "It is 42.", "wrong": "41"}),
    ("numeric", {"expected": "1/2", "take": "boxed", "percent": "fraction"}, {"right": "\\boxed{50%}", "wrong": "0.5"}),
    ("choice", {"choices": ["a dog", "apple"], "expected": "B"}, {"right": "Answer: B", "wrong": "A or B"}),
    ("regex", {"pattern": "4+2"}, {"right": "442", "wrong": "24"}),
    ("regex", {"pattern": r"is (\d+)", "expected": "7", "where": "full"}, {"right": "is 7", "wrong": "is 8"}),
    ("model", {"expected": "Paris"}, {"right": "PARIS", "wrong": "Rome", "judge": judge}),
    (
        "python-tests",
        {"test": "def check(f):\n    assert f(1) == 2\n", "entry_point": "f"},
        {"right": CODE.format(1), "wrong": CODE.format(2)},
    ),
    ("command", {"command": "grep -q 42 answer.txt"}, FORTY_TWO),
    ("command", {"command": REWARD, "reward_files": ["out/reward.txt"]}, FORTY_TWO),
    ("checks", {}, {"right": checked(True), "wrong": checked(False)}),
]


@pytest.mark.parametrize(("name", "params", "examples"), GRADERS)
def test_11_a_shipped_grader_conforms(name: str, params: dict[str, Any], examples: dict[str, Any]) -> None:
    assert failed(check_grader(load(Kind.GRADER, name), params, **examples)) == {}


def test_11_the_suites_are_independent_checks_with_names_of_their_own() -> None:
    suites = [
        check_harness(load(Kind.HARNESS, "nop")),
        check_benchmark(load(Kind.BENCHMARK, "trivial")),
        check_grader(load(Kind.GRADER, "text"), {"expected": "ok"}, right="ok", wrong="no"),
    ]
    for suite in suites:
        assert len({str(check) for check in suite}) == len(suite) >= 9
