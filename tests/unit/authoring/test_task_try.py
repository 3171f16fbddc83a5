"""What the function of a task can do with `t`, and what is recorded of it (spec 02, Tasks as Python files; 05; 11)."""

from __future__ import annotations

import asyncio
import math
import subprocess
from pathlib import Path
from typing import Any

import pytest

from proctor import ExperimentFatal, SkipTask, TaskFatal, task
from proctor.authoring.recorded_checks import RECORD_NAME, decoded
from proctor.authoring.shown_values import SHOWN_CHARACTERS, shown_value
from proctor.authoring.tasks import PythonTask
from proctor.errors import Fault
from proctor.graders.checks import TO_ITS_END
from proctor.model.attempt import Check, InvalidGrade
from proctor.testing.rehearsal import Rehearsal, rehearse

HERE = Path(__file__).parent
NAME = Path(__file__).name


def run(function: Any, agent: Any = ("a", "b", "c"), *, sandbox: bool = False, **more: Any) -> Rehearsal:
    declared = function if isinstance(function, PythonTask) else task(sandbox=sandbox)(function)
    return asyncio.run(rehearse(declared, agent, project=HERE, **more))


def checks(rehearsal: Rehearsal) -> list[Check]:
    return decoded(rehearsal.collected.files[RECORD_NAME]).checks


def code_and_words(rehearsal: Rehearsal) -> tuple[str, str]:
    assert isinstance(rehearsal.error, Fault), rehearsal
    assert rehearsal.grade is None
    return rehearsal.error.code, str(rehearsal.error)


# ------------------------------------------------------------------------------------------------------- the grade


def test_02_the_example_of_the_specification():
    @task(tags=["smoke"], timeout_seconds=600)
    async def fixes_the_button(t):
        "The button can be reached by keyboard."
        await t.sandbox.write("src/Button.tsx", "<a/>\n")
        turn = await t.send("Fix the keyboard focus of the button.")
        t.check("tests pass", (await t.sandbox.exec("test -f src/Button.tsx")).ok)
        t.check("touched only the button", t.diff.paths == ["src/Button.tsx"])
        t.score("steps", 1 / turn.steps)

    async def agent(text, sandbox):
        await sandbox.write("src/Button.tsx", "<button/>\n")
        return "done"

    done = run(fixes_the_button, agent)
    assert done.error is None
    assert done.grade is not None
    assert (done.grade.solved, done.grade.score, done.grade.sub_scores) == (True, 1.0, {"steps": 1.0})
    assert done.sent == ("Fix the keyboard focus of the button.",)
    assert done.answer == "done"
    assert fixes_the_button.description == "The button can be reached by keyboard."


@pytest.mark.parametrize(
    ("values", "solved", "score"), [((True,), True, 1.0), ((True, False), False, 0.5), ((False,), False, 0.0)]
)
def test_02_passed_is_at_least_one_check_and_all_true_and_the_score_is_their_share(values, solved, score):
    async def function(t):
        for value in values:
            assert t.check("it", value) is value

    grade = run(function).grade
    assert grade is not None
    assert (grade.solved, grade.score) == (solved, score)


def test_02_no_check_is_no_grade():
    async def function(t):
        await t.send("x")

    done = run(function)
    assert done.grade is None
    assert isinstance(done.error, InvalidGrade)


def test_02_require_ends_the_task_and_what_was_checked_stays():
    async def function(t):
        t.check("first", True)
        try:
            t.require("there", [], expected="something", actual=[])
        except Exception as error:
            raise AssertionError("a handler of the task took it for an error") from error
        t.check("never", True)

    done = run(function)
    assert done.error is None
    assert done.grade is not None
    assert not done.grade.solved
    assert [(check.label, check.ok) for check in done.grade.checks] == [("first", True), ("there", False)]


def test_02_require_that_is_true_goes_on():
    async def function(t):
        t.require("there", 1)
        t.check("on", True)

    assert run(function).grade.solved


def test_05_a_check_has_label_expected_actual_and_source_line():
    async def function(t):
        t.check("sum", 4 == 5, expected=4, actual=5)
        t.check("plain", "text")
        _checked_elsewhere(t)

    first, second, third = checks(run(function))
    line = function.__code__.co_firstlineno
    assert first == Check("sum", ok=False, expected="4", actual="5", source=f"{NAME}:{line + 1}")
    assert second == Check("plain", ok=True, expected="True", actual="text", source=f"{NAME}:{line + 2}")
    assert third.source == f"{NAME}:{_checked_elsewhere.__code__.co_firstlineno + 1}", "where the check is written"


def _checked_elsewhere(t):
    t.check("elsewhere", True, expected=1)


class Odd:
    def __repr__(self):
        raise RuntimeError("no")


class Endless:
    def __repr__(self):
        return "x" * 10_000_000


def _nested():
    one: list[Any] = []
    one.append(one)
    return one


ODD = [
    Odd(), Endless(), math.nan, math.inf, "x" * 10_000_000, 10**10_000, "\ud800", b"\xff" * 10_000_000, _nested(),
    list(range(1_000_000)), {"a": {1, 2}}, object(), None, SystemExit,
]  # fmt: skip


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_02_values_that_are_no_json_are_shown_and_bounded(value):
    async def function(t):
        t.check("odd", True, expected=value, actual=value)
        t.check(value, True)

    done = run(function)
    assert done.grade is not None
    for check in done.grade.checks:
        for text in (check.label, check.expected, check.actual):
            assert 0 < len(text) <= SHOWN_CHARACTERS + 10
            text.encode()


def test_two_values_that_look_alike_are_told_apart():
    async def function(t):
        t.check("four", False, expected="4", actual=4)

    [check] = checks(run(function))
    assert (check.expected, check.actual) == ("4 (str)", "4 (int)")
    assert shown_value("4") == shown_value(4)


def test_many_checks_are_bounded_and_the_share_is_right():
    async def function(t):
        for number in range(20_000):
            t.check("n", number % 4 != 0)

    done = run(function)
    assert done.grade is not None
    assert done.grade.score == 0.75
    assert len(done.collected.files[RECORD_NAME]) < 1_000_000


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda t: t.check("x", t.send("x")), "write `await`"),
        (lambda t: t.check("x", t.sandbox.exec("true")), "write `await`"),
        (lambda t: t.check("x", "abc".isdigit), "call it"),
        (lambda t: t.check("x", run), "call it"),
        (lambda t: t.check("x", (one for one in [False])), "all(...)"),
        (lambda t: t.check("x", map(bool, [0])), "all(...)"),
        (lambda t: t.check("x", Rehearsal), "class `Rehearsal`"),
        (lambda t: t.check("x", math), "module `math`"),
        (lambda t: t.check("x", (False, "why")), "tuple"),
        (lambda t: t.check("x", math.nan), "NaN"),
        (lambda t: t.check("x", subprocess.run("false", check=False)), ".returncode"),
        (lambda t: t.check(1 == 2, "adds up"), "label"),
    ],
)
def test_02_a_check_of_what_is_always_true_is_refused(write, words):
    async def function(t):
        write(t)

    code, said = code_and_words(run(function, sandbox=True))
    assert code == "task.crashed"
    assert words in said


def test_02_a_check_of_a_whole_result_is_refused():
    async def of_command(t):
        t.check("x", await t.sandbox.exec("false"))

    async def of_turn(t):
        t.check("x", await t.send("x"))

    assert ".ok" in code_and_words(run(of_command, sandbox=True))[1]
    assert ".answer" in code_and_words(run(of_turn))[1]


def test_02_sub_scores_the_last_of_a_name_counts():
    async def function(t):
        t.check("x", True)
        t.score("a", 7)
        t.score("a", -2.5)

    assert run(function).grade.sub_scores == {"a": -2.5}


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None, True, 10**400])
def test_05_a_score_that_is_none_is_an_invalid_grade_that_names_the_line(value):
    async def function(t):
        t.check("x", True)
        t.score("a", value)

    error = run(function).error
    assert isinstance(error, InvalidGrade)
    assert f"{NAME}:{function.__code__.co_firstlineno + 2}: score `a` must be a finite number" in str(error)


# ------------------------------------------------------------------------------------------------------- the turns


def test_11_several_turns_of_one_session_and_others_of_their_own():
    async def function(t):
        first = await t.send("1")
        second = await t.send("2")
        session = await t.new_session()
        third = await session.send("3")
        t.check("turns", [first.answer, second.answer, third.answer] == ["a", "b", "c"])
        t.check("answers", (t.answer, session.answer, session.turns) == ("b", "c", 1))

    done = run(function)
    assert done.grade.solved
    assert done.sent == ("1", "2", "3")
    assert done.answer == "b", "the answer of the attempt is that of the first session"


def test_a_turn_says_what_it_used_unless_another_went_on_beside_it():
    async def function(t):
        alone = await t.send("1")
        other = await t.new_session()
        together = await asyncio.gather(t.send("2"), other.send("3"))
        t.check("alone", (alone.usage.calls, alone.steps) == (1, 1))
        t.check("together", [turn.usage for turn in together] == [None, None], actual=together)
        t.check("all", t.usage.calls == 3)

    async def agent(text, sandbox):
        await asyncio.sleep(0)
        return text

    assert run(function, agent).grade.solved


def test_the_answer_can_be_set():
    async def function(t):
        await t.send("1")
        t.answer = "mine"
        t.check("set", t.answer == "mine")

    assert run(function).answer == "mine"


def test_two_turns_of_one_session_at_a_time_are_refused():
    async def function(t):
        await asyncio.gather(t.send("1"), t.send("2"))

    async def agent(text, sandbox):
        await asyncio.sleep(0)
        return text

    code, words = code_and_words(run(function, agent))
    assert code == "task.crashed"
    assert "t.new_session()" in words


@pytest.mark.parametrize("text", [1, None, b"x", ["x"]])
def test_what_is_sent_is_a_text(text):
    async def function(t):
        await t.send(text)

    code, words = code_and_words(run(function))
    assert code == "task.crashed"
    assert "must be a text" in words


FORGOTTEN = {
    "t.send(...)": lambda t: t.send("x"),
    "t.new_session()": lambda t: t.new_session(),
    "t.sandbox.write(...)": lambda t: t.sandbox.write("a", "b"),
    "t.sandbox.exec(...)": lambda t: t.sandbox.exec("true"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("what", FORGOTTEN)
def test_02_a_forgotten_await_is_found(what):
    async def function(t):
        t.check("x", True)
        FORGOTTEN[what](t)

    code, words = code_and_words(run(function, sandbox=True))
    assert code == "task.crashed"
    assert f"`{what}` was never awaited" in words
    assert words.startswith(f"{NAME}:")


@pytest.mark.filterwarnings("error")
def test_02_a_turn_that_is_used_without_await_says_so_first():
    async def function(t):
        turn = t.send("x")
        t.check("x", turn.answer == "y")

    code, words = code_and_words(run(function))
    assert code == "task.crashed"
    assert "never awaited" in words
    assert f"{NAME}:{function.__code__.co_firstlineno + 2}: AttributeError" in words


def test_a_turn_that_still_goes_on_at_the_end_is_found():
    async def function(t):
        t.check("x", True)
        function.left = asyncio.ensure_future(t.send("x"))
        await asyncio.sleep(0)

    async def agent(text, sandbox):
        await asyncio.Event().wait()

    code, words = code_and_words(run(function, agent))
    assert code == "task.crashed"
    assert "still going on" in words


# ---------------------------------------------------------------------------------------------------- what is raised


def raising(error):
    def agent(text, sandbox):
        raise error

    return agent


def test_05_what_the_function_raises_is_its_own_and_names_the_line():
    async def function(t):
        await t.send("x")
        t.check("kept", True)
        return {}["missing"]

    done = run(function)
    code, words = code_and_words(done)
    assert (code, words) == ("task.crashed", f"{NAME}:{function.__code__.co_firstlineno + 3}: KeyError: 'missing'")
    assert [check.label for check in checks(done)] == ["kept"]


def test_11_what_a_turn_raises_passes_unchanged():
    async def function(t):
        await t.send("x")

    async def in_a_group(t):
        async with asyncio.TaskGroup() as group:
            group.create_task(t.send("x"))
            group.create_task(asyncio.sleep(0))

    for one in (function, in_a_group):
        assert code_and_words(run(one, raising(Fault("model.rate_limited", "slow down")))) == (
            "model.rate_limited",
            "slow down",
        )
        code, words = code_and_words(run(one, raising(KeyError("tool_calls"))))
        assert (code, words) == ("harness.crashed", "KeyError: 'tool_calls'"), "a plain exception is the harness's own"


def test_an_error_of_the_agent_ends_the_function_and_is_graded_as_failed():
    """Spec 05: ERROR means that something went wrong and a result exists."""

    async def function(t):
        t.check("before", True)
        await t.send("x")

    done = run(function, raising(Fault("harness.limit", "50 steps")))
    assert done.grade is not None
    assert not done.grade.solved
    assert [check.label for check in done.grade.checks] == ["before", TO_ITS_END]


def test_what_a_turn_raises_may_be_caught():
    async def function(t):
        try:
            await t.send("x")
        except Fault as fault:
            t.check("limited", fault.code == "model.rate_limited")

    assert run(function, raising(Fault("model.rate_limited", "slow down"))).grade.solved


@pytest.mark.parametrize("error", [SkipTask("not here"), TaskFatal("broken"), ExperimentFatal("no licence")])
def test_02_skip_and_fatal_pass_as_they_are(error):
    async def function(t):
        raise error

    assert run(function).error is error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()])
def test_what_would_end_the_program_is_a_crash_of_the_task(error):
    async def function(t):
        raise error

    assert code_and_words(run(function))[0] == "task.crashed"


def test_a_group_with_a_failed_requirement_ends_the_task():
    async def function(t):
        async def one():
            t.require("there", False)

        async with asyncio.TaskGroup() as group:
            group.create_task(one())

    done = run(function)
    assert done.error is None
    assert [check.label for check in done.grade.checks] == ["there"]


def test_a_value_that_is_returned_is_a_mistake_that_is_said():
    async def function(t):
        t.check("x", True)
        return 1 == 1

    code, words = code_and_words(run(function))
    assert code == "task.crashed"
    assert "returned bool" in words


# ------------------------------------------------------------------------------------------------------ what it sees


def test_flags_task_model_log_and_state():
    @task(tags=["a"])
    async def function(t):
        t.check("flags", t.flags["n"] == 1)
        t.check("task", t.task.tags == ("a",))
        t.check("model", t.model is None)
        t.log.info("hello")
        t.sandbox.state["x"] = 1
        t.check("workdir", t.sandbox.workdir.startswith("/"))

    assert run(function, flags={"n": 1}).grade.solved


def test_files_are_there_before_the_agent_and_read_and_written():
    @task(files={"a.txt": "1", "b/c.bin": b"\x00", "here.py": Path(NAME)})
    async def function(t):
        t.check("text", await t.sandbox.read("a.txt") == b"1")
        t.check("bytes", await t.sandbox.read("b/c.bin") == b"\x00")
        t.check("disk", await t.sandbox.read("here.py") == Path(__file__).read_bytes())

    assert run(function).grade.solved


def test_a_task_without_sandbox_says_so():
    async def function(t):
        await t.sandbox.read("x")

    assert "sandbox=False" in code_and_words(run(function))[1]


def test_side_by_side_tasks_know_nothing_of_each_other():
    async def function(t):
        for number in range(20):
            turn = await t.send(str(number))
            t.check(f"{t.flags['n']}", turn.answer == str(number))

    async def agent(text, sandbox):
        await asyncio.sleep(0)
        return text

    declared = task(sandbox=False)(function)

    async def both():
        runs = (rehearse(declared, agent, flags={"n": number}, project=HERE) for number in range(5))
        return await asyncio.gather(*runs)

    for number, done in enumerate(asyncio.run(both())):
        assert {check.label for check in done.grade.checks} == {str(number)}
        assert len(done.grade.checks) == 20
        assert done.grade.solved
