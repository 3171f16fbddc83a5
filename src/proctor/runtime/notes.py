"""What a try says about itself while it goes on: its log, issues, usage; all of it bounded."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from proctor.errors import CODE_OF_PHASE, Fault, describe
from proctor.model.attempt import NO_USAGE, Grade, Issue, Phase, Usage, issue_of
from proctor.model.bounds import (
    COST_USD_AT_MOST,
    ISSUES_AT_MOST,
    MESSAGE_CHARACTERS,
    TOKENS_AT_MOST,
    TRY_LOG_BYTES,
    shortened,
    with_gap,
)
from proctor.model.codes import Severity
from proctor.model.spec import ModelSpec
from proctor.runtime.job import TryJob
from proctor.runtime.kept import kept_answer, kept_grade
from proctor.runtime.log_scope import SCOPE, LogScope
from proctor.runtime.output import HeadTail
from proctor.runtime.pricing import Price, unpriced
from proctor.runtime.redact import RedactingFormatter, Redactor

CUT = "output.truncated"
"""The code of what was cut."""

REFUSED_REQUEST = "model.invalid_request"


class _KeptLines(logging.Handler):
    """Keeps the first and the last lines that are logged, in memory."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self.setFormatter(RedactingFormatter(redactor))
        self._redactor = redactor
        self.kept = HeadTail(TRY_LOG_BYTES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line; one that cannot be formatted is a plugin's fault, and says so itself."""
        try:
            line = self.format(record)
        except Exception as error:  # the texts of what is logged are a plugin's code
            line = self._redactor.text(f"{record.levelname} a line that cannot be formatted: {describe(error)}")
        self.kept.add(line.encode("utf-8", "backslashreplace") + b"\n")


class TryLog:
    """The log of one try. It costs nothing until something is logged, and never more than `TRY_LOG_BYTES`."""

    def __init__(self, redactor: Redactor, level: int) -> None:
        self._redactor = redactor
        self._level = level
        self._lines: _KeptLines | None = None
        self._logger: logging.Logger | None = None

    @property
    def logger(self) -> logging.Logger:
        """A logger of this try alone, known to no other part of the program."""
        if self._logger is None:
            self._lines = _KeptLines(self._redactor)
            self._logger = logging.Logger("proctor.try", level=self._level)
            self._logger.addHandler(self._lines)
        return self._logger

    @property
    def content(self) -> str:
        """What was logged so far: the beginning and the end, where it was too much, with a mark between them."""
        if self._lines is None:
            return ""
        kept = self._lines.kept
        return with_gap(kept.kept, kept.dropped).decode("utf-8", "replace")

    @property
    def dropped(self) -> int:
        """How many bytes were left out of `content`."""
        return self._lines.kept.dropped if self._lines else 0


def enter_scope(job: TryJob, log: TryLog) -> None:
    """Let what is logged from here on, in this task and what it starts, be known as that of a try."""
    fields = {"task": job.task.id, "attempt": job.attempt, "try": str(job.try_number)}
    experiment = job.labels.get("experiment")
    SCOPE.set(LogScope(fields if experiment is None else {"experiment": experiment, **fields}, log))


class Notes:
    """What is reported about a try while it goes on: issues and usage."""

    def __init__(self, redactor: Redactor, on_issue: Callable[[Issue], None], price: Price = unpriced) -> None:
        self._redactor = redactor
        self._on_issue = on_issue
        self._price = price
        self._left_out: Counter[str] = Counter()
        self._kinds: set[tuple[str, Severity]] = set()
        self.issues: list[Issue] = []
        self._usage = self._made = self._grader_usage = NO_USAGE
        self.phase: Phase | None = None

    @property
    def usage(self) -> Usage:
        """What the calls of the agent used: what was reported, or what is known of the calls made if those are more."""
        fewer = self._made.calls > self._usage.calls and (self._usage.calls or self._usage == NO_USAGE)
        return self._made if fewer else self._usage  # a sum that says nothing of calls is believed

    def report(self, usage: Usage) -> None:
        """Add what calls of the agent used; what no try can use is refused with `ValueError`."""
        self._usage = _possible(self._usage + usage)

    @property
    def made(self) -> Usage:
        """What the calls used that the agent's harness made through proctor, likewise."""
        return self._made

    @made.setter
    def made(self, usage: Usage) -> None:
        self._made = _possible(usage)

    @property
    def grader_usage(self) -> Usage:
        """What the calls of the grader used, likewise."""
        return self._grader_usage

    @grader_usage.setter
    def grader_usage(self, usage: Usage) -> None:
        self._grader_usage = _possible(usage)

    def priced(self, model: ModelSpec | None, usage: Usage) -> Usage:
        """Return what calls of a model used with its cost, as far as that is known; what is not is an issue."""
        return self._price(model, usage, self.raise_issue)

    def add(self, issue: Issue) -> None:
        """Record an issue; its message loses any credential, and its middle where it is too long.

        Of more than `ISSUES_AT_MOST` only the first of each further code is recorded, and the others are counted.
        """
        if len(self.issues) >= ISSUES_AT_MOST and (issue.code, issue.severity) in self._kinds:
            self._left_out[issue.code] += 1
            return
        text: Any = issue.message  # of a plugin, which may have put anything there
        issue = self.weighed(issue)
        issue = self._redactor.issue(issue if isinstance(text, str) else replace(issue, message=_text_of(text)))
        if len(issue.message) > MESSAGE_CHARACTERS:
            issue = replace(issue, message=shortened(issue.message, MESSAGE_CHARACTERS))
        self._record(issue)

    def weighed(self, issue: Issue) -> Issue:
        """Return an issue with its severity in this try: a request that the model refuses ends no work that was done.

        Where a call was answered before, the agent did something, and is graded on what was collected (spec 05).
        """
        if issue.code == REFUSED_REQUEST and issue.phase is Phase.AGENT and self.usage.calls:
            return replace(issue, severity=Severity.ERROR)
        return issue

    def _record(self, issue: Issue) -> None:
        self._kinds.add((issue.code, issue.severity))
        self.issues.append(issue)
        self._on_issue(issue)

    def raise_issue(self, code: str, message: str) -> None:
        """Record an issue by code, in the phase that goes on. Raises `KeyError` for a code that is not in the table."""
        self.add(issue_of(code, str(message), self.phase))

    def no_result(self, fault: Fault) -> None:
        """Say that there is no result because of `fault`, where its severity does not: that would stand beside one."""
        if not self.weighed(fault.issue).fatal:
            phase = fault.issue.phase
            code = fault.crash or CODE_OF_PHASE[phase or Phase.GRADE]
            self.add(issue_of(code, f"there is no result, because of {fault.code}: {_text_of(fault)}", phase))

    # ------------------------------------------------------------------------------- what plugins return, bounded

    def kept_answer(self, answer: str) -> str:
        """Return what is kept of an answer; what is cut is a warning."""
        return self._said(kept_answer(answer))

    def kept_grade(self, grade: Grade) -> Grade:
        """Return what is kept of a grade, without credentials; what is cut is a warning."""
        return self._said(kept_grade(self._redactor.grade(grade)))

    def _said(self, found: tuple[Any, str | None]) -> Any:
        kept, words = found
        if words is not None:
            self.cut(words)
        return kept

    def close(self, log: TryLog) -> None:
        """Say what was left out of the log and of the issues; to be called before the try ends."""
        if log.dropped:
            self.cut(f"try.log: {log.dropped:,} bytes in the middle are left out")
        if self._left_out:
            counts = ", ".join(f"{count:,} {code}" for code, count in sorted(self._left_out.items()))
            self.cut(f"{self._left_out.total():,} more issues are left out: {counts}")
            self._left_out.clear()

    def cut(self, words: str) -> None:
        """Say that something was cut, however many issues there are: it happens a few times in a try at most."""
        self._record(issue_of(CUT, words, self.phase))


def _possible(usage: Usage) -> Usage:
    """Return usage whose sums over all attempts can still be written; a count of thousands of digits could not."""
    if max(usage.calls, usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens,
           usage.reasoning_tokens) > TOKENS_AT_MOST or usage.cost_at_least_usd > COST_USD_AT_MOST:  # fmt: skip
        raise ValueError(f"no try uses more than {TOKENS_AT_MOST:,} tokens or costs more than ${COST_USD_AT_MOST:,}")
    return usage


def _text_of(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:  # the text of a plugin's object is a plugin's code
        return f"<a message that cannot be shown: {type(error).__name__}>"
