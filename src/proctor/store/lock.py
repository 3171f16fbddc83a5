"""Who writes a journal: one process, known by a lock on the journal and by a file beside it that names the process.

The lock (`flock`) is what counts: the kernel drops it when the process dies, however it dies. The file says who it is,
and stands in on file systems that have no locks. A process that was killed leaves the file behind, which means nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from proctor.errors import JournalLocked, StoreError
from proctor.store.files import Files, store_error, write_all
from proctor.store.plain import encode_json

NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""Errors of a file system that has no locks."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A process that writes a journal: its id, its host, and when it started to write (UTC)."""

    pid: int
    host: str
    started: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.started}" if self.pid else "an unknown process"


UNKNOWN_WRITER = Writer(pid=0, host="", started="")
"""Stands for a writer whose lock file cannot be read."""


def lock_path(journal: Path) -> Path:
    """Return the path of the file that names the writer of a journal."""
    return journal.with_suffix(".lock")


def this_host() -> str:
    """Return the name of this machine."""
    return os.uname().nodename


def read_writer(journal: Path) -> Writer | None:
    """Return the process that the lock file of a journal names, dead or alive; None where there is none."""
    try:
        return msgspec.json.decode(lock_path(journal).read_bytes(), type=Writer)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        return UNKNOWN_WRITER  # the file is being written at this instant, or was cut
    except OSError as error:
        raise store_error("read", lock_path(journal), error) from error


def is_being_written(journal: Path) -> bool | None:
    """Say whether a process has the journal open for writing; None when that cannot be known from this machine."""
    writer = read_writer(journal)
    if writer is None:
        return False
    held = _is_locked(journal)
    if held:
        return True
    if writer.host != this_host():
        return None
    return False if held is False else _exists(writer.pid)


def claim(journal: Path, writer: Writer, files: Files) -> None:
    """Write the lock file of a journal that is about to be made.

    Raises `JournalLocked` when another process holds it, `StoreError` when one left it or it cannot be written.
    """
    path = lock_path(journal)
    try:
        descriptor = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError as error:
        raise _taken(journal) from error
    except OSError as error:
        raise store_error("lock the journal with", path, error) from error
    try:
        _, failed = write_all(files, descriptor, encode_json(writer) + b"\n")
    finally:
        with suppress(OSError):  # what was written is checked by whoever reads it
            files.close(descriptor)
    if failed is not None:
        release(journal, files)
        raise store_error("lock the journal with", path, failed) from failed


def release(journal: Path, files: Files) -> None:
    """Remove the lock file; one that cannot be removed is known as left over by everyone who meets it."""
    with suppress(OSError):
        files.unlink(lock_path(journal))


def _taken(journal: Path) -> StoreError:
    writer = read_writer(journal) or UNKNOWN_WRITER
    may_live = is_being_written(journal) is not False or (writer.host == this_host() and _exists(writer.pid))
    if may_live:
        return JournalLocked(
            f"journal `{journal}` is being written by {writer}", hint="wait for it, stop it, or choose another run id"
        )
    return StoreError(
        f"journal `{journal}` was begun by {writer} and left behind",
        hint="start a new run; `proctor show` on the directory of this one lists what it finished",
    )


def _is_locked(journal: Path) -> bool | None:
    """Say whether the journal is locked; None where the file system has no locks."""
    try:
        descriptor = os.open(journal, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise store_error("read", journal, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno in NO_LOCKS:
            return None
        raise store_error("look for the lock of", journal, error) from error
    finally:
        os.close(descriptor)
    return False


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
