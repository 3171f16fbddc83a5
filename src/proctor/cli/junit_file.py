"""Writes `--junit FILE`: the slots of all runs of an invocation, from their journals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from proctor.cli.run_writer import RunWriter
from proctor.errors import UsageError
from proctor.report.view import RunView
from proctor.store.files import write_file
from proctor.store.plan_file import read_plan


def checked_junit(given: str | None) -> Path | None:
    """Return where the file goes. Raises `UsageError` where none can come to be: known before anything costs."""
    if given is None:
        return None
    path = Path(given)
    if path.is_dir() or not path.parent.is_dir():
        what = "it is a directory" if path.is_dir() else f"there is no directory `{path.parent}`"
        raise UsageError(f"--junit: `{path}` cannot be written: {what}", hint="name a file in a directory that exists")
    return path


def write_junit(path: Path | None, writers: Mapping[str, RunWriter], views: Mapping[str, RunView]) -> None:
    """Write the file, by rename, if there is to be one. Raises `StoreError`."""
    if path is None:
        return
    from proctor.report.junit import Cases, Suite, junit_xml  # noqa: PLC0415 - XML is for those who ask for it

    suites: list[Suite] = []
    for name, writer in writers.items():
        cases, view = Cases(), views[name]
        for event, at in writer.events():
            cases.add(event, at)
        solved = frozenset(view.solved if view.early_exit else ())
        slots = [(slot.task, slot.ordinal) for slot in read_plan(writer.layout.plan).slots]
        found = cases.of(slots, solved=solved)
        suites.append(Suite(name, writer.run_id, found, view.seconds, view.started_at))
    write_file(path, junit_xml(suites))
