"""plan.json: every slot of a run, its identity by parts, the decision on it and the reason; written before the start.

```json
{"format":1,
"about":{"run":"20261130_163035","invocation":"..."},
"experiment":{"name":"base","benchmark":{"id":"humaneval","params":{}},"attempts":2},
"ordinals":[0,2],
"identity":{"shared":{"harness":"9f...","model":"1c..."},"common":{"grader":"77..."}},
"decisions":[["execute","new"],["reuse","identity equal"]],
"columns":["task","identity","content","grader","decision","source"],
"tasks":[
["HumanEval/0","0123456789abcdef","fedcba9876543210"],
["HumanEval/1",["0123456789abcde0","0123456789abcde1"],"fedcba9876543211",null,[1,0],["k3mabcdefghi",null]]
]}
```

Each row is one task, in plan order, and stands for its slots: `ordinals` is the first ordinal and how many there are.
Cells at the end of a row that hold the usual value are left out:

- `identity`: the hash of all parts; a list of one for each ordinal where they differ;
- one column for each part of the identity that belongs to the task; null is the hash in `identity.common`. Parts in
  `identity.shared` hold for every slot;
- `decision`: an index into `decisions`, usually 0; a list of one for each ordinal where they differ;
- `source`: the attempt that fills the slot, usually null; a list likewise.

So a new slot costs its task's id, the hashes that are its own, and about ten bytes.

In format 2, which is written for such plans only, a task may lack slots: the identity of one that is not there is null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from proctor.errors import StoreError
from proctor.model.ids import AttemptId
from proctor.model.spec import Experiment
from proctor.store.codec import NewerFormat
from proctor.store.files import SYSTEM_FILES, Files, store_error, write_file
from proctor.store.plain import encode_json

PLAN_FORMAT = 2
"""The newest version of plan.json that this proctor writes; it reads all up to it."""

Decision = tuple[str, str | None]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PlannedSlot:
    """One slot: the hash of its identity, what is done with it (`execute`, `reuse`, ...), why, and `source`.

    `source` is the id of the attempt that is reused, graded again, accepted, or the reason not to dispatch.
    """

    task: str
    ordinal: int
    identity: str
    decision: str = "execute"
    reason: str | None = "new"
    source: AttemptId | None = None


def _no_json() -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class PlanFile:
    """What plan.json holds.

    `slots` is in plan order: each task's ordinals together, in order. `experiment` is the resolved specification (an
    `Experiment`, or a JSON object), without credentials. `shared_parts` are the hashes of the parts of the identity
    that all slots have in common, by name; `task_parts` those of each task. `about` is free: ids, versions.
    """

    experiment: Experiment | Mapping[str, Any]
    slots: Sequence[PlannedSlot]
    shared_parts: Mapping[str, str] = field(default_factory=dict[str, str])
    task_parts: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    about: Mapping[str, Any] = field(default_factory=_no_json)

    @property
    def ordinals(self) -> range:
        """The ordinals that tasks have: from the first to the last of any."""
        if not self.slots:
            return range(0)
        found = [slot.ordinal for slot in self.slots]
        return range(min(found), max(found) + 1)


def write_plan(path: Path, plan: PlanFile, *, files: Files = SYSTEM_FILES) -> None:
    """Write a plan, whole and durable. Raises `StoreError`, and what `encode_plan` raises."""
    write_file(path, encode_plan(plan), durable=True, files=files)


def encode_plan(plan: PlanFile) -> bytes:
    """Return the content of plan.json. Raises `ValueError` where slots of a task do not stand together, in order."""
    tasks = [(task, list(slots)) for task, slots in groupby(plan.slots, lambda slot: slot.task)]
    _check(tasks)
    ordinals = plan.ordinals
    sparse = len(plan.slots) < len(tasks) * len(ordinals)
    names = list(dict.fromkeys(name for parts in plan.task_parts.values() for name in parts))
    common = _common_parts(names, plan.task_parts.values())
    usual = Counter((slot.decision, slot.reason) for slot in plan.slots)
    decisions = {decision: index for index, (decision, _) in enumerate(usual.most_common())}
    head = {
        "format": 2 if sparse else 1,
        "about": plan.about,
        "experiment": plan.experiment,
        "ordinals": [ordinals.start, len(ordinals)],
        "identity": {"shared": plan.shared_parts, "common": common},
        "decisions": list(decisions),
        "columns": ["task", "identity", *names, "decision", "source"],
    }
    rows: list[bytes] = []
    for task, slots in tasks:
        parts = plan.task_parts.get(task, {})
        places = list(map({slot.ordinal: slot for slot in slots}.get, ordinals))
        row = [
            task,
            _cell([slot and slot.identity for slot in places]),
            *(None if (own := parts.get(name, "")) == common.get(name) else own for name in names),
            _cell([decisions[slot.decision, slot.reason] if slot else 0 for slot in places]),
            _cell([slot and slot.source for slot in places]),
        ]
        usual_row = _usual_row(len(row))
        while len(row) > 2 and row[-1] == usual_row[len(row) - 1]:
            row.pop()
        rows.append(encode_json(row, "tasks"))
    lines = [f'"{key}":'.encode() + encode_json(value, key) for key, value in head.items()]
    return b"{" + b",\n".join(lines) + b',\n"tasks":[\n' + b",\n".join(rows) + b"\n]}\n"


def read_plan(path: Path) -> PlanFile:
    """Read a plan, expanded to its slots.

    Raises `NewerFormat` when a newer proctor wrote it, `StoreError` when it is missing or damaged.
    """
    return _read(path, lambda raw: _expanded(msgspec.json.decode(raw, type=_Plan)))


def read_experiment(path: Path) -> Mapping[str, Any]:
    """Read the experiment of a plan alone, as JSON, which takes a part of the time. Raises as `read_plan` does."""
    return _read(path, lambda raw: msgspec.json.decode(raw, type=_Head).experiment)


def _read(path: Path, take: Callable[[bytes], _T]) -> _T:
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise StoreError(f"there is no plan `{path}`", hint="name the directory of a run") from error
    except OSError as error:
        raise store_error("read the plan", path, error) from error
    try:
        version = msgspec.json.decode(raw, type=_Version).format
        if version > PLAN_FORMAT:
            raise NewerFormat(f"plan `{path}` of format {version}")
        return take(raw)
    except (ValueError, IndexError, RecursionError) as error:
        raise StoreError(f"plan `{path}` is damaged: {error}", hint="the run cannot be read without it") from error


class _Version(msgspec.Struct):
    format: int


class _Head(msgspec.Struct):
    experiment: dict[str, Any]


class _Identity(msgspec.Struct):
    shared: dict[str, str]
    common: dict[str, str]


class _Plan(msgspec.Struct):
    format: int
    about: dict[str, Any]
    experiment: dict[str, Any]
    ordinals: tuple[int, int]
    identity: _Identity
    decisions: list[Decision]
    columns: list[str]
    tasks: list[list[str | int | list[str | int | None] | None]]


def _expanded(plan: _Plan) -> PlanFile:
    names = plan.columns[2:-2]
    slots: list[PlannedSlot] = []
    task_parts: dict[str, Mapping[str, str]] = {}
    usual_row = _usual_row(len(plan.columns))
    first, count = plan.ordinals
    for row in plan.tasks:
        task, identity, *cells, decision, source = row + usual_row[len(row) :]
        if not isinstance(task, str):
            raise ValueError(f"a task that is no text: {task!r}")
        common = (plan.identity.common.get(name) for name in names)
        hashes = (usual if cell is None else cell for cell, usual in zip(cells, common, strict=True))
        if parts := {name: own for name, own in zip(names, hashes, strict=True) if isinstance(own, str) and own}:
            task_parts[task] = parts
        columns = (_spread(cell, count) for cell in (identity, decision, source))
        for ordinal, (own, index, attempt) in enumerate(zip(*columns, strict=True), first):
            if own is None and plan.format > 1:
                continue
            if not isinstance(index, int) or not isinstance(own, str) or not isinstance(attempt, str | None):
                raise ValueError(f"a bad row for task {task!r}")
            slots.append(PlannedSlot(task, ordinal, own, *plan.decisions[index], attempt))
    shared = plan.identity.shared
    return PlanFile(plan.experiment, tuple(slots), shared, task_parts, plan.about)


def _check(tasks: Sequence[tuple[str, Sequence[PlannedSlot]]]) -> None:
    if len({task for task, _ in tasks}) != len(tasks):
        raise ValueError("the slots of a task do not stand together in the plan")
    for task, slots in tasks:
        if any(first.ordinal >= second.ordinal for first, second in pairwise(slots)):
            raise ValueError(f"the ordinals of task {task!r} are not in order")


def _common_parts(names: Iterable[str], parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the hash that a part has in several tasks, for each part where there is one."""
    tasks = list(parts)
    common: dict[str, str] = {}
    for name in names:
        hashed, count = Counter(each[name] for each in tasks if name in each).most_common(1)[0]
        if count > 1:
            common[name] = hashed
    return common


def _usual_row(columns: int) -> list[Any]:
    """Return the cells that are left out at the end of a row: common parts, the first decision, no source."""
    return [None] * (columns - 2) + [0, None]


def _cell(values: list[Any]) -> Any:
    return values[0] if values.count(values[0]) == len(values) else values


def _spread(cell: Any, count: int) -> list[Any]:
    return cell if isinstance(cell, list) else [cell] * count  # pyright: ignore[reportUnknownVariableType]
