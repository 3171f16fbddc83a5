"""The file of the record as SQLite has it: connections to it, whether it is damaged, and setting it aside."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from proctor.store.files import SYSTEM_FILES
from proctor.store.record_errors import RecordDamaged, explained
from proctor.store.record_versions import is_new, stored_format

_CACHE_KIB = 16 * 1024


def connect(uri: str, busy_seconds: float) -> Connection:
    """Connect to a database by its URI; to a private one, which is gone when it is closed, by an empty one."""

    def creator() -> sqlite3.Connection:
        connection = sqlite3.connect(
            uri, uri=bool(uri), timeout=busy_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            connection.execute("PRAGMA temp_store = MEMORY")
        except BaseException:
            connection.close()
            raise
        return connection

    # Transactions are begun and ended by hand, because one that writes has to say so when it begins.
    engine = create_engine("sqlite://", creator=creator, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    return engine.connect()


def driver(connection: Connection) -> Any:
    """Return the connection below, for what SQLAlchemy has no word for."""
    return connection.connection.driver_connection


def uri_of(path: Path, mode: str, vfs: str | None, *, immutable: bool = False) -> str:
    """Return the URI of a file for a way to open it: `rwc` for writing, `ro` for reading."""
    return f"{path.as_uri()}?mode={mode}" + ("&immutable=1" if immutable else "") + (f"&vfs={vfs}" if vfs else "")


def state_of(path: Path) -> tuple[tuple[int, int], bool]:
    """Return size and time of the file, and whether it has a log with something in it."""
    status = path.stat()
    log = path.with_name(f"{path.name}-wal")
    try:
        logged = log.stat().st_size > 0
    except FileNotFoundError:
        logged = False
    return (status.st_size, status.st_mtime_ns), logged


def require_whole(path: Path, connection: Connection, checked_bytes: float) -> None:
    """Raise `RecordDamaged` for a damaged file, as far as it is looked through; to be used inside `explained`."""
    if not is_new(connection) and path.stat().st_size <= checked_bytes:
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
        if found != "ok":
            raise RecordDamaged(
                f"the record `{path}` is damaged: {found}",
                hint="`proctor record rebuild` sets it aside and makes it anew",
            )


def set_aside_if_damaged(path: Path, uri: str, checked_bytes: float) -> list[str]:
    """Rename a damaged file, nobody else using it; return what to say. Another process may have done so before."""
    try:
        with explained("open", str(path)), closing(connect(uri, 0.0)) as connection:
            require_whole(path, connection, checked_bytes)
            if is_new(connection) or stored_format(connection) is not None:
                return []
    except RecordDamaged:
        pass  # this is what was suspected
    return [set_aside(path)]


def set_aside(path: Path) -> str:
    """Rename the file of a damaged record, with its log, and return the sentence that says so."""
    count = next(n for n in range(1, 1_000_000) if not path.with_name(f"{path.name}.damaged-{n}").exists())
    for ending in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):  # mostly, only the first is there
            target = path.with_name(f"{path.name}.damaged-{count}{ending}")
            SYSTEM_FILES.replace(path.with_name(f"{path.name}{ending}"), target)
    return (
        f"the record `{path}` was damaged: it is set aside as `{path.name}.damaged-{count}` and made anew "
        "from the journals"
    )
