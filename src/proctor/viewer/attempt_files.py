"""What a try left behind: its files with sizes, and the beginning and the end of those that are text.

Names and contents came out of a sandbox. No link is followed, nothing is read whole, and everything has a bound.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from proctor.model.events import SavedFile
from proctor.viewer.inside import open_inside
from proctor.viewer.page import NotFound

FILES_LISTED = 300
FILES_SEEN = 20_000
"""So many files of a try are counted; a try that left more has at least so many."""
DEPTH = 64
"""Directories deeper than this are not looked into."""

END_BYTES = 16 * 1024
"""So much is shown of the beginning and of the end of a file; what is between is in the file."""
TEXTS_SHOWN = 12
"""So many files of a try are shown as text; all are there as downloads."""

TRAJECTORY = "trajectory.json"
_FIRST = ("try.log", "checkpoint/answer.txt")
_LOGS = (".log", ".stdout", ".stderr", "stdout.txt", "stderr.txt")
_DIFFS = (".diff", ".patch")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of a try: its name below the directory of the try, its size, its digest where the journal has it.

    `link` is None where a browser cannot ask for such a name. `changed` says that it is not what was saved.
    """

    name: str
    size: int
    sha256: str | None = None
    link: str | None = None
    changed: bool = False


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Files of a try in order of their names; `more` are not listed."""

    files: tuple[FoundFile, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The beginning and the end of a file; `left_out` bytes are between them."""

    head: str
    tail: str
    left_out: int
    size: int


def find_files(directory: Path, known: Mapping[str, SavedFile], answer_sha256: str | None) -> FoundFiles:
    """Return the files below a directory, those of ours first; none where there is none, or a link in its place."""
    found: list[FoundFile] = []
    for name, size in _walk(directory):
        saved = known.get(name)
        sha256 = saved.sha256 if saved else answer_sha256 if name == "checkpoint/answer.txt" else None
        found.append(FoundFile(name, size, sha256, changed=saved is not None and saved.size != size))
        if len(found) == FILES_SEEN:
            break
    found.sort(key=lambda one: (one.name != TRAJECTORY, one.name not in _FIRST, one.name))
    return FoundFiles(tuple(found[:FILES_LISTED]), max(0, len(found) - FILES_LISTED))


def _walk(directory: Path) -> Iterator[tuple[str, int]]:
    waiting = [("", 0)]
    while waiting:
        below, depth = waiting.pop()
        try:
            entries = os.scandir(directory / below if below else directory)
        except OSError:
            continue  # not there, or not to be read: then there is nothing to list
        with entries:
            for entry in entries:
                name = f"{below}/{entry.name}" if below else entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        if depth < DEPTH and len(waiting) < FILES_SEEN:
                            waiting.append((name, depth + 1))
                    elif entry.is_file(follow_symlinks=False):
                        yield name, entry.stat(follow_symlinks=False).st_size
                except OSError:
                    continue  # it went while we looked


def logs_of(files: Iterable[FoundFile]) -> list[FoundFile]:
    """Return the files that are shown as text: logs, streams and the answer."""
    found = [one for one in files if one.name in _FIRST or one.name.lower().endswith(_LOGS)]
    return [one for one in found if one.size][:TEXTS_SHOWN]


def diffs_of(files: Iterable[FoundFile]) -> list[FoundFile]:
    """Return the files that are shown as diffs."""
    return [one for one in files if one.size and one.name.lower().endswith(_DIFFS)][:TEXTS_SHOWN]


def excerpt(directory: Path, name: str, most: int = END_BYTES) -> Excerpt | None:
    """Return the ends of a file, `most` bytes of each; None where it cannot be read, or not any more."""
    try:
        descriptor = open_inside(directory, name)
    except NotFound:
        return None
    try:
        size = os.fstat(descriptor).st_size
        head = os.pread(descriptor, most if size > 2 * most else 2 * most, 0)
        tail = os.pread(descriptor, most, size - most) if size > 2 * most else b""
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return Excerpt(_text(head), _text(tail), max(0, size - len(head) - len(tail)), size)


def _text(content: bytes) -> str:
    """Return bytes as text; a character that was cut at an end, or is none, is replaced."""
    return content.decode("utf-8", "replace")
