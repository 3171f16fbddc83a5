"""`proctor record`: the index over the journals of a results root: made anew, checked, copied, cleaned."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import rich_click as click

from proctor.cli.command import Group
from proctor.cli.exits import Exit
from proctor.cli.output import say
from proctor.cli.results_place import results_and_record
from proctor.errors import UsageError
from proctor.report.wording import plural, printable
from proctor.store.record import Record, record_path
from proctor.store.record_check import Checked, check_record
from proctor.store.record_errors import RecordError, RecordNewer
from proctor.store.record_export import export_sqlite, export_tables

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("sqlite", "csv", "jsonl", "parquet")

_SHOWN_RUNS = 20
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_RESULTS = click.option(
    "--results-dir",
    metavar="DIR",
    help="Where the results are (default: those of the project, else results).",
)
_URL = click.option(
    "--record-url",
    metavar="URL",
    help="Where the record is (default: that of the project, else .proctor/record.sqlite in the results), such as "
    "sqlite:///PATH.",
)


def _shared(function: F) -> F:
    """Add the options that all commands here have."""

    @wraps(function)
    def placed(*args: Any, results_dir: str | None, record_url: str | None, **given: Any) -> Any:
        place, url = results_and_record(results_dir, record_url)
        return function(*args, results_dir=place, record_url=url, **given)

    return _RESULTS(_URL(_JSON(cast("F", placed))))


@click.group("record", cls=Group)
def command() -> None:
    """Rebuild, check, export and clean the record: the index over all journals, in SQL (see docs/record.md)."""


@command.command("rebuild")
@_shared
def rebuild(results_dir: Path, record_url: str | None, as_json: bool) -> int:
    """Make the whole record anew from the journals. Nothing is lost by it, and runs may go on meanwhile."""
    _require_results(results_dir)
    with Record.open(results_dir, record_url, catch_up=False, suspect=True) as record:
        done = record.rebuild()
        _notices(record)
    path = record_path(results_dir, record_url)
    if as_json:
        say(json.dumps({"record": str(path), **asdict(done)}, indent=1))
    else:
        say(f"{printable(str(path))}: {plural(done.runs, 'run')}, {plural(done.events, 'event')}")
    return _with_problems(done.problems)


@command.command("check")
@_shared
def check(results_dir: Path, record_url: str | None, as_json: bool) -> int:
    """Compare the record with the journals, row by row, and change nothing; exit 1 where they differ."""
    _require_results(results_dir)
    path = record_path(results_dir, record_url)
    checked = check_record(results_dir, record_url)
    if as_json:
        say(json.dumps({"record": str(path), "right": checked.right, **asdict(checked)}, indent=1))
    else:
        for line in _check_lines(checked, str(path)):
            say(line)
    _with_problems(checked.problems)
    if checked.right:
        return Exit.OK
    hint = "`proctor record rebuild` makes it anew from the journals"
    if checked.gone and not (checked.damage or checked.differences or checked.missing):
        hint = "`proctor record clean` removes the rows of runs that are gone"
    say(f"hint: {hint}", err=True)
    return Exit.GATE_NOT_MET


@command.command("export")
@click.option("--format", "kind", type=click.Choice(FORMATS), required=True, help="One file, or one of each table.")
@click.argument("target", type=click.Path(path_type=Path))
@_shared
def export(kind: str, target: Path, results_dir: Path, record_url: str | None, as_json: bool) -> int:
    """Copy the record to TARGET, all of one moment, also while runs are active.

    With `sqlite`, TARGET is a file; otherwise it is a new directory with a file of each table.
    """
    _require_results(results_dir)
    with _up_to_date(results_dir, record_url) as record:
        _notices(record)
        if kind == "sqlite":
            rows = export_sqlite(record.database, target)
        else:
            rows = export_tables(record.database, target, kind)
    if as_json:
        say(json.dumps({"target": str(target), "format": kind, "rows": rows}, indent=1))
    else:
        say(f"{printable(str(target))}: {plural(sum(rows.values()), 'row')} of {plural(len(rows), 'table')}")
    return Exit.OK


@command.command("clean")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@_shared
def clean(dry_run: bool, results_dir: Path, record_url: str | None, as_json: bool) -> int:
    """Remove the rows of runs whose directories are gone from the results."""
    _require_results(results_dir)
    if not record_path(results_dir, record_url).exists():
        removed: list[str] = []
    else:
        with Record.open(results_dir, record_url, catch_up=False) as record:
            removed = record.clean(dry_run=dry_run)
            _notices(record)
    if as_json:
        say(json.dumps({"runs": removed, "dry_run": dry_run}, indent=1))
        return Exit.OK
    for directory in removed:
        say(printable(directory))
    verb = "would be removed" if dry_run else "removed"
    say(f"{plural(len(removed), 'run')} {verb} from the record", err=True)
    return Exit.OK


def _require_results(results_dir: Path) -> None:
    if not results_dir.is_dir():
        raise UsageError(f"there is no directory `{results_dir}`", hint="name the results with `--results-dir`")


def _up_to_date(results_dir: Path, record_url: str | None) -> Record:
    """Open the record and bring it up to date; where it cannot be written, a copy of it."""
    try:
        return Record.open(results_dir, record_url)
    except RecordNewer:
        raise
    except RecordError as error:
        say(f"warning: {error.message}; the journals are read instead", err=True)
        return Record.look(results_dir, record_url)


def _notices(record: Record) -> None:
    for notice in record.notices:
        say(f"warning: {printable(notice)}", err=True)


def _with_problems(problems: Mapping[str, str]) -> int:
    """Say which runs could not be indexed to their end; return the exit code for it."""
    for directory, problem in problems.items():
        say(f"warning: {printable(directory)}: {printable(problem)}", err=True)
    return Exit.INCOMPLETE if problems else Exit.OK


def _check_lines(checked: Checked, path: str) -> list[str]:
    lines = [f"damaged: {printable(checked.damage)}"] if checked.damage else []
    for one in checked.differences:
        counts = [f"{n:,} {word}" for n, word in ((one.extra, "extra"), (one.lacking, "lacking")) if n]
        lines.append(f"{printable(one.where)}: {one.table}: {', '.join(counts)}")
        lines += [f"  {printable(example)}" for example in one.examples]
    for what, directories in (
        ("gone, and still in the record", checked.gone),
        ("not in the record to its end", checked.missing),
        ("active, and not in the record to its end", checked.behind),
    ):
        lines += [f"{printable(directory)}: {what}" for directory in directories[:_SHOWN_RUNS]]
        if len(directories) > _SHOWN_RUNS:
            lines.append(f"and {len(directories) - _SHOWN_RUNS:,} more: {what}")
    right = "as the journals say" if checked.right else "not as the journals say"
    lines.append(f"{printable(path)}: {plural(checked.runs, 'run')}, {plural(checked.rows, 'row')}: {right}")
    return lines
