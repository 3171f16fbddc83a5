"""`proctor config`: the configuration in force, where it came from, and what its fields are."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUntypedFunctionDecorator=false
# (the types of click's decorators are partly unknown)

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import rich_click as click

from proctor.cli.command import Group
from proctor.cli.entry import open_project
from proctor.cli.exits import Exit
from proctor.cli.options import config_options
from proctor.cli.output import say
from proctor.cli.typed import FIELD_OPTIONS, SECTION_OPTIONS
from proctor.config.effective import Effective, effective
from proctor.config.explain import Explained, explain
from proctor.config.json_schema import launch_schema, project_schema
from proctor.config.schema import OF_EXECUTION
from proctor.report.wording import printable

SCHEMAS = {"project": project_schema, "launch": launch_schema}

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("config", cls=Group)
def command() -> None:
    """Show the configuration in force and where it came from; explain its fields."""


@command.command("show")
@config_options
@_JSON
def show(as_json: bool, **given: Any) -> int:
    """Print every value in force here, and where it came from: a file and line, an option, or default.

    Credentials, and whatever a variable holds, are left out.
    """
    rows = effective(open_project(given))
    if as_json:
        _say_json([{"field": row.field, "value": row.value, **_origin(row)} for row in rows])
        return Exit.OK
    texts = [(printable(row.field), printable(json.dumps(row.value, ensure_ascii=False)), row.origin) for row in rows]
    widths = [max((len(text[column]) for text in texts), default=0) for column in (0, 1)]
    for field, value, origin in texts:
        say(f"{field:<{widths[0]}}  {value:<{min(widths[1], 40)}}  {printable(origin)}")
    return Exit.OK


@command.command("explain")
@click.argument("field")
@config_options
@_JSON
def explain_command(field: str, as_json: bool, **given: Any) -> int:
    """Say what FIELD is, what it takes, what sets it, and what it is here: `attempts`, `runtime.results_dir`."""
    found = explain(field)
    rows = effective(open_project(given))
    if as_json:
        _say_json([_explained_data(one, rows) for one in found])
        return Exit.OK
    for place, one in enumerate(found):
        if place:
            say("")
        for line in _explained_lines(one, rows):
            say(line)
    return Exit.OK


@command.command("schema")
@click.argument("file", type=click.Choice(list(SCHEMAS)), default="project")
def schema(file: str) -> int:
    """Print the JSON Schema of proctor.yaml, or with `launch` that of launch files, for editors."""
    _say_json(SCHEMAS[file]())
    return Exit.OK


def _say_json(value: Any) -> None:
    say(json.dumps(value, indent=1))


def _origin(row: Effective) -> dict[str, Any]:
    return {"from": row.source.name, "line": row.source.line, "level": row.source.level.name.lower()}


def _here(one: Explained, rows: Sequence[Effective]) -> list[Effective]:
    path = f"experiment.{one.path}" if one.of_experiment else one.path
    return [row for row in rows if row.field == path or row.field.startswith(f"{path}.")]


def _explained_data(one: Explained, rows: Sequence[Effective]) -> dict[str, Any]:
    here = [{"field": row.field, "value": row.value, **_origin(row)} for row in _here(one, rows)]
    return {
        "field": one.path, "description": one.words, "takes": one.takes, "default": one.default,
        "set_by": doors_of(one), "here": here,
    }  # fmt: skip


def _explained_lines(one: Explained, rows: Sequence[Effective]) -> list[str]:
    lines = [one.path, *([f"  {one.words}"] if one.words else [])]
    lines += [f"  takes    {one.takes}", f"  default  {one.default}"]
    lines += [f"  {'set by' if not place else '':<7}  {door}" for place, door in enumerate(doors_of(one))]
    for row in _here(one, rows):
        inner = "" if row.field.endswith(one.path) else f"{row.field.rpartition('.')[2]} = "
        lines.append(f"  here     {inner}{printable(json.dumps(row.value))} ({printable(row.origin)})")
    return lines


def doors_of(one: Explained) -> list[str]:
    """Return what sets a field, strongest first."""
    section, _, name = one.path.partition(".")
    if one.of_experiment:
        options = [option for option, path in FIELD_OPTIONS.values() if ".".join(path) == one.path]
        doors = [*options, f"--set {one.path}=...", f"a launch request or its defaults: {one.path}"]
        doors.append(f"Python: `{section}` of a call or an `Experiment`")
        return [*doors, *([f"execution.{one.path}, where nothing else says it"] if one.path in OF_EXECUTION else [])]
    files = f"proctor.yaml and files of --config: {one.path}"
    if section not in ("execution", "runtime"):
        return [files]
    options = [option for option, path in SECTION_OPTIONS.values() if ".".join(path) == one.path]
    return [
        *options,
        f"--set {one.path}=...",
        f"a launch file: {one.path}",
        files,
        f"Python: `{name}` in `{section}` of a call",
    ]
