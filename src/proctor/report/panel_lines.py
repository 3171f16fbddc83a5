"""Lines of the panel: pieces of text with a style, fitted into the cells of a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, set_cell_size

Piece = tuple[str, str]
"""Text, and what it is: a key of `panel_screen.STYLES`, empty for plain text."""

Line = tuple[Piece, ...]

LABEL_CELLS = 9
NARROW_CELLS = 60
"""Below, what goes on in the next line is indented less."""


def cells_of(text: str) -> int:
    """Return how many cells a text takes."""
    return len(text) if text.isascii() else cell_len(text)


def width_of(line: Iterable[Piece]) -> int:
    """Return how many cells a line takes."""
    return sum(cells_of(text) for text, _ in line)


def cut(text: str, cells: int, *, ellipsis: str = "…") -> str:
    """Return a text that takes at most so many cells; what is left out is marked, once where it was cut before."""
    if cells_of(text) <= cells:
        return text
    mark = cells_of(ellipsis)
    if cells <= mark:
        return ellipsis[:cells]
    return set_cell_size(text, cells - mark).rstrip().removesuffix(ellipsis) + ellipsis


def cut_line(line: Line, cells: int, *, ellipsis: str = "…") -> Line:
    """Return a line that takes at most so many cells."""
    if width_of(line) <= cells:
        return line
    kept: list[Piece] = []
    left = cells
    for text, style in line:
        if cells_of(text) > left - cells_of(ellipsis):
            rest = cut(text + ellipsis, left, ellipsis=ellipsis)
            if not (kept and kept[-1][0].endswith(ellipsis) and rest == ellipsis):  # else it is marked already
                kept.append((rest, style))
            break
        kept.append((text, style))
        left -= cells_of(text)
    return tuple(kept)


def padded(text: str, cells: int, *, ellipsis: str = "…") -> str:
    """Return a text that takes exactly so many cells."""
    text = cut(text, cells, ellipsis=ellipsis)
    return text + " " * (cells - cells_of(text))


def wrapped(
    label: str, items: Sequence[Line], width: int, *, separator: str, ellipsis: str = "…", right: Line = ()
) -> list[Line]:
    """Return items after a label, as many to a line as there is room for; one is broken only where it is too long.

    `right` stands at the right edge of the last line, or on a line of its own where there is no room.
    """
    indent = LABEL_CELLS if width >= NARROW_CELLS else 2
    lines: list[Line] = []
    used, begun = LABEL_CELLS if label else indent, False
    line: list[Piece] = [(label.ljust(used), "label")]
    for before, item in _flowing(items, width - indent, separator):
        cells = width_of(item)
        gap = cells_of(before) if begun else 0
        if used + gap + cells > width and (begun or used > indent):
            lines.append(tuple(line))
            line, used, gap = [(" " * indent, "")], indent, 0
        if gap:
            line.append((before, "faint"))
        fitted = cut_line(item, width - used - gap, ellipsis=ellipsis)
        line += fitted
        used, begun = used + gap + width_of(fitted), True
    if right:
        cells = width_of(right)
        if used + 3 + cells > width:
            lines.append(tuple(line))
            line, used = [], 0
        line += [(" " * max(0, width - used - cells), ""), *cut_line(right, width, ellipsis=ellipsis)]
    return [*lines, tuple(line)]


def _flowing(items: Sequence[Line], room: int, separator: str) -> Iterator[tuple[str, Line]]:
    """Yield what is to be put into lines with what stands before it; an item that no line has room for, by words."""
    for item in items:
        if width_of(item) <= room:
            yield separator, item
            continue
        before = separator
        for text, style in item:
            for word in text.split(" "):
                yield before, ((word, style),)
                before = " "
