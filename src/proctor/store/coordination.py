"""The coordination database: what the invocations of one project must agree on, in one SQLite file.

Every call opens the file, does one short transaction and closes it: nothing is held between calls, a fork or another
thread changes nothing, and a process that is killed leaves no lock behind. Who writes waits for other writers
(`BUSY_SECONDS`), and whatever is committed is on the disk, so that it outlives a power cut.
"""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from proctor.errors import ProctorError, StoreError
from proctor.store._coordination_schema import APPLICATION_ID, SCHEMA, SCHEMA_VERSION
from proctor.store._locking import file_system_of, is_network, log_works, why_no_locks
from proctor.store._sqlite_errors import explain, is_busy, unwritable

BUSY_SECONDS = 5.0
"""How long a writer waits for other writers."""


def coordination_path(project: Path) -> Path:
    """Return the path of the coordination database of a project."""
    return project / ".proctor" / "coordination.sqlite"


def project_of(path: Path) -> Path:
    """Return the project that a coordination database belongs to."""
    return path.parent.parent


class CoordinationDatabase:
    """The file, opened anew for each transaction. All methods raise `StoreError` with what to do about it.

    `vfs` names another of SQLite's ways to use files, `file_system` the type of the file system (default: looked up).
    """

    def __init__(
        self,
        path: Path,
        *,
        busy_seconds: float = BUSY_SECONDS,
        vfs: str | None = None,
        file_system: str | None = None,
    ) -> None:
        self.path = path.absolute()
        self.notices: list[str] = []
        """What a person should know about this file, once."""
        self._busy_seconds = busy_seconds
        self._vfs = vfs
        self._file_system = file_system
        self._prepared = False
        self._may_use_log = True

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Open the database for looking only; one that does not exist is empty."""
        with self._explained("read"), closing(self._open_for_reading()) as connection:
            yield connection

    @contextmanager
    def writing(self, *, create: bool = False) -> Generator[sqlite3.Connection]:
        """Open a transaction that no other one overlaps; it is undone when the block raises.

        One that does not exist is made with `create`; without, it is empty, and what is written to it is not kept.
        """
        with self._explained("write"), closing(self._open_for_writing(create=create)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if _is_new(connection):
                    for statement in SCHEMA:
                        connection.execute(statement)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # some failures have undone it already
                    connection.execute("ROLLBACK")
                raise

    # ------------------------------------------------------------------------------------------------- opening

    def _exists(self) -> bool:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return False
        if stat.S_ISDIR(status.st_mode):
            raise StoreError(f"coordination database `{self.path}` is a directory", hint="move it away")
        return status.st_size > 0

    def _prepare(self, *, create: bool) -> None:
        """Once: make the directory, and find out what its file system can do."""
        if self._prepared:
            return
        folder = self.path.parent
        if create:
            folder.mkdir(exist_ok=True)
        why = why_no_locks(folder)
        if why is not None:
            raise StoreError(
                f"locks do not work in `{folder}`: {why}",
                hint="shared state needs them: put the project on a local file system, or mount this one with locks",
            )
        file_system = self._file_system or file_system_of(folder)
        if is_network(file_system):
            self._may_use_log = False
            self.notices.append(
                f"`{self.path}` is on a file system for networks ({file_system}): it is used without a write-ahead "
                "log, and leases hold between machines only as far as its locks do"
            )
        self._prepared = True

    def _open_for_writing(self, *, create: bool) -> sqlite3.Connection:
        if not self._exists() and not create:
            return _nothing()
        self._prepare(create=create)
        connection = self._connect("rwc")
        try:
            self._choose_journal(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self, mode: str, *, immutable: bool = False) -> sqlite3.Connection:
        uri = f"{self.path.as_uri()}?mode={mode}"
        uri += "&immutable=1" if immutable else ""
        uri += f"&vfs={self._vfs}" if self._vfs else ""
        connection = sqlite3.connect(uri, uri=True, timeout=self._busy_seconds, isolation_level=None)
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA synchronous = FULL")
            self._check_ours(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_for_reading(self) -> sqlite3.Connection:
        if not self._exists():
            return _nothing()
        try:
            connection = self._connect("ro")
        except sqlite3.OperationalError as error:
            # Whoever may not write the directory cannot take part in a write-ahead log. Where there is none at the
            # moment, the file itself is all there is to read.
            log = self.path.with_name(f"{self.path.name}-wal")
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY) or log.exists():
                raise
            connection = self._connect("ro", immutable=True)
        if _is_new(connection):
            connection.close()
            return _nothing()
        return connection

    def _check_ours(self, connection: sqlite3.Connection) -> None:
        """Raise `StoreError` for a database of something else, or of a newer proctor."""
        connection.execute("BEGIN")  # one look: it may be made at this very moment
        version = _number(connection, "PRAGMA user_version")
        application = _number(connection, "PRAGMA application_id")
        is_new = _is_new(connection)
        connection.execute("COMMIT")
        if application != APPLICATION_ID and not is_new:
            raise StoreError(
                f"`{self.path}` is a database of something else",
                hint="move it away; `proctor lease list` then starts with an empty one",
            )
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"`{self.path}` was written by a newer proctor (version {version}; this one knows {SCHEMA_VERSION})",
                hint="upgrade proctor",
            )

    def _choose_journal(self, connection: sqlite3.Connection) -> None:
        """Use a write-ahead log where that works, else a rollback journal; either is safe.

        The change needs the file for itself. Whoever finds it in use goes on as it is, and the next one tries again.
        """
        wanted = "wal" if self._may_use_log else "delete"
        if _word(connection, "PRAGMA journal_mode") == wanted:
            return
        if self._may_use_log and not log_works(self.path.parent, self._vfs):
            self._may_use_log = False
            self.notices.append(f"`{self.path}` is used without a write-ahead log, which does not work there")
            return
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            _word(connection, f"PRAGMA journal_mode = {wanted}")  # one that is not read to its end is undone
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
        finally:
            connection.execute(f"PRAGMA busy_timeout = {round(self._busy_seconds * 1000)}")

    @contextmanager
    def _explained(self, action: str) -> Generator[None]:
        try:
            yield
        except ProctorError:
            raise
        except sqlite3.Error as error:
            raise explain(error, action, self.path, self._busy_seconds) from error
        except OSError as error:
            raise unwritable(error, action, self.path) from error


def _nothing() -> sqlite3.Connection:
    """Return an empty database that is nowhere."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.row_factory = sqlite3.Row
    for statement in SCHEMA:
        connection.execute(statement)
    return connection


def _is_new(connection: sqlite3.Connection) -> bool:
    return _number(connection, "SELECT count(*) FROM sqlite_master") == 0


def _number(connection: sqlite3.Connection, query: str) -> int:
    return connection.execute(query).fetchone()[0]


def _word(connection: sqlite3.Connection, query: str) -> str:
    return connection.execute(query).fetchone()[0]
