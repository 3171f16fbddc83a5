"""What the plan of a run says to the record: its slots, the references among them, the parts of their identity."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from proctor.errors import StoreError
from proctor.model.spec import Experiment
from proctor.store.plain import plain_json
from proctor.store.plan_file import PlanFile, PlannedSlot, read_plan
from proctor.store.record_runs import Seen, look_at
from proctor.store.record_values import Row, text, whole

REFERENCES = frozenset({"reuse", "accept"})
"""Decisions that fill a slot with an attempt of another run."""


@dataclass(slots=True)
class PlanRows:
    """`run` are the columns of the run's row that come from the plan; `rows` those of other tables, by table."""

    run: dict[str, Any] = field(default_factory=dict[str, Any])
    rows: dict[str, Sequence[Row]] = field(default_factory=dict[str, Sequence[Row]])
    problem: str | None = None
    """Why the plan cannot be read."""


def plan_rows(path: Path, run_key: int) -> PlanRows:
    """Read the plan of a run; one that cannot be read has no rows and says why."""
    try:
        plan = read_plan(path)
    except StoreError as error:
        return PlanRows(problem=error.message)
    found = PlanRows(run=_of_experiment(plan) | {"attempts_per_task": len(plan.ordinals) or None})
    slots: dict[tuple[str, int], Row] = {}
    members: dict[tuple[str, int], Row] = {}
    for position, slot in enumerate(plan.slots):
        key = (text(slot.task), whole(slot.ordinal))
        slots[key] = (run_key, *key, position, *_decision(slot))
        if slot.decision in REFERENCES and slot.source is not None:
            members[key] = (run_key, *key, text(slot.source), "reference", None)
    parts = {("", text(name)): text(value) for name, value in plan.shared_parts.items()}
    for task, own in plan.task_parts.items():
        parts |= {(text(task), text(name)): text(value) for name, value in own.items()}
    found.rows = {
        "slot": list(slots.values()),
        "member": list(members.values()),
        "identity_part": [(run_key, *key, value) for key, value in parts.items()],
    }
    return found


def _decision(slot: PlannedSlot) -> Row:
    return text(slot.identity), text(slot.decision), _text_or_none(slot.reason), _text_or_none(slot.source)


def _of_experiment(plan: PlanFile) -> dict[str, Any]:
    """Return what the run's row says of the experiment; what is of another type than it should be is left out."""
    experiment = plan.experiment
    plain = plain_json(experiment) if isinstance(experiment, Experiment) else experiment
    limits = _object(plain, "limits")
    return {
        "experiment": _text(plain, "name"),
        "benchmark": _text(_object(plain, "benchmark"), "id"),
        "harness": _text(_object(plain, "harness"), "id"),
        "model": _text(_object(plain, "model"), "id"),
        "provider": _text(_object(plain, "environment"), "provider"),
        "grading": _text(plain, "grading"),
        "agent_timeout_seconds": _number(limits, "agent_seconds"),
        "timeout_seconds": _number(limits, "try_seconds"),
    }


def _object(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = of.get(name)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _text(of: Mapping[str, Any], name: str) -> str | None:
    return _text_or_none(of.get(name))


def _text_or_none(value: Any) -> str | None:
    return text(value) if isinstance(value, str) else None


def _number(of: Mapping[str, Any], name: str) -> float | None:
    value = of.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class PlanState:
    """What tells one state of a plan from another; both are None where there is none, or none that can be read."""

    seen: Seen | None = None
    sha256: str | None = None


def plan_state(path: Path, known: PlanState) -> PlanState:
    """Return the state of a plan, which is read only where it does not look like the one that is `known`."""
    try:
        seen = look_at(str(path))
        if seen is None or seen == known.seen:
            return known if seen else PlanState()
        return PlanState(seen, hashlib.sha256(path.read_bytes()).hexdigest())
    except OSError:
        return PlanState()  # why it cannot be read is said where it is read for its content
