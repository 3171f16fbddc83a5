"""A run that was read, as a side of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from proctor.report.compare import Side, side_of
from proctor.store.plan_file import PlanFile
from proctor.viewer.run_read import RunRead


def side_of_run(read: RunRead) -> Side:
    """Return a run as a side of a comparison; without its plan its identity is unknown, and so are tasks not begun."""
    plan = read.plan
    return side_of(
        read.view,
        run=read.layout.run_id,
        directory=str(read.layout.directory),
        tasks=list(dict.fromkeys(slot.task for slot in plan.slots)) if plan else (),
        about=about_plan(plan),
        parts=plan.shared_parts if plan else {},
        task_parts=plan.task_parts if plan else {},
    )


def about_plan(plan: PlanFile | None) -> dict[str, str | None]:
    """Return the ids of benchmark, harness and model of a plan; None is unknown, or no model."""
    experiment: Any = plan.experiment if plan is not None else {}
    found: dict[str, str | None] = {}
    for name in ("benchmark", "harness", "model"):
        part: Any = cast("Mapping[str, Any]", experiment).get(name) if isinstance(experiment, Mapping) else None
        value: Any = cast("Mapping[str, Any]", part).get("id") if isinstance(part, Mapping) else None
        found[name] = value if isinstance(value, str) else None
    return found
