"""Grader `choice`: finds the letter that an answer chose. Needs no sandbox."""

from __future__ import annotations

import re
from string import ascii_uppercase
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from proctor.graders._taking import boxed, graded, marked
from proctor.model.attempt import Grade
from proctor.plugins.api import GradeContext

_AROUND = " \t\r\n*_`$"
_LETTER = re.compile(r"(?:option|choice)?\s{0,9}[(\[]?([A-Za-z])(?:[)\].:,]+|$)\s{0,9}(.*)", re.IGNORECASE | re.DOTALL)
_LATEX = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
LOOKED_AT = 4_000
"""Characters of what may be a choice: nothing longer is one."""


class ChoiceOptions(BaseModel):
    """The texts of the choices, which are called A, B, C, ..., and the letter of the right one."""

    model_config = ConfigDict(extra="forbid")

    choices: Annotated[tuple[str, ...], Field(min_length=2, max_length=26)]
    expected: Annotated[str, Field(pattern=r"^[A-Z]$")]

    @model_validator(mode="after")
    def _is_there(self) -> Self:
        if self.expected not in ascii_uppercase[: len(self.choices)]:
            raise ValueError(f"`expected` is `{self.expected}`, and there are {len(self.choices)} choices")
        return self


class ChoiceGrader:
    """Solved if the answer chose the right letter."""

    name = "choice"
    version = "1"
    options: type[BaseModel] = ChoiceOptions
    reward_files: tuple[str, ...] = ()

    def __init__(self, options: ChoiceOptions) -> None:
        self._options = options

    async def grade(self, ctx: GradeContext) -> Grade:
        """Find the letter and compare it."""
        expected = self._options.expected
        found = None if ctx.answer is None else chosen(ctx.answer, self._options.choices)
        return graded(found == expected, "choice", expected, found or "no choice was found")


def chosen(answer: str, choices: tuple[str, ...]) -> str | None:
    """Return the letter that an answer chose, or None where it chose none, or more than one.

    The first of these that is there decides: the last box, what the last mark marks, all of the answer, its last line.
    """
    for part in (boxed(answer), marked(answer)):
        if part is not None:
            return _letter(part, choices)
    return _letter(answer, choices) or _letter(answer.rstrip().rpartition("\n")[2], choices)


def _letter(part: str, choices: tuple[str, ...]) -> str | None:
    """Return the letter that a part stands for: a letter alone, one with the text of its choice, or that text alone."""
    part = _LATEX.sub(r"\1", part[: LOOKED_AT + 1]).strip(_AROUND)
    if len(part) > LOOKED_AT:
        return None
    letters = ascii_uppercase[: len(choices)]
    texts = [_folded(text) for text in choices]
    for whole in (part, part.rstrip(".")):
        if texts.count(_folded(whole)) == 1:
            return letters[texts.index(_folded(whole))]
    match = _LETTER.fullmatch(part)
    # A letter may be followed by its own text, without a sign between them: `B cat`.
    letter, rest = (match[1].upper(), match[2]) if match else (part[:1].upper(), part[1:])
    if letter not in letters or not letter or (match is None and not rest[:1].isspace()):
        return None
    rest = rest.strip(_AROUND)
    own = texts[letters.index(letter)]
    return letter if (not rest and match) or _folded(rest) == own or _folded(rest.rstrip(".")) == own else None


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
