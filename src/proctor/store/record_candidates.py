"""Finds the attempts that may fill slots, by the slots' identities: what a plan decides on."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, and_, select

from proctor.store.record_candidate import Candidate, CandidateIssue, Checkpoint
from proctor.store.record_details import Key, checkpoints_of, chunks, issues_of, worked_elsewhere
from proctor.store.record_lookup import EVERYTHING, WANTED, RootView, RunInfo, Scope, every, is_there, put
from proctor.store.record_schema import ATTEMPT, MEMBER, SLOT

_COLUMNS = [
    ATTEMPT.c[name]
    for name in (
        "identity", "run_key", "attempt_id", "task", "ordinal", "verdict", "score", "tries", "agent_seconds",
        "execution_seconds", "started_at", "ended_at", "issues", "checkpoint_try",
        "cost_usd", "sub_scores",
    )
]  # fmt: skip
_LOOKED_AT = 30
"""Where fewer attempts than so many for each wanted identity are there, all are looked at."""

_GRADED = frozenset({"passed", "failed"})

GRADED_AGAIN = "grade only"
"""The decision on a slot whose source is an attempt that saved work without a grade."""

Enough = Callable[[Candidate], bool]


def find_candidates(
    view: RootView, identities: Collection[str], scope: Scope, enough: Enough | None = None
) -> dict[str, list[Candidate]]:
    """Return the attempts for slots with these identities, newest first; see `Record.candidates`."""
    with view.database.reading() as connection, _no_collection():
        put(view.database, WANTED, [(identity,) for identity in set(identities)])
        runs = [info for info in view.runs(connection, EVERYTHING) if is_there(info)]
        inside = {info.run_key for info in view.runs(connection, scope)}
        search = _Search(connection, runs, inside)
        search.own(set(identities), enough)
        search.referenced()
        return search.candidates()


@contextmanager
def _no_collection() -> Generator[None]:
    """Make many objects that all stay: looking for garbage among them takes as long as everything else together."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Search:
    """Finds candidates, newest run first; most are complete at once, the others need further queries.

    `runs` are all runs, newest first, and `inside` those of the scope. An attempt is as new as the newest run that has
    it, as its own or by reference.
    """

    def __init__(self, connection: Connection, runs: Sequence[RunInfo], inside: Collection[int]) -> None:
        self._connection = connection
        self._runs = {info.run_key: info for info in runs}
        self._inside = [info for info in runs if info.run_key in inside]
        self._place = {info.run_key: place for place, info in enumerate(runs)}
        self._found: dict[str, list[Candidate]] = {}
        self._rows: dict[Key, Any] = {}
        """The rows of candidates of which more has to be asked."""
        self._newer: dict[tuple[str, Key], int] = {}
        """The places of those that a newer run than their own refers to."""
        self._unsorted: set[str] = set()

    def own(self, wanted: Collection[str], enough: Enough | None) -> None:
        """Find attempts whose own slots have the identities; none of an older run than one that is `enough`."""
        many = _LOOKED_AT * len(wanted) > sum(info.slots or 0 for info in self._inside)
        done: set[str] = set()
        for rows in self._runs_scanned() if many else self._runs_joined():
            done_here: set[str] = set()
            for row in rows:
                identity = row[0]
                if identity not in wanted or identity in done:
                    continue
                candidate = self._candidate(row)
                found = self._found.setdefault(identity, [])
                if found and found[-1].run_key == candidate.run_key:
                    self._unsorted.add(identity)
                found.append(candidate)
                if enough is not None and (row[1], row[2]) not in self._rows and enough(candidate):
                    done_here.add(identity)
            done |= done_here

    def _runs_scanned(self) -> Iterator[Iterator[Any]]:
        """Yield all attempts of each run: where many are wanted, this takes a third of the time."""
        for info in self._inside:
            yield every(self._connection, select(*_COLUMNS).where(ATTEMPT.c.run_key == info.run_key))

    def _runs_joined(self) -> Iterator[list[Any]]:
        """Yield the wanted attempts of each run."""
        by_run: defaultdict[int, list[Any]] = defaultdict(list)
        # A join would be taken the other way round, through all attempts there are.
        query = select(*_COLUMNS).where(ATTEMPT.c.identity.in_(select(WANTED.c.identity)))
        for row in every(self._connection, query):
            by_run[row[1]].append(row)
        yield from (by_run[info.run_key] for info in self._inside if info.run_key in by_run)

    def referenced(self) -> None:
        """Find attempts that another run took for slots with the identities, wherever they are.

        What it reused or accepted is as new as that run. What it only graded stays as old as it is: that run has an
        attempt of its own.
        """
        inside = {info.run_key for info in self._inside}
        newest: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for identity, run_key, attempt, only_graded in self._taken():
            if run_key in inside:
                places = newest[attempt]
                place = len(self._place) if only_graded else self._place[run_key]
                places[identity] = min(place, places.get(identity, place))
        for names in chunks(newest):
            for row in every(self._connection, select(*_COLUMNS).where(ATTEMPT.c.attempt_id.in_(names))):
                if row.run_key in self._runs:
                    for identity, place in newest[row.attempt_id].items():
                        self._refer(identity, row, place)

    def _taken(self) -> Iterator[tuple[str, int, str, bool]]:
        """Yield identity, run, attempt and whether it was only graded, for each slot that is filled from elsewhere."""
        of_slot = and_(
            MEMBER.c.run_key == SLOT.c.run_key, MEMBER.c.task == SLOT.c.task, MEMBER.c.ordinal == SLOT.c.ordinal
        )
        wanted = and_(SLOT.c.identity.in_(select(WANTED.c.identity)), SLOT.c.source_attempt_id.is_not(None))
        referred = select(SLOT.c.identity, SLOT.c.run_key, MEMBER.c.attempt_id).join(MEMBER, of_slot)
        for row in every(self._connection, referred.where(wanted, MEMBER.c.kind == "reference")):
            yield *row, False
        graded = select(SLOT.c.identity, SLOT.c.run_key, SLOT.c.source_attempt_id)
        for row in every(self._connection, graded.where(wanted, SLOT.c.decision == GRADED_AGAIN)):
            yield *row, True

    def _refer(self, identity: str, row: Any, place: int) -> None:
        key = (row.run_key, row.attempt_id)
        found = self._found.setdefault(identity, [])
        if not any(one.attempt_id == row.attempt_id and one.run_key == row.run_key for one in found):
            found.append(self._candidate(row))
        if place < self._place[row.run_key]:
            self._newer[identity, key] = place
        self._unsorted.add(identity)

    def candidates(self) -> dict[str, list[Candidate]]:
        """Return what was found, completed and in order."""
        issues = issues_of(self._connection, [key for key, row in self._rows.items() if row.issues])
        saved = {
            key: row.checkpoint_try
            for key, row in self._rows.items()
            if row.checkpoint_try is not None and row.verdict not in _GRADED
        }
        checkpoints = checkpoints_of(self._connection, saved)
        for identity, found in self._found.items():
            for place, candidate in enumerate(found):
                key = (candidate.run_key, candidate.attempt_id)
                if key in self._rows:
                    found[place] = self._completed(candidate, issues.get(key, ()), checkpoints.get(key))
            if identity in self._unsorted:
                found.sort(key=lambda one: self._age(identity, one))
        return self._found

    def _age(self, identity: str, one: Candidate) -> tuple[int, Any, str]:
        place = self._newer.get((identity, (one.run_key, one.attempt_id)), self._place[one.run_key])
        return place, [-ord(character) for character in one.ended_at or one.started_at or ""], one.attempt_id

    def _candidate(self, row: Any) -> Candidate:
        """Return a candidate as far as it is known from its row."""
        identity, run_key, attempt, task, ordinal, verdict, score, tries, agent, execution, started, ended, *more = row
        run = self._runs[run_key]
        if more[0] or (more[1] is not None and verdict not in _GRADED) or (agent is None and tries):
            self._rows[run_key, attempt] = row
        return Candidate(
            attempt, run_key, run.run_id, run.directory, task, ordinal, identity, verdict, score, tries, agent,
            execution, started, ended, (), None, more[2], more[3],
        )  # fmt: skip

    def _completed(
        self, candidate: Candidate, issues: tuple[CandidateIssue, ...], checkpoint: Checkpoint | None
    ) -> Candidate:
        run = self._runs[candidate.run_key]
        agent, execution = candidate.agent_seconds, candidate.execution_seconds
        if agent is None and candidate.tries:
            agent, execution = worked_elsewhere(self._connection, candidate)
        codes = {issue.code for issue in issues}
        if "time.agent" in codes and run.agent_timeout_seconds is not None:
            agent = run.agent_timeout_seconds
        if "time.attempt" in codes and run.timeout_seconds is not None:
            execution = run.timeout_seconds
        return candidate._replace(
            agent_seconds=agent, execution_seconds=execution, issues=issues, checkpoint=checkpoint
        )
