"""Rows of texts as lines with columns."""

from __future__ import annotations

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Return one line for each row, with the columns below each other and no blanks at the end."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [[text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in rows]
    return [indent + "  ".join(row).rstrip() for row in cells]
