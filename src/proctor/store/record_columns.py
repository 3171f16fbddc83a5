"""How tables of the record are declared: a line for each column, with what it says."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Double, MetaData, Table, Text
from sqlalchemy.types import TypeEngine

METADATA = MetaData()

_TYPES: dict[str, type[TypeEngine[Any]]] = {"text": Text, "int": BigInteger, "real": Double, "bool": Boolean}


def table(name: str, *columns: str, rowid: bool = False) -> Table:
    """Return a table from lines of `name type [key|not null]: what it says`; keys come first."""
    made: list[Column[Any]] = []
    for column in columns:
        head, _, comment = column.partition(": ")
        column_name, kind, *rest = head.split()
        made.append(
            Column(
                column_name,
                _TYPES[kind](),
                primary_key="key" in rest,
                nullable=not rest,
                autoincrement=False,
                comment=comment,
            )
        )
    return Table(name, METADATA, *made, sqlite_with_rowid=rowid)
