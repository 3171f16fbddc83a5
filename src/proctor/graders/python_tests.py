"""Grader `python-tests`: runs an answer's Python code against tests that the agent never saw.

The code runs in the sandbox of grading, in the same interpreter as the tests, under limits. Only a word that is said
after the last assertion counts as success, and it is not in the interpreter's memory before: not a status counts, not
what the code prints, not an early end. docs/grading-code.md says what this withstands, and what it does not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field

from proctor.errors import Fault
from proctor.graders._python_tests_runner import LENGTH_DIGITS, WORD_BYTES
from proctor.model.attempt import Check, Grade
from proctor.plugins.api import MEBIBYTE, ExecLimits, ExecResult, GradeContext
from proctor.plugins.turn_limits import time_factor_of

RUNNER = ("_answer_code", "_assertions", "_python_tests_runner")
"""The modules that run in the sandbox, each after those that it imports."""
ANSWER_LIMIT = 16 * MEBIBYTE
"""Characters of an answer beyond which no code is looked for."""
FILE_LIMIT_BYTES = 256 * MEBIBYTE
"""How large a file the graded code may write."""
RUNNER_BYTES = 64 * 1024
"""Room for what the runner tells, beside what the code may print."""
TEXT_LIMIT = 1000
"""Characters of what a check may say."""

_PROGRAM = """\
import sys, types
package = sys.modules["proctor"] = sys.modules["proctor.graders"] = types.ModuleType("proctor.graders")
for name, source in {sources!r}:
    module = types.ModuleType("proctor.graders." + name)
    sys.modules[module.__name__] = package.__dict__[name] = module
    exec(compile(source, name, "exec"), module.__dict__)
for name in [name for name in sys.modules if name.partition(".")[0] == "proctor"]:
    del sys.modules[name]
module.main()
"""


class PythonTestsOptions(BaseModel):
    """The code that the agent was given to complete, its tests (which define `check(candidate)`), and limits."""

    model_config = ConfigDict(extra="forbid")

    prompt: str = ""
    test: str
    entry_point: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    timeout_seconds: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    memory_bytes: int = Field(default=2048 * MEBIBYTE, gt=0)
    processes: int = Field(default=32, gt=0)
    output_bytes: int = Field(default=MEBIBYTE, gt=0)


class PythonTests:
    """Grades by running tests; needs a sandbox with a `python3` (3.9 or later)."""

    name = "python-tests"
    version = "3"
    options: type[BaseModel] = PythonTestsOptions
    reward_files: tuple[str, ...] = ()

    def __init__(self, options: PythonTestsOptions) -> None:
        self._options = options

    async def grade(self, ctx: GradeContext) -> Grade:
        """Run the tests; raises `Fault` when they could not be run for a reason that is not the answer's."""
        answer = ctx.answer
        if answer is None or not answer.strip():
            return _failed("an answer was given")
        if len(answer) > ANSWER_LIMIT:
            return _failed(f"the answer has at most {ANSWER_LIMIT} characters", actual=str(len(answer)))
        options, nonce, word = self._options, os.urandom(16).hex(), os.urandom(WORD_BYTES // 2).hex()
        request = json.dumps(
            {
                "nonce": nonce,
                "answer": answer,
                "prompt": options.prompt,
                "test": options.test,
                "entry_point": options.entry_point,
            }
        )
        result = await ctx.sandbox.exec(
            ["python3", "-I", "-c", _runner()],
            stdin=f"{len(request):0{LENGTH_DIGITS}}{request}{word}".encode("ascii"),
            timeout_seconds=options.timeout_seconds * time_factor_of(ctx),
            limits=ExecLimits(
                memory_bytes=options.memory_bytes,
                processes=options.processes,
                output_bytes=options.output_bytes + RUNNER_BYTES,
                file_bytes=FILE_LIMIT_BYTES,
            ),
            keep_bytes=options.output_bytes + RUNNER_BYTES,
        )
        return self._judge(ctx, result, _told(result.stdout, nonce), word)

    def _judge(self, ctx: GradeContext, result: ExecResult, told: list[dict[str, Any]], word: str) -> Grade:
        """Return the grade. What was told after `ready` may come from the code itself, which can find the nonce."""
        if not told:
            raise Fault("provider.lost" if result.lost else "grader.crashed", _why_not_begun(result))
        if told[0]["state"] == "broken":
            raise Fault("grader.crashed", str(told[0].get("why")))
        if result.ok and word.encode() in result.stdout.split(b"\n"):
            return Grade(solved=True, score=1.0, checks=(Check("the tests pass", ok=True),))
        end = told[-1]
        if result.ok and end["state"] == "failed":
            return _failed(*(_text(end, name) for name in ("label", "expected", "actual", "source")))
        code, message = self._limit_broken(result, end, self._options.timeout_seconds * time_factor_of(ctx))
        ctx.issue(code, message)
        return _failed("the tests reach their end", actual=message)

    def _limit_broken(self, result: ExecResult, end: dict[str, Any], limit_seconds: float) -> tuple[str, str]:
        """Return code and message for code that did not let its tests come to their end."""
        options = self._options
        if result.timed_out:
            return "grade.time", f"the code did not end within {limit_seconds:g} s"
        if result.output_exceeded:
            return "grade.output", f"the code printed more than {options.output_bytes} bytes"
        if end["state"] == "memory" or result.out_of_memory or result.err.rstrip().endswith("MemoryError"):
            return "grade.memory", f"the code used more than {options.memory_bytes} bytes of memory"
        return "grade.incomplete", (end["state"] == "incomplete" and _text(end, "why")) or _why_ended(result)


def _why_ended(result: ExecResult) -> str:
    """Say how the code came to an end before its tests did."""
    if result.lost:
        return f"the code ended what watched over it: {result.lost}"
    if result.signal is not None:
        return f"the code was ended by signal {result.signal} before its tests were done"
    return f"the code ended with status {result.exit_code} before its tests were done"


def _failed(
    label: str | None, expected: str | None = None, actual: str | None = None, source: str | None = None
) -> Grade:
    return Grade(solved=False, score=0.0, checks=(Check(label or "the tests pass", False, expected, actual, source),))


def _text(told: Mapping[str, Any], name: str) -> str | None:
    """Return a text that was told, cut at a length that no true one has."""
    found = told.get(name)
    return found[:TEXT_LIMIT] if isinstance(found, str) else None


def _why_not_begun(result: ExecResult) -> str:
    """Say why not even the runner spoke."""
    if result.lost:
        return result.lost
    last = result.err.strip().splitlines()[-1:] or ["it printed nothing"]
    end = "its time was over" if result.timed_out else f"status {result.exit_code}, signal {result.signal}"
    return f"the sandbox's python3 did not come to run the tests ({end}): {last[0]}"


def _told(output: bytes, nonce: str) -> list[dict[str, Any]]:
    """Return what the runner told, in order; what only looks like it is left out."""
    told: list[dict[str, Any]] = []
    for line in output.split(b"\n"):
        if line.startswith(nonce.encode() + b" "):
            try:
                found: Any = json.loads(line[len(nonce) + 1 :])
            except ValueError:  # the code printed into the line
                continue
            if isinstance(found, dict) and "state" in found:
                told.append(cast("dict[str, Any]", found))
    return told


@cache
def _runner() -> str:
    """Return the text of the program that runs inside: modules that import each other, and are gone once they have."""
    folder = Path(__file__).parent
    sources = [(name, folder.joinpath(f"{name}.py").read_text(encoding="utf-8")) for name in RUNNER]
    return _PROGRAM.format(sources=sources)
