"""What the record knows of the cost of attempts where a part of it is not known."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, func, select

from proctor.store.record_details import Key, by_run, chunks
from proctor.store.record_schema import USAGE


def known_costs_of(connection: Connection, keys: Iterable[Key]) -> dict[Key, float]:
    """Return what attempts cost at least, in US dollars, over all their tries; those that made no call are left out."""
    found: dict[Key, float] = {}
    query = select(USAGE.c.attempt_id, func.sum(USAGE.c.cost_at_least_usd)).group_by(USAGE.c.attempt_id)
    for run_key, names in by_run(keys):
        for chunk in chunks(names):
            rows = connection.execute(query.where(USAGE.c.run_key == run_key, USAGE.c.attempt_id.in_(chunk)))
            for attempt, usd in rows:
                found[run_key, attempt] = usd or 0.0
    return found
