"""Opens files of a run without ever leaving its directory: step by step, following no link.

What a sandbox left behind has any name and may be any link. Everything here blocks, for a thread.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from proctor.store.layout import RunLayout
from proctor.viewer.page import NotFound

LOCK_BYTES = 64 * 1024
"""A larger file that says who writes a journal is none that proctor wrote."""

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
LONGEST_PATH = 4096


def size_of(path: Path | str) -> int | None:
    """Return the size of a regular file; None where there is none, or a link, a pipe or a directory in its place."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def is_file(path: Path | str) -> bool:
    """Say whether a path is that of a regular file; a link to one is none, wherever it leads."""
    return size_of(path) is not None


def is_plain(directory: Path) -> bool:
    """Say whether no part of the path of a directory is a link."""
    try:
        return directory.resolve() == directory
    except (OSError, RuntimeError, ValueError):  # RuntimeError: links that lead to each other
        return False


def is_run(layout: RunLayout) -> bool:
    """Say whether a directory can be that of a run: its journal, and the lock of that, are files that can be read."""
    if not is_file(layout.journal):
        return False
    lock = size_of(layout.lock)
    return lock <= LOCK_BYTES if lock is not None else not os.path.lexists(layout.lock)


def open_inside(directory: Path, path: str) -> int:
    """Return a descriptor of a regular file below a directory, which the caller closes. Raises `NotFound`.

    `path` has `/` between its parts, none of which may be empty, `.`, `..` or a link.
    """
    parts = path.split("/")
    missing = NotFound("there is no file `{file}`, or not any more", file=path[:200])
    if "\0" in path or len(path) > LONGEST_PATH or any(part in ("", ".", "..") for part in parts):
        raise missing
    try:
        here = os.open(directory, _FLAGS | os.O_DIRECTORY)
        try:
            for part in parts[:-1]:
                below = os.open(part, _FLAGS | os.O_DIRECTORY, dir_fd=here)
                os.close(here)
                here = below
            found = os.open(parts[-1], _FLAGS | os.O_NONBLOCK, dir_fd=here)
        finally:
            os.close(here)
    except (OSError, UnicodeEncodeError) as error:
        raise missing from error
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise missing
    return found
