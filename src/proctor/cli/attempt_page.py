"""`proctor show @ATTEMPT`: finds an attempt by the beginning of its id, and prints all that happened to it."""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from proctor.cli.attempt_checks import check_data, check_lines
from proctor.cli.output import say
from proctor.errors import JournalDamaged, StoreError, UsageError
from proctor.model.events import RunStarted
from proctor.model.ids import ID_ALPHABET, ID_LENGTH, AttemptId
from proctor.report.attempt import TryFiles, attempt_data, attempt_lines
from proctor.store.codec import NewerFormat, decode
from proctor.store.layout import RunLayout
from proctor.viewer.attempt_files import FoundFiles, find_files
from proctor.viewer.attempt_read import read_attempt
from proctor.viewer.inside import is_file, is_plain

SHORTEST = 4
"""So much of an id has to be given at least."""
FILES_LISTED = 50
FIRST_LINE_BYTES = 64 * 1024

_SHOWN_BEFORE_REFUSAL = 5
_REUSED = b'"type":"SlotFilled"'


def show_attempt(given: str, where: Path, *, as_json: bool) -> int:
    """Print the attempt whose id begins with `given`, of the run in `where` or of any run below it.

    Raises `UsageError` where there is none, or more than one; `StoreError` where lines of it are damaged, after
    printing what the others say.
    """
    layout, attempt = _find(given, where)
    read = read_attempt(layout.journal, attempt)
    story, experiment = read.story, _experiment(layout)
    files = [_files(layout, layout.try_dir(story.task, story.ordinal, each.number)) for each in story.tries]
    run = str(layout.directory)
    if as_json:
        data = attempt_data(story, experiment=experiment, run=run, files=files)
        say(json.dumps({**data, **check_data(read.grade)}, allow_nan=False, indent=1))
    else:
        name, place, *rest = attempt_lines(story, experiment=experiment, run=run, files=files)
        say("\n".join([name, place, *check_lines(read.grade), *rest]))
    if read.damaged:
        raise JournalDamaged(
            f"journal `{layout.journal}` has damaged lines, of this attempt or at its end",
            hint="what can be read is shown; what is missing is lost",
        )
    return 0


def _experiment(layout: RunLayout) -> str:
    """Return the name of the experiment of a run, which its first line has; empty where that cannot be read."""
    with layout.journal.open("rb") as file:
        line = file.readline(FIRST_LINE_BYTES)
    try:
        event, _ = decode(line)
    except (JournalDamaged, NewerFormat):
        return ""
    return event.experiment if isinstance(event, RunStarted) else ""


def is_attempt_prefix(text: str) -> bool:
    """Say whether a text can be the id of an attempt, or the beginning of one, without the `@`."""
    return SHORTEST <= len(text) <= ID_LENGTH and not set(text) - set(ID_ALPHABET)


def _find(given: str, where: Path) -> tuple[RunLayout, AttemptId]:
    prefix = given.removeprefix("@")
    if not is_attempt_prefix(prefix):
        raise UsageError(
            f"`{given}` is not the id of an attempt, nor its beginning",
            hint=f"write `@` and at least {SHORTEST} of its {ID_LENGTH} characters; `proctor show RUN_DIR` lists them",
        )
    rest = f"[{ID_ALPHABET}]{{{ID_LENGTH - len(prefix)}}}"
    pattern = re.compile(f'"attempt":"({prefix}{rest})"'.encode())
    found: dict[AttemptId, Path] = {}
    reused: dict[AttemptId, Path] = {}
    for journal in sorted(journals_below(where), key=_age):
        for attempt, is_reused in _matches(journal, pattern):
            (reused if is_reused else found).setdefault(attempt, journal)
    for attempt in reused.keys() - found.keys():
        found[attempt] = _journal_of_origin(attempt, reused[attempt])
    if not found:
        raise UsageError(
            f"no attempt `@{prefix}` in `{where}`",
            hint="`proctor show RUN_DIR` lists the attempts of a run; name its directory, or give `--results-dir`",
        )
    if len(found) > 1:
        several = ", ".join(f"`@{attempt}`" for attempt in islice(found, _SHOWN_BEFORE_REFUSAL))
        raise UsageError(f"{len(found)} attempts begin with `@{prefix}`: {several}", hint="give more of the id")
    [(attempt, journal)] = found.items()
    return RunLayout(journal.parent), attempt


def _journal_of_origin(attempt: AttemptId, journal: Path) -> Path:
    """Return the journal of the run that made an attempt which another run only reused. Raises `UsageError`."""
    filled = read_attempt(journal, attempt).filled
    name = filled.run if filled is not None else ""
    for folder in journal.resolve().parents:  # the run is named by its place below the results directory
        origin = RunLayout(folder / name).journal
        if is_file(origin):
            return origin
    raise UsageError(
        f"attempt `@{attempt}` was made by the run `{name}`, which is not there",
        hint=f"`{journal.parent}` only reused it; put the run back into the results directory to see its tries",
    )


def journals_below(where: Path) -> Iterator[Path]:
    """Yield the journals of the run or runs in a directory, without looking into the runs."""
    for folder, folders, names in os.walk(where):
        layout = RunLayout(Path(folder))
        if layout.journal.name in names:
            if is_file(layout.journal):
                yield layout.journal
            folders.clear()


def _age(journal: Path) -> float:
    """Return what puts the newest first: a copy of a run is younger only in its place."""
    try:
        return -journal.stat().st_mtime
    except OSError:  # removed while we looked
        return 0.0


def _matches(journal: Path, pattern: re.Pattern[bytes]) -> dict[tuple[AttemptId, bool], None]:
    """Return the ids in a journal that match, in the order in which they come, and whether the run only reused them."""
    try:
        with journal.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return {}
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return dict.fromkeys(
                    (found.group(1).decode(), _is_reused(content, found.start())) for found in pattern.finditer(content)
                )
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"cannot read `{journal}`: {(error.strerror or str(error)).lower()}") from error


def _is_reused(content: mmap.mmap, place: int) -> bool:
    """Say whether the line around a place in a journal tells of a slot that a saved attempt fills."""
    begin = content.rfind(b"\n", 0, place) + 1
    return content.find(_REUSED, begin, place) >= 0


def _files(layout: RunLayout, directory: Path) -> TryFiles:
    """Return what a try left behind; what is behind a link was not left by it."""
    is_own = is_plain(layout.directory.resolve() / directory.relative_to(layout.directory))
    found = find_files(directory, {}, None) if is_own else FoundFiles()
    names = sorted(one.name for one in found.files)
    return TryFiles(str(directory), tuple(names[:FILES_LISTED]), found.more + max(0, len(names) - FILES_LISTED))
