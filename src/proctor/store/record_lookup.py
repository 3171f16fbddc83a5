"""Looks things up in the record: runs, attempts by their ids, and what filled a slot before."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Integer, MetaData, Select, Table, Text, select
from sqlalchemy.schema import CreateTable, DropTable

from proctor.store.record_database import RecordDatabase
from proctor.store.record_place import below
from proctor.store.record_runs import JOURNAL_NAME, look_at
from proctor.store.record_schema import ATTEMPT, RUN, SLOT
from proctor.store.record_values import run_key_of


@dataclass(frozen=True, slots=True)
class Scope:
    """The runs that count: all of them, or those that fit everything that is set.

    `group` is the directory that a run's directory lies in, `run` the directory of one run (with whatever it
    references), `experiment` the name of an experiment.
    """

    group: Path | None = None
    run: Path | None = None
    experiment: str | None = None

    def narrow(self, query: Select[Any, *tuple[Any, ...]], root: Path, root_name: str) -> Select[Any, *tuple[Any, ...]]:
        """Return a query of runs, only for those that count."""
        if self.group is not None:
            query = query.where(RUN.c.root == root_name, RUN.c.group_directory == below(root, self.group))
        if self.run is not None:
            query = query.where(RUN.c.run_key == run_key_of(root_name, below(root, self.run)))
        if self.experiment is not None:
            query = query.where(RUN.c.experiment == self.experiment)
        return query


EVERYTHING = Scope()
"""All runs of the results root."""


@dataclass(frozen=True, slots=True)
class RootView:
    """One results root as the record has it: where it is, and how the record names it."""

    database: RecordDatabase
    root: Path
    name: str

    def runs(self, connection: Connection, scope: Scope) -> list[RunInfo]:
        """Return the runs in a scope, newest first, within a transaction that is open."""
        columns = [RUN.c[name] for name in RunInfo._fields]
        query = scope.narrow(select(*columns).where(RUN.c.root == self.name), self.root, self.name)
        found = [RunInfo(*row)._replace(directory=self.root / row[1]) for row in every(connection, query)]
        return sorted(found, key=lambda info: (info.started_at or "", info.run_key), reverse=True)


Slot = tuple[str, int]
"""A task and an ordinal."""


class RunInfo(NamedTuple):
    """One run of the record. Moments are texts in UTC; `completion` is None while it runs, or when it was killed."""

    run_key: int
    directory: Path
    run_id: str | None
    invocation_id: str | None
    experiment: str | None
    started_at: str | None
    ended_at: str | None
    completion: str | None
    slots: int | None
    agent_timeout_seconds: float | None
    timeout_seconds: float | None


class FoundAttempt(NamedTuple):
    """One attempt of the record, and the directory of its run; `verdict` is None while it is not sealed.

    `identity` is that of its slot.
    """

    attempt_id: str
    run_dir: Path
    task: str | None
    ordinal: int | None
    verdict: str | None
    identity: str | None = None


class Previous(NamedTuple):
    """What filled a slot last: the run and its attempt, and the parts of the slot's identity there, by name.

    `gone` says that the run which made the attempt is no longer on the disk.
    """

    attempt_id: str
    run_dir: Path
    identity: str | None
    parts: dict[str, str]
    gone: bool = False


_TEMPORARY = MetaData()
WANTED = Table("wanted", _TEMPORARY, Column("identity", Text, primary_key=True), prefixes=["TEMPORARY"])
"""The identities that are asked for, while a query runs."""
WANTED_SLOT = Table(
    "wanted_slot",
    _TEMPORARY,
    Column("task", Text, primary_key=True),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    prefixes=["TEMPORARY"],
)


def is_there(run: RunInfo) -> bool:
    """Say whether a run is still on the disk: what is gone cannot be reused, whatever the record says."""
    return look_at(f"{run.directory}/{JOURNAL_NAME}") is not None


def put(database: RecordDatabase, table: Table, rows: Collection[tuple[Any, ...]]) -> None:
    """Fill one of the temporary tables; what it held before is gone."""
    database.connection.execute(DropTable(table, if_exists=True))
    database.connection.execute(CreateTable(table))
    database.insert(table, list(rows))


def every(connection: Connection, query: Select[Any, *tuple[Any, ...]]) -> Iterator[Any]:
    """Yield the rows of a query, fetched many at a time, which is much faster than one by one."""
    for rows in connection.execute(query).partitions(5_000):
        yield from rows


def find_attempts(view: RootView, prefix: str) -> list[FoundAttempt]:
    """Return the attempts whose ids begin with a prefix."""
    columns = (ATTEMPT.c[name] for name in ("task", "ordinal", "verdict", "identity"))
    query = (
        select(ATTEMPT.c.attempt_id, RUN.c.directory, *columns)
        .join(RUN, RUN.c.run_key == ATTEMPT.c.run_key)
        .where(RUN.c.root == view.name)
        # As a range, which an index serves: the characters of ids all stand before the last one of ASCII.
        .where(ATTEMPT.c.attempt_id >= prefix, ATTEMPT.c.attempt_id < prefix + "\x7f")
        .order_by(ATTEMPT.c.attempt_id, RUN.c.directory)
    )
    with view.database.reading() as connection:
        return [FoundAttempt(row[0], view.root / row[1], *row[2:]) for row in every(connection, query)]


def source_of(connection: Connection, run_key: int, task: str | None, ordinal: int | None) -> str | None:
    """Return the attempt that the plan of a run named for a slot."""
    query = select(SLOT.c.source_attempt_id).where(
        SLOT.c.run_key == run_key, SLOT.c.task == task, SLOT.c.ordinal == ordinal
    )
    return connection.execute(query).scalar_one_or_none()
