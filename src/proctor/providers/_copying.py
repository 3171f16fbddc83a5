"""Copies files and trees by descriptors, so that no link on either side leads a copy astray.

Everything here blocks, for a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

COPY_BYTES = 1024 * 1024
_REPLACE_TRIES = 10
"""How often something may come to where a file is to be made."""


def open_regular(path: str, flags: int, mode: int = 0o666, directory: int | None = None) -> int:
    """Open a regular file without following a link or waiting for the other end of a pipe; else raises `OSError`."""
    opened = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=directory)
    try:
        require_regular(opened, path)
    except OSError:
        os.close(opened)
        raise
    return opened


def require_regular(opened: int, path: str) -> None:
    """Raise `OSError` unless what is open is a regular file."""
    kind = os.fstat(opened).st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, "is a directory", path)
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "not a regular file", path)


def copy_folder_in(source: str, target: str, open_folder: Callable[[str], int]) -> None:
    """Copy what is in a directory to `target`. Links stay links, devices are left out.

    `open_folder` makes the directory of a path below `target`, and returns its descriptor.
    """
    waiting = [(source, target)]
    while waiting:
        folder, target = waiting.pop()
        place = open_folder(target)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, os.path.join(target, entry.name)))
                    else:
                        copy_over(entry.path, place, entry.name)
        finally:
            os.close(place)


def copy_over(source: str, folder: int, name: str) -> None:
    """Copy one file or link to `name` in a directory; what is at its place is replaced, never written through."""
    kind = os.lstat(source).st_mode
    if stat.S_ISREG(kind):
        reading = open_regular(source, os.O_RDONLY)
        try:
            writing = _replace(
                folder, name, lambda: open_regular(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, directory=folder)
            )
            try:
                copy_content(reading, writing)
            finally:
                os.close(writing)
        finally:
            os.close(reading)
    elif stat.S_ISLNK(kind):
        _replace(folder, name, lambda: os.symlink(os.readlink(source), name, dir_fd=folder))


def _replace(folder: int, name: str, make: Callable[[], T]) -> T:
    """Make something at a place that it takes from whatever is there; a directory is not removed: raises `OSError`."""
    for _ in range(_REPLACE_TRIES):
        try:
            return make()
        except FileExistsError:
            os.unlink(name, dir_fd=folder)
    return make()


def copy_file(reading: int, target: str, size_bytes: int) -> None:
    """Copy at most `size_bytes` of an opened regular file to the path `target`, whose last part is no link."""
    writing = open_regular(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        copy_content(reading, writing, size_bytes)
    finally:
        os.close(writing)


def copy_content(reading: int, writing: int, most_bytes: int | None = None) -> None:
    """Copy an opened file with its permissions. Holes stay holes, so that a small file cannot grow to fill a disk."""
    found = os.fstat(reading)
    size_bytes = found.st_size if most_bytes is None else min(found.st_size, most_bytes)  # it may grow meanwhile
    position = 0
    while (position := _next_data(reading, position)) < size_bytes:
        end = min(os.lseek(reading, position, os.SEEK_HOLE), size_bytes)
        os.lseek(reading, position, os.SEEK_SET)
        os.lseek(writing, position, os.SEEK_SET)
        _copy_range(reading, writing, end - position)
        position = max(end, position + 1)
    os.ftruncate(writing, size_bytes)
    os.fchmod(writing, stat.S_IMODE(found.st_mode) & 0o777 | 0o600)


def _next_data(descriptor: int, position: int) -> int:
    """Return where the next data begins; beyond the end if there is none."""
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return 1 << 62


def _copy_range(reading: int, writing: int, count: int) -> None:
    while count > 0:
        sent = os.sendfile(writing, reading, None, min(count, COPY_BYTES))
        if sent == 0:  # it was cut while we read
            return
        count -= sent


def resolved(source: Path) -> tuple[str, bool]:
    """Return where a file or directory of this machine is, and whether it is a file; `OSError` if it is not there."""
    real = source.resolve(strict=True)
    return str(real), real.is_file()
