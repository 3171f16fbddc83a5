"""Writes and deletes the rows of one run, inside a transaction that is open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Select, bindparam, case, delete, func, select

from proctor.store.record_attempt import AttemptRows
from proctor.store.record_database import RecordDatabase
from proctor.store.record_fold import RunFold
from proctor.store.record_plan import PlanState
from proctor.store.record_runs import Seen
from proctor.store.record_schema import (
    ATTEMPT,
    ATTEMPT_TABLES,
    COLUMNS,
    INVOCATION,
    ISSUE,
    JOURNAL,
    MEMBER,
    RUN,
    RUN_TABLES,
    SLOT,
    TABLES,
)
from proctor.store.record_values import Row

_CHUNK = 500
"""So many names are asked for in one query."""

RUN_COLUMNS = [name for name in COLUMNS[RUN.name] if name not in ("run_key", "root", "directory", "group_directory")]

INSERT_ATTEMPT = ATTEMPT.insert().values(
    identity=select(SLOT.c.identity)
    .where(
        SLOT.c.run_key == bindparam("of_run_key"),
        SLOT.c.task == bindparam("of_task"),
        SLOT.c.ordinal == bindparam("of_ordinal"),
    )
    .scalar_subquery()
)
"""Gives an attempt the identity of its slot, which the record has already."""


@dataclass(slots=True)
class Progress:
    """A row of `journal`: what of the journal of a run is indexed, and what it looked like."""

    run_key: int
    bytes: int
    lines: int
    resume_bytes: int
    complete: bool
    tail_sha256: str
    size_bytes: int
    modified_ns: int
    inode: int
    plan_size_bytes: int | None
    plan_modified_ns: int | None
    plan_inode: int | None
    plan_sha256: str | None
    plan_problem: str | None
    problem: str | None

    @property
    def plan(self) -> PlanState:
        """What the plan looked like."""
        if self.plan_size_bytes is None or self.plan_modified_ns is None or self.plan_inode is None:
            return PlanState()
        return PlanState(Seen(self.plan_size_bytes, self.plan_modified_ns, self.plan_inode), self.plan_sha256)


def progress_of(connection: Connection, run_key: int) -> Progress | None:
    """Return how far a run is indexed; None where the record has nothing of it."""
    row = connection.execute(select(JOURNAL).where(JOURNAL.c.run_key == run_key)).one_or_none()
    return None if row is None else Progress(*row)


def stored_run(connection: Connection, run_key: int) -> tuple[dict[str, Any], int]:
    """Return what the record says of a run, and how many issues concern all of it."""
    row = connection.execute(select(RUN).where(RUN.c.run_key == run_key)).mappings().one()
    issues = select(func.count()).select_from(ISSUE).where(ISSUE.c.run_key == run_key, ISSUE.c.attempt_id.is_(None))
    return {name: row[name] for name in RUN_COLUMNS}, connection.execute(issues).scalar_one()


def sealed_among(connection: Connection, run_key: int, attempts: Collection[str]) -> list[str]:
    """Return those attempts of a run that the record has sealed."""
    found: list[str] = []
    wanted = select(ATTEMPT.c.attempt_id).where(
        ATTEMPT.c.run_key == run_key,
        ATTEMPT.c.attempt_id.in_(bindparam("names", expanding=True)),
        ATTEMPT.c.verdict.is_not(None),
    )
    names = iter(attempts)
    while chunk := list(islice(names, _CHUNK)):
        found += connection.execute(wanted, {"names": chunk}).scalars()
    return found


class RowWriter:
    """Writes rows of one run; `where` are its results root, by name, and its directory."""

    def __init__(self, database: RecordDatabase, run_key: int, where: tuple[str, str]) -> None:
        self._database = database
        self._connection = database.connection
        self._run_key = run_key
        self._where = where

    def insert(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Insert rows, by table."""
        for table in TABLES:
            if found := rows.get(table.name):
                self._database.insert(table, found, INSERT_ATTEMPT if table is ATTEMPT else None)

    def write(self, fold: RunFold, *, run_changed: bool) -> None:
        """Write what changed in a fold since it was written last."""
        rows: dict[str, list[Row]] = {table.name: [] for table in ATTEMPT_TABLES}
        self._delete_references(fold.references)
        self._delete_attempts(fold.take(rows))
        self.insert(rows)
        if run_changed:
            self._replace_run(fold.run)

    def replace_progress(self, progress: Progress) -> None:
        """Write how far the run is indexed."""
        self._connection.execute(delete(JOURNAL).where(JOURNAL.c.run_key == self._run_key))
        self._database.insert(JOURNAL, [astuple(progress)])

    def delete_run(self) -> None:
        """Delete every row of the run."""
        delete_runs(self._connection, [self._run_key])

    def _replace_run(self, run: Mapping[str, Any]) -> None:
        root, directory = self._where
        before = select(RUN.c.invocation_id).where(RUN.c.run_key == self._run_key)
        invocations = {*self._connection.execute(before).scalars(), run.get("invocation_id")}
        self._connection.execute(delete(RUN).where(RUN.c.run_key == self._run_key))
        group = directory.rpartition("/")[0]
        row = (self._run_key, root, directory, group, *(run.get(name) for name in RUN_COLUMNS))
        self._database.insert(RUN, [row])
        renew_invocations(self._connection, invocations)

    def _delete_references(self, keys: Sequence[Row]) -> None:
        if keys:
            names = [column.name for column in MEMBER.primary_key.columns]
            same = [MEMBER.c[name] == bindparam(f"of_{name}") for name in names]
            parameters = [{f"of_{name}": value for name, value in zip(names, key, strict=True)} for key in keys]
            self._connection.execute(delete(MEMBER).where(*same), parameters)

    def _delete_attempts(self, attempts: Sequence[AttemptRows]) -> None:
        if not attempts:
            return
        keys = [{"of_run_key": self._run_key, "of_attempt": attempt.attempt} for attempt in attempts]
        for table in ATTEMPT_TABLES:
            mine = [table.c.run_key == bindparam("of_run_key"), table.c.attempt_id == bindparam("of_attempt")]
            if table is MEMBER:  # whose key begins with the slot
                mine.append(MEMBER.c.kind == "origin")
                mine += [
                    MEMBER.c[name]
                    == select(ATTEMPT.c[name])
                    .where(
                        ATTEMPT.c.run_key == bindparam("of_run_key"), ATTEMPT.c.attempt_id == bindparam("of_attempt")
                    )
                    .scalar_subquery()
                    for name in ("task", "ordinal")
                ]
            self._connection.execute(delete(table).where(*mine), keys)


def delete_runs(connection: Connection, run_keys: Iterable[int]) -> None:
    """Delete every row of some runs, and their invocations where no other run is of them."""
    for run_key in run_keys:
        before = connection.execute(select(RUN.c.invocation_id).where(RUN.c.run_key == run_key)).scalars().all()
        for table in RUN_TABLES:
            connection.execute(delete(table).where(table.c.run_key == run_key))
        renew_invocations(connection, before)


def renew_invocations(connection: Connection, invocations: Iterable[str | None]) -> None:
    """Make the rows of some invocations anew from those of their runs."""
    for invocation in {name for name in invocations if name is not None}:
        connection.execute(delete(INVOCATION).where(INVOCATION.c.invocation_id == invocation))
        made = invocations_of().where(RUN.c.invocation_id == invocation)
        connection.execute(INVOCATION.insert().from_select(COLUMNS[INVOCATION.name], made))


def invocations_of() -> Select[Any, *tuple[Any, ...]]:
    """Return the query that gives the rows of invocations from those of their runs."""
    all_ended = func.count() == func.count(RUN.c.ended_at)
    columns: list[Any] = [
        RUN.c.invocation_id,
        *(func.min(RUN.c[name]) for name in ("proctor", "host", "pid", "started_at")),
        case((all_ended, func.max(RUN.c.ended_at))),
        func.count(),
        func.max(RUN.c.signal),
    ]
    return select(*columns).where(RUN.c.invocation_id.is_not(None)).group_by(RUN.c.invocation_id)
