"""One connection to the database of the record: made, migrated or set aside at opening, waited for when it is busy."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Insert, Table
from sqlalchemy.exc import DBAPIError

from proctor.store._locking import file_system_of, is_network, log_works, why_no_locks
from proctor.store.record_errors import ELSEWHERE, RecordBusy, RecordDamaged, RecordError, explained, is_busy
from proctor.store.record_file import connect, driver, require_whole, set_aside_if_damaged, state_of, uri_of
from proctor.store.record_lock import UserLock
from proctor.store.record_versions import create_or_migrate, is_new, require_known

BUSY_SECONDS = 5.0
"""How long a writer waits for other writers before it leaves its work for later."""

CHECKED_BYTES = 8 * 1024 * 1024
"""A record up to this size is checked for damage at every opening; a larger one when somebody meets damage in it."""

_SLICE_SECONDS = 0.25

GiveUp = Callable[[], bool]
"""Says whether to stop waiting for other processes."""


def never() -> bool:
    """Go on waiting."""
    return False


class RecordDatabase:
    """One connection; belongs to one thread at a time. All methods raise `RecordError` with what to do about it."""

    def __init__(self, what: str, connection: Connection, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.what = what
        """What messages name it by: its path."""
        self.connection = connection
        self.notices: list[str] = []
        """What a person should know about it, once."""
        self._busy_seconds = busy_seconds
        self._statements: dict[int, tuple[str, Callable[[Any], Any]]] = {}
        self._after_closing = ExitStack()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        busy_seconds: float = BUSY_SECONDS,
        vfs: str | None = None,
        file_system: str | None = None,
        suspect: bool = False,
    ) -> Self:
        """Open the file for writing: a missing one is made, an old one migrated, a damaged one set aside and made anew.

        One that is `suspect` is searched for damage whatever its size. `vfs` names another of SQLite's ways to use
        files, `file_system` the type of the file system (default: looked up). Raises `RecordNewer` for one of a newer
        proctor, `RecordDamaged` when others use a damaged one, `RecordError` when it cannot be used where it is.
        """
        path = path.absolute()
        with explained("open", str(path)), ExitStack() as undo:
            path.parent.mkdir(exist_ok=True)
            if why := why_no_locks(path.parent):
                raise RecordError(f"locks do not work in `{path.parent}`: {why}", hint=ELSEWHERE)
            lock = undo.enter_context(UserLock(path.with_name(f"{path.name}-users")))
            notices: list[str] = []
            uri, checked = uri_of(path, "rwc", vfs), math.inf if suspect else CHECKED_BYTES

            def opened() -> Self:
                with ExitStack() as failing, explained("open", str(path)):
                    database = cls(str(path), connect(uri, busy_seconds), busy_seconds=busy_seconds)
                    failing.callback(database.close)
                    require_whole(path, database.connection, checked)
                    database._choose_log(path, vfs, file_system or file_system_of(path.parent))
                    create_or_migrate(database)
                    failing.pop_all()
                    return database

            try:
                database = opened()
            except RecordDamaged:
                lock.alone(lambda: notices.extend(set_aside_if_damaged(path, uri, checked)))
                database = opened()
            database.notices += notices
            database._after_closing = undo.pop_all()
            return database

    @classmethod
    def private(cls) -> Self:
        """Return an empty one that nobody else sees and that is gone when it is closed."""
        database = cls("in memory", connect("", BUSY_SECONDS))
        create_or_migrate(database)
        return database

    @classmethod
    def copied(cls, path: Path) -> Self:
        """Return a private copy of the file, as it is at this moment, and change nothing.

        Raises `RecordError` when it cannot be read, `RecordBusy` when it changes all the time.
        """
        path = path.absolute()
        with explained("read", str(path)):
            for _ in range(3):
                before = state_of(path)
                # Without a log nobody writes: then the file itself is all there is, and reading it needs no lock.
                source = sqlite3.connect(uri_of(path, "ro", None, immutable=not before[1]), uri=True)
                target = connect("", BUSY_SECONDS)
                try:
                    source.backup(driver(target))
                    driver(target).execute("PRAGMA journal_mode = MEMORY")
                finally:
                    source.close()
                if before[1] or before == state_of(path):
                    database = cls(str(path), target)
                    require_whole(path, target, CHECKED_BYTES)
                    if is_new(target):  # whoever was making it was killed, or is not done: there is nothing in it yet
                        create_or_migrate(database)
                    require_known(database)
                    return database
                target.close()
        raise RecordBusy(f"cannot read the record `{path}`: it changes all the time", hint="try again")

    # ------------------------------------------------------------------------------------------------ transactions

    @contextmanager
    def writing(self, give_up: GiveUp = never) -> Generator[Connection]:
        """Open a transaction that no other one overlaps; it is undone when the block raises.

        Raises `RecordBusy` when others do not let go in time, or when `give_up` says so while it waits.
        """
        with explained("write", self.what):
            self._begin(give_up)
            try:
                yield self.connection
                self.connection.exec_driver_sql("COMMIT")
            except BaseException:
                with suppress(DBAPIError):  # some failures have undone it already; the error above is what counts
                    self.connection.exec_driver_sql("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """Open a transaction that sees one state of the record, whatever others write meanwhile."""
        with explained("read", self.what):
            self.connection.exec_driver_sql("BEGIN")
            try:
                yield self.connection
            finally:
                with suppress(DBAPIError):  # it only read: there is nothing to undo
                    self.connection.exec_driver_sql("ROLLBACK")

    def _begin(self, give_up: GiveUp) -> None:
        waited = 0.0
        execute = driver(self.connection).execute
        execute(f"PRAGMA busy_timeout = {round(min(_SLICE_SECONDS, self._busy_seconds) * 1000)}")
        try:
            while True:
                try:
                    self.connection.exec_driver_sql("BEGIN IMMEDIATE")
                except DBAPIError as error:
                    waited += _SLICE_SECONDS  # which the connection waited for by itself
                    if not is_busy(error) or waited >= self._busy_seconds or give_up():
                        raise
                else:
                    return
        finally:
            execute(f"PRAGMA busy_timeout = {round(self._busy_seconds * 1000)}")

    def insert(self, table: Table, rows: Sequence[Sequence[Any]], statement: Insert | None = None) -> None:
        """Insert rows whose values are in the order of the table's columns.

        `statement` is another insert of the same columns; its parameters are named as the columns are.
        """
        if not rows:
            return
        dialect = self.connection.dialect
        if not dialect.positional:
            names = table.c.keys()
            parameters = [dict(zip(names, row, strict=True)) for row in rows]
            self.connection.execute(table.insert() if statement is None else statement, parameters)
            return
        key = id(table if statement is None else statement)
        if key not in self._statements:
            self._statements[key] = _compiled(table, table.insert() if statement is None else statement, dialect)
        text, order = self._statements[key]
        # Rows go to the driver as they are: handing them over as dictionaries costs three times as much.
        self.connection.exec_driver_sql(text, list(map(order, rows)))

    # ----------------------------------------------------------------------------------------------------- the file

    def _choose_log(self, path: Path, vfs: str | None, file_system: str | None) -> None:
        """Use a write-ahead log where that works, else a rollback journal; either is safe."""
        execute = driver(self.connection).execute
        wanted = "wal"
        if is_network(file_system):
            wanted = "delete"
            self.notices.append(
                f"the record `{path}` is on a file system for networks ({file_system}) and used without a write-ahead "
                "log; where that gives trouble, set `record_url: sqlite:///PATH` to a local one"
            )
        if execute("PRAGMA journal_mode").fetchone()[0] != wanted:
            if wanted == "wal" and not log_works(path.parent, vfs):
                self.notices.append(f"the record `{path}` is used without a write-ahead log, which does not work there")
                wanted = "delete"
            with suppress(sqlite3.OperationalError):  # it is in use: the next one that opens it tries again
                execute(f"PRAGMA journal_mode = {wanted}").fetchone()
        # A power cut may take the last transactions, and the file stays whole: what is missing is indexed again.
        execute(f"PRAGMA synchronous = {'NORMAL' if wanted == 'wal' else 'FULL'}")

    def fold_log(self) -> None:
        """Fold the write-ahead log into the file, as far as nobody reads it."""
        if self.connection.dialect.name == "sqlite" and not self.connection.closed:
            with suppress(sqlite3.Error):  # somebody uses the log: whoever closes the file last folds it
                driver(self.connection).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        self.connection.close()
        self.connection.engine.dispose()
        self._after_closing.close()


def _compiled(table: Table, statement: Insert, dialect: Any) -> tuple[str, Callable[[Any], Any]]:
    """Return an insert as the driver takes it, and how the values of a row have to be ordered for it."""
    names = table.c.keys()
    compiled = statement.compile(dialect=dialect, column_keys=names)
    order = [names.index(name.removeprefix("of_")) for name in compiled.positiontup or ()]
    return str(compiled), (tuple if order == list(range(len(names))) else itemgetter(*order))
