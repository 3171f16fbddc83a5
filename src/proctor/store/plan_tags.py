"""The tags of tasks in plan.json: `about.tags` has the rows of the tasks with each tag, counted from 0."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from proctor.store.plan_file import PlanFile

KEY = "tags"


def rows_by_tag(tags: Iterable[Sequence[str]]) -> dict[str, list[int]]:
    """Return the rows of each tag, given the tags of the tasks in plan order."""
    rows: defaultdict[str, list[int]] = defaultdict(list)
    for row, own in enumerate(tags):
        for tag in dict.fromkeys(own):
            rows[tag].append(row)
    return dict(sorted(rows.items()))


def tags_of(plan: PlanFile) -> dict[str, tuple[str, ...]]:
    """Return the tags of each task that has any; nothing where the plan says nothing of them, as old ones do not."""
    said: Any = plan.about.get(KEY)
    if not isinstance(said, Mapping):
        return {}
    tasks = list(dict.fromkeys(slot.task for slot in plan.slots))
    found: defaultdict[str, list[str]] = defaultdict(list)
    for tag, rows in cast("Mapping[str, Any]", said).items():
        for row in cast("Sequence[Any]", rows) if isinstance(rows, list) else ():
            if isinstance(row, int) and 0 <= row < len(tasks):
                found[tasks[row]].append(tag)
    return {task: tuple(tags) for task, tags in found.items()}
