"""Where the results of a project are, for commands that look at what is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from proctor.cli.output import say
from proctor.errors import ProctorError, UsageError
from proctor.model.project import project_directory

DEFAULT_RESULTS = "results"

RUNS_SHOWN = 5
"""So many of the runs with one id are named."""


def current_directory() -> Path:
    """Return the current directory. Raises `UsageError` where it is gone."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError("the current directory is gone", hint="change to the directory of the project") from error


def runtime_of(project: Path, *fields: str) -> dict[str, str]:
    """Return texts of the section `runtime` of a project's `proctor.yaml`; what is relative in it is so to that file.

    A file that is wrong keeps nobody from looking at what is there: that is said, and nothing is taken from it.
    """
    if not (project / "proctor.yaml").is_file():
        return {}
    from proctor.config.project import (  # noqa: PLC0415 - it takes long, and most need it not
        load_project,
        record_url_of,
        results_dir_of,
    )

    try:
        runtime = load_project(project, (), os.environ).section("runtime")
        given = {name: value for name in fields if isinstance(value := runtime.tree.get(name), str) and value}
    except ProctorError as error:
        say(f"warning: {error.message}; looking for runs in `{DEFAULT_RESULTS}`", err=True)
        return {}
    if "results_dir" in given:
        given["results_dir"] = results_dir_of(runtime, given["results_dir"])
    if (url := record_url_of(runtime, given.get("record_url"))) is not None:
        given["record_url"] = url
    return given


def results_and_record(results_dir: str | None, record_url: str | None = None) -> tuple[Path, str | None]:
    """Return where results and the record are: as given, else as the project says, else the defaults."""
    if results_dir is not None:
        return Path(results_dir), record_url
    said = runtime_of(project_directory(current_directory()), "results_dir", "record_url")
    return Path(said.get("results_dir", DEFAULT_RESULTS)), record_url or said.get("record_url")


def run_directory(given: str, roots: Iterable[Path], runs_below: Callable[[Path], Iterable[Path]]) -> Path | None:
    """Return the directory of a run: `given` if that is a path, else what `runs_below` the roots has the id `given`.

    None where there is no such run; what a path leads to need not be one. The roots are taken only where they are
    searched. Raises `UsageError` where several runs have the id.
    """
    if Path(given).exists() or given in (".", "..") or Path(given).name != given:
        return Path(given)
    found = [each for root in roots for each in runs_below(root) if each.name == given]
    if len(found) > 1:
        shown = ", ".join(f"`{directory}`" for directory in sorted(found)[:RUNS_SHOWN])
        raise UsageError(f"{len(found)} runs have the id `{given}`", hint=f"give the directory of one: {shown}")
    return found[0] if found else None
