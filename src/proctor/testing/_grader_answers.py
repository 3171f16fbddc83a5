"""Checks of graders: what becomes of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from proctor.testing.check_graders import GraderBench, Work
from proctor.testing.check_plugin import INJECTIONS
from proctor.testing.conformance import require, require_equal

ODD: Mapping[str, str | None] = {
    "none": None,
    "empty": "",
    "white-space": " \t\r\n\u00a0\u2028\ufeff",
    "huge": "word 42 " * 500_000,
    "one-line": "9" * 1_000_000,
    "binary": "".join(map(chr, range(256))) * 4,
    "NUL": "42\x0042",
    "lone-surrogates": "\ud800 42 \udfff \udc80",
    "astral": "\U0001f642\U0010ffff 42\u0301",
    "right-to-left": "\u202e42\u202c \u05d0",
    "nested": "\\boxed{" * 20_000 + "[{(" * 20_000,
    "marks": "Answer: " * 50_000 + "#### " * 50_000,
    "JSON": '{"a": ' * 20_000,
    "template": "{answer} {0} {} %s %(x)s ${HOME} {{",
    "number-like": "1e999999999 -inf nan 1/0 0x 1,,2 --3",
    **{kind.replace(" ", "-"): text for kind, text in INJECTIONS.items()},
}
"""Answers that agents do give, by what is odd about them."""


async def the_right_one_is_solved(bench: GraderBench) -> None:
    """What was given as `right`."""
    grade = await bench.grade(bench.right, "what is right")
    require(grade.solved, f"what is right is not solved: {grade!r:.500}")


async def the_wrong_one_is_not_solved(bench: GraderBench) -> None:
    """What was given as `wrong`."""
    grade = await bench.grade(bench.wrong, "what is wrong")
    require(not grade.solved, f"what is wrong is solved: {grade!r:.500}")


async def nothing_is_not_solved(bench: GraderBench) -> None:
    """No answer, nothing in the sandbox, and no files unless those are all that is graded."""
    by_files = bench.right.answer is None and bench.right.script is None
    grade = await bench.grade(Work(files=bench.wrong.files) if by_files else Work(), "no answer")
    require(not grade.solved, f"no answer, and nothing done, is solved: {grade!r:.500}")


async def an_odd_answer_is_graded(bench: GraderBench, kind: str) -> None:
    """Whatever is in an answer, the agent said it: it is a grade, and no exception."""
    await bench.grade(replace(bench.wrong, answer=ODD[kind]), f"an odd answer ({kind})")


async def grades_stay_the_same(bench: GraderBench) -> None:
    """Asked again: by the same grader, by one that is made anew, and several at once."""
    grader = bench.made()
    works = {"what is right": bench.right, "what is wrong": bench.wrong}
    alone = {what: await bench.grade(work, what) for what, work in works.items()}
    for what, work in works.items():
        again = await bench.grade(work, f"{what}, by a grader that graded before", grader=grader)
        require_equal(f"the grade of {what}, a second time", again, alone[what])
    asked = [(what, work) for _ in range(3) for what, work in works.items()]
    grades = await asyncio.gather(*(bench.grade(work, what, grader=grader) for what, work in asked))
    for (what, _), grade in zip(asked, grades, strict=True):
        require_equal(f"the grade of {what}, while the same grader grades others", grade, alone[what])


CHECKS = (the_right_one_is_solved, the_wrong_one_is_not_solved, nothing_is_not_solved, grades_stay_the_same)
