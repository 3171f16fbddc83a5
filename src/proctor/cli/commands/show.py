"""`proctor show`: the table of a run, from its journal."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import rich_click as click

from proctor.errors import JournalDamaged, StoreError, UsageError
from proctor.model.events import AttemptSealed, Event, RunStarted, TryStarted
from proctor.report.summary import summary_data, summary_lines
from proctor.report.view import RunView
from proctor.report.wording import duration, printable
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, read_plan
from proctor.store.reader import read_journal


@click.command("show")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(run_dir: Path, as_json: bool) -> int:
    """Print the results of the run in RUN_DIR, from its journal alone; also of a run that was killed."""
    layout = RunLayout(run_dir.resolve())
    if not layout.journal.is_file():
        raise UsageError(
            f"`{run_dir}` is not the directory of a run: it has no {layout.journal.name}",
            hint="give RESULTS/EXPERIMENT/RUN-ID, as the last line of `proctor run` names it",
        )
    show = _Table(_plan_of(layout))
    reader = read_journal(layout.journal)
    damage: JournalDamaged | None = None
    try:
        for event, at in reader:
            show.add(event, at)
    except JournalDamaged as error:
        damage = error  # what stands before the damage is whole, and shown
    torn = reader.torn
    view = show.view
    if as_json:
        data = {**summary_data(view, run=layout.run_id, directory=str(layout.directory)), "attempts": show.rows()}
        click.echo(json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1))
    else:
        show.print()
        for line in summary_lines(view, directory=str(layout.directory)):
            click.echo(line)
    if torn is not None:
        click.echo(f"warning: the journal ends in a torn line of {torn.bytes} bytes, which was left out", err=True)
    if view.completion is None and damage is None:
        click.echo("warning: the run has not ended, or its process was killed", err=True)
    if damage is not None:
        raise damage
    return 0


class _Table:
    """One row per slot, in plan order; slots without an attempt say what became of them."""

    def __init__(self, plan: PlanFile | None) -> None:
        self.view = RunView("")
        slots = plan.slots if plan else ()
        self._rows: dict[tuple[str, int], dict[str, Any]] = {
            (slot.task, slot.ordinal): {"task": slot.task, "ordinal": slot.ordinal, "verdict": None} for slot in slots
        }

    def add(self, event: Event, at: float) -> None:
        if isinstance(event, RunStarted):
            self.view.experiment = event.experiment
        self.view.add(event, at)
        match event:
            case TryStarted(attempt, task, ordinal, try_number):
                row = self._rows.setdefault((task, ordinal), {"task": task, "ordinal": ordinal, "verdict": None})
                row.update(attempt=attempt, tries=try_number)
            case AttemptSealed(attempt, task, ordinal, verdict, score, tries):
                seconds = round(self.view.sealed_seconds, 3)
                self._rows[task, ordinal].update(verdict=verdict.value, score=score, tries=tries, seconds=seconds)
            case _:
                pass

    def rows(self) -> list[dict[str, Any]]:
        return list(self._rows.values())

    def print(self) -> None:
        names = {key: f"{printable(task)} #{ordinal}" for key in self._rows for task, ordinal in [key]}
        width = max(map(len, names.values()), default=0)
        for key, row in self._rows.items():
            state = row["verdict"] or ("unfinished" if "attempt" in row else "not dispatched")
            score = f"{row['score']:.3g}" if row.get("score") is not None else ""
            seconds = duration(row["seconds"]) if "seconds" in row else ""
            attempt = f"@{row['attempt']}" if "attempt" in row else ""
            click.echo(f"{names[key]:<{width}}  {state:<14}  {score:>5}  {seconds:>7}  {attempt}".rstrip())


def _plan_of(layout: RunLayout) -> PlanFile | None:
    try:
        return read_plan(layout.plan)
    except StoreError as error:
        click.echo(f"warning: {error.message}; rows are in the order in which attempts were started", err=True)
        return None
