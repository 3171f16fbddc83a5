"""Reads a run from its plan and its journal: what is known of it, and what became of each slot.

`proctor show`, `proctor compare` and the viewer read runs by this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.errors import JournalDamaged, StoreError, UsageError
from proctor.model.events import (
    AttemptSealed,
    Event,
    IssueRaised,
    RunStarted,
    SandboxDisposed,
    SandboxKept,
    SlotFilled,
    TryEnded,
    TryStarted,
)
from proctor.model.ids import AttemptId
from proctor.report.view import RunView
from proctor.report.wording import plural
from proctor.store.codec import NewerFormat
from proctor.store.fold import AttemptEvent
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, read_plan
from proctor.store.plan_tags import tags_of
from proctor.store.reader import JournalReader, TornTail, read_journal
from proctor.viewer.inside import is_run
from proctor.viewer.plan_slot import unreadable


@dataclass(frozen=True, slots=True)
class RunRead:
    """A run as it was found.

    `plan` is None where plan.json cannot be read, for the reason `plan_problem`. `trouble` is why the journal may not
    be all, or not right: what can be read is there all the same.
    """

    layout: RunLayout
    plan: PlanFile | None
    plan_problem: str | None
    fold: RunFold
    torn: TornTail | None
    trouble: StoreError | None

    @property
    def view(self) -> RunView:
        """What is known of the run."""
        return self.fold.settled()


NAMED = "the line `results:` of `proctor run`"
"""Where a user reads which directory is that of a run."""


def read_run(run_dir: Path) -> RunRead:
    """Read a run. Raises `UsageError` where a directory is not that of a run, `StoreError` where it cannot be read."""
    layout = layout_of(run_dir)
    plan, problem = plan_of(layout)
    fold = RunFold(plan)
    reader = read_journal(layout.journal)
    trouble = fold.follow(reader)
    return RunRead(layout, plan, problem, fold, reader.torn, trouble)


def layout_of(run_dir: Path) -> RunLayout:
    """Return the layout of a run. Raises `UsageError` where a directory is not that of a run."""
    layout = RunLayout(run_dir.resolve())
    if not is_run(layout):
        there = layout.journal.exists() or layout.journal.is_symlink()
        why = f"its {layout.journal.name} is a link or no file" if there else f"it has no {layout.journal.name}"
        raise UsageError(
            f"`{run_dir}` is not the directory of a run: {why}",
            hint=_run_meant(run_dir) or f"give RESULTS/EXPERIMENT/RUN-ID, as {NAMED} names it",
        )
    return layout


def _run_meant(folder: Path) -> str | None:
    """Return a hint at the newest run of a directory that holds those of an experiment; None where it holds none."""
    try:
        runs = [each for each in folder.iterdir() if is_run(RunLayout(each.resolve()))]
    except OSError:  # there is no such directory, or none that may be read: the error says enough
        return None
    return f"it holds {plural(len(runs), 'run')}, the newest is `{max(runs)}`" if runs else None


def plan_of(layout: RunLayout) -> tuple[PlanFile | None, str | None]:
    """Return the plan of a run, or None and why it cannot be read."""
    try:
        if trouble := unreadable(layout.plan):
            return None, f"the plan `{layout.plan}` {trouble}"
        return read_plan(layout.plan), None
    except StoreError as error:
        return None, error.message
    except ArithmeticError as error:
        return None, f"the plan `{layout.plan}` is damaged: {error}"


class RunFold:
    """One row per slot, in plan order; slots without an attempt say what became of them."""

    def __init__(self, plan: PlanFile | None) -> None:
        slots = plan.slots if plan else ()
        self.view = RunView(name_of(plan), total=len(slots), tags=tags_of(plan) if plan else {})
        self._empty = True
        self._broken: JournalDamaged | None = None
        """Why nothing more can be taken."""
        self.kept: list[str] = []
        """The sandboxes that were kept; whether they are still there is not known."""
        self._running: set[AttemptId] = set()
        self._ended: set[AttemptId] = set()
        self._rows: dict[tuple[str, int], dict[str, Any]] = {}
        for slot in slots:
            self._row(slot.task, slot.ordinal)

    def follow(self, reader: JournalReader) -> StoreError | None:
        """Take what a reader has; return why it may not be all, or not right. What can be read is taken.

        Raises `JournalDamaged`, then and ever after, where it has numbers that cannot be added up.
        """
        if self._broken is not None:
            raise self._broken
        trouble: JournalDamaged | None = None
        try:
            for event, at in reader:
                wrong = self.add(event, at)
                if wrong is not None and trouble is None:
                    trouble = JournalDamaged(
                        f"journal `{reader.path}` is damaged at line {reader.lines}: {wrong}",
                        hint="what is there is shown; what is missing is lost: the numbers are not those of the run",
                    )
        except (JournalDamaged, NewerFormat) as error:
            return error
        except ArithmeticError as error:
            self._broken = JournalDamaged(
                f"journal `{reader.path}` is damaged at line {reader.lines}: a number that nobody measured: {error}",
                hint="it was damaged, or made up",
            )
            raise self._broken from error
        return trouble

    def add(self, event: Event, at: float) -> str | None:
        """Take the next event; return what is wrong where it cannot follow those before it."""
        wrong = None
        if self._empty and not isinstance(event, RunStarted):
            wrong = "it does not begin with the start of the run"
        self._empty = False
        if isinstance(event, RunStarted):
            self.view.experiment = event.experiment
        elif isinstance(event, SlotFilled):
            row = self._row(event.task, event.ordinal)
            row.update(attempt=event.attempt, verdict=event.verdict.value, score=event.score)
            row["accepted_from" if event.accepted else "reused_from"] = event.run
        elif isinstance(event, TryStarted) and event.attempt not in self._ended:
            self._running.add(event.attempt)
            self._row(event.task, event.ordinal).update(attempt=event.attempt, tries=event.try_number)
        elif isinstance(event, SandboxKept):
            self.kept.append(event.sandbox)
        elif isinstance(event, AttemptEvent) and event.attempt not in self._running:
            out_of_place = self._out_of_place(event, at)
            return wrong or out_of_place
        elif isinstance(event, AttemptSealed):
            self.view.add(event, at)
            self._seal(event, seconds=round(self.view.sealed_seconds, 3))
            return wrong
        self.view.add(event, at)
        return wrong

    def _out_of_place(self, event: AttemptEvent, at: float) -> str | None:
        """Take what still says something of an event whose attempt is not running."""
        if event.attempt in self._ended:
            # A sandbox that is slow to go may go after its attempt was sealed.
            gone = isinstance(event, SandboxDisposed)
            return None if gone else f"attempt @{event.attempt} goes on after its end"
        if isinstance(event, AttemptSealed):
            self.view.add(TryStarted(event.attempt, event.task, event.ordinal, event.tries), at)
            self.view.add(event, at)
            self._seal(event, seconds=None)
            if not event.tries:
                return None  # sealed before anything was tried
        elif isinstance(event, TryEnded | IssueRaised):
            self.view.add(event, at)
            if isinstance(event, IssueRaised):
                return None  # why nothing will be tried
        return f"the start of attempt @{event.attempt} is missing"

    def _seal(self, event: AttemptSealed, *, seconds: float | None) -> None:
        self._running.discard(event.attempt)
        self._ended.add(event.attempt)
        row = self._row(event.task, event.ordinal)
        row.update(attempt=event.attempt, verdict=event.verdict.value, score=event.score, tries=event.tries)
        row["seconds"] = seconds

    def _row(self, task: str, ordinal: int) -> dict[str, Any]:
        return self._rows.setdefault((task, ordinal), {"task": task, "ordinal": ordinal, "verdict": None})

    def settled(self) -> RunView:
        """Return the view, with at least as many slots as were seen, also where the start of the run is missing."""
        view = self.view
        seen = len(view.in_flight) + view.sealed + view.reused.total() + view.not_dispatched.total()
        view.total = max(view.total, seen)
        return view

    def rows(self) -> list[dict[str, Any]]:
        """Return the slots with what became of them."""
        return list(self._rows.values())


def name_of(plan: PlanFile | None) -> str:
    """Return the name of the experiment; the journal says it as well, where its first line is there."""
    if plan is None:
        return ""
    return str(plan.experiment.get("name", "")) if isinstance(plan.experiment, Mapping) else plan.experiment.name


def marks_of(plan: PlanFile | None) -> dict[str, Any]:
    """Return the tags and labels of the experiment; nothing for one that has none."""
    if plan is None or not isinstance(plan.experiment, Mapping):
        return {}
    found = {name: plan.experiment.get(name) for name in ("tags", "labels")}
    return {name: value for name, value in found.items() if value}
