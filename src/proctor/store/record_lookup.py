"""Looks things up in the record: runs, attempts by their ids, and what filled a slot before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Integer, MetaData, Select, Table, Text, select, tuple_
from sqlalchemy.schema import CreateTable, DropTable

from proctor.store.record_database import RecordDatabase
from proctor.store.record_place import below
from proctor.store.record_schema import ATTEMPT, IDENTITY_PART, RUN, SLOT
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
    """One attempt of the record, and the directory of its run; `verdict` is None while it is not sealed."""

    attempt_id: str
    run_dir: Path
    task: str | None
    ordinal: int | None
    verdict: str | None


class Previous(NamedTuple):
    """What filled a slot last: the run and its attempt, and the parts of the slot's identity there, by name."""

    attempt_id: str
    run_dir: Path
    identity: str | None
    parts: dict[str, str]


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
    query = (
        select(ATTEMPT.c.attempt_id, RUN.c.directory, ATTEMPT.c.task, ATTEMPT.c.ordinal, ATTEMPT.c.verdict)
        .join(RUN, RUN.c.run_key == ATTEMPT.c.run_key)
        .where(RUN.c.root == view.name)
        # As a range, which an index serves: the characters of ids all stand before the last one of ASCII.
        .where(ATTEMPT.c.attempt_id >= prefix, ATTEMPT.c.attempt_id < prefix + "\x7f")
        .order_by(ATTEMPT.c.attempt_id, RUN.c.directory)
    )
    with view.database.reading() as connection:
        return [FoundAttempt(row[0], view.root / row[1], *row[2:]) for row in every(connection, query)]


def find_previous(view: RootView, slots: Collection[Slot], scope: Scope) -> dict[Slot, Previous]:
    """Return what filled slots last, in the runs of a scope."""
    with view.database.reading() as connection:
        put(view.database, WANTED_SLOT, set(slots))
        runs = {info.run_key: info for info in view.runs(connection, scope)}
        place = {run_key: number for number, run_key in enumerate(runs)}
        newest: dict[Slot, tuple[int, str, str | None]] = {}
        columns = (ATTEMPT.c.task, ATTEMPT.c.ordinal, ATTEMPT.c.run_key, ATTEMPT.c.attempt_id, ATTEMPT.c.identity)
        of_slot = tuple_(ATTEMPT.c.task, ATTEMPT.c.ordinal).in_(select(WANTED_SLOT.c.task, WANTED_SLOT.c.ordinal))
        for task, ordinal, run_key, *attempt in every(connection, select(*columns).where(of_slot)):
            if run_key in place:
                found = newest.get((task, ordinal))
                if found is None or place[run_key] < place[found[0]]:
                    newest[task, ordinal] = (run_key, *attempt)
        parts = _parts_of(connection, {run_key for run_key, _, _ in newest.values()})
    return {
        (task, ordinal): Previous(
            attempt,
            runs[run_key].directory,
            identity,
            parts.get((run_key, ""), {}) | parts.get((run_key, task), {}),
        )
        for (task, ordinal), (run_key, attempt, identity) in newest.items()
    }


def _parts_of(connection: Connection, run_keys: Iterable[int]) -> dict[tuple[int, str], dict[str, str]]:
    """Return the parts of identities in some runs, by run and task; those of a whole run under the empty task."""
    found: dict[tuple[int, str], dict[str, str]] = {}
    for run_key in run_keys:
        query = select(IDENTITY_PART).where(IDENTITY_PART.c.run_key == run_key)
        for _, task, part, value in every(connection, query):
            found.setdefault((run_key, task), {})[part] = value
    return found


def source_of(connection: Connection, run_key: int, task: str | None, ordinal: int | None) -> str | None:
    """Return the attempt that the plan of a run named for a slot."""
    query = select(SLOT.c.source_attempt_id).where(
        SLOT.c.run_key == run_key, SLOT.c.task == task, SLOT.c.ordinal == ordinal
    )
    return connection.execute(query).scalar_one_or_none()
