"""Keeps credentials out of everything that is printed, logged or journaled: by value, wherever they turn up."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

from proctor.model.attempt import Check, Grade, Issue
from proctor.model.bounds import LOG_LINE_CHARACTERS, shortened

_SHORTEST = 6
"""Shorter values are words of ordinary text: replacing them would destroy it and hide nothing."""


class Redactor:
    """Replaces each of the secret values by a mark that shows at most their last four characters."""

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        values = sorted({s for s in secrets if s and len(s) >= _SHORTEST}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, values))) if values else None

    @property
    def idle(self) -> bool:
        """Whether there is no secret to look for."""
        return self._pattern is None

    def grade(self, grade: Grade) -> Grade:
        """Return `grade` with checks without the secrets."""
        if self._pattern is None or not grade.checks:
            return grade
        return replace(grade, checks=tuple(self._check(check) for check in grade.checks))

    def _check(self, check: Check) -> Check:
        texts = {name: getattr(check, name) for name in ("label", "expected", "actual", "source")}
        return replace(check, **{name: self.text(text) for name, text in texts.items() if text is not None})

    def text(self, text: str) -> str:
        """Return `text` without the secrets."""
        return self._pattern.sub(_mark, text) if self._pattern else text

    def tree(self, value: Any) -> Any:
        """Return a JSON value without the secrets."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.tree(inner) for key, inner in cast("Mapping[str, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [self.tree(inner) for inner in cast("list[Any]", value)]
        return value

    def issue(self, issue: Issue) -> Issue:
        """Return `issue` with a message without the secrets."""
        return replace(issue, message=self.text(issue.message)) if self._pattern else issue


def _mark(found: re.Match[str]) -> str:
    value = found.group()
    return f"[redacted …{value[-4:]}]" if len(value) >= 3 * 4 else "[redacted]"


class RedactingFormatter(logging.Formatter):
    """Log lines with moments in UTC; the whole line, traceback included, passes through a redactor and is bounded."""

    converter = time.gmtime
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, redactor: Redactor) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for `record` without the secrets, and without its middle where it is too long."""
        return shortened(self._redactor.text(super().format(record)), LOG_LINE_CHARACTERS)
