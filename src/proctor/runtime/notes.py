"""What a try says about itself while it goes on: its log, issues, usage."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable

from proctor.model.attempt import NO_USAGE, Issue, Phase, Usage, issue_of
from proctor.runtime.redact import RedactingFormatter, Redactor


class TryLog:
    """The log of one try. It costs nothing until something is logged."""

    def __init__(self, redactor: Redactor, level: int) -> None:
        self._redactor = redactor
        self._level = level
        self._stream: io.StringIO | None = None
        self._logger: logging.Logger | None = None

    @property
    def logger(self) -> logging.Logger:
        """A logger of this try alone, known to no other part of the program."""
        if self._logger is None:
            self._stream = io.StringIO()
            handler = logging.StreamHandler(self._stream)
            handler.setFormatter(RedactingFormatter(self._redactor))
            self._logger = logging.Logger("proctor.try", level=self._level)
            self._logger.addHandler(handler)
        return self._logger

    @property
    def content(self) -> str:
        """What was logged so far."""
        return self._stream.getvalue() if self._stream else ""


class Notes:
    """What is reported about a try while it goes on: issues and usage."""

    def __init__(self, redactor: Redactor, on_issue: Callable[[Issue], None]) -> None:
        self._redactor = redactor
        self._on_issue = on_issue
        self.issues: list[Issue] = []
        self.usage: Usage = NO_USAGE
        self.grader_usage: Usage = NO_USAGE
        self.phase: Phase | None = None

    def add(self, issue: Issue) -> None:
        """Record an issue; its message loses any credential."""
        issue = self._redactor.issue(issue)
        self.issues.append(issue)
        self._on_issue(issue)

    def raise_issue(self, code: str, message: str) -> None:
        """Record an issue by code, in the phase that goes on. Raises `KeyError` for a code that is not in the table."""
        self.add(issue_of(code, str(message), self.phase))
