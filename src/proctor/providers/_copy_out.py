"""Copies what an agent left out of a sandbox that is a directory of this machine: bounded, and no tree can break it.

Everything here blocks, for a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from proctor.plugins.api import LeftOut
from proctor.providers._files import copy_file, resolve


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


_CHANGED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL)
"""What a tree brings about that changes while it is copied: what was to be copied is gone, or is something else."""


def copy_out(
    root: str, source: str, target: Path, max_bytes: int | None = None, max_files: int | None = None
) -> LeftOut:
    """Copy a file or directory out of `root` to `target`. Links, devices, pipes and sockets in it are left out.

    So is what is more than `max_bytes` in all or `max_files`, which is counted. Raises `FileNotFoundError` where there
    is nothing, `PermissionError` where `source` leads out of `root`.
    """
    room = _Room(max_bytes, max_files)
    start = resolve(root, source)
    try:
        found = os.lstat(start)
    except OSError as error:
        if error.errno not in (*_CHANGED, errno.ENAMETOOLONG):
            raise
        raise FileNotFoundError(errno.ENOENT, "there is nothing", source) from error
    if stat.S_ISREG(found.st_mode):
        if room.takes(found.st_size):
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_file(start, str(target))
        return room.left_out
    if not stat.S_ISDIR(found.st_mode):
        raise FileNotFoundError(errno.ENOENT, "neither a file nor a directory", source)
    os.makedirs(target, exist_ok=True)
    waiting = [(start, str(target))]
    while waiting:
        folder, place = waiting.pop()
        try:
            folders = _copy_folder(folder, place, room)
        except OSError as error:
            _pass_over(error, room)
        else:
            waiting += [(os.path.join(folder, name), os.path.join(place, name)) for name in reversed(folders)]
    return room.left_out


def _copy_folder(folder: str, place: str, room: _Room) -> list[str]:
    """Copy the files of a directory; return the names of the directories in it."""
    folders: list[str] = []
    os.makedirs(place, exist_ok=True)
    _make_readable(folder, 0o700)
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_file(follow_symlinks=False):
                _copy_entry(entry.path, os.path.join(place, entry.name), room)
    return folders


def _copy_entry(path: str, place: str, room: _Room) -> None:
    size_bytes = 0
    try:
        size_bytes = os.lstat(path).st_size
        _make_readable(path, 0o600)
        if room.takes(size_bytes):
            copy_file(path, place)
    except OSError as error:
        _pass_over(error, room, size_bytes)


def _pass_over(error: OSError, room: _Room, size_bytes: int = 0) -> None:
    """Go on after an error that an agent can bring about at will; raises any other."""
    if error.errno == errno.ENAMETOOLONG:  # it is deeper than a path can say
        room.leave_out(size_bytes)
    elif error.errno not in _CHANGED:
        raise error


def _make_readable(path: str, wanted: int) -> None:
    """Let ourselves read what is ours: an agent must not hide its files by their modes."""
    if not os.access(path, os.R_OK if wanted == 0o600 else os.R_OK | os.X_OK):
        os.chmod(path, wanted)
