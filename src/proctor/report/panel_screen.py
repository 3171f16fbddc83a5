"""The panel on a terminal: what has to be written so that one frame takes the place of the one before.

No mode of the terminal is ever changed, and the cursor rests at the beginning of the line below the panel. So whatever
ends the process, however abruptly, leaves a terminal that is as it was; and what others write goes below the panel.
A frame rewrites only the lines that have changed, in one piece, and erases nothing that it does not write anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.color import ColorSystem
from rich.control import Control
from rich.segment import ControlType
from rich.style import Style

from proctor.report.panel_lines import Line, cut_line, width_of

STYLES: Mapping[str, Style] = {
    "label": Style(bold=True),
    "faint": Style(dim=True),
    "name": Style(color="cyan"),
    "phase": Style(),
    "backoff": Style(color="yellow"),
    "cost": Style(bold=True),
    "total": Style(bold=True),
    "running": Style(color="cyan"),
    "passed": Style(color="green"),
    "failed": Style(color="red"),
    "errored": Style(color="magenta"),
    "cancelled": Style(color="yellow"),
    "not dispatched": Style(color="yellow"),
}
"""How pieces look, by what they are; what is not here has no style. No word depends on it."""

_ERASE_REST = Control((ControlType.ERASE_IN_LINE, 0)).segment.text
_RETURN = Control(ControlType.CARRIAGE_RETURN).segment.text


def _up(rows: int) -> str:
    return Control((ControlType.CURSOR_UP, rows)).segment.text if rows else ""


class Screen:
    """Knows what stands on the terminal, and turns frames into what is to be written."""

    def __init__(self, *, colour: bool) -> None:
        self._colour = colour
        self._shown: list[Line] = []
        self._width = 0

    def draw(self, lines: Sequence[Line], width: int) -> str:
        """Return what replaces the last frame by `lines`; empty where nothing has changed."""
        lines = list(lines)
        if not self._shown or width != self._width:
            text = self._erased(width) + "".join(f"{self._rendered(line)}\n" for line in lines)
        elif lines == self._shown:
            return ""
        else:
            text = self._changed(lines)
        self._shown, self._width = lines, width
        return text

    def above(self, text: str, width: int) -> str:
        """Return what writes whole lines of text above the panel, which stays where they end."""
        shown = [cut_line(line, width) for line in self._shown]
        written = self._erased(width) + text
        self._shown = []
        return written + self.draw(shown, width)

    def forget(self) -> None:
        """Leave what is shown where it is: the next frame begins below it."""
        self._shown = []

    def _changed(self, lines: list[Line]) -> str:
        shown = self._shown
        parts = [_RETURN, _up(len(shown))]
        for number, line in enumerate(lines):
            if number >= len(shown) or line != shown[number]:
                parts.append(self._rendered(line) + _ERASE_REST)
            parts.append("\n")
        extra = len(shown) - len(lines)
        if extra > 0:
            parts += [f"{_ERASE_REST}\n"] * extra
            parts.append(_up(extra))
        return "".join(parts)

    def _erased(self, width: int) -> str:
        """Return what erases the last frame, of which the terminal may have broken lines when it became narrower."""
        rows = sum(max(1, -(-width_of(line) // max(1, width))) for line in self._shown)
        if not rows:
            return ""
        return _RETURN + _up(rows) + f"{_ERASE_REST}\n" * rows + _up(rows)

    def _rendered(self, line: Line) -> str:
        if not self._colour:
            return "".join(text for text, _ in line).rstrip()
        return "".join(
            STYLES[style].render(text, color_system=ColorSystem.STANDARD) if style in STYLES else text
            for text, style in line
        ).rstrip(" ")
