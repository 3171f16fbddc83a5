"""How the function of a task ends: with an `assert`, with what it left behind, too late (spec 02, 05)."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from proctor import task
from proctor.authoring.discover_tasks import found_tasks
from proctor.errors import Fault, ask_to_end
from proctor.model.attempt import Check
from proctor.testing.rehearsal import Rehearsal, rehearse

HERE = Path(__file__).parent
NAME = Path(__file__).name


def run(function: Any) -> Rehearsal:
    async def one() -> Rehearsal:
        rehearsal = await rehearse(task(sandbox=False)(function), ["a", "b"], project=HERE)
        await asyncio.sleep(0)  # what was cancelled ends
        return rehearsal

    return asyncio.run(one())


def line_of(function: Any, lines: int) -> str:
    return f"{NAME}:{function.__code__.co_firstlineno + lines}"


def holds(value: object) -> None:
    assert value, "it does not hold"


def test_02_an_assert_that_does_not_hold_is_a_failed_check_and_ends_the_task() -> None:
    async def function(t: Any) -> None:
        turn = await t.send("x")
        t.check("answered", turn.answer)
        assert turn.answer == "b", f"it is {turn.answer}"
        t.check("never reached", value=False)

    rehearsal = run(function)
    assert rehearsal.error is None
    assert rehearsal.grade is not None
    assert (rehearsal.grade.solved, rehearsal.grade.score) == (False, 0.5)
    words = 'assert turn.answer == "b", f"it is {turn.answer}"'
    said = rehearsal.grade.checks[1]
    assert (said.label, said.ok, said.expected) == (words, False, "True")
    assert said.actual is not None
    assert "it is a" in said.actual
    assert said.source == line_of(function, 3)


def test_02_so_is_one_in_a_function_of_the_project_and_in_several_tasks() -> None:
    async def in_function(t: Any) -> None:
        holds(t.answer)

    async def in_group(t: Any) -> None:
        async def fails() -> None:
            holds(value=False)

        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            group.create_task(fails())

    for function in (in_function, in_group):
        grade = run(function).grade
        assert grade is not None
        assert {check.label for check in grade.checks} == {'assert value, "it does not hold"'}


def test_05_what_ours_asserts_is_no_check_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Check) -> None:
        assert not self.ok, "ours"

    async def function(t: Any) -> None:
        t.check("x", value=True)

    space: dict[str, Any] = {}
    exec(compile("def add(self, check):\n    assert False, 'ours'\n", str(HERE / "x.py"), "exec"), space)
    monkeypatch.setattr("proctor.authoring.places._OURS", str(HERE / "x.py"))
    monkeypatch.setattr("proctor.authoring.recorded_checks.CheckRecord.add", space["add"])
    rehearsal = run(function)
    assert isinstance(rehearsal.error, Fault)
    assert rehearsal.error.code == "task.crashed"


def test_02_what_holds_records_nothing_and_that_is_said() -> None:
    async def function(t: Any) -> None:
        assert await t.send("x")

    rehearsal = run(function)
    assert rehearsal.grade is None
    assert "an `assert` that holds is no check" in str(rehearsal.error)


def test_02_what_the_function_started_and_did_not_await_is_found_and_ended() -> None:
    ended: list[str] = []

    async def function(t: Any) -> None:
        async def verify() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("verify")

        t.left = asyncio.create_task(verify())
        t.check("x", value=True)
        await asyncio.sleep(0)

    rehearsal = run(function)
    assert isinstance(rehearsal.error, Fault)
    assert rehearsal.error.code == "task.crashed"
    assert "`verify` was still going on" in str(rehearsal.error)
    assert f"{line_of(function, 1)}: " in str(rehearsal.error)
    assert ended == ["verify"]


def test_what_was_cancelled_or_is_of_others_is_nothing_to_await() -> None:
    async def function(t: Any) -> None:
        async def watch() -> None:
            await asyncio.Event().wait()

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        watching.cancel()
        await asyncio.wait([watching])
        t.check("x", value=True)

    assert run(function).error is None


def test_the_factory_of_tasks_is_given_back() -> None:
    async def one() -> tuple[object, object]:
        async def function(t: Any) -> None:
            t.check("x", value=asyncio.get_running_loop().get_task_factory() is not None)

        rehearsal = await rehearse(task(sandbox=False)(function), [])
        return rehearsal.grade and rehearsal.grade.solved, asyncio.get_running_loop().get_task_factory()

    assert asyncio.run(one()) == (True, None)


def test_02_what_is_checked_when_the_task_is_over_counts_for_nothing_and_says_so() -> None:
    kept: list[Any] = []

    async def function(t: Any) -> None:
        kept.append(t)
        t.check("x", value=True)

    assert run(function).grade is not None
    with pytest.raises(RuntimeError, match="the task is over"):
        kept[0].check("late", value=False)
    with pytest.raises(RuntimeError, match="the task is over"):
        kept[0].score("late", 1)


def test_10_I1_an_interrupt_ends_the_function_which_may_clean_up() -> None:
    """Also one that swallows its cancellation: it did not come to its end, and nothing that it checks then counts."""
    said: list[str] = []

    async def waits(t: Any) -> None:
        t.check("before", value=True)
        try:
            said.append("waits")
            await asyncio.Event().wait()
        finally:
            said.append("cleaned up")

    async def swallows(t: Any) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await waits(t)
        t.check("after", value=True)

    async def interrupted(function: Any) -> None:
        going_on = asyncio.create_task(rehearse(task(sandbox=False)(function), []))
        while "waits" not in said:
            await asyncio.sleep(0)
        ask_to_end(going_on)
        await going_on

    for function in (waits, swallows):
        said.clear()
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(interrupted(function))
        assert said == ["waits", "cleaned up"]


FORGOTTEN = {
    "verify(...)": "verify(t)",
    "_looks.looks(...)": "_looks.looks(t)",
    "inner(...)": "async def inner(): pass\n    inner()",
}


def discovered(folder: Path, body: str) -> list[str]:
    (folder / "evals").mkdir(exist_ok=True)
    (folder / "evals" / "_looks.py").write_text("async def looks(t): ...\n")
    source = f"""\
from proctor import task
from . import _looks

async def verify(t): ...

@task
async def one(t):
    {body}
"""
    (folder / "evals" / "f.py").write_text(dedent(source))
    return [error.message for error in found_tasks(folder).errors]


@pytest.mark.parametrize("called", FORGOTTEN)
def test_02_a_call_of_an_async_function_that_is_dropped_is_said_before_anything_starts(
    tmp_path: Path, called: str
) -> None:
    [error] = discovered(tmp_path, FORGOTTEN[called])
    assert f"`{called}` is not awaited" in error
    assert error.startswith("evals/f.py:")


@pytest.mark.parametrize(
    "body",
    [
        "await verify(t)",
        "later = verify(t)\n    await later",
        "def verify(t): pass\n    verify(t)",
        "for verify in (print,):\n        verify(t)",
        "match {}:\n        case {**verify}:\n            verify(t)",
        "match [print]:\n        case [*verify]:\n            verify(t)",
        "_looks.nothing(t)",
        "print(verify)",
    ],
)
def test_02_what_may_be_right_is_not_refused(tmp_path: Path, body: str) -> None:
    assert discovered(tmp_path, body) == []


def test_02_of_several_calls_that_are_dropped_the_first_is_said(tmp_path: Path) -> None:
    (tmp_path / "evals").mkdir()
    helpers = [f"def h{number}(t):\n    verify(t)\n" for number in range(20)]
    uses = "\n    ".join(f"h{number}(t)" for number in reversed(range(20)))
    source = "from proctor import task\nasync def verify(t): ...\n" + "".join(helpers)
    (tmp_path / "evals" / "f.py").write_text(f"{source}@task\nasync def one(t):\n    {uses}\n")
    [error] = found_tasks(tmp_path).errors
    assert error.message.startswith("evals/f.py:4: `verify(...)` is not awaited")
