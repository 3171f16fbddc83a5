"""What is saved for the slots of a plan, and what is done with each because of it (spec 04)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.cli.run_writer import experiment_dir_of
from proctor.cli.saved_attempt import is_intact, saved_attempt
from proctor.core.plan import RunPlan
from proctor.core.reuse import NEW, Decided, Door, Kind, Rerun, changed, closed_by_early_exit, decide
from proctor.core.schedule import DecidedSlot, Filling
from proctor.errors import UsageError
from proctor.model.attempt import GradingMode, Verdict
from proctor.model.events import SlotFilled
from proctor.model.spec import Experiment
from proctor.store.layout import checked_run_id, run_name_levels

if TYPE_CHECKING:
    from proctor.cli.rooms import Options
    from proctor.store.record import Candidate, Record, Scope

Slot = tuple[int, int]
"""A slot of a plan: the place of its task, and its ordinal."""

RUNS_SHOWN = 10

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reusing:
    """What an invocation may take from earlier runs: of one run, or the newest of each slot, and what it runs again."""

    run_id: str | None = None
    rerun: Rerun | None = None
    checkpoint_resume: bool = True


Sources = Mapping[Slot, "Candidate"]
"""The saved attempts that slots of a plan are filled from, or graded from."""

Filled = tuple[RunPlan, Sources]
"""A plan with what is done with each slot, and the saved attempts behind it."""


def fill(plans: Sequence[RunPlan], options: Options, *, look: bool = False) -> list[Filled]:
    """Return the plans with what is done with each slot; without `--reuse` every one of them is new.

    With `look` nothing is written, not even to the record. Raises `UsageError` for a run id that is not there.
    """
    asked = options.reusing
    if asked is None:
        return [(run_plan, {}) for run_plan in plans]
    from proctor.store.record import Record  # noqa: PLC0415 - runs that reuse nothing need no database
    from proctor.store.record_errors import RecordError  # noqa: PLC0415

    root, url = Path(options.controls.results_dir), options.controls.record_url
    try:
        record = Record.look(root, url) if look or not root.is_dir() else Record.open(root, url)
    except RecordError as error:
        log.warning("%s; the journals are read instead", error.message)
        record = Record.look(root, url)
    with record:
        return [
            look_up(run_plan, record, group_of(run_plan.experiment, root, options.run_name), asked)
            for run_plan in plans
        ]


def slots_filled(run_plan: RunPlan, sources: Sources, results_dir: Path) -> Iterator[SlotFilled]:
    """Yield the event of each slot that a saved attempt fills, in plan order."""
    for (index, ordinal), decided in sorted(run_plan.decided.items()):
        if decided.kind in (Kind.REUSE, Kind.ACCEPT):
            source = sources[index, ordinal]
            yield SlotFilled(
                attempt=source.attempt_id,
                task=run_plan.tasks[index].id,
                ordinal=ordinal,
                run=source.run_dir.relative_to(results_dir).as_posix(),
                verdict=Verdict(source.verdict),
                score=source.score,
                cost_usd=source.cost_usd,
                accepted=decided.kind is Kind.ACCEPT,
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


def group_of(experiment: Experiment, results_dir: Path, run_name: str | None) -> Path:
    """Return the directory that the runs of an experiment are in."""
    levels = () if run_name is None else run_name_levels(run_name)
    return results_dir.joinpath(*levels, experiment_dir_of(experiment))


def look_up(run_plan: RunPlan, record: Record, group: Path, asked: Reusing) -> Filled:
    """Return a plan with what is done with each slot, and the saved attempts behind it.

    Raises `UsageError` for a run id that is not there; it lists those there are.
    """
    scope = _scope(record, group, asked.run_id)
    slots: dict[str, Slot] = {}
    for index, task in enumerate(run_plan.tasks):
        own = run_plan.task_parts(task)
        for ordinal in range(run_plan.schedule.attempts):
            slots[run_plan.shared_identity.slot(own, ordinal)] = (index, ordinal)
    door = _door(run_plan.experiment, asked)
    found = record.candidates(slots, scope, enough=_is_plain)
    sources: dict[Slot, Candidate] = {}
    decided: dict[Slot, Decided] = {}
    for identity, slot in slots.items():
        candidates = found.get(identity)
        if candidates:
            decided[slot], source = _decide(candidates, door, run_plan.experiment.grading)
            if source is not None:
                sources[slot] = source
    _name_changes(run_plan, record, scope, [slot for slot in slots.values() if slot not in decided], decided)
    if run_plan.experiment.early_exit:
        _close_solved(run_plan, decided, sources)
    fillings = tuple(_filling(slot, one, sources) for slot, one in decided.items() if one.kind in _FILLED)
    schedule = replace(run_plan.schedule, decided=fillings)
    return replace(run_plan, schedule=schedule, decided=decided), sources


_FILLED = (Kind.REUSE, Kind.GRADE_ONLY)


def _filling(slot: Slot, decided: Decided, sources: Mapping[Slot, Candidate]) -> DecidedSlot:
    if decided.kind is Kind.GRADE_ONLY:
        return DecidedSlot(*slot, Filling.GRADING_ONLY)
    passed = sources[slot].verdict == Verdict.PASSED
    return DecidedSlot(*slot, Filling.REUSED_PASSED if passed else Filling.REUSED)


def _scope(record: Record, group: Path, run_id: str | None) -> Scope:
    from proctor.store.record import Scope  # noqa: PLC0415 - runs that reuse nothing need no database

    if run_id is None:
        return Scope(group=group)
    if (group / run_id / "journal.jsonl").is_file():
        return Scope(run=group / run_id)
    there = [str(info.run_id) for info in record.runs(Scope(group=group))]
    shown = ", ".join(there[:RUNS_SHOWN]) + (f" and {len(there) - RUNS_SHOWN} more" if len(there) > RUNS_SHOWN else "")
    raise UsageError(
        f"there is no run `{run_id}` in {group}",
        hint=f"the runs there are {shown}" if there else "there are no runs there yet; leave `--reuse` out",
    )


def _door(experiment: Experiment, asked: Reusing) -> Door:
    limits = experiment.limits
    return Door(
        rerun=asked.rerun,
        checkpoint_resume=asked.checkpoint_resume,
        patterns=experiment.retry.patterns,
        agent_seconds=limits.agent_seconds,
        try_seconds=limits.try_seconds,
    )


def _is_plain(candidate: Candidate) -> bool:
    """Say whether nothing older can matter: it has a score."""
    return candidate.verdict in (Verdict.PASSED, Verdict.FAILED)


def _decide(candidates: Sequence[Candidate], door: Door, grading: GradingMode) -> tuple[Decided, Candidate | None]:
    """Decide on one slot; the files of a checkpoint are read only where it would be used."""
    saved = [saved_attempt(candidate, grading) for candidate in candidates]
    while True:
        decided = decide(saved, door)
        if decided.source is None:
            return decided, None
        place = next(n for n, one in enumerate(saved) if one.attempt == decided.source)
        if decided.kind is not Kind.GRADE_ONLY or is_intact(candidates[place]):
            return decided, candidates[place]
        saved[place] = replace(saved[place], intact=False)


def _name_changes(
    run_plan: RunPlan, record: Record, scope: Scope, slots: Sequence[Slot], decided: dict[Slot, Decided]
) -> None:
    """Say of slots for which nothing equal is saved what differs from what filled them last."""
    names = {(run_plan.tasks[index].id, ordinal): (index, ordinal) for index, ordinal in slots}
    for name, before in record.previous(names, scope).items():
        index, _ = slot = names[name]
        parts = {**run_plan.shared_identity.parts, **run_plan.task_parts(run_plan.tasks[index])}
        decided[slot] = changed(parts, before.parts)


def _close_solved(run_plan: RunPlan, decided: dict[Slot, Decided], sources: dict[Slot, Candidate]) -> None:
    for index in range(len(run_plan.tasks)):
        of_task = [(index, ordinal) for ordinal in range(run_plan.schedule.attempts)]
        passed = [
            slot in sources and decided[slot].kind is Kind.REUSE and sources[slot].verdict == Verdict.PASSED
            for slot in of_task
        ]
        closed = closed_by_early_exit([decided.get(slot, NEW) for slot in of_task], passed)
        for slot, one in zip(of_task, closed, strict=True):
            if one.kind is Kind.NOT_DISPATCHED:
                decided[slot] = one
                sources.pop(slot, None)
