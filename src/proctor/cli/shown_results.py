"""What the viewer is to show: results below one root, all of them or some runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from proctor.cli.named_run import named_run
from proctor.cli.results_place import results_and_record
from proctor.errors import UsageError
from proctor.viewer.results import JOURNAL, Results, is_text
from proctor.viewer.run_read import layout_of


def results_to_show(runs: Sequence[str], results_dir: str | None) -> Results:
    """Return the runs that were named, by directory or id, or all that there are where none was.

    Raises `UsageError` where one is no run, or there are no results.
    """
    root = results_and_record(results_dir)[0]
    if not runs:
        if not root.is_dir():
            raise UsageError(
                f"there are no results in `{root}`", hint="run something first, or say where with --results-dir"
            )
        if not (root / JOURNAL).is_file():
            return Results(root)
        runs = (str(root),)
    found = [layout_of(named_run(each, str(root))).directory for each in runs]
    above = _above(found, root.resolve())
    for directory in found:
        if not is_text(str(directory.relative_to(above))):
            raise UsageError(f"`{directory}` has a name that is no UTF-8", hint="rename it: no address can have it")
    return Results(above, tuple(dict.fromkeys(found)))


def _above(directories: Sequence[Path], root: Path) -> Path:
    """Return the results root where all runs are below it, else what is above all of them."""
    if all(root in directory.parents for directory in directories):
        return root
    return Path(os.path.commonpath([directory.parent for directory in directories]))
