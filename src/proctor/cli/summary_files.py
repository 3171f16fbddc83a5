"""Writes the files that an invocation ends with: summaries of each run, and JUnit XML where it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.cli.junit_file import write_junit
from proctor.report.summary import Summary, summary_of
from proctor.report.summary_html import points_of, summary_html
from proctor.report.view import RunView

if TYPE_CHECKING:
    from proctor.cli.outcome import Outcome
    from proctor.cli.run_writer import RunWriter


def write_summaries(
    outcome: Outcome, views: Mapping[str, RunView], writers: Mapping[str, RunWriter], junit: Path | None
) -> list[Summary]:
    """Write the files and return what is said of each run; what cannot be written is noted in `outcome`.

    Of a single run its lines say where its time went; of several that is said of all together, elsewhere.
    """
    alone = len(views) == 1
    ends = {
        name: summary_of(views[name], run=writer.run_id, directory=str(writer.directory), time=alone)
        for name, writer in writers.items()
    }
    points = points_of(end.data for end in ends.values())
    for name, end in ends.items():
        with outcome.writing():
            writers[name].end(end.data, end.markdown, summary_html(end.data, points))
    with outcome.writing():
        write_junit(junit, writers, views)
    return list(ends.values())
