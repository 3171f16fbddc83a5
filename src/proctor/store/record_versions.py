"""The format of the record: what it is made with, what an older one is migrated by, and why a newer one is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select

from proctor.store.record_columns import METADATA
from proctor.store.record_errors import RecordDamaged, RecordError, RecordNewer
from proctor.store.record_schema import APPLICATION_ID, REVISIONS

if TYPE_CHECKING:
    from proctor.store.record_database import RecordDatabase

_VERSIONS = MetaData()
VERSION = Table("alembic_version", _VERSIONS, Column("version_num", String(32), primary_key=True))
"""The table in which the migrations keep the format."""


def create_or_migrate(database: RecordDatabase) -> None:
    """Make the tables of a new database, or bring those of an older one up to date.

    Raises `RecordNewer` for a newer format, `RecordError` for a database of something else.
    """
    if not is_new(database.connection) and require_known(database) == REVISIONS[-1]:
        return
    with database.writing() as connection:
        if is_new(connection):  # another process may have made it meanwhile
            _create(connection)
        elif require_known(database) != REVISIONS[-1]:
            migrate(connection)


def require_known(database: RecordDatabase) -> str:
    """Return the format of a database; raises as `create_or_migrate` does."""
    connection, what = database.connection, database.what
    if connection.dialect.name == "sqlite" and number(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise RecordError(f"`{what}` is a database of something else", hint="move it away, or set another `record_url`")
    found = stored_format(connection)
    if found is None:
        raise RecordDamaged(f"the record `{what}` is damaged: it has no format", hint="`proctor record rebuild`")
    if found not in REVISIONS:
        raise RecordNewer(
            f"the record `{what}` was written by a newer proctor (format {found}; this one knows {REVISIONS[-1]})",
            hint="upgrade proctor, or set another `record_url`; runs go on without the record",
        )
    return found


def migrate(connection: Connection, target: str = "head") -> None:
    """Bring the tables to the newest format (or to `target`), inside the transaction that is open."""
    # It takes as long to import as all the rest, and is needed once after an upgrade.
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.config import Config  # noqa: PLC0415 - see above

    config = Config()
    config.set_main_option("script_location", "proctor.store:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, target)


def is_new(connection: Connection) -> bool:
    """Whether a database has no tables at all."""
    if connection.dialect.name == "sqlite":
        return number(connection, "SELECT count(*) FROM sqlite_master") == 0
    return not inspect(connection).get_table_names()


def number(connection: Connection, query: str) -> int:
    """Return the number that a query has for its answer."""
    return connection.exec_driver_sql(query).scalar_one()


def _create(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    METADATA.create_all(connection, checkfirst=False)
    _VERSIONS.create_all(connection, checkfirst=False)
    connection.execute(VERSION.insert().values(version_num=REVISIONS[-1]))


def stored_format(connection: Connection) -> str | None:
    """Return the format that a database says it has; None where it says nothing."""
    if connection.dialect.name == "sqlite":
        known = number(connection, "SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'") == 1
    else:
        known = inspect(connection).has_table(VERSION.name)
    return connection.execute(select(VERSION.c.version_num)).scalar_one_or_none() if known else None
