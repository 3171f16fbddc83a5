"""`proctor show`: the table of a run, from its journal."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rich_click as click

from proctor.cli.attempt_page import show_attempt
from proctor.cli.command import Command
from proctor.cli.named_run import named_run
from proctor.cli.output import say
from proctor.cli.results_place import results_and_record
from proctor.cli.run_state import state_of_unended
from proctor.errors import UsageError
from proctor.report.kept import were_kept_lines
from proctor.report.summary import summary_data, summary_lines
from proctor.report.wording import duration, printable
from proctor.viewer.run_read import RunFold, marks_of, read_run


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
    run_dirs = [named_run(each, results_dir) for each in runs]
    if attempts:
        place = run_dirs[0] if run_dirs else results_and_record(results_dir)[0]
        return show_attempt(attempts[0], place, as_json=as_json)
    return _show_run(run_dirs[0], as_json=as_json)


def _show_run(run_dir: Path, *, as_json: bool) -> int:
    read = read_run(run_dir)
    if read.plan_problem is not None:
        say(f"warning: {read.plan_problem}; rows are in the order in which attempts were started", err=True)
    layout, fold, view, marks = read.layout, read.fold, read.view, marks_of(read.plan)
    if as_json:
        summary = summary_data(view, run=layout.run_id, directory=str(layout.directory))
        data = {**summary, **marks, "kept_sandboxes": fold.kept, "attempts": fold.rows()}
        say(json.dumps(data, allow_nan=False, indent=1))
    else:
        summary = summary_lines(view, directory=str(layout.directory))
        say("\n".join([*_table_lines(fold), *_mark_lines(marks), *summary, *were_kept_lines(fold.kept)]))
    if read.torn is not None:
        say(f"warning: the journal ends in a torn line of {read.torn.bytes} bytes, which was left out", err=True)
    if view.completion is None and read.trouble is None:
        say(f"warning: {state_of_unended(layout)}", err=True)
    if read.trouble is not None:
        raise read.trouble
    return 0


def _table_lines(fold: RunFold) -> list[str]:
    """Return the table of slots as text."""
    rows = fold.rows()
    shown = [f"{printable(row['task'])} #{row['ordinal']}" for row in rows]
    width = max(map(len, shown), default=0)
    waiting = "not dispatched" if fold.view.not_dispatched.total() else "queued"
    lines: list[str] = []
    for name, row in zip(shown, rows, strict=True):
        state = row["verdict"] or ("unfinished" if "attempt" in row else waiting)
        score = f"{row['score']:.3g}" if row.get("score") is not None else ""
        seconds = duration(row["seconds"]) if row.get("seconds") is not None else ""
        attempt = f"@{row['attempt']}" if "attempt" in row else ""
        source = "".join(
            f"  {what} from {printable(row[member])}"
            for what, member in (("reused", "reused_from"), ("accepted", "accepted_from"))
            if member in row
        )
        lines.append(f"{name:<{width}}  {state:<14}  {score:>5}  {seconds:>7}  {attempt}{source}".rstrip())
    return lines


def _mark_lines(marks: Mapping[str, Any]) -> list[str]:
    words = {
        "tags": ", ".join(map(str, marks.get("tags", ()))),
        "labels": ", ".join(f"{name}={value}" for name, value in marks.get("labels", {}).items()),
    }
    return [f"{name}: {printable(text)}" for name, text in words.items() if text]
