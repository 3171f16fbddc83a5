"""Grader `numeric`: compares the number of an answer with the one expected. Needs no sandbox."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from proctor.data.numbers import CONTEXT, Percent, number_of, numbers_in
from proctor.graders._taking import Take, boxed, either, graded, marked, taken
from proctor.model.attempt import Grade
from proctor.plugins.api import GradeContext

LOOKED_AT = 64 * 1024
"""Characters at the end of an answer, or of the part of it that counts, in which numbers are looked for."""


class NumericOptions(BaseModel):
    """The expected number, or several that are as good, how near is near enough, and where to look.

    An answer is right within `tolerance`, or within `relative_tolerance` times the expected number. `take`: "last" is
    the last number of the last box, else of what is marked, else of the whole answer; any other part counts alone.
    """

    model_config = ConfigDict(extra="forbid")

    expected: str | tuple[str, ...]
    tolerance: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    relative_tolerance: float = Field(default=1e-9, ge=0, allow_inf_nan=False)
    take: Literal["last"] | Take = "last"
    percent: Percent = "ignore"
    decimal_comma: bool = False

    @model_validator(mode="after")
    def _numbers(self) -> Self:
        texts = (self.expected,) if isinstance(self.expected, str) else self.expected
        odd = [
            text for text in texts if number_of(text, percent=self.percent, decimal_comma=self.decimal_comma) is None
        ]
        if odd or not texts:
            raise ValueError(f"`expected` must be a number, not {odd[0] if odd else 'nothing'!r:.80}")
        return self


class NumericGrader:
    """Solved if the number of the answer is near enough to an expected one."""

    name = "numeric"
    version = "1"
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
        options = self._options
        if options.take == "last":
            # A box or a mark that holds no number is no answer: what stands elsewhere was not meant to be one.
            part = boxed(answer) or marked(answer) or answer
        else:
            part = taken(answer, options.take) or ""
        numbers = list(numbers_in(part[-LOOKED_AT:], percent=options.percent, decimal_comma=options.decimal_comma))
        if options.take == "all" and len(numbers) > 1:
            return None
        return numbers[-1] if numbers else None

    def _is_near(self, found: Decimal, text: str) -> bool:
        options = self._options
        wanted = number_of(text, percent=options.percent, decimal_comma=options.decimal_comma)
        assert wanted is not None, "the options were validated"
        relative = CONTEXT.multiply(CONTEXT.create_decimal_from_float(options.relative_tolerance), CONTEXT.abs(wanted))
        allowed = max(relative, CONTEXT.create_decimal_from_float(options.tolerance))
        return CONTEXT.abs(CONTEXT.subtract(found, wanted)) <= allowed
