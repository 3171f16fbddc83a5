"""A run that was read, as a side of a comparison."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

from proctor.report.compare import Side, side_of
from proctor.report.view import RunView
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile


def side_of_plan(view: RunView, layout: RunLayout, plan: PlanFile | None) -> Side:
    """Return a run as a side of a comparison; without its plan its identity is unknown, and so are tasks not begun."""
    return side_of(
        view,
        run=layout.run_id,
        directory=str(layout.directory),
        slots=Counter(slot.task for slot in plan.slots) if plan else {},
        about=about_plan(plan),
        parts=plan.shared_parts if plan else None,
        task_parts=plan.task_parts if plan else {},
        settings=settings_of(plan),
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


def settings_of(plan: PlanFile | None) -> dict[str, str]:
    """Return the limits and retries of a plan as text, by name; nothing where they are not known."""
    experiment: Any = plan.experiment if plan is not None else {}
    found: dict[str, str] = {}
    for group in ("limits", "retry"):
        part: Any = cast("Mapping[str, Any]", experiment).get(group) if isinstance(experiment, Mapping) else None
        if isinstance(part, Mapping):
            for name, value in cast("Mapping[str, Any]", part).items():
                found[name] = "none" if value is None else json.dumps(value)
    return found
