"""Generated puzzles (spec 11): tasks that stay the same, and checkers that no answer gets the better of."""

from __future__ import annotations

import asyncio
import math
import os
import select
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proctor.benchmarks.reasoning_gym import LEFT_OUT, REFUSED, ReasoningGym, ReasoningGymOptions
from proctor.data import reasoning_gym
from proctor.data._reasoning_gym_guard import calculate, require_expression
from proctor.errors import Fault, MissingPackage, UsageError
from proctor.graders.reasoning_gym import ANSWER_LIMIT, ReasoningGymGrader, ReasoningGymGraderOptions
from proctor.model.attempt import Grade, InvalidGrade
from proctor.model.spec import Task
from support.fake_reasoning_gym import install
from support.in_place import in_place

INVALID = [{"size": 0}, {"size": 1_001}, {"solved_at": 0}, {"name": []}, {"seed": -1}, {"seeds": 1}]


@pytest.fixture
def gym(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package of tests, in place of any other; workers are ended."""
    with in_place(reasoning_gym, install, tmp_path, monkeypatch) as folder:
        yield folder


def tasks(**given: Any) -> list[Task]:
    options = ReasoningGymOptions.model_validate(given)
    return run(lambda: _tasks(ReasoningGym(options)))


async def _tasks(benchmark: ReasoningGym) -> list[Task]:
    return list(await benchmark.tasks())


def run(begin: Callable[[], Awaitable[Any]]) -> Any:
    async def wait() -> Any:
        return await begin()

    return asyncio.run(wait())


def grade(task: Task, answer: str | None) -> tuple[Grade, list[str]]:
    grader = ReasoningGymGrader(ReasoningGymGraderOptions.model_validate(dict(task.grader.params)))
    codes: list[str] = []
    ctx: Any = SimpleNamespace(answer=answer, issue=lambda code, message: codes.append(code))
    return run(lambda: grader.grade(ctx)), codes


def told(name: str, answer: str | None, **given: Any) -> tuple[float, list[str]]:
    """Return score and codes of an answer in its tags, to the first task of a dataset."""
    [task] = tasks(name=name, size=1, **given)
    found, codes = grade(task, answer and f"<answer>{answer}</answer>")
    return found.score, codes


# ---------------------------------------------------------------------------------------------------------- tasks


def test_11_the_first_task_of_each_comes_before_the_second(gym: Path) -> None:
    found = tasks(name=["strict", "base"], size=2)
    assert [task.id for task in found] == ["strict-0000", "base-0000", "strict-0001", "base-0001"]
    assert found[0].tags == ("sums", "strict")
    assert found[0].prompt.startswith("Answer in <answer> tags.\n\n")


def test_11_all_is_what_can_be_graded(gym: Path) -> None:
    names = {task.id.rpartition("-")[0] for task in tasks(size=1)}
    assert {"base", "strict"} <= names
    assert not {"composite", "rush_hour"} & names
    assert [task.id for task in tasks(name="rush_hour", size=1)] == ["rush_hour-0000"]


@pytest.mark.parametrize("name", ["base", "shared"])
def test_11_a_task_is_the_same_whenever_it_is_made(gym: Path, name: str) -> None:
    """Whatever was made before, however many there are, in whatever process."""
    [_, wanted] = tasks(name=name, size=2)
    reasoning_gym.close()
    found = tasks(name=["silent", name], size=3)[3]
    assert (found.id, found.prompt, found.grader) == (wanted.id, wanted.prompt, wanted.grader)
    assert tasks(name=name, size=1, seed=7)[0].prompt != tasks(name=name, size=1)[0].prompt or name == "shared"


def test_11_a_generator_gets_its_parameters(gym: Path) -> None:
    [task] = tasks(name="base", size=1, config={"base": {"low": 99}})
    assert "99 + 0?" in task.prompt or "100 + 0?" in task.prompt
    assert task.reference is not None
    assert grade(task, task.reference.answer)[0].solved


def test_11_no_reference_is_made_up(gym: Path) -> None:
    [task] = tasks(name="silent", size=1)
    assert task.reference is None


def test_11_own_instructions(gym: Path) -> None:
    assert tasks(name="base", size=1, prompt="direct")[0].prompt.startswith("Only")
    assert tasks(name="base", size=1, prompt="My own words.")[0].prompt.startswith("My own words.\n\n")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "bases"}, "has no dataset `bases`"),
        ({"name": "composite"}, "made of others"),
        ({"name": "base", "config": {"base": {"lo": 1}}}, "unexpected keyword"),
        ({"name": "base", "config": {"base": {"low": 100}}}, "low must be below 100"),
        ({"name": "base", "config": {"strict": {"low": 1}}}, "not among the datasets that run"),
        ({"prompt": "defalt"}, "has no instructions `defalt`"),
    ],
)
def test_11_what_cannot_be_made_is_said_before_anything_starts(gym: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        tasks(**given)
    assert error.value.hint or "not among" in said or "composite" in str(given)


@pytest.mark.parametrize("given", [*INVALID, {"config": {"base": {"size": 3}}}], ids=str)
def test_11_odd_parameters_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        ReasoningGymOptions.model_validate(given)


def test_11_the_version_is_that_of_the_package(gym: Path) -> None:
    assert ReasoningGym(ReasoningGymOptions()).version == "1-9.9"


def test_11_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    reasoning_gym.version.cache_clear()
    with pytest.raises(MissingPackage, match="reasoning-gym") as error:
        ReasoningGym(ReasoningGymOptions())
    assert error.value.hint == "run `pip install reasoning-gym`"


def test_11_a_package_that_is_broken_says_how(gym: Path) -> None:
    (gym / "packages/reasoning_gym/factory.py").write_text("import nothing_of_that_name")
    with pytest.raises(UsageError, match="cannot be used: ModuleNotFoundError: No module named 'nothing_of"):
        tasks()


# --------------------------------------------------------------------------------------------------------- grading


def test_11_partial_scores_are_kept(gym: Path) -> None:
    assert told("base", "wrong") == (0.25, [])
    [task] = tasks(name="base", size=1, solved_at=0.25)
    assert grade(task, "<answer>wrong</answer>")[0].solved


def test_11_the_last_answer_in_tags_counts(gym: Path) -> None:
    [task] = tasks(name="base", size=1)
    assert task.reference is not None
    assert grade(task, f"<answer>no</answer> rather {task.reference.answer}")[0].solved


@pytest.mark.parametrize(
    "answer", [None, "", "no tags", "<answer>open", "x" * (ANSWER_LIMIT + 1)], ids=lambda a: str(a)[:9]
)
def test_11_no_answer_scores_nothing(gym: Path, answer: str | None) -> None:
    [task] = tasks(name="base", size=1)
    found, codes = grade(task, answer)
    assert (found.score, found.solved, codes) == (0.0, False, [])


def test_11_what_a_checker_cannot_read_is_wrong(gym: Path) -> None:
    assert told("strict", "twelve") == (0.0, [])


def test_11_a_checker_that_fails_for_its_own_answer_is_at_fault_itself(gym: Path) -> None:
    with pytest.raises(Fault, match="KeyError: 'always', even for its own answer") as error:
        told("raising", "1")
    assert error.value.code == "grader.crashed"


def test_11_a_task_that_changes_is_an_error_not_a_wrong_answer(gym: Path) -> None:
    with pytest.raises(Fault, match="another one each time"):
        told("changing", "1")


def test_11_a_score_that_is_none_is_refused(gym: Path) -> None:
    with pytest.raises(InvalidGrade):
        told("wild", "1")


# --------------------------------------------------------------------------------------------------------- hostile


@pytest.mark.parametrize("name", ["evaluated", "parsed"])
@pytest.mark.parametrize("answer", ["__import__('os').system('touch ran')", "open('ran', 'w')", "preview(1)", "().x"])
def test_11_an_answer_is_never_run(gym: Path, name: str, answer: str) -> None:
    assert told(name, answer) == (0.0, [])
    assert not list(gym.glob("ran"))


@pytest.mark.parametrize("name", ["evaluated", "parsed"])
def test_11_an_answer_that_is_worked_out_still_is(gym: Path, name: str) -> None:
    [task] = tasks(name=name, size=1)
    assert task.reference is not None
    number = task.reference.answer
    assert grade(task, number)[0].solved
    assert grade(task, f"{number[:8]}2*({number[8:-9]}) - {number[8:-9]}</answer>")[0].solved


@pytest.mark.long
def test_11_a_check_without_end_is_ended(gym: Path) -> None:
    assert told("busy", "x", check_seconds=1) == (0.0, ["grade.time"])


def test_11_a_check_that_takes_all_memory_is_ended(gym: Path) -> None:
    assert told("hungry", "x") == (0.0, ["grade.memory"])


def test_11_a_check_that_dies_takes_nothing_with_it(gym: Path) -> None:
    assert told("dying", "x") == (0.0, ["grade.incomplete"])
    assert told("base", "x") == (0.25, [])


def test_11_a_check_writes_no_file_and_starts_no_program(gym: Path) -> None:
    assert told("touching", str(gym / "ran")) == (0.5, [])
    assert not list(gym.glob("ran"))
    with pytest.raises(Fault, match=r"a check does not need os\.system"):
        told("forking", "x")


def test_11_a_worker_that_is_killed_is_replaced(gym: Path) -> None:
    assert told("base", "x") == (0.25, [])
    reasoning_gym.close()
    assert told("base", "x") == (0.25, [])


def test_11_no_worker_outlives_its_proctor(gym: Path) -> None:
    """Even where proctor is killed in the middle of a check."""
    code = """
import asyncio, os, signal
from proctor.data import reasoning_gym as gym
from proctor.data.reasoning_gym import _workers
async def main():
    [made] = await gym.make("busy", 0, {}, [0])
    asked = {"do": "check", "name": "busy", "seed": 0, "config": {}, "index": 0, "digest": made.digest}
    task = asyncio.ensure_future(gym.ask({**asked, "text": "<answer>x</answer>", "seconds": 3600}))
    await asyncio.sleep(0)
    print(*_workers.pids, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
    for pid in map(int, done.stdout.split()):
        with suppress(ProcessLookupError):  # it has ended already
            process = os.pidfd_open(pid)
            select.select([process], [], [])  # until it ends
            os.close(process)
    assert done.stdout.split()


def test_11_workers_know_no_keys(gym: Path) -> None:
    file = gym / "packages/reasoning_gym/utils.py"
    file.write_text(f"{file.read_text()}import os\nSYSTEM_PROMPTS['default'] += str(dict(os.environ))\n")
    assert "sk-secret" not in tasks(name="base", size=1)[0].prompt


@pytest.mark.parametrize(
    "text", ["1 + 2", "[[1, 'a'], (2.5, -3)]", "{'a': {1, 2}}", "0x1f ^ 3 << 2", " 7 ", "True", "10 // 3 ** 2"]
)
def test_11_values_are_worked_out(text: str) -> None:
    assert calculate(text) == eval(text.strip())


@pytest.mark.parametrize(
    "text",
    ["x", "f()", "().a", "[1][0]", "[a for a in b]", "lambda: 1", "(a := 1)", "f'{1}'", "1 if 2 else 3", "1 and 2"],
)
def test_11_all_else_is_no_value(text: str) -> None:
    with pytest.raises(ValueError, match="this is no value"):
        calculate(text)


@pytest.mark.parametrize(
    "text",
    [
        "2*x**3/3 + C",
        "sin(x)*exp(-x)/2",
        "(7 + 1.5) * 3",
        "x*log(x) - x",
        "a_1 + b",
        "5!",
        "-.5*x",
        "3.*x",
        "3*Integral(x**2, x)",
    ],
)
def test_11_expressions_are_read(text: str) -> None:
    require_expression(text, {"x": 1}, vars(math) | {"preview": 1, "open": 2, "Integral": 3})


@pytest.mark.parametrize(
    "text",
    [
        "preview(x)",
        "open(1)",
        "x.a",
        "x .a",
        "'a'",
        "x[0]",
        "lambda: 1",
        "__import__",
        "{1}",
        "x\\",
        "1..a",
        "é",
        "(x).a",
    ],
)
def test_11_all_else_is_no_expression(text: str) -> None:
    with pytest.raises(ValueError, match=r"no expression|no function of an expression"):
        require_expression(text, {"x": 1}, {"preview": 1, "open": 2})


# ---------------------------------------------------------------------------------------------------------- the page


def test_11_the_page_says_all_parameters_and_all_that_is_left_out() -> None:
    page = (Path(__file__).parents[2] / "docs/reasoning-gym.md").read_text(encoding="utf-8")
    assert not [name for name in ReasoningGymOptions.model_fields if f"| `{name}` |" not in page]
    assert not [name for name in (*LEFT_OUT, *REFUSED) if f"`{name}`" not in page]
