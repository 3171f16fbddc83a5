"""The runs that there are: where those of an experiment are, the record of them, and what of them cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.cli.run_writer import experiment_dir_of
from proctor.model.spec import Experiment
from proctor.store.layout import run_name_levels

if TYPE_CHECKING:
    from proctor.store.record import Record


def group_of(experiment: Experiment, results_dir: Path, run_name: str | None) -> Path:
    """Return the directory that the runs of an experiment are in."""
    levels = () if run_name is None else run_name_levels(run_name)
    return results_dir.joinpath(*levels, experiment_dir_of(experiment))


def open_record(results_dir: Path, url: str | None, *, look: bool, tell: Callable[[str], object]) -> Record:
    """Return the record of a results directory, up to date.

    With `look` nothing is written. Where it cannot be used all journals are read instead, and `tell` is told why.
    Raises `UsageError` for a bad `url`.
    """
    from proctor.store.record import Record  # noqa: PLC0415 - runs that reuse nothing need no database
    from proctor.store.record_errors import RecordError  # noqa: PLC0415 - likewise

    if look or not results_dir.is_dir():
        return Record.look(results_dir, url)
    try:
        return Record.open(results_dir, url)
    except RecordError as error:
        tell(f"{error.message}; the journals are read instead")
        return Record.look(results_dir, url)


def left_out(record: Record, groups: Collection[Path] | None) -> Iterator[str]:
    """Yield what is wrong with runs that cannot be read to their end: in these directories, or with None in all.

    A torn line at the end of a journal is nothing wrong: a run that was killed in the middle of a write leaves one.
    """
    for directory, problem in sorted(record.problems.items()):
        if groups is None or (record.root / directory).parent in groups:
            yield f"run `{record.root / directory}` cannot be read to its end: {problem}"
