"""Why nothing that is saved fills a slot: which part of its identity is another one, or that its run is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proctor.core.identity import model_endpoint
from proctor.core.plan import RunPlan
from proctor.core.reuse import GONE, UNREADABLE, Decided, changed, changed_parts, endpoint_changed
from proctor.errors import StoreError
from proctor.model.spec import ModelSpec
from proctor.store.layout import RunLayout
from proctor.store.plan_file import read_experiment

if TYPE_CHECKING:
    from proctor.store.record import Previous, Record, Scope

Slot = tuple[int, int]
"""A slot of a plan: the place of its task, and its ordinal."""


@dataclass(slots=True)
class Changes:
    """Says what is another one of a slot of `run_plan` than it was in an earlier run."""

    run_plan: RunPlan
    _models: dict[Path, ModelSpec | None] = field(default_factory=dict[Path, "ModelSpec | None"])

    def between(self, index: int, parts: Mapping[str, str], run_dir: Path) -> Decided:
        """Return the decision on a slot of a task that had `parts` in the run in a directory."""
        plan = self.run_plan
        planned = {**plan.shared_identity.parts, **plan.task_parts(plan.tasks[index])}
        if changed_parts(planned, parts) == ["model"]:
            if run_dir not in self._models:
                self._models[run_dir] = model_of(run_dir)
            here, there = plan.experiment.model, self._models[run_dir]
            if here is not None and there is not None and self._is_elsewhere(here, there, parts["model"]):
                return endpoint_changed(model_endpoint(here), model_endpoint(there))
        return changed(planned, parts)

    def _is_elsewhere(self, here: ModelSpec, there: ModelSpec, saved: str) -> bool:
        """Say whether the model would count as the saved one did, if only it were asked where that was."""
        plan = self.run_plan
        moved = replace(here, base_url=there.base_url, identity=there.identity)
        asked_there = replace(plan, experiment=replace(plan.experiment, model=moved))
        return asked_there.shared_identity.parts["model"] == saved


def name_changes(
    run_plan: RunPlan, record: Record, scope: Scope, slots: Iterable[Slot], decided: dict[Slot, Decided]
) -> None:
    """Say of slots for which nothing equal is saved what differs from what filled them last, or that it is gone."""
    names = {(run_plan.tasks[index].id, ordinal): (index, ordinal) for index, ordinal in slots}
    changes = Changes(run_plan)
    known: dict[tuple[int, Path, bool], Decided] = {}
    for name, before in record.previous(names, scope).items():
        index, _ = slot = names[name]
        same = (index, before.run_dir, before.gone)  # the parts of an identity are those of a task in a run
        if same not in known:
            known[same] = _why(changes, index, before)
        decided[slot] = known[same]


def _why(changes: Changes, index: int, before: Previous) -> Decided:
    if before.gone:
        return GONE
    if not before.parts:  # the plan of that run cannot be read
        return UNREADABLE
    return changes.between(index, before.parts, before.run_dir)


def model_of(run_dir: Path) -> ModelSpec | None:
    """Return the model of a run, as its plan has it; None without one, or where the plan cannot be read."""
    try:
        plain: Any = read_experiment(RunLayout(run_dir).plan).get("model")
    except StoreError:
        return None
    if not isinstance(plain, dict) or not isinstance(plain.get("id"), str):  # pyright: ignore[reportUnknownMemberType] - JSON
        return None
    base_url: Any = plain.get("base_url")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
    identity: Any = plain.get("identity")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
    if not isinstance(base_url, str | None) or not isinstance(identity, str | None):
        return None
    return ModelSpec(str(plain["id"]), base_url, identity=identity)  # pyright: ignore[reportUnknownArgumentType] - JSON
