"""Compares the record with the journals that it was made from, row by row, and changes neither."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, select

from proctor.store.layout import RunLayout
from proctor.store.lock import is_being_written
from proctor.store.record_database import RecordDatabase
from proctor.store.record_errors import RecordDamaged, explained
from proctor.store.record_index import RunIndex
from proctor.store.record_lookup import EVERYTHING, RootView, RunInfo, every
from proctor.store.record_place import record_path, root_name
from proctor.store.record_rows import invocations_of, progress_of
from proctor.store.record_runs import find_runs, look_at
from proctor.store.record_schema import BOOKKEEPING, COLUMNS, INVOCATION, RUN, RUN_TABLES
from proctor.store.record_values import run_key_of

Rows = Counter[tuple[Any, ...]]

SHOWN = 3
"""So many rows of a difference are kept as examples."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows of a table that the record has and its journals do not give (`extra`), or the other way round (`lacking`).

    `where` is the directory of the run, or the invocation; `examples` are some of these rows, as they are shown.
    """

    where: str
    table: str
    extra: int
    lacking: int
    examples: tuple[str, ...]


@dataclass(slots=True)
class Checked:
    """What a check found. Directories are those of runs, below the results root."""

    runs: int = 0
    rows: int = 0
    damage: str | None = None
    """Why the file of the record cannot be trusted at all."""
    differences: list[Difference] = field(default_factory=list[Difference])
    gone: list[str] = field(default_factory=list[str])
    """The record has rows of them, and they are not there any more."""
    missing: list[str] = field(default_factory=list[str])
    """They have ended, and the record lacks something of them."""
    behind: list[str] = field(default_factory=list[str])
    """They are active, and the record has not everything yet."""
    problems: dict[str, str] = field(default_factory=dict[str, str])
    """Why they could not be indexed to their end."""

    @property
    def right(self) -> bool:
        """Whether a rebuild would change nothing."""
        return not (self.damage or self.differences or self.gone or self.missing)


def check_record(results_root: Path, url: str | None = None, *, tell: Callable[[str], object] = str) -> Checked:
    """Compare the record of a results root with its journals; `tell` is told the directory of each run.

    Raises `RecordNewer` for a record of a newer proctor, `RecordError` when something cannot be read.
    """
    path = record_path(results_root, url)
    checked = Checked()
    try:
        with explained("read", str(path)):
            database = RecordDatabase.copied(path) if path.exists() else RecordDatabase.private()
            whole = database.connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar_one()
            if whole != "ok":
                raise RecordDamaged(whole.splitlines()[-1])
    except RecordDamaged as error:
        checked.damage = error.message
        return checked
    anew = RecordDatabase.private()
    try:
        with explained("check", str(path)):
            name = root_name(results_root, path.absolute())
            _check(checked, RootView(database, results_root, name), RootView(anew, results_root, name), tell)
    finally:
        database.close()
        anew.close()
    return checked


def _check(checked: Checked, kept: RootView, made: RootView, tell: Callable[[str], object]) -> None:
    with kept.database.reading() as connection:
        known = kept.runs(connection, EVERYTHING)
    known_keys = {info.run_key for info in known}
    for info in known:
        directory = info.directory.relative_to(kept.root).as_posix()
        tell(directory)
        checked.runs += 1
        if look_at(str(RunLayout(info.directory).journal)) is None:
            checked.gone.append(directory)
        else:
            _check_run(checked, kept, made, info, directory)
    for found in find_runs(kept.root):
        if run_key_of(kept.name, found.directory) not in known_keys:
            _sort_in(checked, RunLayout(kept.root / found.directory), found.directory)
    with kept.database.reading() as connection:
        for table in RUN_TABLES:
            lost = Counter(map(tuple[Any, ...], every(connection, _without_run(table))))
            if lost:
                checked.differences.append(_difference("no run", table.name, lost, Counter()))
        rows = Counter(map(tuple[Any, ...], every(connection, select(INVOCATION))))
        right = Counter(map(tuple[Any, ...], every(connection, invocations_of())))
    checked.rows += rows.total()
    if rows != right:
        checked.differences.append(_difference("all invocations", INVOCATION.name, rows - right, right - rows))


def _check_run(checked: Checked, kept: RootView, made: RootView, info: RunInfo, directory: str) -> None:
    layout = RunLayout(info.directory)
    with kept.database.reading() as connection:
        progress = progress_of(connection, info.run_key)
    index = RunIndex(made, directory)
    # Only as far as the record has read it: what an active run has written since is no difference.
    end = None if progress is None or progress.problem is not None else progress.bytes
    for _ in index.steps(end_bytes=end):
        pass
    if index.problem is not None:
        checked.problems[directory] = index.problem
    with kept.database.reading() as mine, made.database.reading() as right:
        for table in RUN_TABLES:
            rows, wanted = _rows(mine, table, info.run_key), _rows(right, table, info.run_key)
            checked.rows += rows.total()
            if rows != wanted:
                checked.differences.append(_difference(directory, table.name, rows - wanted, wanted - rows))
    if progress is None or (_has_more(layout.journal, progress.bytes) and progress.problem is None):
        _sort_in(checked, layout, directory)


def _rows(connection: Connection, table: Table, run_key: int) -> Rows:
    query = select(*_compared(table)).where(table.c.run_key == run_key)
    return Counter(map(tuple[Any, ...], every(connection, query)))


def _without_run(table: Table) -> Select[Any, *tuple[Any, ...]]:
    """Return the query of rows that lead to no run."""
    return select(*_compared(table)).where(table.c.run_key.not_in(select(RUN.c.run_key)))


def _compared(table: Table) -> list[ColumnElement[Any]]:
    return [column for column in table.c if table.name != "journal" or column.name not in BOOKKEEPING]


def _difference(where: str, table: str, extra: Rows, lacking: Rows) -> Difference:
    return Difference(where, table, extra.total(), lacking.total(), tuple(_examples(table, extra, lacking)))


def _examples(table: str, extra: Rows, lacking: Rows) -> Iterator[str]:
    names = [name for name in COLUMNS[table] if table != "journal" or name not in BOOKKEEPING]
    for word, rows in (("extra", extra), ("lacking", lacking)):
        for row in islice(sorted(rows, key=repr), SHOWN):
            shown = ", ".join(f"{name}={value!r}" for name, value in zip(names, row, strict=True) if value is not None)
            yield f"{word}: {shown}"


def _has_more(journal: Path, indexed_bytes: int) -> bool:
    """Say whether a journal has a whole line behind what is indexed."""
    with journal.open("rb") as file:
        file.seek(indexed_bytes)
        return file.readline().endswith(b"\n")


def _sort_in(checked: Checked, layout: RunLayout, directory: str) -> None:
    """Note a run that the record does not have to its end."""
    active = is_being_written(layout.journal) is not False
    (checked.behind if active else checked.missing).append(directory)
