"""Keeps credentials out of everything that is printed, logged or journaled: by value, wherever they turn up."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast
from urllib.parse import quote

from proctor.model.attempt import Check, Grade, Issue
from proctor.model.bounds import LOG_LINE_CHARACTERS, shortened
from proctor.runtime.log_scope import SCOPE, fields_of, in_brackets, is_ours

_SHORTEST = 6
"""Shorter values are words of ordinary text: replacing them would destroy it and hide nothing."""


_GAP = re.compile(r"(\s?\[\.\.\. [\d,]+ \w+ left out \.\.\.\]\s?)")
"""The mark of `model.bounds` in the place of what was cut out of a text before it came here."""

_END_OF_GAP = " left out ...]"
"""What each of these marks has: most texts have none, and to look for a word is much faster than to look for `_GAP`."""

_SHORTEST_LINE = 12
"""Of a secret of several lines, such as a private key, each line that long is a secret too."""


class Redactor:
    """Replaces each of the secret values by a mark that shows at most their last four characters.

    A value is found as it is, as JSON or Python write it within quotes, and as it stands in an address; of a value of
    several lines each line is found by itself, since text is often taken line by line.
    """

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        forms = {form for secret in secrets if secret and len(secret) >= _SHORTEST for form in _forms(secret)}
        values = sorted(forms, key=lambda form: (-len(form), form))
        self._values = values
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
        if self._pattern is None:
            return text
        clean = self._pattern.sub(_mark, text)
        if _END_OF_GAP not in clean:
            return clean
        return "".join(self._without_halves(_GAP.split(clean)))

    def _without_halves(self, parts: list[str]) -> list[str]:
        """Return a text in parts, each second one a mark of a gap, without secrets of which the gap took a part."""
        for place in range(1, len(parts), 2):
            before, behind = parts[place - 1], parts[place + 1]
            cut = max((_overlap(before, value) for value in self._values), default=0)
            parts[place - 1] = before[: len(before) - cut] + ("[redacted]" if cut else "")
            cut = max((_overlap(behind[::-1], value[::-1]) for value in self._values), default=0)
            parts[place + 1] = ("[redacted]" if cut else "") + behind[cut:]
        return parts

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


def _overlap(text: str, value: str) -> int:
    """Return how much of the beginning of a secret is at the end of a text, where that is enough to matter."""
    most = min(len(text), len(value) - 1)
    return next((length for length in range(most, _SHORTEST - 1, -1) if text.endswith(value[:length])), 0)


def _forms(secret: str) -> Iterator[str]:
    """Yield how a secret may be written."""
    lines = [line.strip() for line in secret.splitlines()]
    for value in (secret, *(line for line in lines if len(lines) > 1 and len(line) >= _SHORTEST_LINE)):
        yield value
        yield json.dumps(value)[1:-1]
        yield json.dumps(value, ensure_ascii=False)[1:-1]
        yield repr(value)[1:-1]
        yield quote(value, safe="")


def _mark(found: re.Match[str]) -> str:
    value = found.group()
    return f"[redacted …{value[-4:]}]" if len(value) >= 3 * 4 else "[redacted]"


def holds_mark(value: Any) -> bool:
    """Say whether a secret was taken out of a JSON value."""
    if isinstance(value, str):
        return "[redacted" in value
    if isinstance(value, Mapping):
        return any(map(holds_mark, cast("Mapping[str, Any]", value).values()))
    return isinstance(value, list | tuple) and any(map(holds_mark, cast("list[Any]", value)))


class RedactingFormatter(logging.Formatter):
    """Log lines with moments in UTC; the whole line, traceback included, passes through a redactor and is bounded.

    Behind the first line are its fields in brackets; with `scope` those of the try that it is of come first.
    """

    converter = time.gmtime
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, redactor: Redactor, *, scope: bool = False) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._redactor = redactor
        self._scope = scope

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name that logging calls
        """Return the line without a traceback."""
        scope = SCOPE.get() if self._scope else None
        fields = {**(scope.fields if scope is not None else {}), **fields_of(record)}
        if not is_ours(record):
            fields["logger"] = record.name
        first, end, rest = super().formatMessage(record).rstrip("\n").partition("\n")
        return first + in_brackets(fields) + end + rest

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for `record` without the secrets, and without its middle where it is too long."""
        return shortened(self._redactor.text(super().format(record)), LOG_LINE_CHARACTERS)
