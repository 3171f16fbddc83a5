"""Of which try a log line is: known wherever it is logged inside of one, by whichever logger, or printed.

What runs inside a try has its scope in its context: tasks and threads that it starts with `asyncio.to_thread` inherit
it. A record made elsewhere is of the whole invocation.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

SHOWN: Mapping[str, Any] = {"shown": True}
"""`extra` of a record that a display says in words of its own: it goes to files only."""

PRINTED = "proctor.printed"
"""The logger of what code prints."""

VALUE_CHARACTERS = 200


class HasLogger(Protocol):
    """Something with a logger, which may be made when it is asked for."""

    @property
    def logger(self) -> logging.Logger:
        """The logger."""
        ...


@dataclass(frozen=True, slots=True)
class LogScope:
    """The try that executes: its fields, and what has the logger of its try.log."""

    fields: Mapping[str, str]
    log: HasLogger


SCOPE: ContextVar[LogScope | None] = ContextVar("proctor_log_scope", default=None)

_KNOWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", *SHOWN}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return what was given with a record as `extra`: what is text, a number or a truth value, each bounded."""
    found: dict[str, Any] = {}
    for name, value in vars(record).items():
        if name not in _KNOWN and isinstance(value, str | int | float | bool):
            found[name] = value[:VALUE_CHARACTERS] if isinstance(value, str) else value
    return found


def in_brackets(fields: Mapping[str, Any]) -> str:
    """Return fields as ` [name=value ...]`; nothing for none."""
    if not fields:
        return ""
    return " [" + " ".join(f"{name}={_quoted(value)}" for name, value in fields.items()) + "]"


def _quoted(value: Any) -> str:
    text = str(value)
    plain = text and text.isprintable() and not set(text) & set(' "=[]')
    return text if plain else json.dumps(text, ensure_ascii=False)


def is_ours(record: logging.LogRecord) -> bool:
    """Say whether a record is of proctor itself; of what code prints, too."""
    return record.name == "proctor" or record.name.startswith("proctor.")
