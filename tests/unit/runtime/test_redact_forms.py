"""Credentials are found by their value, however they are written (spec 07: redacted by value)."""

from __future__ import annotations

import json
import logging
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.model.bounds import with_gap
from proctor.runtime.log_scope import SCOPE, LogScope
from proctor.runtime.notes import TryLog
from proctor.runtime.output import HeadTail
from proctor.runtime.redact import RedactingFormatter, Redactor

KEY = "-----BEGIN KEY-----\nMIIBVwIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END KEY-----\n"
ODD = 'se"cr\\et\tvalue/with ünicode&more'


@pytest.mark.parametrize("secret", [KEY, ODD, "plain-secret-value"], ids=["lines", "odd", "plain"])
@pytest.mark.parametrize(
    "write",
    [str, lambda s: json.dumps({"key": s}), lambda s: json.dumps(s, ensure_ascii=False), repr, lambda s: quote(s, "")],
    ids=["as it is", "json", "unicode json", "repr", "address"],
)
def test_07_a_secret_is_found_in_every_form(secret: str, write: object) -> None:
    text = Redactor([secret]).text(f"before {write(secret)} behind")  # type: ignore[operator]
    assert "redacted" in text
    assert text.startswith("before ")
    assert text.endswith(" behind")
    for line in secret.splitlines():
        assert line not in text


def test_07_of_a_secret_of_several_lines_each_line_is_one() -> None:
    redactor = Redactor([KEY])
    for line in KEY.splitlines():
        assert line not in redactor.text(f"a line: {line}")


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=6, max_size=40), st.text(max_size=30), st.text(max_size=30))
def test_07_no_text_keeps_a_secret(secret: str, before: str, behind: str) -> None:
    text = Redactor([secret]).text(before + secret + behind)
    # What stands around it may happen to spell it once more together with the mark; the mark itself never holds it.
    assert secret not in text or secret in "[redacted …" + secret[-4:] + "]"


def record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    made = logging.getLogger("some.library").makeRecord(
        "some.library", logging.INFO, "f.py", 1, message, arguments, None, extra=extra
    )
    made.created = 0.0
    return made


def test_07_fields_stand_behind_the_first_line() -> None:
    line = RedactingFormatter(Redactor()).format(record("one\ntwo\n", number=7, name_of="a b", odd=object(), flag=True))
    first, second = line.split("\n")
    assert first.endswith('INFO one [number=7 name_of="a b" flag=True logger=some.library]')
    assert second == "two"


def test_07_fields_of_the_try_come_first_where_they_are_asked_for() -> None:
    token = SCOPE.set(LogScope({"attempt": "abc", "task": "t=1"}, TryLog(Redactor(), logging.DEBUG)))
    try:
        line = RedactingFormatter(Redactor(), scope=True).format(record("one", number=7))
        assert line.endswith('one [attempt=abc task="t=1" number=7 logger=some.library]')
        assert "abc" not in RedactingFormatter(Redactor()).format(record("one"))
    finally:
        SCOPE.reset(token)


def test_07_secrets_in_fields_arguments_and_tracebacks_are_taken_out() -> None:
    secret = "verysecretvalue"
    formatter = RedactingFormatter(Redactor([secret]))
    try:
        raise ValueError(f"with {secret}")
    except ValueError as error:
        failed = record("key %s", secret, key=secret)
        failed.exc_info = (type(error), error, error.__traceback__)
        failed.exc_text = None
    text = formatter.format(failed)
    assert secret not in text
    assert "ValueError: with [redacted …alue]" in text
    assert "key=" in text


def test_07_a_line_that_cannot_be_formatted_gives_no_secret_away() -> None:
    secret = "verysecretvalue"

    class Odd:
        def __str__(self) -> str:
            raise RuntimeError(f"no text, for {secret}")

    kept = TryLog(Redactor([secret]), logging.DEBUG)
    kept.logger.info("%s", Odd())
    assert "cannot be formatted: RuntimeError" in kept.content
    assert secret not in kept.content


@settings(max_examples=300, deadline=None)
@given(kept=st.integers(0, 80), before=st.integers(0, 30), behind=st.integers(0, 30))
def test_07_a_secret_of_which_a_cut_took_a_part_leaves_no_half_behind(kept: int, before: int, behind: int) -> None:
    """What is cut before it is looked through has a mark: next to it stands no part of a secret that tells much."""
    secret = "Kq8zX1vB7nM3cR5tW9yL2pD4"
    whole = ("." * before + secret + "." * behind).encode()
    found = HeadTail(kept)
    found.add(whole)
    text = Redactor([secret]).text(with_gap(found.kept, found.dropped).decode())
    for start in range(len(secret) - 6):
        if start == 0 or start == len(secret) - 7:
            assert secret[start : start + 7] not in text
