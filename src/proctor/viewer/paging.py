"""Pages of a long list."""

from __future__ import annotations

from typing import NamedTuple


class Paging(NamedTuple):
    """One page of a list of `total` items: those from `start` to before `end`; pages are counted from 1."""

    number: int
    pages: int
    start: int
    end: int
    total: int

    @classmethod
    def of(cls, total: int, asked: str | None, size: int) -> Paging:
        """Return the page that was asked for, or the nearest one that there is."""
        size = max(1, size)
        pages = max(1, -(-total // size))
        number = int(asked) if asked is not None and asked.isascii() and asked.isdigit() and len(asked) < 10 else 1
        number = min(max(1, number), pages)
        return cls(number, pages, (number - 1) * size, min(number * size, total), total)
