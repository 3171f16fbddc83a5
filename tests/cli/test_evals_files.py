"""Which files of a project are task files, and what is said of those that are wrong (spec 02)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended
from test_evals import PARROT, run, write

Run = Callable[..., Ended]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a", "import nothing_of_this_name\n@task\nasync def f(t): ...\n", "evals/a.py:2: "),
        ("a", "\n1 / 0\n", "evals/a.py:3: cannot be imported: ZeroDivisionError"),
        ("a", "raise SystemExit(3)\n", "evals/a.py:2: cannot be imported: SystemExit"),
        ("a", "def f():\n    f()\nf()\n", "evals/a.py:3: cannot be imported: RecursionError"),
        ("a", "async def f(t:\n", "evals/a.py:2: cannot be imported: SyntaxError"),
        ("a", "from . import _broken\n", "evals/_broken.py:1: cannot be imported (imported by evals/a.py)"),
        ("a", "x = 1\n", "evals/a.py: there is no task in it"),
        ("a", "@task\ndef f(t): ...\n", "evals/a.py:2: the function of task `f` is not async"),
        ("a", "@task\nasync def f(): ...\n", "evals/a.py:2: the function of task `f` takes ()"),
        ("a", "@task\nasync def f(t, more): ...\n", "evals/a.py:2: the function of task `f` takes (t, more)"),
        ("a", "@task\nasync def f(t):\n    yield\n", "async generator"),
        ("a", "task(lambda t: 1)\n", "not async"),
        ("a", "@task\nclass A: ...\n", "a task is made of a function"),
        ("a", "\n@task(tagz=[])\nasync def f(t): ...\n", "evals/a.py:3: a task has no option `tagz`; did you"),
        ("a", "@task(timeout_seconds=0)\nasync def f(t): ...\n", "`timeout_seconds` must be a number of seconds"),
        ("a", "@task(tags='smoke')\nasync def f(t): ...\n", "`tags` must be a list of texts"),
        ("a", "@task(name=' x')\nasync def f(t): ...\n", "the name of a task must be a text"),
        ("a", "@task.each([1, 1])\nasync def f(t, row): ...\n", "evals/a.py:2: rows 1 and 2 have the same id `1`"),
        ("a", "@task.each([{}])\nasync def f(t, row): ...\n", "evals/a.py:2: row 1 ({}) has no id"),
        ("a", "@task.each([{}], id='x')\nasync def f(t, row): ...\n", "has no id: KeyError('x')"),
        ("a", "@task.each([])\nasync def f(t, row): ...\n", "there are no rows"),
        ("a", "@task.each([1])\nasync def f(t): ...\n", "takes (t), and is called with `t, row`"),
        ("a", "@task(files={'x': 1})\nasync def f(t): ...\n", "file `x` is no text, bytes or Path but int"),
        (
            "a", "@task\nasync def f(t): ...\n@task\nasync def f(t): ...\n",
            "evals/a.py:4: the task has the id `a/f`, as that of evals/a.py:2 has",
        ),
        (
            "a__b", "@task\nasync def c(t): ...\n",
            "evals/a.py:2: the task has the id `a/b/c`, as that of evals/a/b.py:2",
        ),
    ],
)  # fmt: skip
def test_02_what_is_wrong_names_file_and_line_and_nothing_is_started(
    proctor: Run, tmp_path: Path, name: str, text: str, words: str
) -> None:
    write(tmp_path)
    folder = tmp_path / "evals"
    (folder / name.replace("__", "/")).parent.mkdir(parents=True, exist_ok=True)
    (folder / f"{name.replace('__', '/')}.py").write_text("from proctor import task\n" + text)
    (folder / "_broken.py").write_text("1 / 0\n")
    if name == "a__b":
        (folder / "a.py").write_text("from proctor import task\n@task(name='b/c')\nasync def f(t): ...\n")
    ended = proctor("run", "evals", PARROT, "--progress", "none")
    assert ended.code == 2, ended.err
    assert words in ended.err
    assert "Traceback" not in ended.err
    assert ended.run_dirs == []


def test_02_all_that_is_wrong_is_said_at_once(proctor: Run, tmp_path: Path) -> None:
    write(tmp_path, a="1 / 0\n", b="x = 1\n", good="@task\nasync def f(t): ...\n")
    ended = proctor("run", "evals", PARROT)
    assert ended.code == 2
    assert "evals/a.py:2" in ended.err
    assert "evals/b.py" in ended.err


def test_02_files_that_are_no_task_files(proctor: Run, tmp_path: Path) -> None:
    good = "@task(sandbox=False)\nasync def f(t):\n    t.check('x', True)\n"
    write(tmp_path, good=good, _helper="1 / 0\n", _folder__x="1 / 0\n", **{"my-task": good})
    (tmp_path / "evals/.hidden.py").write_text("1 / 0\n")
    (tmp_path / "evals/gpt-4.1.py").write_text(f"from proctor import task\n{good}")
    _, found = run(proctor)
    assert set(found) == {"good/f", "my-task/f", "gpt-4.1/f"}


def test_02_a_task_that_is_imported_belongs_to_the_file_where_it_is_made(proctor: Run, tmp_path: Path) -> None:
    good = "@task(sandbox=False)\nasync def f(t):\n    t.check('x', True)\n"
    write(
        tmp_path,
        a=good,
        b=f"from .a import f\nfrom ._shared import g\n{good.replace('f(t)', 'h(t)')}",
        _shared=good.replace("f(t)", "g(t)"),
    )
    _, found = run(proctor)
    assert set(found) == {"a/f", "b/g", "b/h"}


def test_02_an_empty_project_is_nothing_to_run(proctor: Run, tmp_path: Path) -> None:
    ended = proctor("run", "evals", PARROT)
    assert ended.code == 4
    assert "there are no tasks in" in ended.err
    write(tmp_path, a="@task\nasync def f(t): ...\n")
    ended = proctor("run", "evals", PARROT, "--set", "benchmark.params.path=a/g")
    assert ended.code == 4
    assert "did you mean `a/f`?" in ended.err


def test_02_the_project_is_the_one_above_and_a_prefix_narrows(
    proctor: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = "@task.each('ab', sandbox=False)\n" if False else "@task(sandbox=False)\n"
    write(
        tmp_path,
        a=good + "async def f(t):\n    t.check('x', True)\n",
        b=good + "async def f(t):\n    t.check('x', 0)\n",
    )
    (tmp_path / "proctor.yaml").touch()
    below = tmp_path / "some/where"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    _, found = run(proctor, PARROT, "--set", "benchmark.params.path=a/", "--set", f"runtime.results_dir={tmp_path}/r")
    assert set(found) == {"a/f"}


def test_02_what_a_file_prints_is_not_data(program: Run, tmp_path: Path) -> None:
    write(tmp_path, a="print('hello')\n@task(sandbox=False)\nasync def f(t):\n    t.check('x', True)\n")
    ended = program("run", "evals", PARROT, "--json")
    assert ended.code == 0, ended.err
    assert ended.receipt
    assert "hello" not in ended.out
    assert "hello" in ended.err


ENVIRONMENTS = """
from proctor.model.environment import EnvironmentSpec
for number in range(5):
    @task(name=f"image-{number}", environment=EnvironmentSpec(image="python:3.12"))
    async def image(t): t.check("a", True)

@task(environment=EnvironmentSpec(provider="docker"))
async def elsewhere(t): t.check("a", True)

@task(environment=EnvironmentSpec(env={"A": "b"}))
async def fine(t): t.check("a", (await t.sandbox.exec("echo $A")).out == "b\\n")
"""


def test_06_what_a_task_asks_of_the_provider_is_asked_before_anything_starts(proctor: Run, tmp_path: Path) -> None:
    write(tmp_path, envs=ENVIRONMENTS)
    ended = proctor("run", "evals", PARROT, "--progress", "none")
    assert (ended.code, ended.run_dirs) == (2, [])
    assert "`envs/image-0`, `envs/image-1`, `envs/image-2` and 2 other tasks: provider local has no im" in ended.err
    assert "task `envs/elsewhere`: it is for provider `docker`" in ended.err
    _, found = run(proctor, PARROT, "--tasks", "envs/fine")
    assert found["envs/fine"]["verdict"] == "passed", found
