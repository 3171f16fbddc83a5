"""Grader `text`: compares the answer with the one expected, or with several. Needs no sandbox."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from proctor.graders._taking import Take, either, graded, taken
from proctor.model.attempt import Grade
from proctor.plugins.api import GradeContext

COMPARED_AT_MOST = 100_000
"""Characters of an answer that is compared in any other form than its own: bringing it into one takes time."""

_PUNCTUATION = re.compile(r"[^\w\s]|_")


class TextOptions(BaseModel):
    """The expected answer, or several that are as good, and what counts of the agent's.

    `take` says which part of it counts. `strip` says that white space around it does not; the others are off: case,
    punctuation (all but letters, digits and white space, signs of numbers included), how much white space there is
    between words, and how a character is put together (`NFC`, or `NFKC`, where `²` is 2 as well).
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


class TextGrader:
    """Solved if the answer is the expected text, or has it in it (`contains`)."""

    name = "text"
    version = "1"
    options: type[BaseModel] = TextOptions
    reward_files: tuple[str, ...] = ()

    def __init__(self, options: TextOptions) -> None:
        self._options = options

    async def grade(self, ctx: GradeContext) -> Grade:
        """Compare."""
        options = self._options
        expected = (options.expected,) if isinstance(options.expected, str) else options.expected
        part = None if ctx.answer is None else taken(ctx.answer, options.take)
        if options.strip:
            part, expected = part and part.strip(), tuple(each.strip() for each in expected)
        found = None if part is None else self._normal(part)
        wanted = [self._normal(each) for each in expected]
        if found is None:
            solved = False
        elif options.mode == "contains":
            solved = any(each in found for each in wanted)
        else:
            # The full stop of the sentence that says it is no part of a marked answer.
            dotless = found[:-1] if options.take == "marked" and found.endswith(".") else found
            solved = found in wanted or dotless in wanted
        return graded(solved, "answer", either(expected), part)

    def _normal(self, text: str) -> str:
        options = self._options
        if len(text) > COMPARED_AT_MOST:
            return text
        if options.unicode is not None:
            text = unicodedata.normalize(options.unicode, text)
        if options.ignore_case:
            text = text.casefold()
        if options.ignore_punctuation:
            text = _PUNCTUATION.sub("", text)
        if options.collapse_spaces or options.ignore_punctuation:
            text = " ".join(text.split())
        return text
