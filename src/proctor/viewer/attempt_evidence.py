"""The evidence of one try as it is shown: its trajectory, its diffs, its logs, and all files as downloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from proctor.viewer.attempt_files import (
    TRAJECTORY,
    Excerpt,
    FoundFile,
    FoundFiles,
    diffs_of,
    excerpt,
    find_files,
    logs_of,
)
from proctor.viewer.attempt_read import TryRead
from proctor.viewer.colours import Run, coloured, diff_lines
from proctor.viewer.inside import is_plain
from proctor.viewer.page import Asked
from proctor.viewer.paging import Paging
from proctor.viewer.trajectory import STEPS_ON_A_PAGE, StepPage, read_steps
from proctor.viewer.trajectory_steps import Budget, Step, shown_step

STATIC_STEPS = 500
"""So many steps of a try are on a page that is a file."""
DIFF_BYTES = 64 * 1024
DIFF_LINES = 4_000
"""So much is shown of a diff at each end of it."""


@dataclass(frozen=True, slots=True)
class Log:
    """A file that is shown as text; `head` and `tail` with the colours that a terminal would show."""

    file: FoundFile
    head: Sequence[Run]
    tail: Sequence[Run]
    left_out: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a try left behind. `steps` is None where it has no trajectory."""

    number: int
    found: FoundFiles
    page: StepPage | None
    steps: Sequence[Step]
    paging: Paging | None
    trajectory: FoundFile | None
    diffs: Sequence[Log]
    logs: Sequence[Log]


def evidence_of(each: TryRead, directory: Path, asked: Asked, link: Callable[[str], str]) -> Evidence:
    """Return the evidence of a try in its directory; `link` gives the address of a file in it."""
    if not is_plain(directory):  # a link, to wherever: what is behind it is not evidence of this try
        return Evidence(each.story.number, FoundFiles(), None, (), None, None, (), ())
    listed = find_files(directory, each.files, each.answer_sha256)
    found = FoundFiles(tuple(replace(one, link=_link(one, link)) for one in listed.files), listed.more)
    size, asked_for = (STATIC_STEPS, None) if asked.links.static else (STEPS_ON_A_PAGE, asked.query.get("steps"))
    page = read_steps(directory, TRAJECTORY, asked_for, size)
    budget = Budget()
    steps = [shown_step(one, page.paging.start + n + 1, budget) for n, one in enumerate(page.steps)] if page else []
    return Evidence(
        each.story.number,
        found,
        page,
        steps,
        page.paging if page else None,
        next((one for one in found.files if one.name == TRAJECTORY), None),
        list(_diffs(directory, found)),
        list(_logs(directory, found)),
    )


def _link(one: FoundFile, link: Callable[[str], str]) -> str | None:
    try:
        return link(one.name)
    except UnicodeEncodeError:  # a name that is no text in any encoding of addresses
        return None


def _logs(directory: Path, found: FoundFiles) -> Iterator[Log]:
    for one in logs_of(found.files):
        part = excerpt(directory, one.name)
        if part is not None:
            yield Log(one, coloured(part.head), coloured(part.tail), part.left_out)


def _diffs(directory: Path, found: FoundFiles) -> Iterator[Log]:
    for one in diffs_of(found.files):
        part = excerpt(directory, one.name, DIFF_BYTES)
        if part is not None:
            yield _diff(one, part)


def _diff(one: FoundFile, part: Excerpt) -> Log:
    head, tail = list(diff_lines(part.head)), list(diff_lines(part.tail)) if part.tail else []
    cut = sum(len(line.text) + 1 for line in (*head[DIFF_LINES:], *tail[:-DIFF_LINES]))
    return Log(one, head[:DIFF_LINES], tail[-DIFF_LINES:], part.left_out + cut)
