"""Grader `numeric`: compares the number of an answer with the one expected. Needs no sandbox."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from proctor.data.marks import boxed, marked
from proctor.data.numbers import CONTEXT, Percent, expected_number, last_number, numbers_in
from proctor.graders._taking import Take, either, graded, taken
from proctor.model.attempt import Grade
from proctor.plugins.api import GradeContext

LOOKED_AT = 16 * 1024
"""Characters at the end of an answer, or of the part of it that counts, in which numbers are looked for."""
RELATIVE, RELATIVE_AT_MOST = 1e-9, 1e-6
"""What is near enough where nothing is said: as little as floating point loses, and never the next whole number."""

_REMARK = re.compile(r"(?<!\\)\([^()\n]{0,500}\)")
_END = re.compile(r"[.;!?](?:\s|$)|\b(?:because|since)\b")
_EQUALS = re.compile(r"=|\u2248|\\approx(?![a-z])")


class NumericOptions(BaseModel):
    """The expected number, or several that are as good, how near is near enough, and where to look.

    A text with more in it, as a worked solution, counts by its last box or by what it marks. An answer is right within
    `tolerance`, or within `relative_tolerance` times the expected number; that is 1e-9 where it is not given, but never
    more than 1e-6 then. `take`: "last" is the number of the last box, else the last of what is marked, else the last of
    the whole answer; any other part counts alone.
    """

    model_config = ConfigDict(extra="forbid")

    expected: str | tuple[str, ...]
    tolerance: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    relative_tolerance: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    take: Literal["last"] | Take = "last"
    percent: Percent = "ignore"
    decimal_comma: bool = False

    @model_validator(mode="after")
    def _numbers(self) -> Self:
        texts = (self.expected,) if isinstance(self.expected, str) else self.expected
        odd = [text for text in texts if self.number(text) is None]
        if odd or not texts:
            raise ValueError(f"`expected` must be a number, not {odd[0] if odd else 'nothing'!r:.80}")
        return self

    def number(self, text: str) -> Decimal | None:
        """Return the number that an expected text names, or None where it names none, or several."""
        return expected_number(text, percent=self.percent, decimal_comma=self.decimal_comma)


class NumericGrader:
    """Solved if the number of the answer is near enough to an expected one."""

    name = "numeric"
    version = "2"
    options: type[BaseModel] = NumericOptions
    reward_files: tuple[str, ...] = ()

    def __init__(self, options: NumericOptions) -> None:
        self._options = options

    async def grade(self, ctx: GradeContext) -> Grade:
        """Compare."""
        options = self._options
        expected = (options.expected,) if isinstance(options.expected, str) else options.expected
        found = None if ctx.answer is None else self._number(ctx.answer)
        solved = found is not None and any(self._is_near(found, text) for text in expected)
        return graded(solved, "answer", either(expected), "no number was found" if found is None else str(found))

    def _number(self, answer: str) -> Decimal | None:
        take = self._options.take
        box = boxed(answer) if take in ("last", "boxed") else None
        if box is not None or take == "boxed":
            return self._only(_EQUALS.split(box or "")[-1])
        # A mark that holds no number is no answer: what stands elsewhere was not meant to be one.
        mark = marked(answer) if take in ("last", "marked") else None
        if mark is not None or take == "marked":
            return self._last(self._stated(mark or ""))
        if take == "last":
            return self._last(answer[-LOOKED_AT:])
        part = (taken(answer, take) or "")[-LOOKED_AT:]
        return self._only(part) if take == "all" else self._last(part)

    def _stated(self, marked: str) -> str:
        """Return the sentence that says the number, without remarks: `5 (as 2 + 3). Sure: 90%` says `5`."""
        pieces = _END.split(_REMARK.sub(" ", marked[-LOOKED_AT:]))
        return next((piece for piece in pieces if any(self._numbers(piece))), marked[-LOOKED_AT:])

    def _numbers(self, text: str) -> list[Decimal]:
        options = self._options
        return list(numbers_in(text, percent=options.percent, decimal_comma=options.decimal_comma))

    def _only(self, text: str) -> Decimal | None:
        found = set(self._numbers(text))
        return found.pop() if len(found) == 1 else None

    def _last(self, text: str) -> Decimal | None:
        return last_number(text, percent=self._options.percent, decimal_comma=self._options.decimal_comma)

    def _is_near(self, found: Decimal, text: str) -> bool:
        options = self._options
        wanted = options.number(text)
        assert wanted is not None, "the options were validated"
        relative, tolerance = options.relative_tolerance, CONTEXT.create_decimal_from_float(options.tolerance)
        share = CONTEXT.create_decimal_from_float(RELATIVE if relative is None else relative)
        near = CONTEXT.multiply(share, CONTEXT.abs(wanted))
        if relative is None:
            near = min(near, CONTEXT.create_decimal_from_float(RELATIVE_AT_MOST))
        return CONTEXT.abs(CONTEXT.subtract(found, wanted)) <= max(near, tolerance)
