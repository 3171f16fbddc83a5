"""Ready scripts: functions of a conversation that answer it, for the mock models and for the model server alike."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, cast

from proctor.data.humaneval import Problem, load
from proctor.errors import UsageError
from proctor.models.mock import NoAnswer
from proctor.plugins.api import ChatMessage

TextScript = Callable[[Sequence[ChatMessage]], str]
"""A script that answers with a text."""

_DEFINITION = re.compile(r"^\s*def\s+(\w+)\s*\(", re.MULTILINE)
_SHOWN_CHARACTERS = 60


def last_user_text(messages: Sequence[ChatMessage]) -> str:
    """Return the last message of the user; raises `NoAnswer` where there is none."""
    for message in reversed(messages):
        if message.role == "user":
            return message.text
    raise NoAnswer("there is no message of the user")


# ------------------------------------------------------------------------------------------------- HumanEval


def share_of(value: str | int | float | Fraction) -> Fraction:
    """Return a share from 0 to 1 as the exact number that was written: 0.613 is 613/1000, not the nearest binary.

    Raises `UsageError` for anything else.
    """
    try:
        share = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share <= 1:
        raise UsageError(f"a share must be a number from 0 to 1, not `{value}`", hint="write it as `0.613` or `2/3`")
    return share


def is_solved(index: int, share: Fraction) -> bool:
    """Say whether the task at `index` (from 0) is solved for a given share.

    Of the first n tasks, whatever n is, exactly floor(n x share) are solved, evenly spread: a run over the first 10
    tasks is as good as one over all.
    """
    return (index + 1) * share // 1 > index * share // 1


@cache
def _by_name() -> dict[str, list[tuple[int, Problem]]]:
    found: dict[str, list[tuple[int, Problem]]] = {}
    for index, problem in enumerate(load().problems):
        found.setdefault(problem.entry_point, []).append((index, problem))
    return found


def _signature(problem: Problem) -> str:
    """Return the line that defines the function of a task, which its prompt shares with few others."""
    start = problem.prompt.rindex(f"def {problem.entry_point}(")
    return problem.prompt[start:].partition("\n")[0].rstrip()


def recognised(text: str) -> tuple[int, Problem]:
    """Return the index and the problem of the HumanEval task in `text`: by its whole prompt, else by the signature.

    Raises `NoAnswer` when there is none, or when several signatures are there and no whole prompt.
    """
    names = dict.fromkeys(_DEFINITION.findall(text))
    candidates = [each for name in names for each in _by_name().get(name, [])]
    whole = [each for each in candidates if each[1].prompt.strip() in text]
    if whole:
        return max(whole, key=lambda each: len(each[1].prompt))
    signed = [each for each in candidates if _signature(each[1]) in text]
    if len(signed) != 1:
        raise NoAnswer(f"the message is not one HumanEval task: {_shown(text)}")
    return signed[0]


def humaneval(share: str | int | float | Fraction = 1) -> TextScript:
    """Answer HumanEval prompts: the reference solution for a share of the tasks (`is_solved`), else a wrong function.

    The wrong function is valid Python that returns None, which solves no task. Both stand in a fenced block between
    sentences, as models write it. Raises `UsageError` for what is no share, `MissingPackage` without the problems.
    """
    exact = share_of(share)
    _by_name()  # what is missing is said now, not at the first question

    def answer(messages: Sequence[ChatMessage]) -> str:
        index, problem = recognised(last_user_text(messages))
        body = problem.canonical_solution if is_solved(index, exact) else "    return None\n"
        code = (problem.prompt + body).strip()
        return (
            f"Here is `{problem.entry_point}`, written out in full.\n\n"
            f"```python\n{code}\n```\n\n"
            "It follows the examples of the docstring."
        )

    return answer


# ----------------------------------------------------------------------------------------- a file of answers


def answers(file: str | Path) -> TextScript:
    """Answer from a file of JSON lines.

    `{"match": "text", "answer": "..."}` answers when the last message of the user contains the text,
    `{"regex": "...", "answer": "..."}` when `re.search` finds it there; the first line that fits wins. Lines with
    `answer` alone are given in turn, over and over, to whatever fits no other line. Raises `UsageError` for a file that
    cannot be read, naming the line.
    """
    fitting: list[tuple[Callable[[str], bool], str]] = []
    others: list[str] = []
    for fits, answer in _lines(Path(file)):
        if fits is None:
            others.append(answer)
        else:
            fitting.append((fits, answer))
    in_turn = itertools.cycle(others)

    def script(messages: Sequence[ChatMessage]) -> str:
        text = last_user_text(messages)
        for fits, answer in fitting:
            if fits(text):
                return answer
        for answer in in_turn:
            return answer
        raise NoAnswer(f"no line of {file} fits the message: {_shown(text)}")

    return script


def _lines(file: Path) -> list[tuple[Callable[[str], bool] | None, str]]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the answers in {file}: {error}") from error
    # Not splitlines: JSON strings may hold other line separators as they are.
    numbered = enumerate(text.split("\n"), start=1)
    found = [_line(file, number, line) for number, line in numbered if line.strip()]
    if not found:
        raise UsageError(f"there are no answers in {file}")
    return found


def _line(file: Path, number: int, line: str) -> tuple[Callable[[str], bool] | None, str]:
    hint = 'write `{"match": "text", "answer": "text"}`, with `regex` in place of `match`, or with neither'
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise UsageError(f"{file}:{number} is not JSON: {error}", hint=hint) from error
    entry = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    strings = all(isinstance(each, str) for each in entry.values())
    if "answer" not in entry or not strings or not entry.keys() <= {"match", "regex", "answer"} or len(entry) > 2:
        raise UsageError(f"{file}:{number} is not an answer", hint=hint)
    if "match" in entry:
        wanted: str = entry["match"]
        return (lambda text: wanted in text), entry["answer"]
    if "regex" in entry:
        try:
            pattern = re.compile(entry["regex"])
        except re.error as error:
            raise UsageError(f"{file}:{number}: the pattern is not valid: {error}", hint=hint) from error
        return (lambda text: pattern.search(text) is not None), entry["answer"]
    return None, entry["answer"]


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "…")
