"""One trajectory (ATIF) of several sessions that worked on one task, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from proctor.model.spec import Json

_SUMS = ("total_prompt_tokens", "total_completion_tokens", "total_cached_tokens", "total_cost_usd")


def is_joinable(trajectory: Json | None) -> bool:
    """Say whether a trajectory is a document with steps; a harness may have made something else."""
    steps = cast("Mapping[str, Any]", trajectory).get("steps") if isinstance(trajectory, Mapping) else None
    return isinstance(steps, list) and all(isinstance(step, Mapping) for step in cast("list[Any]", steps))


def joined(parts: Sequence[tuple[str, Json]]) -> Json | None:
    """Return one trajectory of several, each with the name of the part of the task that it is of; None of none.

    Each begins with a step of the system that names its part, and the steps are numbered on. A sum to which one of
    them has no share is unknown, and left out. Ids of calls are looked up within their step, so they stay.
    """
    if not parts:
        return None
    steps: list[dict[str, Json]] = []
    notes: list[str] = []
    left_out = 0
    for name, part in parts:
        here = len(steps)
        mark: dict[str, Json] = {
            "source": "system",
            "message": f"Step `{name}` of the task begins.",
            "extra": {"step": name},
        }
        for step in (mark, *part["steps"]):
            steps.append({"step_id": len(steps) + 1, **{key: one for key, one in step.items() if key != "step_id"}})
        if part.get("notes"):
            notes.append(f"step `{name}` of the task, from step {here + 1} on: {part['notes']}")
        left_out += max(0, _metrics(part).get("total_steps", 0) - len(part["steps"]))
    whole: dict[str, Json] = {key: one for key, one in parts[0][1].items() if key not in ("notes", "final_metrics")}
    whole["steps"] = steps
    if notes:
        whole["notes"] = "; ".join(notes)
    metrics = [_metrics(part) for _, part in parts]
    sums = {key: sum(one[key] for one in metrics) for key in _SUMS if all(key in one for one in metrics)}
    whole["final_metrics"] = {"total_steps": len(steps) + left_out, **sums}
    return whole


def _metrics(part: Json) -> dict[str, Any]:
    """Return the numbers among the sums of a trajectory."""
    found: Any = part.get("final_metrics")
    if not isinstance(found, Mapping):
        return {}
    return {key: one for key, one in cast("Mapping[str, Any]", found).items() if type(one) in (int, float)}


__all__ = ["is_joinable", "joined"]
