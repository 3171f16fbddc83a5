"""Brings the record up to date with every journal of a results root, reading none that it knows as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlalchemy import select

from proctor.errors import StoreError
from proctor.store.record_database import GiveUp, RecordDatabase
from proctor.store.record_errors import RecordError, explained
from proctor.store.record_index import RunIndex
from proctor.store.record_lookup import RootView, every
from proctor.store.record_runs import Seen, find_runs
from proctor.store.record_schema import JOURNAL
from proctor.store.record_values import run_key_of


@dataclass(slots=True)
class CaughtUp:
    """What catching up came to: runs there are, runs of which something was indexed, events; and what is amiss."""

    runs: int = 0
    indexed: int = 0
    events: int = 0
    problems: dict[str, str] = field(default_factory=dict[str, str])
    """Why runs could not be indexed to their end, by directory."""


def catch_up(view: RootView, indexes: Mapping[str, RunIndex], result: CaughtUp, give_up: GiveUp) -> Iterator[str]:
    """Index what is missing, batch by batch, counting in `result`; yield the directory of the run after each batch.

    `indexes` are what indexes some of the runs already.
    """
    known = _known(view.database)
    with explained("read the results for", view.database.what):
        for found in find_runs(view.root):
            result.runs += 1
            if known.get(run_key_of(view.name, found.directory)) == found.journal:
                continue
            index = indexes.get(found.directory) or RunIndex(view, found.directory)
            events = result.events
            try:
                for count in index.steps(give_up):
                    result.events += count
                    yield found.directory
            except RecordError:
                raise
            except StoreError as error:
                result.problems[found.directory] = error.message
            if index.problem is not None:
                result.problems[found.directory] = index.problem
            result.indexed += result.events > events


def _known(database: RecordDatabase) -> dict[int, Seen]:
    """Return the journals that were indexed to their end, as they were then, by run."""
    columns = [JOURNAL.c[name] for name in ("run_key", "size_bytes", "modified_ns", "inode")]
    query = select(*columns).where(JOURNAL.c.problem.is_(None), JOURNAL.c.plan_problem.is_(None))
    with database.reading() as connection:
        return {run_key: Seen(*seen) for run_key, *seen in every(connection, query)}
