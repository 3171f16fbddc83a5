"""Grader `text`: compares the answer with the one expected. Needs no sandbox."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from proctor.model.attempt import Check, Grade
from proctor.plugins.api import GradeContext

SHOWN_LENGTH = 200


class TextOptions(BaseModel):
    """The expected answer; `strip` says that white space around an answer does not count."""

    model_config = ConfigDict(extra="forbid")

    expected: str
    mode: Literal["exact"] = "exact"
    strip: bool = True


class TextGrader:
    """Solved if the answer is the expected text."""

    name = "text"
    version = "1"
    options: type[BaseModel] = TextOptions
    reward_files: tuple[str, ...] = ()

    def __init__(self, options: TextOptions) -> None:
        self._options = options

    async def grade(self, ctx: GradeContext) -> Grade:
        """Compare."""
        answer, expected = ctx.answer, self._options.expected
        if self._options.strip:
            answer, expected = answer.strip() if answer is not None else None, expected.strip()
        solved = answer == expected
        check = Check("answer", solved, _shown(expected), None if answer is None else _shown(answer))
        return Grade(solved=solved, score=1.0 if solved else 0.0, checks=(check,))


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_LENGTH else f"{text[:SHOWN_LENGTH]}... ({len(text)} characters)"
