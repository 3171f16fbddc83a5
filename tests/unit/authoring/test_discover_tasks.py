"""What is found in one process stays right when files change: a notebook edits them, and runs again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from proctor.authoring.discover_tasks import FoundTask, found_tasks
from proctor.testing.rehearsal import rehearse


@pytest.fixture(autouse=True)
def _paths(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    return


def write(project: Path, **files: str) -> None:
    for name, text in files.items():
        path = project / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))


def tasks(project: Path) -> dict[str, FoundTask]:
    found = found_tasks(project)
    assert not found.errors, found.errors
    return dict(found.by_id)


def outcome(project: Path, task_id: str = "a/f") -> object:
    """Return what the one check of a task was."""
    done = asyncio.run(rehearse(tasks(project)[task_id].declared, ["x"], project=project))
    assert done.grade is not None, done.error
    return done.grade.checks[0].actual


LAZY = """
    from proctor import task
    @task(sandbox=False)
    async def f(t):
        from lib.late import value
        t.check("x", value)
"""
EAGER = """
    from proctor import task
    from lib.late import value
    @task(sandbox=False)
    async def f(t):
        t.check("x", value)
"""
DEEP = """
    from proctor import task
    from ._between import value
    @task(sandbox=False)
    async def f(t):
        t.check("x", value)
"""


@pytest.mark.parametrize("source", [LAZY, EAGER, DEEP])
def test_P3_code_that_counts_is_the_code_that_runs(tmp_path: Path, source: str) -> None:
    write(tmp_path, evals__a=source, evals___between="from lib.late import value\n", lib__late="value = 1\n")
    first, before = outcome(tmp_path), tasks(tmp_path)["a/f"].task.code
    assert first == "1"
    assert tasks(tmp_path)["a/f"] is tasks(tmp_path)["a/f"], "found at once"
    for value in (2, 3):  # of the same length, within one tick of most clocks
        write(tmp_path, lib__late=f"value = {value}\n")
        assert outcome(tmp_path) == str(value)
    assert tasks(tmp_path)["a/f"].task.code != before


def test_files_that_come_and_go_are_noticed(tmp_path: Path) -> None:
    one = "from proctor import task\n@task\nasync def f(t): ...\n"
    write(tmp_path, evals__a=one)
    assert set(tasks(tmp_path)) == {"a/f"}
    write(tmp_path, evals__b=one)
    assert set(tasks(tmp_path)) == {"a/f", "b/f"}
    (tmp_path / "evals/a.py").unlink()
    assert set(tasks(tmp_path)) == {"b/f"}
    write(tmp_path, evals__b="1 / 0\n")
    assert [str(error).partition(": ")[0] for error in found_tasks(tmp_path).errors] == ["evals/b.py:1"]
    write(tmp_path, evals__b=one)
    assert set(tasks(tmp_path)) == {"b/f"}


def test_files_for_the_sandbox_are_read_when_tasks_are_found(tmp_path: Path) -> None:
    write(
        tmp_path,
        evals__a="""
            from pathlib import Path
            from proctor import task
            @task(files={"data": Path("_data"), "one.txt": Path("_data/sub/one.txt")})
            async def f(t): ...
        """,
    )
    (tmp_path / "evals/_data/sub").mkdir(parents=True)
    (tmp_path / "evals/_data/sub/one.txt").write_text("1")
    assert tasks(tmp_path)["a/f"].task.files == {"data/sub/one.txt": b"1", "one.txt": b"1"}
    (tmp_path / "evals/_data/sub/one.txt").write_text("22")
    assert tasks(tmp_path)["a/f"].task.files == {"data/sub/one.txt": b"22", "one.txt": b"22"}
    (tmp_path / "evals/_data/two.txt").write_text("2")
    assert set(tasks(tmp_path)["a/f"].task.files) == {"data/sub/one.txt", "data/two.txt", "one.txt"}
    (tmp_path / "evals/_data/sub/one.txt").unlink()
    [error] = found_tasks(tmp_path).errors
    assert "file `one.txt`" in str(error)
    assert str(error).startswith("evals/a.py:4: ")


def test_two_projects_with_modules_of_the_same_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, evals__a=EAGER, evals__b=LAZY, lib__late=f"value = '{name}'\n")
    for _ in range(2):
        for name in ("one", "two"):
            assert outcome(tmp_path / name) == name
            assert outcome(tmp_path / name, "b/f") == name


def test_what_is_found_says_what_a_list_of_tasks_needs(tmp_path: Path) -> None:
    write(
        tmp_path,
        evals__sub__a='''
            from proctor import task
            @task(tags=["x"], timeout_seconds=3, agent_timeout_seconds=2)
            async def f(t):
                """What it is about."""
            @task(name="g", description="In other words.", sandbox=False)
            async def h(t): ...
        ''',
    )
    found = tasks(tmp_path)
    one, other = found["sub/a/f"], found["sub/a/g"]
    assert (one.id, one.tags, one.place, one.description, one.group) == (
        "sub/a/f", ("x",), "evals/sub/a.py:3", "What it is about.", None,
    )  # fmt: skip
    assert (one.task.timeout_seconds, one.task.agent_timeout_seconds, one.task.needs_sandbox) == (3, 2, True)
    assert (other.description, other.task.needs_sandbox) == ("In other words.", False)
    assert one.task.grader is other.task.grader
    assert one.task.grader.id == "checks"


def test_a_file_of_tasks_may_be_called_group(tmp_path: Path) -> None:
    text = "from proctor import task\n@task\nasync def order(t): ...\n"
    write(tmp_path, evals__algebra__group=text, evals__group=text)
    assert set(tasks(tmp_path)) == {"algebra/group/order", "group/order"}
