"""Limits of graders' own are scaled with all others of a try by `--timeout-multiplier` (spec 05)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proctor.errors import Fault
from proctor.graders.python_tests import PythonTests, PythonTestsOptions
from proctor.graders.regex import RegexGrader, RegexOptions
from proctor.plugins.api import ExecResult


class Context:
    """What a grader sees of a try that is scaled down."""

    time_factor = 0.02

    def __init__(self, answer: str, sandbox: Any = None) -> None:
        self.answer = answer
        self.sandbox = sandbox
        self.issues: list[tuple[str, str]] = []

    def issue(self, code: str, message: str) -> None:
        self.issues.append((code, message))


def test_05_the_limit_of_code_that_is_graded_is_scaled() -> None:
    given: list[float] = []

    class Sandbox:
        async def exec(self, command: Any, *, timeout_seconds: float, **options: Any) -> ExecResult:
            given.append(timeout_seconds)
            return ExecResult(None, b"", b"", timed_out=True)

    context: Any = Context("def f(): pass", Sandbox())
    with pytest.raises(Fault):  # of a code that did not even begin
        asyncio.run(PythonTests(PythonTestsOptions(test="def check(f): pass", entry_point="f")).grade(context))
    assert given == [pytest.approx(0.2)]


def test_05_the_limit_of_a_pattern_is_scaled() -> None:
    context: Any = Context("a" * 60 + "b")
    with pytest.raises(Fault, match=r"came to no end within 0\.2 s") as caught:
        asyncio.run(RegexGrader(RegexOptions(pattern="(a+)+$", where="full")).grade(context))
    assert caught.value.code == "time.grade"
