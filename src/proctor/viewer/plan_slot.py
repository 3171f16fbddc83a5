"""What a plan says of one slot: of 100,000 tasks one row is looked at, and the others are passed over."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import msgspec

from proctor.viewer.inside import size_of
from proctor.viewer.run_list import PLAN_BYTES

MOST_SLOTS = 4_000_000
"""A plan of more slots is none that proctor wrote."""


class _Identity(msgspec.Struct):
    shared: dict[str, str]
    common: dict[str, str]


class _Rows(msgspec.Struct):
    experiment: dict[str, Any]
    ordinals: tuple[int, int]
    identity: _Identity
    decisions: list[tuple[str, str | None]]
    columns: list[str]
    tasks: list[msgspec.Raw]


class _Extent(msgspec.Struct):
    ordinals: tuple[int, int]
    tasks: list[msgspec.Raw]


_TASK = re.compile(rb'\[("(?:[^"\\]|\\.)*")')
"""The id of the task, with which each row begins."""


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """A slot as it was planned: the hash of its identity and those of its parts, what was decided, and why.

    `source` is the attempt that was to fill it, or to be graded again. None is unknown, or nothing.
    """

    identity: str | None
    parts: Mapping[str, str]
    decision: str
    reason: str | None
    source: str | None


class PlanRows:
    """A plan that was decoded as far as one slot after the other needs it."""

    def __init__(self, plan: _Rows) -> None:
        self.experiment: Mapping[str, Any] = plan.experiment
        self._plan = plan
        self._rows = {begin[1]: row for row in plan.tasks if (begin := _TASK.match(row)) is not None}

    def slot(self, task: str, ordinal: int) -> SlotPlan | None:
        """Return a slot as it was planned; None where the plan does not have it, or not in a form that is known."""
        try:
            row = self._rows.get(msgspec.json.encode(task))
            return None if row is None else _slot(self._plan, row, ordinal - self._plan.ordinals[0])
        except (ValueError, IndexError, KeyError, RecursionError):
            return None


def read_rows(path: Path) -> PlanRows | None:
    """Return the plan.json at `path`; None where it cannot be read. That which was read last is remembered."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return _read_rows(path, found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=1)
def _read_rows(path: Path, *_: int) -> PlanRows | None:
    size = size_of(path)
    if size is None or size > PLAN_BYTES:
        return None
    try:
        return PlanRows(msgspec.json.decode(path.read_bytes(), type=_Rows))
    except (OSError, ValueError, RecursionError):  # the page is about the attempt, and says that the plan is missing
        return None


def unreadable(path: Path) -> str | None:
    """Return why a plan.json that is there is not to be read whole, or None. What is damaged is not looked for."""
    size = size_of(path)
    if size is None:
        return "is not a regular file" if os.path.lexists(path) else None
    if size > PLAN_BYTES:
        return f"has {size:,} bytes, which no plan of ours has"
    try:
        plan = msgspec.json.decode(path.read_bytes(), type=_Extent)
    except (OSError, ValueError, RecursionError):
        return None  # whoever reads it says what is wrong
    slots = plan.ordinals[1] * len(plan.tasks)
    return f"is one of {slots:,} slots" if slots > MOST_SLOTS else None


def _slot(plan: _Rows, raw: msgspec.Raw, place: int) -> SlotPlan | None:
    if not 0 <= place < plan.ordinals[1]:
        return None
    row: list[Any] = msgspec.json.decode(raw)
    names = plan.columns[2:-2]
    row += [*[None] * (len(names) + 1), 0, None][len(row) - 1 :]  # cells at the end that hold the usual are left out
    _, identity, *cells, decision, source = row
    own = {
        name: plan.identity.common.get(name) if cell is None else cell for name, cell in zip(names, cells, strict=True)
    }
    parts = {**plan.identity.shared, **{name: value for name, value in own.items() if isinstance(value, str) and value}}
    kind, reason = plan.decisions[int(_at(decision, place) or 0)]
    return SlotPlan(_at(identity, place), parts, kind, reason, _at(source, place))


def _at(cell: Any, place: int) -> Any:
    return cast("list[Any]", cell)[place] if isinstance(cell, list) else cell
