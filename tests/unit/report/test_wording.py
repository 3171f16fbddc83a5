"""Words and numbers, and that foreign text cannot draw on the terminal (cases/out 127)."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.report.wording import duration, for_encoding, money, plural, printable


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (0.44, "0.4s"),
        (9.94, "9.9s"),
        (12.4, "12s"),
        (59.4, "59s"),
        (192, "3m12s"),
        (3600, "1h00m"),
        (7500, "2h05m"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_plurals_and_money() -> None:
    assert [plural(n, "task") for n in (0, 1, 2, 1000)] == ["0 tasks", "1 task", "2 tasks", "1,000 tasks"]
    assert plural(2, "retry", "retries") == "2 retries"
    assert [money(x) for x in (None, 0.0, 0.04, 0.0123, 0.00001, 1.5)] == [
        "cost unknown", "$0.00", "$0.04", "$0.0123", "under $0.0001", "$1.50"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "hostile",
    ["\x1b[2J", "\x1b]0;title\x07", "a\rb", "a\nb", "\x9b31m", "\u202eabc", "\u2066x", "\x00", "\u2028", "\ud800"],
)
def test_07_control_sequences_never_reach_the_terminal(hostile: str) -> None:
    shown = printable(f"x{hostile}y")
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown)
    assert shown.startswith("x")
    assert shown.endswith("y")


@given(st.text())
def test_printable_is_one_safe_line(text: str) -> None:
    shown = printable(text)
    assert len(shown) <= 300
    assert shown == " ".join(shown.splitlines()) or not shown
    assert all(char == " " or unicodedata.category(char)[0] not in "CZ" for char in shown)


@given(st.text(), st.sampled_from(["utf-8", "UTF8", "ascii", "latin-1", "cp1252", None]))
def test_every_text_can_be_written_in_every_encoding(text: str, encoding: str | None) -> None:
    shown = for_encoding(text, encoding)
    shown.encode(encoding or "ascii")


def test_signs_have_stand_ins_in_ascii() -> None:
    assert for_encoding("9 × 5 · ≤1 → 2…", "ascii") == "9 x 5 | <=1 -> 2..."  # noqa: RUF001
