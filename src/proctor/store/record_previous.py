"""Looks up what filled slots last, to say what has changed since, or that it is gone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, and_, select, tuple_

from proctor.store.record_details import chunks
from proctor.store.record_lookup import (
    EVERYTHING,
    WANTED_SLOT,
    Previous,
    RootView,
    Scope,
    Slot,
    every,
    is_there,
    put,
)
from proctor.store.record_schema import ATTEMPT, IDENTITY_PART, MEMBER, SLOT


class _Filling(NamedTuple):
    """One attempt that filled a slot in a run; `gone` says that the run which made it is no longer on the disk."""

    slot: Slot
    run_key: int
    attempt: str
    identity: str | None
    gone: bool


def find_previous(view: RootView, slots: Collection[Slot], scope: Scope) -> dict[Slot, Previous]:
    """Return what filled slots last, in the runs of a scope; what is gone only where there is nothing else."""
    if not slots:
        return {}
    with view.database.reading() as connection:
        put(view.database, WANTED_SLOT, set(slots))
        runs = {info.run_key: info for info in view.runs(connection, scope)}
        alive = {info.run_key for info in view.runs(connection, EVERYTHING) if is_there(info)}
        age = {run_key: number for number, run_key in enumerate(runs)}
        newest: dict[Slot, _Filling] = {}
        for one in (*_made(connection, alive), *_referenced(connection, alive)):
            if one.run_key in runs:
                found = newest.get(one.slot)
                if found is None or (one.gone, age[one.run_key]) < (found.gone, age[found.run_key]):
                    newest[one.slot] = one
        parts = _parts_of(connection, {one.run_key for one in newest.values()})
    return {
        slot: Previous(
            one.attempt,
            runs[one.run_key].directory,
            one.identity,
            parts.get((one.run_key, ""), {}) | parts.get((one.run_key, slot[0]), {}),
            one.gone,
        )
        for slot, one in newest.items()
    }


def _made(connection: Connection, alive: Collection[int]) -> Iterator[_Filling]:
    """Yield the attempts that were made for the wanted slots."""
    columns = (ATTEMPT.c.task, ATTEMPT.c.ordinal, ATTEMPT.c.run_key, ATTEMPT.c.attempt_id, ATTEMPT.c.identity)
    wanted = tuple_(ATTEMPT.c.task, ATTEMPT.c.ordinal).in_(select(WANTED_SLOT.c.task, WANTED_SLOT.c.ordinal))
    for task, ordinal, run_key, attempt, identity in every(connection, select(*columns).where(wanted)):
        yield _Filling((task, ordinal), run_key, attempt, identity, run_key not in alive)


def _referenced(connection: Connection, alive: Collection[int]) -> list[_Filling]:
    """Return the attempts of other runs that were taken for the wanted slots."""
    of_slot = and_(MEMBER.c.run_key == SLOT.c.run_key, MEMBER.c.task == SLOT.c.task, MEMBER.c.ordinal == SLOT.c.ordinal)
    query = (
        select(MEMBER.c.task, MEMBER.c.ordinal, MEMBER.c.run_key, MEMBER.c.attempt_id, SLOT.c.identity)
        .join(SLOT, of_slot)
        .where(MEMBER.c.kind == "reference")
        .where(tuple_(MEMBER.c.task, MEMBER.c.ordinal).in_(select(WANTED_SLOT.c.task, WANTED_SLOT.c.ordinal)))
    )
    rows = [row for row in every(connection, query) if row.run_key in alive]
    there: set[str] = set()
    for names in chunks({row.attempt_id for row in rows}):
        made = select(ATTEMPT.c.attempt_id, ATTEMPT.c.run_key).where(ATTEMPT.c.attempt_id.in_(names))
        there |= {attempt for attempt, run_key in every(connection, made) if run_key in alive}
    return [
        _Filling((row.task, row.ordinal), row.run_key, row.attempt_id, row.identity, row.attempt_id not in there)
        for row in rows
    ]


def _parts_of(connection: Connection, run_keys: Iterable[int]) -> Mapping[tuple[int, str], dict[str, str]]:
    """Return the parts of identities in some runs, by run and task; those of a whole run under the empty task."""
    found: dict[tuple[int, str], dict[str, str]] = {}
    for run_key in run_keys:
        query = select(IDENTITY_PART).where(IDENTITY_PART.c.run_key == run_key)
        for _, task, part, value in every(connection, query):
            found.setdefault((run_key, task), {})[part] = value
    return found
