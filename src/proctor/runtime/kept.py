"""What is kept of what plugins return: answers, grades and trajectories within the bounds of `model.bounds`.

Each `kept_` function returns what is kept and, in words, what was cut, or None where nothing was. None of them raises
because of the size or the shape of a value: what is wrong with it in other ways is found where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from proctor.errors import describe
from proctor.model.attempt import Check, Grade, InvalidGrade
from proctor.model.bounds import (
    ANSWER_CHARACTERS,
    CHECK_CHARACTERS,
    CHECKS_AT_MOST,
    CHECKS_CHARACTERS,
    SUB_SCORE_NAME_CHARACTERS,
    SUB_SCORES_AT_MOST,
    TREE_CHARACTERS,
    TREE_DEPTH,
    TREE_KEY_CHARACTERS,
    TREE_NODES,
    TREE_TEXT_CHARACTERS,
    mark,
    shortened,
)

_TEXTS = ("label", "expected", "actual", "source")


def kept_answer(answer: str) -> tuple[str, str | None]:
    """Return the beginning and the end of an answer that is longer than an answer may be."""
    kept = shortened(answer, ANSWER_CHARACTERS)
    if kept is answer:
        return answer, None
    return kept, f"the answer has {len(answer):,} characters; {ANSWER_CHARACTERS:,} of them are kept"


def own_grade(grade: Any) -> Grade:
    """Return a grade of our own, made from what a grader returned and checked again: a grader may change its own later.

    Raises `InvalidGrade` for what is no grade, or is none any more.
    """
    if not isinstance(grade, Grade):
        raise InvalidGrade(f"the grader returned {type(grade).__name__}, not a Grade")
    try:
        checks = tuple(replace(check) for check in grade.checks)
        return Grade(grade.solved, grade.score, dict(grade.sub_scores), checks)
    except InvalidGrade:
        raise
    except Exception as error:  # whatever a plugin put there
        raise InvalidGrade(f"the grade cannot be read: {describe(error)}") from error


def kept_grade(grade: Grade) -> tuple[Grade, str | None]:
    """Return a grade with fewer or shorter checks and sub-scores where it has too many or too long ones."""
    checks, sub_scores = _kept_checks(grade.checks), _kept_sub_scores(grade.sub_scores)
    said: list[str] = []
    if checks is not grade.checks:
        said.append(f"{len(checks):,} of {len(grade.checks):,} checks are kept, long texts of them cut")
    if sub_scores is not grade.sub_scores:
        said.append(f"{len(sub_scores):,} of {len(grade.sub_scores):,} sub-scores are kept, long names of them cut")
    if not said:
        return grade, None
    return replace(grade, checks=checks, sub_scores=sub_scores), "; ".join(said)


def _kept_checks(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    kept = checks
    if len(checks) > CHECKS_AT_MOST:
        failed_first = sorted(range(len(checks)), key=lambda index: checks[index].ok)
        kept = tuple(checks[index] for index in sorted(failed_first[:CHECKS_AT_MOST]))
    texts = [getattr(check, name) or "" for check in kept for name in _TEXTS]
    most = CHECK_CHARACTERS
    if sum(min(len(text), most) for text in texts) > CHECKS_CHARACTERS:
        most = CHECKS_CHARACTERS // len(texts)
    if any(len(text) > most for text in texts):
        kept = tuple(_shorter(check, most) for check in kept)
    return kept


def _shorter(check: Check, most: int) -> Check:
    long = {name: shortened(text, most) for name in _TEXTS if (text := getattr(check, name)) is not None}
    return replace(check, **long)


def _kept_sub_scores(sub_scores: Mapping[str, float]) -> Mapping[str, float]:
    names = list(sub_scores)
    if len(names) <= SUB_SCORES_AT_MOST and all(len(name) <= SUB_SCORE_NAME_CHARACTERS for name in names):
        return sub_scores
    kept: dict[str, float] = {}
    for name in names:
        if len(kept) == SUB_SCORES_AT_MOST:
            break
        kept.setdefault(shortened(name, SUB_SCORE_NAME_CHARACTERS), sub_scores[name])  # names that are cut may meet
    return kept


def kept_tree(value: Any, redact: Callable[[str], str]) -> tuple[Any, str | None]:
    """Return a JSON value with its texts redacted, without what is nested too deep, too long or too much.

    Of a list that is too long the first and the last items stay, with a mark between them.
    """
    walk = _Walk(redact)
    kept = walk.value(value, TREE_DEPTH)
    return kept, walk.words


class _Walk:
    """One walk through a value, with what may still be kept of it."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact
        self._nodes = TREE_NODES
        self._characters = TREE_CHARACTERS
        self._left_out = 0
        self._cut = 0
        self._too_deep = 0

    @property
    def words(self) -> str | None:
        """What was cut."""
        parts = {"values left out": self._left_out, "texts cut": self._cut, "values nested too deep": self._too_deep}
        said = ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)
        return f"the trajectory is kept in part: {said}" if said else None

    @property
    def _full(self) -> bool:
        return self._nodes <= 0 or self._characters <= 0

    def value(self, value: Any, depth: int) -> Any:
        """Return what is kept of a value that may be `depth` levels deep."""
        self._nodes -= 1
        if isinstance(value, str):
            return self._text(value, min(TREE_TEXT_CHARACTERS, max(self._characters, 0)))
        if not isinstance(value, Mapping | list | tuple):
            return value
        if depth == 0:
            self._too_deep += 1
            return mark(1, "value nested too deep")
        if isinstance(value, Mapping):
            return self._members(cast("Mapping[Any, Any]", value), depth - 1)
        return self._items(cast("list[Any] | tuple[Any, ...]", value), depth - 1)

    def _text(self, text: str, most: int) -> str:
        clean = self._redact(text)
        kept = shortened(clean, most)
        self._cut += len(kept) < len(clean)
        self._characters -= len(kept)
        return kept

    def _members(self, members: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        kept: dict[Any, Any] = {}
        for key, member in members.items():
            if self._full:
                self._left_out += len(members) - len(kept)
                break
            name = self._text(key, TREE_KEY_CHARACTERS) if isinstance(key, str) else key
            kept[name] = self.value(member, depth)
        return kept

    def _items(self, items: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        """Take items from both ends, so that it is the middle that is missing where not all can be kept."""
        head: list[Any] = []
        tail: list[Any] = []
        for count, index in enumerate(_from_both_ends(len(items))):
            if self._full:
                missing = len(items) - count
                self._left_out += missing
                head.append(mark(missing, "values"))
                break
            (tail if count % 2 else head).append(self.value(items[index], depth))
        return head + tail[::-1]


def _from_both_ends(length: int) -> Iterable[int]:
    """Yield the indices of a list as 0, the last, 1, the last but one, and so on."""
    for count in range(length):
        yield length - 1 - count // 2 if count % 2 else count // 2
