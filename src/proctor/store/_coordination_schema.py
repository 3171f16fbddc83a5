"""The tables of the coordination database, and how rows of leases become what is known of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import fields

from proctor.store.lease_info import LeaseInfo, Recovery, Teardown
from proctor.store.owner import Owner

APPLICATION_ID = 0x50524354  # "PRCT"
SCHEMA_VERSION = 1

OWNER_COLUMNS = tuple(field.name for field in fields(Owner))
FAILED = "teardown failed"

_OWNER = """
    {0}host TEXT {1}, {0}boot_id TEXT {1}, {0}pid_namespace TEXT {1}, {0}pid INTEGER {1},
    {0}process_start_ticks INTEGER {1}
"""
SCHEMA = (
    f"""
    CREATE TABLE lease (
        key TEXT PRIMARY KEY NOT NULL, experiment TEXT NOT NULL, run TEXT, owner_token TEXT NOT NULL UNIQUE,
        {_OWNER.format("", "NOT NULL")},
        started_at REAL NOT NULL, heartbeat_at REAL NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('held', '{FAILED}')), problem TEXT,
        teardown TEXT, teardown_timeout_seconds REAL,
        recovery_token TEXT, recovery_started_at REAL, {_OWNER.format("recovery_", "")}
    ) WITHOUT ROWID
    """,
    f"""
    CREATE TABLE teardown (
        token TEXT PRIMARY KEY NOT NULL, experiment TEXT NOT NULL, path TEXT NOT NULL, timeout_seconds REAL NOT NULL,
        {_OWNER.format("", "NOT NULL")}, started_at REAL NOT NULL
    ) WITHOUT ROWID
    """,
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


def recovery_columns(recovery: Recovery | None) -> dict[str, object]:
    """Return the columns of a recovery, or those of none."""
    columns: dict[str, object] = {
        "recovery_token": recovery.token if recovery else None,
        "recovery_started_at": recovery.started_at if recovery else None,
    }
    for name in OWNER_COLUMNS:
        columns[f"recovery_{name}"] = getattr(recovery.owner, name) if recovery else None
    return columns


def find_lease(connection: sqlite3.Connection, key: str) -> LeaseInfo | None:
    """Return the lease with a key, or None when nobody holds it."""
    row = connection.execute("SELECT * FROM lease WHERE key = ?", (key,)).fetchone()
    return None if row is None else lease_of(row)


def insert_lease(connection: sqlite3.Connection, columns: Mapping[str, object]) -> None:
    """Add a lease."""
    names, places = ", ".join(columns), ", ".join(f":{name}" for name in columns)
    connection.execute(f"INSERT INTO lease ({names}) VALUES ({places})", columns)  # noqa: S608 - our own names


def update_lease(connection: sqlite3.Connection, key: str, columns: Mapping[str, object]) -> None:
    """Change columns of the lease with a key."""
    changes = ", ".join(f"{name} = :{name}" for name in columns)
    connection.execute(f"UPDATE lease SET {changes} WHERE key = :key", {**columns, "key": key})  # noqa: S608 - likewise


def lease_of(row: sqlite3.Row) -> LeaseInfo:
    """Return what a row says."""
    recovery, teardown = None, None
    if row["recovery_token"] is not None:
        recovery = Recovery(row["recovery_token"], owner_of_row(row, "recovery_"), row["recovery_started_at"])
    if row["teardown"] is not None:
        teardown = Teardown(row["teardown"], row["teardown_timeout_seconds"])
    return LeaseInfo(
        key=row["key"],
        experiment=row["experiment"],
        run=row["run"],
        owner_token=row["owner_token"],
        owner=owner_of_row(row),
        started_at=row["started_at"],
        heartbeat_at=row["heartbeat_at"],
        failed=row["state"] == FAILED,
        problem=row["problem"],
        teardown=teardown,
        recovery=recovery,
    )


def owner_of_row(row: sqlite3.Row, prefix: str = "") -> Owner:
    """Return the process that the columns with a prefix name."""
    return Owner(*(row[f"{prefix}{name}"] for name in OWNER_COLUMNS))
