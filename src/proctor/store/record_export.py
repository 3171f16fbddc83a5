"""Copies of the record for other programs: one SQLite file, or a file of each table. All of one moment.

A copy is made beside its target under another name and then renamed: what has the target's name is whole.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Boolean, Connection, Double, Table, select

from proctor.errors import MissingPackage, UsageError
from proctor.store.files import SYSTEM_FILES, store_error
from proctor.store.record_database import RecordDatabase
from proctor.store.record_errors import explained
from proctor.store.record_lookup import every
from proctor.store.record_schema import COLUMNS, TABLES

INSTALL_PARQUET = "pip install 'proctor[parquet]'"
_CHUNK = 20_000

Chunks = Iterator[list[tuple[Any, ...]]]


def export_sqlite(database: RecordDatabase, target: Path) -> dict[str, int]:
    """Copy the record to one SQLite file, which holds everything and needs no other one; return its rows by table.

    Raises `UsageError` when there is something at the target, `StoreError` when it cannot be written.
    """
    _require_free(target)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with explained("copy", database.what):
            partial.unlink(missing_ok=True)
            database.connection.exec_driver_sql("VACUUM INTO ?", (str(partial),))
            with closing(sqlite3.connect(partial)) as copy:
                counts = {name: copy.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in COLUMNS}  # noqa: S608 - our own names
        _put_in_place(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return counts


def export_tables(database: RecordDatabase, target: Path, kind: str) -> dict[str, int]:
    """Write each table to a file of its own in a new directory, as `csv`, `jsonl` or `parquet`; return their rows.

    Raises `UsageError` when there is something at the target, `MissingPackage` for `parquet` without its package,
    `StoreError` when it cannot be written.
    """
    write = _parquet_writer() if kind == "parquet" else {"csv": _write_csv, "jsonl": _write_jsonl}[kind]
    _require_free(target)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    counts: dict[str, int] = {}
    try:
        shutil.rmtree(partial, ignore_errors=True)  # of an export of an earlier process that had this number
        partial.mkdir()
        with database.reading() as connection:
            for table in TABLES:
                counts[table.name] = write(partial / f"{table.name}.{kind}", table, _chunks(connection, table))
        _put_in_place(partial, target)
    except OSError as error:
        raise store_error("write", target, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # it is not there any more, or was not made to its end
    return counts


def _require_free(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise UsageError(f"`{target}` exists already", hint="name another place, or remove it")
    if not target.parent.is_dir():
        raise UsageError(f"there is no directory `{target.parent}`", hint="make it first, or name another place")


def _put_in_place(partial: Path, target: Path) -> None:
    try:
        SYSTEM_FILES.replace(partial, target)
    except OSError as error:
        raise store_error("write", target, error) from error


def _chunks(connection: Connection, table: Table) -> Chunks:
    """Yield the rows of a table, many at a time; truth values as such, whatever the database holds them as."""
    order = list(table.primary_key.columns) or [
        table.c.run_key,
        table.c.attempt_id,
        table.c.try_number,
        table.c.position,
    ]
    rows: list[tuple[Any, ...]] = []
    for row in every(connection, select(table).order_by(*order)):
        rows.append(tuple(row))
        if len(rows) == _CHUNK:
            yield rows
            rows = []
    yield rows


def _write_csv(path: Path, table: Table, chunks: Chunks) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS[table.name])
        for rows in chunks:
            writer.writerows([_plain_cell(value) for value in row] for row in rows)
            count += len(rows)
    return count


def _plain_cell(value: Any) -> Any:
    return ("true" if value else "false") if isinstance(value, bool) else value


def _write_jsonl(path: Path, table: Table, chunks: Chunks) -> int:
    count, names = 0, COLUMNS[table.name]
    with path.open("w", encoding="utf-8") as file:
        for rows in chunks:
            file.writelines(
                json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, allow_nan=False) + "\n"
                for row in rows
            )
            count += len(rows)
    return count


def _parquet_writer() -> Callable[[Path, Table, Chunks], int]:
    """Return what writes a table as Parquet. Raises `MissingPackage`."""
    try:
        import pyarrow  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - optional
        from pyarrow import parquet  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - optional
    except ImportError as error:
        raise MissingPackage("an export as parquet", "pyarrow", install=INSTALL_PARQUET) from error
    arrow: Any = pyarrow
    files: Any = parquet

    def write(path: Path, table: Table, chunks: Chunks) -> int:
        schema = arrow.schema([(column.name, _arrow_type(arrow, column.type)) for column in table.columns])
        count = 0
        with files.ParquetWriter(str(path), schema, compression="zstd") as writer:
            for rows in chunks:
                columns: Sequence[Any] = list(zip(*rows, strict=True)) or [()] * len(schema)
                writer.write_table(arrow.table([list(column) for column in columns], schema=schema))
                count += len(rows)
        return count

    return write


def _arrow_type(arrow: Any, kind: Any) -> Any:
    if isinstance(kind, Boolean):
        return arrow.bool_()
    if isinstance(kind, Double):
        return arrow.float64()
    return arrow.int64() if kind.python_type is int else arrow.string()
