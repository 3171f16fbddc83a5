"""Grader `regex`: looks for a pattern in the answer. Needs no sandbox.

A pattern can take longer than anybody waits, and Python's `re` cannot be stopped: it runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from proctor.errors import Fault
from proctor.graders._taking import either, graded
from proctor.model.attempt import Grade
from proctor.plugins.api import MEBIBYTE, ExecLimits, GradeContext
from proctor.plugins.turn_limits import time_factor_of
from proctor.runtime.process import Processes

PATTERN_CHARACTERS = 10_000
FOUND_CHARACTERS = 100_000
"""Of what was found; more than that was never expected."""
MEMORY_BYTES = 1024 * MEBIBYTE

_FLAGS = {"ignore_case": re.IGNORECASE, "multiline": re.MULTILINE, "dotall": re.DOTALL}
_PROGRAM = """\
import json, re, sys
asked = json.load(sys.stdin)
pattern = re.compile(asked["pattern"], asked["flags"])
found = None
if asked["where"] == "search":
    for found in pattern.finditer(asked["answer"]):
        if asked["first"]:
            break
else:
    found = pattern.fullmatch(asked["answer"])
text = found and found[1 if pattern.groups else 0]
print(json.dumps({"found": found is not None, "text": text and text[: asked["most"]]}))
"""


class RegexOptions(BaseModel):
    """What to look for, and where: anywhere ("search"), or as all of the answer ("full").

    Without `expected` it is enough that it is there. With it, what the first group of the last match holds (all of the
    match, where there is no group) has to be one of the expected texts; white space around it does not count.
    """

    model_config = ConfigDict(extra="forbid")

    pattern: Annotated[str, Field(min_length=1, max_length=PATTERN_CHARACTERS)]
    expected: str | tuple[str, ...] | None = None
    where: Literal["search", "full"] = "search"
    ignore_case: bool = False
    multiline: bool = False
    dotall: bool = False
    timeout_seconds: float = Field(default=10.0, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        try:
            re.compile(self.pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"`pattern` is no regular expression: {error}") from error
        return self


class RegexGrader:
    """Solved if the pattern is found, and holds what was expected."""

    name = "regex"
    version = "1"
    options: type[BaseModel] = RegexOptions
    reward_files: tuple[str, ...] = ()

    def __init__(self, options: RegexOptions) -> None:
        self._options = options

    async def grade(self, ctx: GradeContext) -> Grade:
        """Look. Raises `Fault` ("time.grade") where the pattern comes to no end on this answer."""
        options = self._options
        expected = (options.expected,) if isinstance(options.expected, str) else options.expected
        wanted = options.pattern if expected is None else either(expected)
        label = "the pattern is found" if expected is None else "what the pattern finds"
        if ctx.answer is None:
            return graded(False, label, wanted, None)
        found = await self._find(ctx.answer, self._options.timeout_seconds * time_factor_of(ctx))
        text: str | None = found["text"]
        if expected is None:
            return graded(found["found"], label, wanted, text if found["found"] else "it is not there")
        solved = text is not None and text.strip() in {each.strip() for each in expected}
        if options.ignore_case and text is not None:
            solved = text.strip().casefold() in {each.strip().casefold() for each in expected}
        return graded(solved, label, wanted, text if found["found"] else "the pattern is not found")

    async def _find(self, answer: str, limit_seconds: float) -> dict[str, Any]:
        options = self._options
        asked = {
            "pattern": options.pattern,
            "flags": int(sum(flag for name, flag in _FLAGS.items() if getattr(options, name))),
            "where": options.where,
            "first": options.expected is None,
            "most": FOUND_CHARACTERS,
            "answer": answer,
        }
        processes = Processes(f"regex-{os.urandom(8).hex()}", grace_seconds=0.0)
        try:
            done = await processes.run(
                [sys.executable, "-I", "-S", "-c", _PROGRAM],
                cwd="/",
                env={},
                stdin=json.dumps(asked).encode("ascii"),
                timeout_seconds=limit_seconds,
                limits=ExecLimits(memory_bytes=MEMORY_BYTES),
            )
        finally:
            await processes.kill()
        if done.timed_out:
            limit = f"the pattern came to no end within {limit_seconds:g} s"
            advice = "write one that does not go back over what it has read"
            raise Fault("time.grade", f"{limit} on an answer of {len(answer):,} characters: {advice}")
        if not done.ok:
            last = done.err.strip().splitlines()[-1:] or [done.lost or f"status {done.exit_code}, signal {done.signal}"]
            raise Fault("grader.crashed", f"the pattern could not be looked for: {last[0]}")
        return json.loads(done.out)
