"""Benchmark `code`: rows like those of MBPP and HumanEval become tasks that `python-tests` grades (spec 11)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proctor.benchmarks.code_tasks import CodeTasks, CodeTasksOptions
from proctor.errors import UsageError
from proctor.graders.python_tests import PythonTests, PythonTestsOptions
from proctor.model.attempt import Grade
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Task
from proctor.providers.local import LocalProvider

ADD = {
    "task_id": 1, "text": "Write a function to add two numbers.", "code": "def add(a, b):\r\n  return a + b\r\n",
    "test_list": ["assert add(1, 2) == 3", "assert add(-1, 1) == 0"], "test_setup_code": "",
    "challenge_test_list": ["assert add('a', 'b') == 'ab'"],
}  # fmt: skip
TREE = {
    "task_id": 2, "text": "Write a function to find the height of a tree.",
    "code": "class Node:\n    def __init__(self, data):\n        self.data, self.left = data, None\n"
    "def height(node):\n    return 0 if node is None else 1 + height(node.left)\n",
    "test_setup_code": "root = Node(1)\nroot.left = Node(2)", "test_list": ["assert (height(root)) == 2"],
    "challenge_test_list": [],
}  # fmt: skip
SANITIZED = {
    "source_file": "x.ipynb", "task_id": 3, "prompt": "Write a function to find the area of a circle.",
    "code": "def area(r):\n    return 3.141592653589793 * r * r", "test_imports": ["import math"],
    "test_list": ["assert math.isclose(area(1), math.pi)", "assert area(0) == 0 and area.__name__ == '''area'''"],
}  # fmt: skip
LINES = {
    "task_id": 4, "text": "Write a function to join lines.", "code": "def join(lines):\n    return '\\n'.join(lines)",
    "test_list": [
        "assert join(['a', 'b']) == '''a\nb'''", "for n in range(3):\n    assert join(['x'] * n).count('x') == n",
    ],
    "test_setup_code": "",
}  # fmt: skip
CHECKED = {
    "task_id": "Own/5", "prompt": "def double(x):\n    \"\"\"Return twice x.\"\"\"\n", "entry_point": "double",
    "canonical_solution": "    return 2 * x\n", "test": "def check(candidate):\n    assert candidate(2) == 4\n",
}  # fmt: skip
SAMPLE = [ADD, TREE, SANITIZED, LINES, CHECKED]


def tasks_of(folder: Path, rows: list[Any], **params: Any) -> list[Task]:
    path = folder / "tasks.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return list(asyncio.run(CodeTasks(CodeTasksOptions(path=str(path), **params)).tasks()))


def grades(tasks: list[Task], answers: list[str | None]) -> list[Grade]:
    """Grade answers in real sandboxes."""

    async def all_of() -> list[Grade]:
        provider = LocalProvider()
        sandbox = await provider.open(EnvironmentSpec(provider="local"), {"run": "test"})
        try:
            found: list[Grade] = []
            for task, answer in zip(tasks, answers, strict=True):
                grader = PythonTests(PythonTestsOptions(**task.grader.params))
                ctx = SimpleNamespace(answer=answer, sandbox=sandbox, issue=lambda code, message: None)
                found.append(await grader.grade(ctx))  # type: ignore[arg-type]
            return found
        finally:
            await sandbox.dispose()
            await provider.finalize()

    return asyncio.run(all_of())


@pytest.mark.integration
def test_11_every_reference_passes_and_nothing_does_not(tmp_path: Path) -> None:
    tasks = tasks_of(tmp_path, SAMPLE, challenge_tests=True)
    assert [task.id for task in tasks] == ["1", "2", "3", "4", "Own/5"]
    references = [task.reference.answer if task.reference else None for task in tasks]
    solved = grades(tasks, references)
    assert [grade.solved for grade in solved] == [True] * 5, solved
    assert not any(grade.solved for grade in grades(tasks, [None] * 5))
    wrong = [
        "def add(a, b): return 3",
        "def height(n): return 2",
        "def area(r): return 3",
        "def join(x): return ''",
        "    return 4 + x",
    ]
    found = grades(tasks, [f"```python\n{code}\n```" for code in wrong])
    assert not any(grade.solved for grade in found)
    assert found[0].checks[0].label == "assert add(-1, 1) == 0"


@pytest.mark.integration
def test_11_challenge_tests_count_where_they_are_wanted(tmp_path: Path) -> None:
    code = "```python\ndef add(a, b):\n    return int(a) + int(b)\n```"
    assert grades(tasks_of(tmp_path, [ADD]), [code])[0].solved
    assert not grades(tasks_of(tmp_path, [ADD], challenge_tests=True), [code])[0].solved


def test_11_the_prompt_shows_as_many_tests_as_it_is_to(tmp_path: Path) -> None:
    [whole] = tasks_of(tmp_path, [ADD], challenge_tests=True)
    assert whole.prompt.startswith("Write a function to add two numbers.\n")
    assert "add(1, 2)" in whole.prompt
    assert "add(-1, 1)" in whole.prompt
    assert "'ab'" not in whole.prompt
    assert "return a + b" not in whole.prompt
    [first] = tasks_of(tmp_path, [ADD], shown_tests=1)
    assert "add(-1, 1)" not in first.prompt
    [checked] = tasks_of(tmp_path, [CHECKED])
    assert "candidate" not in checked.prompt


def test_11_what_an_answer_has_to_define_is_found_in_the_tests(tmp_path: Path) -> None:
    rows = [
        {**ADD, "test_list": ["assert sorted(helper(add(1, 2))) == [3]"], "code": "def add(a, b): ..."},
        {**ADD, "task_id": 2, "test_list": ["assert set(merge([1])) == {1}"], "code": ""},
        {**ADD, "task_id": 3, "test_list": ["assert Point(1).x == 1"], "code": "class Point: ..."},
        {**ADD, "task_id": 4, "test_list": ["assert answer == 1"], "code": "answer = 1"},
    ]
    assert [task.grader.params["entry_point"] for task in tasks_of(tmp_path, rows)] == [
        "add",
        "merge",
        "Point",
        "answer",
    ]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({**ADD, "test_list": []}, "tasks.jsonl:1: field `test_list` is an empty list"),
        ({**ADD, "test_list": ["assert add("]}, "tasks.jsonl:1: this is no Python: `assert add(`"),
        ({**ADD, "test_list": ["assert 1 == 1"]}, "tasks.jsonl:1: the tests call nothing that field `code` defines"),
        (
            {**ADD, "test_list": ["assert sum([1]) == 1"], "code": None},
            "the tests call nothing that an answer could define",
        ),
        ({"task_id": 1, "prompt": "x"}, "tasks.jsonl:1: there is no field `entry_point`"),
        ({**CHECKED, "test": "assert double(2) == 4"}, "tasks.jsonl:1: field `test` defines no function `check"),
        ({**CHECKED, "test": "def check("}, "tasks.jsonl:1: this is no Python: `def check(`"),
        ({**ADD, "task_id": None}, "tasks.jsonl:1: field `task_id` is null"),
    ],
)
def test_11_what_is_wrong_with_a_row_is_said_with_its_line(tmp_path: Path, row: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError) as found:
        tasks_of(tmp_path, [row])
    assert why in found.value.message
