"""The terminal that a panel is shown on: whether there is one that can show it, how large it is, whether it is ours."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from proctor.cli.streams import descriptor_of

UNKNOWN_SIZE = (80, 24)
"""What a terminal has that does not say it."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal, by a descriptor that is open for writing."""

    descriptor: int
    colour: bool

    def size(self) -> tuple[int, int]:
        """Return columns and lines, as they are now."""
        try:
            columns, lines = os.get_terminal_size(self.descriptor)
        except OSError:  # it is gone: what is written to it will say so
            return UNKNOWN_SIZE
        return columns or UNKNOWN_SIZE[0], lines or UNKNOWN_SIZE[1]

    def in_front(self) -> bool:
        """Say whether this process is the one that the terminal belongs to now; one in the background draws nothing."""
        try:
            return os.tcgetpgrp(self.descriptor) == os.getpgrp()
        except OSError:  # it controls nobody
            return True


def terminal_of(stream: TextIO | None, environ: Mapping[str, str]) -> Terminal | None:
    """Return the terminal behind a standard stream; None where there is none, or it cannot move its cursor.

    A build service (`CI` is set) shows what was written, not a screen, even where it lends a terminal.
    """
    descriptor = descriptor_of(stream)
    if descriptor is None or not os.isatty(descriptor):
        return None
    if environ.get("TERM", "dumb").lower() in ("", "dumb", "unknown") or is_build(environ):
        return None
    return Terminal(descriptor, colour=not environ.get("NO_COLOR"))


def is_build(environ: Mapping[str, str]) -> bool:
    """Say whether a build service runs us."""
    return environ.get("CI", "").lower() not in ("", "0", "false", "no")
