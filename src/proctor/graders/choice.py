"""Grader `choice`: finds the letter that an answer chose. Needs no sandbox."""

from __future__ import annotations

import re
from string import ascii_uppercase
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from proctor.data.marks import boxed, marked
from proctor.graders._taking import graded
from proctor.model.attempt import Grade
from proctor.plugins.api import GradeContext

_AROUND = " \t\r\n*_`$"
_QUOTES = "\"'\u201c\u201d\u2018\u2019<>"
_LETTER = re.compile(
    rf"(?:(?:the\s)?(?:option|choice|letter)\s?:?)?\s{{0,9}}[(\[{_QUOTES}]?([A-Za-z])(?:[)\].:,{_QUOTES}*_]+|$|\s(?=\())\s{{0,9}}(.*)",
    re.IGNORECASE | re.DOTALL,
)
_LATEX = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
_DOUBT = re.compile(
    r"\b(?:not|or|nor|neither|both|either|none|unless|wrong|incorrect|false)\b|n['\u2019]t\b", re.IGNORECASE
)
"""Words after a letter with which it may not be the one that was chosen."""
LOOKED_AT = 4_000
"""Characters of what may be a choice: nothing longer is one."""
LINES_LOOKED_AT = 20_000
"""Characters at the end of an answer in which lines are looked for that are a choice."""


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
    version = "2"
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

    The first of these that is there decides: the last box, what the last mark marks, all of the answer, a last line
    that is a letter alone, the lines that are a choice where all are the same one.
    """
    for part in (boxed(answer), marked(answer)):
        if part is not None:
            return _letter(part, choices) or _explained(part, choices)
    whole = _letter(answer, choices)
    if whole is not None:
        return whole
    lines = answer[-LINES_LOOKED_AT:].rstrip().split("\n")
    if len(_bare(lines[-1])) == 1:
        return _letter(lines[-1], choices)
    found = {_letter(line, choices) for line in lines} - {None}
    return found.pop() if len(found) == 1 else None


def _letter(part: str, choices: tuple[str, ...]) -> str | None:
    """Return the letter that a part stands for: a letter alone, one with the text of its choice, or that text alone."""
    part = _bare(part)
    if len(part) > LOOKED_AT:
        return None
    letters = ascii_uppercase[: len(choices)]
    if len(part) == 1 and part in letters:  # also where it is the text of another: letters were asked for
        return part
    texts = [_folded(text) for text in choices]
    for whole in (part, part.rstrip(".")):
        if texts.count(_folded(whole)) == 1:
            return letters[texts.index(_folded(whole))]
    match = _LETTER.fullmatch(part)
    # A letter may be followed by its own text, without a sign between them: `B cat`.
    letter, rest = (match[1].upper(), match[2]) if match else (part[:1].upper(), part[1:])
    if letter not in letters or not letter or (match is None and not rest[:1].isspace()):
        return None
    rest = rest.strip(_AROUND).removeprefix("(").removesuffix(")")
    own = texts[letters.index(letter)]
    return letter if (not rest and match) or _folded(rest) == own or _folded(rest.rstrip(".")) == own else None


def _explained(part: str, choices: tuple[str, ...]) -> str | None:
    """Return the letter with which a marked part begins, if what it says after it speaks of no other choice."""
    part = _bare(part)
    match = _LETTER.fullmatch(part)
    if match is None:
        match = re.fullmatch(r"([A-Z])\s(?=(?:because|since|as)\b)(.*)", part, re.DOTALL)
    if match is None or len(part) > LOOKED_AT or match[1].upper() not in ascii_uppercase[: len(choices)]:
        return None
    letter, rest = match[1].upper(), match[2]
    if letter in "AI" and part[1:2] == ",":  # `I, too, think so`
        return None
    own = _folded(choices[ascii_uppercase.index(letter)])
    others = [text for text in map(_folded, choices) if text != own and text not in own]
    named = any(re.search(rf"(?<!\w){re.escape(text)}(?!\w)", _folded(rest)) for text in others)
    other_letters = set(re.findall(r"(?<![\w'\u2019])([A-Z])(?![\w'\u2019])", rest)) - {letter, "I"}
    return None if named or other_letters or _DOUBT.search(rest) else letter


def _bare(part: str) -> str:
    """Return a part without what is around it, one character longer than any choice at most."""
    return _LATEX.sub(r"\1", part[: LOOKED_AT + 1]).strip(_AROUND)


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
