"""Where the runs below a results root are, and whether their files are the ones that were indexed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from proctor.store.layout import RunLayout
from proctor.store.plain import escape_surrogates

JOURNAL_NAME = RunLayout(Path()).journal.name


@dataclass(frozen=True, slots=True)
class Seen:
    """What tells one state of a file from another without reading it."""

    size_bytes: int
    modified_ns: int
    inode: int


def look_at(path: str) -> Seen | None:
    """Return the state of a file; None where there is no such file. Raises `OSError` when that cannot be told."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Seen(status.st_size, status.st_mtime_ns, status.st_ino) if stat.S_ISREG(status.st_mode) else None


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run below a results root: its directory relative to it, with `/`, and the state of its journal."""

    directory: str
    journal: Seen


def find_runs(root: Path) -> Iterator[FoundRun]:
    """Yield the runs below a results root, in the order of their names.

    A directory with a journal is a run, and is not looked into any further; hidden ones are left out, and names that
    are no UTF-8, which nobody could write in SQL. Raises `OSError` when a directory cannot be read.
    """
    status = os.stat(root)
    yield from _find(str(root), "", frozenset({(status.st_dev, status.st_ino)}))


def _find(path: str, directory: str, above: frozenset[tuple[int, int]]) -> Iterator[FoundRun]:
    with os.scandir(path) as entries:
        names = sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
    for name in names:
        if escape_surrogates(name) != name:
            continue
        below = f"{path}/{name}"
        inner = f"{directory}/{name}" if directory else name
        try:
            journal = look_at(f"{below}/{JOURNAL_NAME}")
            if journal is not None:
                yield FoundRun(inner, journal)
                continue
            status = os.stat(below)
            key = (status.st_dev, status.st_ino)
            if key not in above:  # a link that leads back up
                yield from _find(below, inner, above | {key})
        except FileNotFoundError:
            continue  # it was removed while we looked
