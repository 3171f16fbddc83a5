"""What the function of a task checked, as it goes from the benchmark `evals` to the grader `checks`.

It is a file of the session, by a name that no harness can give to a file of its own: it is made in memory, outside of
any sandbox, and nothing that an agent does can put another in its place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Any

from proctor.authoring.shown_values import clean_text, shown_value
from proctor.model.attempt import Check

RECORD_NAME = "task-checks.json"
"""The name of the file."""

GRADER_NAME = "checks"
"""The name of the grader that reads it."""

FORMAT = 1

KEPT_AT_MOST = 2_000
"""Checks, and scores, that are kept one by one; the others are counted, so that the share is right."""


@dataclass(frozen=True, slots=True)
class RecordedScore:
    """A sub-score by name; `invalid` is what was given in place of a number."""

    name: str
    value: float | None
    invalid: str | None = None
    source: str | None = None


@dataclass(slots=True)
class CheckRecord:
    """Everything that the function of a task said of what it saw; `ended` says that it came to its end."""

    checks: list[Check] = field(default_factory=list[Check])
    more_true: int = 0
    """True checks that are not among `checks`."""
    more_false: int = 0
    scores: dict[str, RecordedScore] = field(default_factory=dict[str, RecordedScore])
    ended: bool = False
    closed: bool = False
    """Whether the function is over, so that whatever it left behind is not listened to any more."""

    def go_on(self) -> None:
        """Raise `RuntimeError` where the function is over: what is checked then would count for nothing."""
        if self.closed:
            raise RuntimeError("the task is over: nothing can be checked any more")

    def add(self, check: Check) -> None:
        """Record a check."""
        if len(self.checks) < KEPT_AT_MOST:
            self.checks.append(check)
        elif check.ok:
            self.more_true += 1
        else:
            self.more_false += 1

    def score(self, name: Any, value: Any, source: str | None) -> None:
        """Record a sub-score, in place of one by the same name; what is no finite number is recorded as that."""
        name = clean_text(name) if type(name) is str else shown_value(name)
        number = _number(value)
        if name in self.scores or len(self.scores) < KEPT_AT_MOST:
            self.scores[name] = RecordedScore(name, number, None if number is not None else shown_value(value), source)

    def encoded(self) -> bytes:
        """Return it as the content of the file."""
        content = {
            "format": FORMAT,
            "ended": self.ended,
            "checks": [asdict(check) for check in self.checks],
            "more_true": self.more_true,
            "more_false": self.more_false,
            "scores": [asdict(score) for score in self.scores.values()],
        }
        return json.dumps(content, ensure_ascii=True, allow_nan=False).encode("ascii")


def decoded(content: bytes) -> CheckRecord:
    """Return what a file says. Raises `ValueError` for one that was not written by `CheckRecord.encoded`."""
    try:
        tree: Mapping[str, Any] = json.loads(content)
        if tree["format"] != FORMAT:
            raise ValueError(f"the recorded checks have format {tree['format']!r}")
        checks: Sequence[Mapping[str, Any]] = tree["checks"]
        scores: Sequence[Mapping[str, Any]] = tree["scores"]
        return CheckRecord(
            checks=[Check(**check) for check in checks],
            more_true=int(tree["more_true"]),
            more_false=int(tree["more_false"]),
            scores={score["name"]: RecordedScore(**score) for score in scores},
            ended=tree["ended"] is True,
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"the recorded checks cannot be read: {error!r}") from error


def _number(value: Any) -> float | None:
    """Return a finite number, or None for what is none; True is none."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    try:
        number = float(value)
    except (ValueError, TypeError, ArithmeticError):
        return None
    return number if math.isfinite(number) else None


__all__ = ["GRADER_NAME", "KEPT_AT_MOST", "RECORD_NAME", "CheckRecord", "RecordedScore", "decoded"]
