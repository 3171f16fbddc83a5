"""Finds a run that somebody names, by its directory or its id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from proctor.cli.attempt_page import journals_below
from proctor.cli.results_place import results_and_record, run_directory


def named_run(given: str, results_dir: str | None) -> Path:
    """Return the directory of a run: `given` where that is a path, else the one with that id among the results.

    What there is no run of is taken for a path as well: whoever reads it says that it is none. Raises `UsageError`
    where several runs have the id.
    """
    return run_directory(given, _roots(results_dir), _runs_below) or Path(given)


def _roots(results_dir: str | None) -> Iterator[Path]:
    """Yield where runs are looked for; what the project says of it is read no sooner than that is asked for."""
    yield results_and_record(results_dir)[0]


def _runs_below(root: Path) -> Iterator[Path]:
    return (journal.parent for journal in journals_below(root))
