"""What a plan says of one slot: of 100,000 tasks one row is looked at, and the others are passed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec

MOST_BYTES = 256 * 1024 * 1024


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


def read_slot(path: Path, task: str, ordinal: int) -> tuple[SlotPlan | None, Mapping[str, Any]]:
    """Return a slot of the plan.json at `path`, and the experiment; None and nothing where they cannot be read."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None, {}
        plan = msgspec.json.decode(path.read_bytes(), type=_Rows)
    except (OSError, ValueError, RecursionError):  # the page is about the attempt, and says that the plan is missing
        return None, {}
    try:
        return _slot(plan, task, ordinal - plan.ordinals[0]), plan.experiment
    except (ValueError, IndexError, KeyError, RecursionError):
        return None, plan.experiment


def _slot(plan: _Rows, task: str, place: int) -> SlotPlan | None:
    begin = b"[" + msgspec.json.encode(task)
    raw = next((bytes(row) for row in plan.tasks if bytes(memoryview(row)[: len(begin)]) == begin), None)
    if raw is None or not 0 <= place < plan.ordinals[1]:
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
