"""What goes wrong with the record, in words that tell a person what to do. None of it ever fails a run."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from proctor.errors import ProctorError, StoreError

_PRIMARY = 0xFF
"""The part of SQLite's error codes that is not detail."""

ELSEWHERE = "put the record on a local file system: `record_url: sqlite:///PATH`; runs go on without it"


class RecordError(StoreError):
    """The record cannot be used; runs go on without it, and `rebuild` brings it up to date again."""


class RecordBusy(RecordError):
    """Other processes kept the record locked; what was to be written is written later."""


class RecordDamaged(RecordError):
    """The file of the record is no database, or damaged."""


class RecordNewer(RecordError):
    """The record was written by a newer proctor."""


_DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_LOCKING = {
    sqlite3.SQLITE_IOERR_LOCK, sqlite3.SQLITE_IOERR_RDLOCK, sqlite3.SQLITE_IOERR_UNLOCK,
    sqlite3.SQLITE_IOERR_CHECKRESERVEDLOCK, sqlite3.SQLITE_IOERR_SHMLOCK, sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP, sqlite3.SQLITE_PROTOCOL,
}  # fmt: skip
_WRITABLE = "make it and its directory writable for this user; runs go on without the record"
_REASONS = {
    sqlite3.SQLITE_READONLY: ("it is read-only", _WRITABLE),
    sqlite3.SQLITE_PERM: ("access was denied", _WRITABLE),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", _WRITABLE),
    sqlite3.SQLITE_FULL: ("the disk is full", "free some space; runs are kept in their journals"),
    sqlite3.SQLITE_IOERR: ("reading or writing failed", "the disk may be failing: see the log of the kernel"),
    sqlite3.SQLITE_INTERRUPT: ("it was interrupted", "try again"),
}
"""Reason and hint by the primary code."""


@contextmanager
def explained(action: str, what: str) -> Generator[None]:
    """Turn what the database or the system raises inside into a `RecordError` that says what to do."""
    try:
        yield
    except ProctorError:
        raise
    except DBAPIError as error:
        raise explain(error.orig or error, action, what) from error
    except sqlite3.Error as error:
        raise explain(error, action, what) from error
    except OSError as error:
        raise _of_system(error, action, what) from error


def explain(error: BaseException, action: str, what: str) -> RecordError:
    """Return the error for a call that failed: what, on what, why, and what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0)
    failed = f"cannot {action} the record `{what}`"
    if code & _PRIMARY in _BUSY:
        return RecordBusy(f"{failed}: other processes keep it locked", hint="what is missing is indexed later")
    if code & _PRIMARY in _DAMAGED:
        return RecordDamaged(
            f"{failed}: it is damaged", hint="`proctor record rebuild` sets it aside and makes it anew"
        )
    if code in _LOCKING:
        return RecordError(f"{failed}: locks or shared memory do not work on its file system", hint=ELSEWHERE)
    name = getattr(error, "sqlite_errorname", None)
    unknown = (f"{error} ({name})" if name else str(error), "`proctor record rebuild` makes it anew")
    why, hint = _REASONS.get(code & _PRIMARY, unknown)
    return RecordError(f"{failed}: {' '.join(why.split())}", hint=hint)


def is_busy(error: DBAPIError) -> bool:
    """Whether other processes had the database for themselves."""
    return getattr(error.orig, "sqlite_errorcode", 0) & _PRIMARY in _BUSY


def _of_system(error: OSError, action: str, what: str) -> RecordError:
    why = (error.strerror or str(error)).lower()
    folder = Path(what).parent
    hints = {
        errno.ENOSPC: "free some space; runs are kept in their journals",
        errno.EDQUOT: "free some space or raise the quota; runs are kept in their journals",
        errno.ENOTDIR: f"something on that path is a file: move it away, `{folder}` has to be a directory",
        errno.EEXIST: f"something on that path is a file: move it away, `{folder}` has to be a directory",
        errno.ENOENT: "name the directory that the results are in",
    }
    hint = hints.get(error.errno or 0, f"make `{folder}` writable for this user; runs go on without the record")
    return RecordError(f"cannot {action} the record `{what}`: {why}", hint=hint)
