"""What is saved for the slots of a plan, and what is done with each because of it (spec 04)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.cli.earlier_runs import group_of, left_out, open_record
from proctor.cli.saved_attempt import is_intact, saved_attempt
from proctor.cli.spent_before import with_spent_before
from proctor.cli.what_changed import Slot, name_changes
from proctor.core.plan import RunPlan
from proctor.core.reuse import NEW, Decided, Door, Kind, Rerun, closed_by_early_exit, decide
from proctor.core.schedule import DecidedSlot, Filling
from proctor.core.task_limits import as_limited, door_of_task
from proctor.errors import UsageError
from proctor.model.attempt import Verdict
from proctor.model.events import SlotFilled
from proctor.model.ids import SlotKey
from proctor.model.spec import Experiment, Task
from proctor.store.layout import RunLayout, checked_run_id

if TYPE_CHECKING:
    from proctor.cli.rooms import Options
    from proctor.store.record import Candidate, Record, Scope

RUNS_SHOWN = 10

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reusing:
    """What an invocation may take from earlier runs: of one run, or the newest of each slot, and what it runs again.

    The newest is looked for among the runs of the same kind, or with `everything` in the whole record: that is how
    experiments in Python are run (spec 04). With `sandbox_wanted` all of it is executed, and only the reason is told.
    """

    run_id: str | None = None
    rerun: Rerun | None = None
    checkpoint_resume: bool = True
    everything: bool = False
    sandbox_wanted: bool = False


Sources = Mapping[Slot, "Candidate"]
"""The saved attempts that slots of a plan are filled from, or graded from."""

Filled = tuple[RunPlan, Sources]
"""A plan with what is done with each slot, and the saved attempts behind it."""


def fill(
    plans: Sequence[RunPlan],
    options: Options,
    *,
    look: bool = False,
    tell: Callable[[str], object] = log.warning,
) -> list[Filled]:
    """Return the plans with what is done with each slot; without `--reuse` every one of them is new.

    With `look` nothing is written, not even to the record. `tell` is told what is amiss with earlier runs, or with the
    record of them. Raises `UsageError` for a run id that is not there.
    """
    asked = [options.reusing_of(run_plan.experiment.name) for run_plan in plans]
    if not any(asked):
        return [(run_plan, {}) for run_plan in plans]
    root = Path(options.controls.results_dir)
    record = open_record(root, options.controls.record_url, look=look, tell=tell)
    with record:
        groups = [group_of(run_plan.experiment, root, options.run_name) for run_plan in plans]
        for problem in left_out(record, None if any(one and one.everything for one in asked) else groups):
            tell(f"{problem}; nothing is reused of what stands behind that")
        named = [one.run_id if one else None for one in asked]
        there = [name is not None and _has(group, name) for name, group in zip(named, groups, strict=True)]
        found: list[Filled] = []
        for run_plan, group, one, has_run in zip(plans, groups, asked, there, strict=True):
            # Of several experiments some may be newer than the run that is named: they have nothing to reuse.
            none = one is None or (one.run_id is not None and any(there) and not has_run)
            found.append((run_plan, {}) if one is None or none else look_up(run_plan, record, group, one))
        return found


def _has(group: Path, run_id: str) -> bool:
    return RunLayout(group / run_id).journal.is_file()


def slots_filled(run_plan: RunPlan, sources: Sources, results_dir: Path) -> Iterator[SlotFilled]:
    """Yield the event of each slot that a saved attempt fills, in plan order."""
    for (index, ordinal), decided in sorted(run_plan.decided.items()):
        if decided.kind in FILLED:
            slot = run_plan.schedule.slot(index, ordinal)
            yield slot_filled(slot, sources[index, ordinal], results_dir, accepted=decided.kind is Kind.ACCEPT)


def slot_filled(slot: SlotKey, source: Candidate, results_dir: Path, *, accepted: bool) -> SlotFilled:
    """Return the event of a slot that a saved attempt fills."""
    return SlotFilled(
        attempt=source.attempt_id,
        task=slot.task,
        ordinal=slot.ordinal,
        run=source.run_dir.relative_to(results_dir).as_posix(),
        verdict=Verdict(source.verdict),
        score=source.score,
        cost_usd=source.cost_usd,
        accepted=accepted,
        sub_scores=json.loads(source.sub_scores) if source.sub_scores else {},
    )


def reusing_of(reuse: bool | str, rerun: Rerun | None, *, checkpoint_resume: bool) -> Reusing | None:
    """Return what may be taken from earlier runs: of the run with an id, the newest of each slot, or nothing.

    Raises `UsageError` for an id that is none, and for a `rerun` where nothing is reused.
    """
    if reuse is False:
        if rerun is not None:
            raise UsageError(
                "`rerun` says what is executed again, and without `reuse` everything is",
                hint="reuse what is saved as well, or leave `rerun` out",
            )
        return None
    return Reusing(None if reuse is True else checked_run_id(reuse), rerun, checkpoint_resume)


def look_up(run_plan: RunPlan, record: Record, group: Path, asked: Reusing) -> Filled:
    """Return a plan with what is done with each slot, and the saved attempts behind it.

    Raises `UsageError` for a run id that is not there; it lists those there are.
    """
    scope = _scope(record, group, asked)
    slots: dict[str, Slot] = {}
    for index, task in enumerate(run_plan.tasks):
        own = run_plan.task_parts(task)
        for ordinal in range(run_plan.schedule.attempts):
            slots[run_plan.shared_identity.slot(own, ordinal)] = (index, ordinal)
    door = door_of(run_plan.experiment, asked)
    budgeted = run_plan.schedule.budget_usd is not None and door.rerun is not Rerun.ALL and not door.sandbox_wanted
    # What came to nothing was paid for as well, though it cannot matter to what is done with the slot.
    found = record.candidates(slots, scope, enough=None if budgeted else _is_plain)
    sources: dict[Slot, Candidate] = {}
    decided: dict[Slot, Decided] = {}
    for identity, slot in slots.items():
        candidates = found.get(identity)
        if candidates:
            decided[slot], source = _decide(candidates, door, run_plan.experiment, run_plan.tasks[slot[0]])
            if source is not None and source.identity != identity and decided[slot].kind is Kind.REUSE:
                decided[slot] = decided[slot]._replace(kind=Kind.ACCEPT)
            if source is not None:
                sources[slot] = source
    # What has changed is told against runs of the same kind: those of another model are of another experiment.
    nearest = _scope_of(group) if asked.everything else scope
    name_changes(run_plan, record, nearest, [slot for slot in slots.values() if slot not in decided], decided)
    if run_plan.experiment.early_exit:
        _close_solved(run_plan, decided, sources)
    taken = (*FILLED, Kind.GRADE_ONLY)
    fillings = tuple(_filling(slot, one, sources) for slot, one in decided.items() if one.kind in taken)
    schedule = replace(run_plan.schedule, decided=fillings)
    run_plan = replace(run_plan, schedule=schedule, decided=decided)
    if budgeted:
        run_plan = with_spent_before(run_plan, found.values(), record)
    return run_plan, sources


FILLED = (Kind.REUSE, Kind.ACCEPT)
"""What is done with slots that a saved attempt fills."""


def _filling(slot: Slot, decided: Decided, sources: Mapping[Slot, Candidate]) -> DecidedSlot:
    if decided.kind is Kind.GRADE_ONLY:
        return DecidedSlot(*slot, Filling.GRADING_ONLY)
    passed = sources[slot].verdict == Verdict.PASSED
    return DecidedSlot(*slot, Filling.REUSED_PASSED if passed else Filling.REUSED)


def _scope_of(group: Path) -> Scope:
    from proctor.store.record import Scope  # noqa: PLC0415 - runs that reuse nothing need no database

    return Scope(group=group)


def _scope(record: Record, group: Path, asked: Reusing) -> Scope:
    from proctor.store.record import Scope  # noqa: PLC0415 - runs that reuse nothing need no database

    if asked.run_id is None:
        return Scope() if asked.everything else _scope_of(group)
    if _has(group, asked.run_id):
        return Scope(run=group / asked.run_id)
    there = [str(info.run_id) for info in record.runs(_scope_of(group))]
    shown = ", ".join(there[:RUNS_SHOWN]) + (f" and {len(there) - RUNS_SHOWN} more" if len(there) > RUNS_SHOWN else "")
    raise UsageError(
        f"there is no run `{asked.run_id}` in {group}",
        hint=f"the runs there are {shown}" if there else "there are no runs there yet; leave `--reuse` out",
    )


def door_of(experiment: Experiment, asked: Reusing | None = None) -> Door:
    """Return how an experiment looks at what is saved: what is asked for, its limits and its patterns."""
    limits = experiment.limits
    asked = asked or Reusing()
    return Door(
        rerun=asked.rerun,
        checkpoint_resume=asked.checkpoint_resume,
        sandbox_wanted=asked.sandbox_wanted,
        patterns=experiment.retry.patterns,
        agent_seconds=limits.agent_seconds,
        try_seconds=limits.try_seconds,
    )


def _is_plain(candidate: Candidate) -> bool:
    """Say whether nothing older can matter: it has a score."""
    return candidate.verdict in (Verdict.PASSED, Verdict.FAILED)


def _decide(
    candidates: Sequence[Candidate], door: Door, experiment: Experiment, task: Task
) -> tuple[Decided, Candidate | None]:
    """Decide on one slot; the files of a checkpoint are read only where it would be used."""
    door = door_of_task(door, task, experiment.limits)
    saved = [as_limited(saved_attempt(candidate, experiment.grading), door) for candidate in candidates]
    while True:
        decided = decide(saved, door)
        if decided.source is None:
            return decided, None
        place = next(n for n, one in enumerate(saved) if one.attempt == decided.source)
        if decided.kind is not Kind.GRADE_ONLY or is_intact(candidates[place]):
            return decided, candidates[place]
        saved[place] = replace(saved[place], intact=False)


def _close_solved(run_plan: RunPlan, decided: dict[Slot, Decided], sources: dict[Slot, Candidate]) -> None:
    for index in range(len(run_plan.tasks)):
        of_task = [(index, ordinal) for ordinal in range(run_plan.schedule.attempts)]
        passed = [
            slot in sources and decided[slot].kind in FILLED and sources[slot].verdict == Verdict.PASSED
            for slot in of_task
        ]
        closed = closed_by_early_exit([decided.get(slot, NEW) for slot in of_task], passed)
        for slot, one in zip(of_task, closed, strict=True):
            if one.kind is Kind.NOT_DISPATCHED:
                decided[slot] = one
                sources.pop(slot, None)
