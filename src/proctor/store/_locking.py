"""What a file system can do for a database that several processes write: locks, and shared memory."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

NETWORK_TYPES = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
        "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs",
    }
)  # fmt: skip
"""File systems on which several machines may meet, or that have no memory shared between them."""

_NUMBERS = itertools.count()


def file_system_of(directory: Path) -> str | None:
    """Return the type of the file system of a directory, such as `ext4`; None when it cannot be told."""
    try:
        device = os.stat(directory).st_dev
        return type_of_device(Path("/proc/self/mountinfo").read_text(errors="replace"), device)
    except OSError:
        return None


def type_of_device(mountinfo: str, device: int) -> str | None:
    """Return the type of the file system on a device, from the text of `/proc/self/mountinfo`."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mountinfo.splitlines():
        mount, separator, rest = line.partition(" - ")
        if separator and mount.split()[2:3] == [wanted]:
            return rest.split()[0]
    return None


def is_network(file_system: str | None) -> bool:
    """Whether several machines may use the file system at once, so that memory shared on one of them is not enough."""
    if file_system is None:
        return False
    return file_system in NETWORK_TYPES or file_system.startswith("fuse.")


def try_lock(descriptor: int) -> None:
    """Take an exclusive lock that belongs to the open file, not to the process; raises `OSError` when it is taken."""
    request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)


def why_no_locks(directory: Path, lock: Callable[[int], None] = try_lock) -> str | None:
    """Return why locks do not work in a directory, or None when they do, by locking a file of our own twice.

    Raises `OSError` when no file can be made there.
    """
    probe = _probe_in(directory)
    first = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        second = os.open(probe, os.O_RDWR | os.O_CLOEXEC)
        try:
            lock(first)
            lock(second)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            if error.errno == errno.EINVAL:
                return None  # a kernel without this kind of lock says nothing about the other kinds
            return (error.strerror or str(error)).lower()
        finally:
            os.close(second)
    finally:
        os.close(first)
        with suppress(OSError):  # it is empty and hidden, and its name is never used again
            os.unlink(probe)
    return "two processes can hold the same lock at once"


def log_works(directory: Path, vfs: str | None = None) -> bool:
    """Say whether a database in a directory can have a write-ahead log, by making one with another name.

    A database that was told to use a log where none works could not be opened any more, so the real one is not tried.
    """
    probe = _probe_in(directory)
    uri = f"{probe.absolute().as_uri()}?mode=rwc" + (f"&vfs={vfs}" if vfs else "")
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            if connection.execute("PRAGMA journal_mode = wal").fetchone()[0] != "wal":
                return False
            connection.execute("CREATE TABLE probe (a)")  # the memory shared between processes is needed only now
            return True
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # our own mistake, and nothing of the file system's
            raise
        return False
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):  # mostly, all but the first are gone already
                os.unlink(f"{probe}{ending}")


def _probe_in(directory: Path) -> Path:
    return directory / f".coordination-{os.getpid()}-{next(_NUMBERS)}.probe"
