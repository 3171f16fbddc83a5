"""Where in a project's own files something happens: `evals/naps.py:12`."""

from __future__ import annotations

import linecache
import os
from functools import lru_cache
from inspect import currentframe
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import cast

_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def caller(levels: int) -> FrameType:
    """Return what called the function that asks (1), or what called that (2), and so on."""
    frame = currentframe()
    for _ in range(levels + 1):
        frame = frame and frame.f_back
    return cast("FrameType", frame)


@lru_cache(maxsize=4096)
def is_own_file(file: str, project: Path) -> bool:
    """Say whether a file is one of the project's own, and of no package that is installed in it."""
    if file.startswith(_OURS):
        return False
    path = Path(file)
    return path.is_relative_to(project) and not any(
        part.startswith(".") or part in ("site-packages", "dist-packages") for part in path.relative_to(project).parts
    )


def place_of_frame(frame: FrameType | None, project: Path) -> str | None:
    """Return file and line of the innermost call in a file of the project, else of the innermost that is not ours."""
    first: str | None = None
    while frame is not None:
        file, line = frame.f_code.co_filename, frame.f_lineno
        if is_own_file(file, project):
            return _named(file, line, project)
        if first is None and not file.startswith(_OURS):
            first = f"{file}:{line}"
        frame = frame.f_back
    return first


def place_of_traceback(traceback: TracebackType | None, project: Path) -> str | None:
    """Return file and line of the innermost call in a file of the project from which an exception came, if any."""
    found: str | None = None
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if is_own_file(file, project):
            found = _named(file, traceback.tb_lineno, project)
        traceback = traceback.tb_next
    return found


def code_of_traceback(traceback: TracebackType | None, project: Path) -> tuple[str, str] | None:
    """Return file and line of the innermost call in a file of the project from which an exception came, and what is
    written there; None where there is none, or where it came from ours that the project had called."""
    found: tuple[str, str] | None = None
    while traceback is not None:
        code, line = traceback.tb_frame.f_code, traceback.tb_lineno
        if is_own_file(code.co_filename, project):
            found = _named(code.co_filename, line, project), _statement(code, traceback.tb_lasti, line)
        elif code.co_filename.startswith(_OURS):
            found = None
        traceback = traceback.tb_next
    return found


def _statement(code: CodeType, instruction: int, line: int) -> str:
    """Return the lines of the statement that an instruction belongs to, as one, as far as the source is there."""
    lines = linecache.getlines(code.co_filename)
    last = line
    for number, (first, end, _, _) in enumerate(code.co_positions()):
        if number == instruction // 2 and first is not None and end is not None:
            line, last = first, end
    return " ".join(one.strip() for one in lines[line - 1 : last]) or "an assertion"


def _named(file: str, line: int, project: Path) -> str:
    return f"{Path(file).relative_to(project).as_posix()}:{line}"


__all__ = ["caller", "code_of_traceback", "is_own_file", "place_of_frame", "place_of_traceback"]
