"""File work of providers whose sandboxes are directories of this machine: contained, and safe with hostile trees.

Everything here blocks, for a thread.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from proctor.providers._copying import copy_folder_in, copy_over, open_regular, resolved

REMOVE_PASSES = 10
"""How often a directory may turn out not to be empty after all."""


def resolve(root: str, path: str) -> str:
    """Return where `path`, relative to `root` or absolute, really leads, links resolved.

    Raises `PermissionError` if that is not inside `root`, itself a path without links.
    """
    real = os.path.realpath(os.path.join(root, path))
    if real != root and not real.startswith(root + "/"):
        raise PermissionError(errno.EPERM, f"path leads out of the work directory {root}", path)
    return real


def read_file(path: str) -> bytes:
    """Return the bytes of a regular file; anything else, such as a pipe that would block, raises `OSError`."""
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read()


def write_file(path: str, content: bytes, mode: int = 0o666) -> None:
    """Write a regular file, making its parent directories."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with os.fdopen(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)


def copy_in(source: Path, root: str, target: str) -> None:
    """Copy a file or directory of this machine to `target` in `root`. Links stay links, devices are left out.

    No link that lies in `root` leads the copy out of it: raises `PermissionError` at such a directory, and replaces
    such a file.
    """

    def make(path: str) -> int:
        os.makedirs(path, exist_ok=True)
        return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    path, is_file = resolved(source)
    if not is_file:
        copy_folder_in(path, target, lambda folder: make(resolve(root, folder)))
        return
    place = resolve(root, target)
    folder = make(os.path.dirname(place))
    try:
        copy_over(path, folder, os.path.basename(place))
    finally:
        os.close(folder)


def remove_tree(path: str) -> None:
    """Remove a directory and all that is in it, whatever its modes and however deep; nothing there is no error.

    No link is followed, whatever takes the place of a directory meanwhile: a link is removed itself, and what it leads
    to stays. A directory is moved to the top before it is emptied, so that no path grows long and nothing recurs.
    Raises `OSError` for what cannot be removed.
    """
    try:
        top = open_directory(path)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        os.unlink(path)
        return
    try:
        for last in (False,) * (REMOVE_PASSES - 1) + (True,):
            empty_directory(top)
            _remove_directory(path, None, strict=last)
            if not os.path.lexists(path):
                return
    finally:
        os.close(top)


def empty_directory(top: int) -> None:
    """Remove all that is in an opened directory, as `remove_tree` does; what comes in meanwhile may be left."""
    token = os.urandom(6).hex()
    places = (f".removing-{token}-{number}" for number in itertools.count())

    def move_up(directory: int, name: str) -> str:
        place = next(places)
        with suppress(NotADirectoryError):  # it was replaced meanwhile: then what is there is moved and removed
            os.close(open_directory(name, directory))  # to move a directory one must be allowed to write in it
        os.rename(name, place, src_dir_fd=directory, dst_dir_fd=top)
        return place

    waiting = _empty(top, lambda _, name: name)
    while waiting:
        name = waiting.pop()
        with suppress(FileNotFoundError):  # somebody else was faster
            try:
                directory = open_directory(name, top)
            except NotADirectoryError:
                os.unlink(name, dir_fd=top)
                continue
            try:
                waiting += _empty(directory, move_up)
            finally:
                os.close(directory)
            _remove_directory(name, top, strict=False)


def open_directory(name: str, parent: int | None = None) -> int:
    """Open a directory, made readable and writable for us, and return the descriptor, which the caller closes.

    Raises `NotADirectoryError` for anything else, a link to a directory included.
    """
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        opened = os.open(name, os.O_RDONLY | flags, dir_fd=parent)
    except PermissionError:  # its modes are in the way; they are changed by a descriptor, which no link can lead astray
        place = os.open(name, os.O_PATH | flags, dir_fd=parent)
        try:
            os.chmod(f"/proc/self/fd/{place}", 0o700)
            return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            os.close(place)
    with suppress(PermissionError):  # it belongs to somebody else; what that forbids will say so
        os.fchmod(opened, 0o700)
    return opened


def _empty(directory: int, move: Callable[[int, str], str]) -> list[str]:
    """Remove what is in a directory but for directories: those are moved, and their new names at the top returned."""
    moved: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    moved.append(move(directory, entry.name))
                else:
                    os.unlink(entry.name, dir_fd=directory)
    return moved


def _remove_directory(name: str, parent: int | None, *, strict: bool) -> None:
    """Remove a directory; one that is not empty after all is left to the next pass, unless `strict`."""
    try:
        os.rmdir(name, dir_fd=parent)
    except FileNotFoundError:  # somebody else was faster
        pass
    except OSError as error:
        if strict or error.errno != errno.ENOTEMPTY:
            raise


def remove_unused(folder: str, directories: Sequence[str] = (), files: Sequence[str] = ()) -> bool:
    """Remove a sandbox that holds no more than empty `directories` and `files` of ours; say whether it was one.

    A thread for a few calls to the system would cost more than they do. Its labels go last: it is listed until then.
    """
    try:
        for name in directories:
            with suppress(FileNotFoundError):
                os.rmdir(f"{folder}/{name}")
        for name in files:
            with suppress(FileNotFoundError):
                os.unlink(f"{folder}/{name}")
        if os.listdir(folder) != ["labels.json"]:
            return False
        os.unlink(f"{folder}/labels.json")
        os.rmdir(folder)
    except OSError:  # something is in it: it is removed with the care that this takes
        return False
    return True
