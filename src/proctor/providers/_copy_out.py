"""Copies what an agent left out of a sandbox whose files this machine has: bounded, and no tree can break it.

Everything here blocks, for a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from proctor.plugins.api import LeftOut
from proctor.providers._copying import copy_file
from proctor.providers._files import resolve
from proctor.providers.rootfs.open import made_by_the_kernel, open_below, path_of

CHANGED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL)
"""What a tree brings about that changes while it is copied: what was to be copied is gone, or is something else."""

_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class _Room:
    """How much a copy may still hold, and what was left out of it."""

    def __init__(self, max_bytes: int | None = None, max_files: int | None = None) -> None:
        self._bytes = max_bytes
        self._files = max_files
        self.left_out = LeftOut()

    def takes(self, size_bytes: int) -> bool:
        """Take a file in, or count it as left out."""
        if (self._files is not None and self._files < 1) or (self._bytes is not None and self._bytes < size_bytes):
            self.leave_out(size_bytes)
            return False
        self._files = None if self._files is None else self._files - 1
        self._bytes = None if self._bytes is None else self._bytes - size_bytes
        return True

    def leave_out(self, size_bytes: int = 0) -> None:
        """Count a file as left out."""
        self.left_out = LeftOut(self.left_out.files + 1, self.left_out.size_bytes + size_bytes)


def copy_out(
    root: str, source: str, target: Path, max_bytes: int | None = None, max_files: int | None = None
) -> LeftOut:
    """Copy a file or directory out of `root` to `target`. Links, devices, pipes and sockets in it are left out.

    So is what is more than `max_bytes` in all or `max_files`, which is counted. Raises `FileNotFoundError` where there
    is nothing, `PermissionError` where `source` leads out of `root`.
    """
    try:
        start = os.open(resolve(root, source), _PLACE)
    except OSError as error:
        raise not_there(error, source) from error
    try:
        return copy_opened(start, source, target, max_bytes, max_files)
    finally:
        os.close(start)


def not_there(error: OSError, source: str) -> OSError:
    """Return what to raise where the start of a copy cannot be opened."""
    if error.errno in (*CHANGED, errno.ENAMETOOLONG):
        return FileNotFoundError(errno.ENOENT, "there is nothing", source)
    return error


def copy_opened(
    start: int, source: str, target: Path, max_bytes: int | None = None, max_files: int | None = None
) -> LeftOut:
    """Copy, as `copy_out` does, the file or directory whose place is open; `source` is what messages call it."""
    room = _Room(max_bytes, max_files)
    found = os.fstat(start)
    if stat.S_ISREG(found.st_mode):
        if room.takes(found.st_size):
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy_place(start, str(target), found.st_size)
        return room.left_out
    if not stat.S_ISDIR(found.st_mode):
        raise FileNotFoundError(errno.ENOENT, "neither a file nor a directory", source)
    os.makedirs(target, exist_ok=True)
    waiting = [""]
    while waiting:
        path = waiting.pop()
        try:
            folder = open_below(start, path)
            try:
                if os.fstat(folder).st_dev != found.st_dev and made_by_the_kernel(folder):
                    continue
                folders = _copy_folder(folder, os.path.join(target, path), room)
            finally:
                os.close(folder)
        except OSError as error:
            _pass_over(error, room)
        else:
            waiting += [os.path.join(path, name) for name in reversed(folders)]
    return room.left_out


def _copy_folder(folder: int, place: str, room: _Room) -> list[str]:
    """Copy the files of a directory; return the names of the directories in it."""
    folders: list[str] = []
    os.makedirs(place, exist_ok=True)
    _make_readable(folder, 0o700)
    opened = os.open(path_of(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(opened) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    _copy_entry(opened, entry.name, os.path.join(place, entry.name), room)
    finally:
        os.close(opened)
    return folders


def _copy_entry(folder: int, name: str, place: str, room: _Room) -> None:
    size_bytes = 0
    try:
        entry = os.open(name, _PLACE, dir_fd=folder)
        try:
            found = os.fstat(entry)
            size_bytes = found.st_size
            if stat.S_ISREG(found.st_mode) and room.takes(size_bytes):  # else it was replaced just now
                _copy_place(entry, place, size_bytes)
        finally:
            os.close(entry)
    except OSError as error:
        _pass_over(error, room, size_bytes)


def _copy_place(place: int, target: str, size_bytes: int) -> None:
    """Copy the regular file whose place is open."""
    _make_readable(place, 0o600)
    reading = os.open(path_of(place), os.O_RDONLY | os.O_CLOEXEC)
    try:
        copy_file(reading, target, size_bytes)
    finally:
        os.close(reading)


def _pass_over(error: OSError, room: _Room, size_bytes: int = 0) -> None:
    """Go on after an error that an agent can bring about at will; raises any other."""
    if error.errno == errno.ENAMETOOLONG:  # it is deeper than a path can say
        room.leave_out(size_bytes)
    elif error.errno not in CHANGED:
        raise error


def _make_readable(place: int, wanted: int) -> None:
    """Let ourselves read what is ours: an agent must not hide its files by their modes."""
    path = path_of(place)
    if not os.access(path, os.R_OK if wanted == 0o600 else os.R_OK | os.X_OK):
        os.chmod(path, wanted)
