"""The calls to the operating system that write results, and what they have in common: whole files, clear errors.

Every write of the store goes through a `Files`, so that a test can make any single call fail.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
from contextlib import suppress
from pathlib import Path

from proctor.errors import StoreError

StrPath = str | Path


class Files:
    """One method per call; each raises `OSError` as the operating system does."""

    def open(self, path: StrPath, flags: int) -> int:
        """Open a file and return its descriptor, which child programs do not inherit."""
        return os.open(path, flags | os.O_CLOEXEC, 0o666)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """Write what the system takes at once and return how many bytes that was."""
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        """Return when everything written so far is on the disk."""
        os.fsync(descriptor)

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        """Cut a file."""
        os.ftruncate(descriptor, size_bytes)

    def close(self, descriptor: int) -> None:
        """Close a descriptor; it is closed even if this raises."""
        os.close(descriptor)

    def replace(self, source: StrPath, target: StrPath) -> None:
        """Rename a file over another one in one step."""
        os.replace(source, target)

    def unlink(self, path: StrPath) -> None:
        """Remove a file."""
        os.unlink(path)

    def mkdir(self, path: StrPath) -> None:
        """Make one directory; raises `FileExistsError` where there is something already."""
        os.mkdir(path)

    def rmdir(self, path: StrPath) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def lock(self, descriptor: int) -> None:
        """Take the exclusive lock on an open file, waiting for whoever looks at it."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)


SYSTEM_FILES = Files()
"""The real thing."""

_NUMBERS = itertools.count()

_HINTS = {
    errno.ENOSPC: "free some space, then run it again",
    errno.EDQUOT: "free some space or raise the quota, then run it again",
    errno.EROFS: "the file system is read-only: make it writable or choose another `--results-dir`",
    errno.EACCES: "make it writable for this user or choose another `--results-dir`",
    errno.EPERM: "make it writable for this user or choose another `--results-dir`",
    errno.EIO: "the disk or the connection to it is failing: see the log of the kernel",
    errno.ENOTDIR: "something on that path is a file: move it or choose another `--results-dir`",
    errno.ENAMETOOLONG: "choose a shorter `--results-dir`",
}


def store_error(action: str, path: StrPath, error: OSError, kept: str = "") -> StoreError:
    """Return the error for a call that failed: what, on what, why, what was `kept`, and what to do about it."""
    why = (error.strerror or str(error) or type(error).__name__).lower()
    ending = f"; {kept}" if kept else ""
    hint = _HINTS.get(error.errno or 0)
    if action.startswith("read") and error.errno in (errno.EACCES, errno.EPERM):
        hint = "make it readable for this user"
    return StoreError(f"cannot {action} `{path}`: {why}{ending}", hint=hint)


def write_all(files: Files, descriptor: int, data: bytes) -> tuple[int, OSError | None]:
    """Write all of `data`; return how many bytes were written, and what stopped it if something did."""
    done = 0
    while done < len(data):
        try:
            count = files.write(descriptor, memoryview(data)[done:] if done else data)
        except InterruptedError:
            continue  # a signal came before anything was written
        except OSError as error:
            return done, error
        if count <= 0:  # never seen on a file, and must not become an endless loop
            return done, OSError(errno.EIO, "nothing was written")
        done += count
    return done, None


def fsync_all(files: Files, descriptor: int) -> None:
    """Call fsync, again where a signal came in between."""
    while True:
        try:
            files.fsync(descriptor)
        except InterruptedError:
            continue  # a signal came in between
        return


def fsync_directory(files: Files, directory: StrPath) -> None:
    """Make the names in a directory durable; raises `OSError`."""
    descriptor = files.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fsync_all(files, descriptor)
    except OSError as error:
        # Some network file systems cannot do this for directories, and write names at once anyway.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        files.close(descriptor)


def write_file(path: StrPath, data: bytes, *, durable: bool = False, files: Files = SYSTEM_FILES) -> None:
    """Put a whole file in place by rename: a reader sees the old content or the new one, never a part.

    With `durable`, it is on the disk when this returns. Raises `StoreError`; then the old file is untouched.
    """
    directory, name = os.path.split(path)
    temporary = f"{directory or '.'}/.{name}.{os.getpid()}-{next(_NUMBERS)}.tmp"
    try:
        descriptor = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except OSError as error:
        raise store_error("write", path, error) from error
    try:
        try:
            _, failed = write_all(files, descriptor, data)
            if failed is not None:
                raise failed
            if durable:
                fsync_all(files, descriptor)
        finally:
            files.close(descriptor)
        files.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):  # it is hidden and never read; the error above is what counts
            files.unlink(temporary)
        raise store_error("write", path, error) from error
    if durable:
        try:
            fsync_directory(files, directory or ".")
        except OSError as error:
            raise store_error("write", path, error) from error
