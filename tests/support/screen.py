"""A terminal as far as the panel uses one: lines that scroll, a cursor, and the few codes that move and erase."""

from __future__ import annotations

import re

CODE = re.compile(r"\x1b\[(\d*)([A-Za-z])|\x1b\[[\d;]*m|\x1b")


class VirtualScreen:
    """Shows what is written to it; a line feed goes to the beginning of the next line, as terminals do for programs."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns = columns
        self.lines = lines
        self.rows: list[str] = [""]
        """Everything that was ever shown; the last `lines` of it are on the screen."""
        self.row = self.column = 0
        self.unknown: list[str] = []
        """Codes that the panel has no business with."""
        self.erased_cells = 0
        """How many cells became empty on the way: more than none would flicker."""

    @property
    def top(self) -> int:
        return max(0, len(self.rows) - self.lines)

    @property
    def shown(self) -> list[str]:
        return [row.rstrip() for row in self.rows[self.top :]]

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows).rstrip("\n")

    def feed(self, text: str) -> None:
        place = 0
        while place < len(text):
            found = CODE.match(text, place)
            if found is not None:
                self._obey(found)
                place = found.end()
                continue
            self._put(text[place])
            place += 1

    def resize(self, columns: int, lines: int) -> None:
        """Become another size; what is too wide goes on in the next row, as in most terminals."""
        before, self.columns, self.lines = self.rows, columns, lines
        self.rows = []
        for number, row in enumerate(before):
            if number == self.row:
                at = len(self.rows)
            text = row.rstrip()
            self.rows += [text[start : start + columns] for start in range(0, max(1, len(text)), columns)]
        self.row = at

    def _obey(self, found: re.Match[str]) -> None:
        number, letter = found[1], found[2]
        if letter == "A":
            self.row = max(self.top, self.row - int(number or 1))
        elif letter == "K" and number in ("", "0"):
            row = self.rows[self.row]
            self.erased_cells += len(row[self.column :].rstrip())
            self.rows[self.row] = row[: self.column]
        elif found[0].endswith("m") and len(found[0]) > 2:
            pass
        else:
            self.unknown.append(found[0])

    def _put(self, char: str) -> None:
        if char == "\n":
            self.column = 0
            self._down()
        elif char == "\r":
            self.column = 0
        elif char < " ":
            self.unknown.append(char)
        else:
            if self.column == self.columns:
                self.column = 0
                self._down()
            row = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = row[: self.column] + char + row[self.column + 1 :]
            self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")
