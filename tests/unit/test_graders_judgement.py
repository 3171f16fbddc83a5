"""Graders `python-tests` and `text`: what they make of what they see. The sandbox is a fake that plays an ending."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from proctor.errors import Fault
from proctor.graders._python_tests_runner import LENGTH_DIGITS, WORD_BYTES
from proctor.graders.python_tests import ANSWER_LIMIT, PythonTests, PythonTestsOptions
from proctor.graders.text import TextGrader, TextOptions
from proctor.model.attempt import Check, Grade
from proctor.model.codes import Owner, Severity, code_row
from proctor.model.spec import Component, Task
from proctor.plugins.api import ExecResult

OPTIONS = PythonTestsOptions(prompt="def f(): ...", test="def check(candidate): ...", entry_point="f")
READY = {"state": "ready"}
PASSED = "\nWORD\n"
WRONG = {"state": "failed", "label": "assert f() == 1", "expected": "1", "actual": "2", "source": "test:3"}


class Context:
    """A grading context over a sandbox that ends as it is told to, given the nonce."""

    def __init__(self, answer: str | None, end: Callable[[str], ExecResult] | None = None) -> None:
        self.task = Task(id="t", grader=Component("python-tests"))
        self.answer = answer
        self.files: Mapping[str, bytes] = {}
        self.log = logging.Logger("test")
        self.issues: list[tuple[str, str]] = []
        self.request: dict[str, str] = {}
        self.word = ""
        self.options: dict[str, Any] = {}
        self._end = end

    @property
    def sandbox(self) -> Any:
        assert self._end is not None, "nothing should run"
        return self

    async def exec(self, command: Any, *, stdin: bytes, **options: Any) -> ExecResult:
        length = int(stdin[:LENGTH_DIGITS])
        self.request, self.options = json.loads(stdin[LENGTH_DIGITS:][:length]), options
        self.word = stdin[LENGTH_DIGITS + length :].decode()
        assert len(self.word) == WORD_BYTES
        assert self._end is not None
        result = self._end(self.request["nonce"])
        return dataclasses.replace(result, stdout=result.stdout.replace(b"WORD", self.word.encode()))

    def issue(self, code: str, message: str) -> None:
        self.issues.append((code, message))


def told(
    *states: dict[str, Any] | str, before: str = "", after: str = "", **fields: Any
) -> Callable[[str], ExecResult]:
    """An ending in which the runner told `states`; text stands for itself, and WORD in it for the word."""
    fields = {"exit_code": 0, **fields}

    def end(nonce: str) -> ExecResult:
        lines = "".join(s if isinstance(s, str) else f"\n{nonce} {json.dumps(s)}\n" for s in states)
        return ExecResult(stdout=(before + lines + after).encode(), **fields)

    return end


def grade(answer: str | None, end: Callable[[str], ExecResult] | None = None) -> tuple[Grade, list[tuple[str, str]]]:
    context = Context(answer, end)
    return asyncio.run(PythonTests(OPTIONS).grade(context)), context.issues  # type: ignore[arg-type]


def test_passing_is_said_by_the_runner_and_nobody_else() -> None:
    result, issues = grade("code", told(READY, PASSED, before="noise", after="noise\n"))
    assert (result.solved, result.score, issues) == (True, 1.0, [])


@pytest.mark.parametrize(
    "fake",
    [
        "\n0123456789abcdef0123456789abcdef\n",
        '\n{"state": "passed"}\n',
        '\nNONCE {"state": "passed"}\n',
        '\nNONCE {"state": "ready"}\n',
        '\nNONCE {"state": ["passed"]}\n',
        "\nNONCE [1]\n",
        "\nNONCE {broken\n",
        "\nNONCE {}\n",
        "\nNONCE\n",
        "\nNONCE WORD\n",
        "x WORD\n",
        "\nWORD x\n",
        "\nWOR\nD\n",
    ],
)
def test_nothing_that_looks_like_passing_counts(fake: str) -> None:  # case 177
    def end(nonce: str) -> ExecResult:
        ready = f"\n{nonce} {json.dumps(READY)}\n"
        return ExecResult(0, (ready + fake.replace("NONCE", nonce)).encode())

    result, issues = grade("code", end)
    assert not result.solved
    assert issues == [("grade.incomplete", "the code ended with status 0 before its tests were done")]


@pytest.mark.parametrize("fields", [{"exit_code": 1}, {"exit_code": None, "signal": 9}])
def test_passing_needs_a_clean_end_as_well(fields: dict[str, Any]) -> None:
    result, issues = grade("code", told(READY, PASSED, **fields))
    assert (result.solved, [code for code, _ in issues]) == (False, ["grade.incomplete"])


def test_a_wrong_answer_is_no_issue_and_tells_what_was_compared() -> None:
    result, issues = grade("code", told(READY, WRONG))
    assert issues == []
    assert result == Grade(False, 0.0, checks=(Check("assert f() == 1", False, "1", "2", "test:3"),))


@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        (told(READY, exit_code=None, timed_out=True), "grade.time", "the code did not end within 10 s"),
        (told(READY, exit_code=None, output_exceeded=True), "grade.output", "the code printed more than 1048576 bytes"),
        (told(READY, {"state": "memory"}), "grade.memory", "the code used more than 2147483648 bytes of memory"),
        (told(READY, exit_code=None, signal=9, out_of_memory=True), "grade.memory", "more than 2147483648 bytes"),
        (told(READY, exit_code=1, stderr=b"Traceback\nMemoryError\n"), "grade.memory", "more than 2147483648 bytes"),
        (told(READY, {"state": "incomplete", "why": "the code called exit with 0"}), "grade.incomplete", "called exit"),
        (told(READY, exit_code=None, signal=11), "grade.incomplete", "the code was ended by signal 11"),
        (told(READY, exit_code=None, lost="supervisor was killed"), "grade.incomplete", "supervisor was killed"),
        (told(READY, exit_code=3), "grade.incomplete", "the code ended with status 3 before its tests were done"),
    ],
)  # fmt: skip
def test_broken_limits_are_issues_of_the_agent_and_failed(
    end: Callable[[str], ExecResult], code: str, message: str
) -> None:  # spec 05 Issues
    result, issues = grade("code", end)
    assert not result.solved
    assert [found for found, _ in issues] == [code]
    assert message in issues[0][1]
    assert code_row(code).owner is Owner.AGENT
    assert code_row(code).severity is Severity.ERROR


@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        (told({"state": "broken", "why": "the tests define no function"}), "grader.crashed", "the tests define no"),
        (told(exit_code=127, stderr=b"sh: python3: not found\n"), "grader.crashed", "python3: not found"),
        (told(exit_code=None, timed_out=True), "grader.crashed", "its time was over"),
        (told(exit_code=None, lost="supervisor was killed by signal 9"), "provider.lost", "killed by signal 9"),
    ],
)
def test_what_failed_before_the_code_ran_is_not_held_against_it(
    end: Callable[[str], ExecResult], code: str, message: str
) -> None:
    with pytest.raises(Fault) as caught:
        grade("code", end)
    assert caught.value.code == code
    assert message in caught.value.issue.message


def test_code_that_found_the_nonce_cannot_blame_the_tests() -> None:
    result, issues = grade("code", told(READY, {"state": "broken", "why": "not me"}))
    assert (result.solved, [code for code, _ in issues]) == (False, ["grade.incomplete"])


@pytest.mark.parametrize("state", [{"state": "failed"}, {**WRONG, "label": 7, "actual": ["x"], "source": "x" * 9999}])
def test_code_that_found_the_nonce_cannot_break_the_grader(state: dict[str, Any]) -> None:
    result, issues = grade("code", told(READY, state))
    assert (result.solved, issues) == (False, [])
    assert result.checks[0].label == "the tests pass"
    assert len(result.checks[0].source or "") <= 1000


@pytest.mark.parametrize("answer", [None, "", "  \n\t"])
def test_without_an_answer_nothing_runs(answer: str | None) -> None:
    result, issues = grade(answer)
    assert result == Grade(False, 0.0, checks=(Check("an answer was given", False),))
    assert issues == []


def test_an_answer_beyond_measure_is_not_looked_into() -> None:
    assert not grade("x" * (ANSWER_LIMIT + 1))[0].solved


def test_limits_and_all_that_the_code_needs_reach_the_sandbox() -> None:
    context = Context("answer \ud800\0", told(READY, PASSED))
    options = PythonTestsOptions(prompt="p", test="t", entry_point="e", timeout_seconds=3, memory_bytes=5, processes=7)
    asyncio.run(PythonTests(options).grade(context))  # type: ignore[arg-type]
    limits = context.options["limits"]
    assert (context.options["timeout_seconds"], limits.memory_bytes, limits.processes) == (3, 5, 7)
    assert {name: context.request[name] for name in ("answer", "prompt", "test", "entry_point")} == {
        "answer": "answer \ud800\0",
        "prompt": "p",
        "test": "t",
        "entry_point": "e",
    }


def test_each_grading_has_a_secret_of_its_own() -> None:
    secrets: set[str] = set()
    for _ in range(20):
        context = Context("x", told(READY, PASSED))
        asyncio.run(PythonTests(OPTIONS).grade(context))  # type: ignore[arg-type]
        secrets |= {context.request["nonce"], context.word}
    assert len(secrets) == 40


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout_seconds": 0},
        {"timeout_seconds": -1},
        {"timeout_seconds": float("inf")},
        {"timeout_seconds": float("nan")},
        {"entry_point": "a b"},
        {"entry_point": "f\n"},
        {"processes": 0},
        {"unknown": 1},
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:  # case 100
    with pytest.raises(ValidationError):
        PythonTestsOptions(**{"test": "t", "entry_point": "f", **wrong})


@pytest.mark.parametrize(
    ("options", "answer", "solved"),
    [
        ({}, "ok", True),
        ({}, " ok\n", True),
        ({"strip": False}, "ok\n", False),
        ({"strip": False}, "ok", True),
        ({}, "OK", False),
        ({}, "", False),
        ({}, None, False),
        ({"expected": ""}, None, False),
        ({"expected": "\ud800"}, "\ud800", True),
    ],
)
def test_text_compares_exactly(options: dict[str, Any], answer: str | None, solved: bool) -> None:
    context = Context(answer)
    grader = TextGrader(TextOptions(**{"expected": "ok", **options}))
    result = asyncio.run(grader.grade(context))  # type: ignore[arg-type]
    assert (result.solved, result.score) == (solved, 1.0 if solved else 0.0)


def test_text_shows_a_long_answer_in_short() -> None:
    result = asyncio.run(TextGrader(TextOptions(expected="ok")).grade(Context("x" * 10_000)))  # type: ignore[arg-type]
    [check] = result.checks
    assert check.actual == "x" * 200 + "... (10000 characters)"
