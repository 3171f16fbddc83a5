"""`proctor list`: what is installed, without importing it, and what the project holds."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import rich_click as click

from proctor.cli.command import Command
from proctor.cli.exits import Exit
from proctor.cli.output import say
from proctor.errors import UnknownName, UsageError
from proctor.plugins.registry import Kind, names, origin
from proctor.report.columns import table
from proctor.report.wording import printable

if TYPE_CHECKING:
    from proctor.cli.listing import Listing

_WORDS = {kind.group.removeprefix("proctor."): kind for kind in Kind}

_OF_PROJECT = ("tasks", "experiments")

_COLUMNS = {
    "tasks": ("id", "tags", "file", "description"),
    "experiments": ("id", "file", "tasks", "model", "tags"),
}


@click.command("list", cls=Command)
@click.argument("what", required=False, metavar="[KIND]")
@click.argument("benchmark", required=False, metavar="[BENCHMARK]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(what: str | None, benchmark: str | None, as_json: bool) -> int:
    """List what is installed: all kinds, or one of harnesses, benchmarks, graders, providers, models.

    `tasks` and `experiments` lists those of the project, `tasks BENCHMARK` those of a benchmark; nothing of them is
    run. What is wrong with a file is said, and the others are listed (exit 2).
    """
    if what is not None and what not in _WORDS and what not in _OF_PROJECT:
        raise UnknownName("kind", what, [*_WORDS, *_OF_PROJECT], list_with="proctor list")
    if benchmark is not None and what != "tasks":
        raise UsageError(f"`list {what}` takes nothing behind it", hint="only `tasks` does: the name of a benchmark")
    if what in _OF_PROJECT:
        return _print_project(what, benchmark, as_json=as_json)
    wanted = [what] if what else list(_WORDS)
    found: dict[str, dict[str, str]] = {
        word: {name: origin(_WORDS[word], name) for name in names(_WORDS[word])} for word in wanted
    }
    if what == "models":
        found["models"] |= _models_of_project()
    if as_json:
        say(json.dumps(found, indent=1))
        return Exit.OK
    lines: list[str] = []
    for word in wanted:
        if len(wanted) > 1:
            lines.append(f"{word}:")
        indent = "  " if len(wanted) > 1 else ""
        lines += [f"{indent}{name:<16} {distribution}" for name, distribution in found[word].items()]
    if what is None:
        lines.append("`proctor list tasks` and `proctor list experiments` list what the project holds")
    say("\n".join(lines))
    return Exit.OK


def _models_of_project() -> dict[str, str]:
    """Return the names that the project has for models, with what each stands for."""
    from proctor.cli.entry import open_project  # noqa: PLC0415 - what is installed is listed without it
    from proctor.cli.listing import list_models  # noqa: PLC0415 - likewise

    return {row["id"]: f"{row['model'] or 'no id'} ({row['file']})" for row in list_models(open_project({})).rows}


def _print_project(what: str, benchmark: str | None, *, as_json: bool) -> int:
    """List what the project holds; return 2 where some of it cannot be."""
    from proctor.cli.entry import open_project  # noqa: PLC0415 - as above
    from proctor.cli.listing import list_experiments, list_tasks, list_tasks_of  # noqa: PLC0415 - likewise
    from proctor.config.discover import discover  # noqa: PLC0415 - likewise

    project = open_project({})
    if what == "experiments":
        listing = list_experiments(discover(project.directory), project)
    else:
        listing = list_tasks(project) if benchmark in (None, "evals") else list_tasks_of(str(benchmark), project)
    if as_json:
        say(json.dumps({what: listing.rows}, indent=1))
    elif listing.rows:
        columns = _COLUMNS[what]
        say("\n".join(table([columns, *([_cell(row[column]) for column in columns] for row in listing.rows)])))
    return _complain(listing, what)


def _cell(value: Any) -> str:
    """Return a value in one line; what is unknown is a dash."""
    if isinstance(value, list):
        return printable(",".join(cast("list[str]", value))) or "-"
    text = "-" if value is None else str(value)
    return printable((text.strip().splitlines() or ["-"])[0])


def _complain(listing: Listing, what: str) -> int:
    for error in listing.errors:
        say(f"error: {error.message}", err=True)
        if error.hint:
            say(f"hint: {error.hint}", err=True)
    if not listing.rows and not listing.errors:
        say(f"there are no {what} here; `proctor init` makes a project with some", err=True)
    return Exit.USAGE if listing.errors else Exit.OK
