"""File work inside the root directory of a sandbox, as its own processes see it: links resolve inside of it.

A process of the sandbox may swap directories for links at any moment: nothing outside is ever read or written. What
its own mounts keep from being written, stays as it is. Everything here blocks, for a thread.
"""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
import threading
from asyncio import CancelledError
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from proctor.plugins.api import LeftOut
from proctor.providers import _copy_out
from proctor.providers._copying import copy_folder_in, copy_over, require_regular, resolved
from proctor.providers.rootfs.open import made_by_the_kernel, make_in_root, open_in_root, path_of

T = TypeVar("T")


class RootFiles:
    """Files of the root directory that `root_fd` leads to, which the caller keeps open and closes.

    Paths are relative to `workdir`, or absolute inside the sandbox. Raises `FileNotFoundError`, `IsADirectoryError`,
    `NotADirectoryError` and so on as the usual calls do. Files of proc and its like raise `PermissionError`: they
    answer to who opens them, and that is not the sandbox.
    """

    def __init__(self, root_fd: int, workdir: str) -> None:
        self._root = root_fd
        self._workdir = workdir

    def read(self, path: str) -> bytes:
        """Return the bytes of a regular file; anything else, such as a pipe that would block, raises `OSError`."""
        with os.fdopen(self._open_there(path, os.O_RDONLY), "rb") as file:
            return file.read()

    def write(self, path: str, data: bytes, mode: int = 0o666) -> None:
        """Write a regular file, through links if it is one, making its parent directories."""
        with os.fdopen(self._open_to_write(path, mode), "wb") as file:
            file.write(data)

    def copy_in(self, source: Path, target: str) -> None:
        """Copy a file or directory of this machine to `target`. Links stay links, devices are left out.

        A link in the place of a file is replaced, one in the place of a directory is followed inside the root.
        """
        path, is_file = resolved(source)
        if not is_file:
            copy_folder_in(path, self._at(target), self._folder)
            return
        parent, name = self._split(target)
        folder = self._folder(parent)
        try:
            copy_over(path, folder, name)
        finally:
            os.close(folder)

    def copy_out(
        self, source: str, target: Path, max_bytes: int | None = None, max_files: int | None = None
    ) -> LeftOut:
        """Copy a file or directory to `target` of this machine. Links, devices, pipes and sockets in it are left out.

        So is what is more than `max_bytes` in all or `max_files`, which is counted, and what is of proc and its like.
        Raises `FileNotFoundError` where there is nothing.
        """
        try:
            start = open_in_root(self._root, self._at(source), os.O_PATH)
        except OSError as error:
            raise _copy_out.not_there(error, source) from error
        try:
            _require_usual(start, source)
            return _copy_out.copy_opened(start, source, target, max_bytes, max_files)
        finally:
            os.close(start)

    def _at(self, path: str) -> str:
        """Return a path from the root; one of it that is empty leads to the work directory."""
        return posixpath.join(self._workdir, path) or "."

    def _split(self, path: str) -> tuple[str, str]:
        """Return the directory, from the root, and the name of what is to be a file."""
        parent, name = posixpath.split(self._at(path))
        if name in ("", ".", ".."):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return parent, name

    def _folder(self, path: str) -> int:
        """Return the place of a directory, made where it is missing."""
        place = make_in_root(self._root, path)
        try:
            _require_usual(place, path)
        except OSError:
            os.close(place)
            raise
        return place

    def _open_there(self, path: str, flags: int) -> int:
        """Open a regular file that is there. It is looked at first: to open a pipe or a device could do something."""
        place = open_in_root(self._root, self._at(path), os.O_PATH)
        try:
            _require_usual(place, path)
            require_regular(place, path)
            return os.open(path_of(place), flags | os.O_CLOEXEC)
        finally:
            os.close(place)

    def _open_to_write(self, path: str, mode: int) -> int:
        parent, name = self._split(path)
        try:
            return self._open_there(path, os.O_WRONLY | os.O_TRUNC)
        except FileNotFoundError:
            folder = self._folder(parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC  # no wait if it becomes a pipe just now
        try:
            made = os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            made = open_in_root(self._root, self._at(path), flags, mode)  # a link to what is not there
        finally:
            os.close(folder)
        try:
            _require_usual(made, path)
            require_regular(made, path)
            os.ftruncate(made, 0)
        except OSError:
            os.close(made)
            raise
        return made


async def in_thread(root: int, work: Callable[[int], T]) -> T:
    """Return what `work` returns in a thread; `root` is closed when that ends, also if nobody waits for it any more.

    A descriptor that is closed sooner may be that of another directory by the time that it is used.
    """
    claim = threading.Lock()  # whoever gets it closes: the thread, or we if it is cancelled before it begins

    def run() -> T:
        if not claim.acquire(blocking=False):
            raise CancelledError
        try:
            return work(root)
        finally:
            os.close(root)

    try:
        return await asyncio.to_thread(run)
    finally:
        if claim.acquire(blocking=False):
            os.close(root)


def _require_usual(opened: int, path: str) -> None:
    """Raise `PermissionError` for a file of proc and its like."""
    if kind := made_by_the_kernel(opened):
        raise PermissionError(errno.EPERM, f"is a file of {kind}, which only commands may use", path)
