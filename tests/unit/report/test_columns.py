"""Tables: one line for each row, the columns below each other."""

from __future__ import annotations

from proctor.report.columns import table


def test_columns_are_as_wide_as_their_widest_text_and_no_line_ends_with_blanks() -> None:
    assert table([("NAME", "N", "WHY"), ("a", "1,000", ""), ("", "2", "x y ")]) == [
        "NAME  N      WHY",
        "a     1,000",
        "      2      x y",
    ]


def test_every_line_is_indented_and_no_rows_are_no_lines() -> None:
    assert table([("a", "b"), ("", "")], "  ") == ["  a  b", "  "]
    assert table([]) == []
