"""A page of the steps of a trajectory (ATIF), read without reading the rest.

Trajectories are written by us with an indent of two: a line of four blanks and a brace begins a step, and no text can
look like one, because line ends in texts are escaped. So a page of steps is cut out of any size of file. A file that is
written otherwise is read whole while it is small, and shown as text where it is not, or is no trajectory.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec

from proctor.viewer.inside import open_inside
from proctor.viewer.page import NotFound
from proctor.viewer.paging import Paging
from proctor.viewer.run_list import object_in

STEPS_ON_A_PAGE = 50
WHOLE_BYTES = 16 * 1024 * 1024
"""A file of another layout, and one step, is decoded up to this size."""
MOST_BYTES = 256 * 1024 * 1024
"""In a larger file no steps are looked for; none that proctor wrote is."""
BEGINNING_BYTES = 20_000
"""So much is shown of what cannot be decoded."""

EMPTY = "the file is empty"
UNREADABLE = "the file cannot be read"
TOO_LARGE = "the file is too large to be shown: download it"
NONE = "this is no trajectory that can be shown"

_STEPS = re.compile(rb'\n  "steps": \[\n')
_STEP = re.compile(rb"\n    \{\n")
_STEP_END = b"\n    }"
_END = b"\n  ]"


@dataclass(frozen=True, slots=True)
class RawStep:
    """A step that cannot be decoded: its beginning as text, and how long it is in bytes."""

    beginning: str
    size: int


@dataclass(frozen=True, slots=True)
class StepPage:
    """Steps of a trajectory as JSON objects, or what cannot be decoded; `trouble` is why there are none."""

    steps: tuple[Mapping[str, Any] | RawStep, ...]
    paging: Paging
    trouble: str | None = None
    raw: RawStep | None = None


def read_steps(directory: Path, name: str, page: str | None, size: int = STEPS_ON_A_PAGE) -> StepPage | None:
    """Return a page of the steps in a file below a directory; None where there is no such file."""
    try:
        descriptor = open_inside(directory, name)
    except NotFound:
        return None
    try:
        if not os.fstat(descriptor).st_size:
            return StepPage((), Paging.of(0, None, size), EMPTY)
        # It is put in its place by rename and never changed there, so a map of it stays whole.
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as content:
            found = _cut_out(content, page, size) if len(content) <= MOST_BYTES else None
            return found or _whole(content, page, size)
    except (OSError, ValueError):  # such as a disk that fails, or a file that is none any more
        return StepPage((), Paging.of(0, None, size), UNREADABLE)
    finally:
        os.close(descriptor)


def _cut_out(content: mmap.mmap, page: str | None, size: int) -> StepPage | None:
    """Return a page of a file with our layout; None where it has another."""
    begin = _STEPS.search(content)
    if begin is None:
        return None
    stop = content.find(_END, begin.end() - 1)
    stop = len(content) if stop < 0 else stop
    places = [found.start() + 1 for found in _STEP.finditer(content, begin.end() - 1, stop)]
    if not places:
        return None
    paging = Paging.of(len(places), page, size)
    ends = [*places[1:], stop]
    steps = [_step(content, places[n], ends[n]) for n in range(paging.start, paging.end)]
    return StepPage(tuple(steps), paging)


def _step(content: mmap.mmap, begin: int, stop: int) -> Mapping[str, Any] | RawStep:
    close = content.rfind(_STEP_END, begin, stop + len(_STEP_END))
    end = stop if close < 0 else close + len(_STEP_END)
    if end - begin <= WHOLE_BYTES:
        step = _decoded(content[begin:end])
        if isinstance(step, dict):
            return cast("dict[str, Any]", step)
    return _raw(content, begin, end)


def _whole(content: mmap.mmap, page: str | None, size: int) -> StepPage:
    """Return a page of a file with another layout."""
    none = Paging.of(0, None, size)
    if len(content) > WHOLE_BYTES:
        return StepPage((), none, TOO_LARGE, _raw(content, 0, len(content)))
    found = object_in({"": _decoded(content[:])}, "")
    listed = found.get("steps")
    steps = cast("list[Any]", listed) if isinstance(listed, list) else []
    objects = [cast("Mapping[str, Any]", step) for step in steps if isinstance(step, dict)]
    if not objects:
        return StepPage((), none, NONE, _raw(content, 0, len(content)))
    paging = Paging.of(len(objects), page, size)
    return StepPage(tuple(objects[paging.start : paging.end]), paging)


def _decoded(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (ValueError, RecursionError):  # every error of msgspec is a ValueError
        return None


def _raw(content: mmap.mmap, begin: int, end: int) -> RawStep:
    shown = content[begin : min(end, begin + BEGINNING_BYTES)]
    return RawStep(shown.decode("utf-8", "replace"), end - begin)
