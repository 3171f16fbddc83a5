"""What SQLite says, in words that tell a person what to do."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from proctor.errors import StoreError

_PRIMARY = 0xFF
"""The part of SQLite's error codes that is not detail."""

_LOCKING = {
    sqlite3.SQLITE_IOERR_LOCK, sqlite3.SQLITE_IOERR_RDLOCK, sqlite3.SQLITE_IOERR_UNLOCK,
    sqlite3.SQLITE_IOERR_CHECKRESERVEDLOCK, sqlite3.SQLITE_IOERR_SHMLOCK, sqlite3.SQLITE_PROTOCOL,
}  # fmt: skip

_SHARING = {sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP}

_MOVE = (
    "make sure that no run with shared state is alive and that none was killed, then move the file away: "
    "a new one knows of no lease"
)

_REASONS = {
    sqlite3.SQLITE_NOTADB: ("it is no database, or damaged", _MOVE),
    sqlite3.SQLITE_CORRUPT: ("it is damaged", _MOVE),
    sqlite3.SQLITE_READONLY: ("it is read-only", "make it and its directory `{folder}` writable for this user"),
    sqlite3.SQLITE_PERM: ("access was denied", "make it and its directory `{folder}` writable for this user"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "make it and its directory `{folder}` readable and writable"),
    sqlite3.SQLITE_FULL: ("the disk is full", "free some space"),
    sqlite3.SQLITE_IOERR: ("reading or writing failed ({name})", "the disk may be failing: see the log of the kernel"),
}
"""Reason and hint by the primary code."""


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process had the database for itself."""
    return _code(error) & _PRIMARY in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def explain(error: sqlite3.Error, action: str, path: Path, busy_seconds: float) -> StoreError:
    """Return the error for a call that failed: what, on what, why, and what to do about it."""
    why, hint = _reason(error, path, busy_seconds)
    return StoreError(f"cannot {action} the coordination database `{path}`: {why}", hint=hint)


def unwritable(error: OSError, action: str, path: Path) -> StoreError:
    """Return the error for a file or directory that the system refused."""
    why = (error.strerror or str(error)).lower()
    hints = {
        errno.ENOSPC: "free some space",
        errno.EDQUOT: "free some space or raise the quota",
        errno.ENOTDIR: f"something on that path is a file: move it away, `{path.parent}` has to be a directory",
        errno.EEXIST: f"something on that path is a file: move it away, `{path.parent}` has to be a directory",
        errno.ENOENT: "the directory of the project is gone: start in one that exists",
    }
    hint = hints.get(error.errno or 0, f"make `{path.parent}` readable and writable for this user")
    return StoreError(f"cannot {action} the coordination database `{path}`: {why}", hint=hint)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0)  # what the module refuses by itself has none


def _reason(error: sqlite3.Error, path: Path, busy_seconds: float) -> tuple[str, str]:
    code = _code(error)
    if is_busy(error):
        return (
            f"another process kept it locked for more than {busy_seconds:g} s",
            f"try again; if it stays so, look for the process with `fuser {path}`",
        )
    if code in _LOCKING:
        return (
            "locks do not work on its file system",
            "shared state needs them: put the project on a local file system, or mount this one with locks",
        )
    if code in _SHARING:
        return "its file system has no memory shared between processes", "put the project on a local file system"
    why, hint = _REASONS.get(code & _PRIMARY, (f"{error} ({_name(error)})", "this should not happen; please report it"))
    return why.format(name=_name(error)), hint.format(folder=path.parent)


def _name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", None) or type(error).__name__
