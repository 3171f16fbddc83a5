"""`proctor show`: the table of a run, from its journal."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import rich_click as click

from proctor.cli.attempt_page import journals_below, show_attempt
from proctor.cli.command import Command
from proctor.cli.output import say
from proctor.cli.results_place import results_and_record, run_directory
from proctor.cli.run_state import state_of_unended
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
from proctor.report.kept import were_kept_lines
from proctor.report.summary import summary_data, summary_lines
from proctor.report.view import RunView
from proctor.report.wording import duration, printable
from proctor.store.codec import NewerFormat
from proctor.store.fold import AttemptEvent
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, read_plan
from proctor.store.reader import JournalReader, read_journal


@click.command("show", cls=Command)
@click.argument("what", metavar="[RUN] [@ATTEMPT]", nargs=-1)
@click.option("--results-dir", metavar="DIR", help="Where to look for ids (default: those of the project).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(what: tuple[str, ...], results_dir: str | None, as_json: bool) -> int:
    """Print the results of RUN, a directory or the id of a run, from its journal alone; also of one that was killed.

    With @ATTEMPT, the id of an attempt or its beginning: print every try of it, what went wrong, and what to do about
    it. RUN may then be left out: the attempt is looked for in all runs below the results directory.
    """
    attempts = [each for each in what if each.startswith("@")]
    runs = [each for each in what if not each.startswith("@")]
    if len(attempts) > 1 or len(runs) > 1 or not what:
        raise UsageError("one run, or one attempt, can be shown", hint="write `proctor show RUN` or `@ATTEMPT`")
    run_dirs = [run_directory(each, _roots(results_dir), _runs_below) or Path(each) for each in runs]
    if attempts:
        place = run_dirs[0] if run_dirs else results_and_record(results_dir)[0]
        return show_attempt(attempts[0], place, as_json=as_json)
    return _show_run(run_dirs[0], as_json=as_json)


def _roots(results_dir: str | None) -> Iterator[Path]:
    """Yield where runs are looked for; what the project says of it is read no sooner than that is asked for."""
    yield results_and_record(results_dir)[0]


def _runs_below(root: Path) -> Iterator[Path]:
    return (journal.parent for journal in journals_below(root))


def _show_run(run_dir: Path, *, as_json: bool) -> int:
    layout = RunLayout(run_dir.resolve())
    if not layout.journal.is_file():
        raise UsageError(
            f"`{run_dir}` is not the directory of a run: it has no {layout.journal.name}",
            hint="give RESULTS/EXPERIMENT/RUN-ID, as the last line of `proctor run` names it",
        )
    plan = _plan_of(layout)
    table = _Table(plan)
    marks = _marks_of(plan)
    reader = read_journal(layout.journal)
    trouble = _read(reader, table)
    view = table.settled()
    if as_json:
        summary = summary_data(view, run=layout.run_id, directory=str(layout.directory))
        data = {**summary, **marks, "kept_sandboxes": table.kept, "attempts": table.rows()}
        say(json.dumps(data, allow_nan=False, indent=1))
    else:
        summary = summary_lines(view, directory=str(layout.directory))
        say("\n".join([*table.lines(), *_mark_lines(marks), *summary, *were_kept_lines(table.kept)]))
    if reader.torn is not None:
        say(f"warning: the journal ends in a torn line of {reader.torn.bytes} bytes, which was left out", err=True)
    if view.completion is None and trouble is None:
        say(f"warning: {state_of_unended(layout)}", err=True)
    if trouble is not None:
        raise trouble
    return 0


def _read(reader: JournalReader, table: _Table) -> StoreError | None:
    """Fill the table; return why it may not be all, or not right. What can be read is shown all the same."""
    trouble: JournalDamaged | None = None
    try:
        for event, at in reader:
            wrong = table.add(event, at)
            if wrong is not None and trouble is None:
                trouble = JournalDamaged(
                    f"journal `{reader.path}` is damaged at line {reader.lines}: {wrong}",
                    hint="what is there is shown; what is missing is lost, and the numbers are not those of the run",
                )
    except (JournalDamaged, NewerFormat) as error:
        return error
    return trouble


class _Table:
    """One row per slot, in plan order; slots without an attempt say what became of them."""

    def __init__(self, plan: PlanFile | None) -> None:
        slots = plan.slots if plan else ()
        self._view = RunView(_name_of(plan), total=len(slots))
        self._empty = True
        self.kept: list[str] = []
        """The sandboxes that were kept; whether they are still there is not known."""
        self._running: set[AttemptId] = set()
        self._ended: set[AttemptId] = set()
        self._rows: dict[tuple[str, int], dict[str, Any]] = {}
        for slot in slots:
            self._row(slot.task, slot.ordinal)

    def add(self, event: Event, at: float) -> str | None:
        """Take the next event; return what is wrong where it cannot follow those before it."""
        wrong = None
        if self._empty and not isinstance(event, RunStarted):
            wrong = "it does not begin with the start of the run"
        self._empty = False
        if isinstance(event, RunStarted):
            self._view.experiment = event.experiment
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
            self._view.add(event, at)
            self._seal(event, seconds=round(self._view.sealed_seconds, 3))
            return wrong
        self._view.add(event, at)
        return wrong

    def _out_of_place(self, event: AttemptEvent, at: float) -> str | None:
        """Take what still says something of an event whose attempt is not running."""
        if event.attempt in self._ended:
            # A sandbox that is slow to go may go after its attempt was sealed.
            gone = isinstance(event, SandboxDisposed)
            return None if gone else f"attempt @{event.attempt} goes on after its end"
        if isinstance(event, AttemptSealed):
            self._view.add(TryStarted(event.attempt, event.task, event.ordinal, event.tries), at)
            self._view.add(event, at)
            self._seal(event, seconds=None)
            if not event.tries:
                return None  # sealed before anything was tried
        elif isinstance(event, TryEnded | IssueRaised):
            self._view.add(event, at)
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
        view = self._view
        seen = len(view.in_flight) + view.sealed + view.reused.total() + view.not_dispatched.total()
        view.total = max(view.total, seen)
        return view

    def rows(self) -> list[dict[str, Any]]:
        """Return the slots with what became of them."""
        return list(self._rows.values())

    def lines(self) -> list[str]:
        """Return the table as text."""
        names = {key: f"{printable(task)} #{ordinal}" for key in self._rows for task, ordinal in [key]}
        width = max(map(len, names.values()), default=0)
        waiting = "not dispatched" if self._view.not_dispatched.total() else "queued"
        lines: list[str] = []
        for key, row in self._rows.items():
            state = row["verdict"] or ("unfinished" if "attempt" in row else waiting)
            score = f"{row['score']:.3g}" if row.get("score") is not None else ""
            seconds = duration(row["seconds"]) if row.get("seconds") is not None else ""
            attempt = f"@{row['attempt']}" if "attempt" in row else ""
            source = "".join(
                f"  {what} from {printable(row[member])}"
                for what, member in (("reused", "reused_from"), ("accepted", "accepted_from"))
                if member in row
            )
            lines.append(f"{names[key]:<{width}}  {state:<14}  {score:>5}  {seconds:>7}  {attempt}{source}".rstrip())
        return lines


def _name_of(plan: PlanFile | None) -> str:
    """Return the name of the experiment; the journal says it as well, where its first line is there."""
    if plan is None:
        return ""
    return str(plan.experiment.get("name", "")) if isinstance(plan.experiment, Mapping) else plan.experiment.name


def _marks_of(plan: PlanFile | None) -> dict[str, Any]:
    """Return the tags and labels of the experiment; nothing for one that has none."""
    experiment: Any = {} if plan is None else plan.experiment
    found = {name: experiment.get(name) for name in ("tags", "labels") if isinstance(experiment, Mapping)}
    return {name: value for name, value in found.items() if value}


def _mark_lines(marks: Mapping[str, Any]) -> list[str]:
    words = {
        "tags": ", ".join(map(str, marks.get("tags", ()))),
        "labels": ", ".join(f"{name}={value}" for name, value in marks.get("labels", {}).items()),
    }
    return [f"{name}: {printable(text)}" for name, text in words.items() if text]


def _plan_of(layout: RunLayout) -> PlanFile | None:
    try:
        return read_plan(layout.plan)
    except StoreError as error:
        say(f"warning: {error.message}; rows are in the order in which attempts were started", err=True)
        return None
