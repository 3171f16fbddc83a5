"""Grader `text`: compares the answer with the one expected, or with several. Needs no sandbox."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from proctor.graders._taking import Take, either, graded, taken
from proctor.model.attempt import Grade
from proctor.plugins.api import GradeContext

COMPARED_AT_MOST = 100_000
"""Characters of an answer that is compared in any other form than its own: bringing it into one takes time."""

_PUNCTUATION = re.compile(r"[^\w\s]|_")
_NUMERIC = re.compile(r"(?<![\w.,])[-\u2212](?=[.,]?\d)|(?<![\w.])\.(?=\d)|(?<=\d)[./](?=\d)")
"""What makes another number of digits."""


class TextOptions(BaseModel):
    """The expected answer, or several that are as good, and what counts of the agent's.

    `take` says which part of it counts. `strip` says that white space around it does not; the others are off: case,
    punctuation (all but letters, digits, white space, and the minus, dot or stroke of a number), how much white space
    there is between words, and how a character is put together (`NFC`, or `NFKC`, where `²` is 2 as well).
    """

    model_config = ConfigDict(extra="forbid")

    expected: str | Annotated[tuple[str, ...], Field(min_length=1)]
    mode: Literal["exact", "contains"] = "exact"
    take: Take = "all"
    strip: bool = True
    ignore_case: bool = False
    ignore_punctuation: bool = False
    collapse_spaces: bool = False
    unicode: Literal["NFC", "NFKC"] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        for text in self.texts:
            if not self.normal(text) and (text or self.mode == "contains"):
                raise ValueError(f"nothing is left of `expected` {text!r:.80}: any answer of nothing would be right")
        return self

    @property
    def texts(self) -> tuple[str, ...]:
        """The expected answers."""
        return (self.expected,) if isinstance(self.expected, str) else self.expected

    def normal(self, text: str) -> str:
        """Return a text without what does not count."""
        if self.strip:
            text = text.strip()
        if len(text) > COMPARED_AT_MOST:
            return text
        if self.unicode is not None:
            text = unicodedata.normalize(self.unicode, text)
        if self.ignore_case:
            text = text.casefold()
        if self.ignore_punctuation:
            text = _PUNCTUATION.sub(lambda match: _kept(match, text), text)
        if self.collapse_spaces or self.ignore_punctuation:
            text = " ".join(text.split())
        return text


def _kept(match: re.Match[str], text: str) -> str:
    """Return a sign that is no punctuation: a mark of a letter (as vowels of many scripts are), or one of a number."""
    if unicodedata.category(match[0])[0] == "M":
        return match[0]
    number = _NUMERIC.match(text, match.start())
    return number[0].replace("\u2212", "-") if number else ""


class TextGrader:
    """Solved if the answer is the expected text, or has it in it (`contains`)."""

    name = "text"
    version = "2"
    options: type[BaseModel] = TextOptions
    reward_files: tuple[str, ...] = ()

    def __init__(self, options: TextOptions) -> None:
        self._options = options

    async def grade(self, ctx: GradeContext) -> Grade:
        """Compare."""
        options = self._options
        part = None if ctx.answer is None else taken(ctx.answer, options.take)
        if options.strip:
            part = part and part.strip()
        found = None if part is None else options.normal(part)
        wanted = [options.normal(each) for each in options.texts]
        if found is None:
            solved = False
        elif options.mode == "contains":
            solved = any(each in found for each in wanted)
        else:
            # The full stop of the sentence that says it is no part of a marked answer.
            dotless = found[:-1] if options.take == "marked" and found.endswith(".") else found
            solved = found in wanted or dotless in wanted
        return graded(solved, "answer", either(options.texts), part)
