"""What more the record knows of attempts that may fill a slot, where a row of theirs does not say it all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, and_, exists, or_, select

from proctor.store.record_candidate import Candidate, CandidateIssue, Checkpoint, CheckpointFile
from proctor.store.record_lookup import source_of
from proctor.store.record_schema import ARTIFACT, ATTEMPT, ISSUE, TRY

Key = tuple[int, str]
"""A run and an attempt of it."""

_CHAIN = 20
"""So often in a row an attempt may have been graded again from the work of another one."""


def worked_elsewhere(connection: Connection, candidate: Candidate) -> tuple[float | None, float | None]:
    """Return the seconds of an attempt that was only graded here, from the attempt whose work it graded."""
    run_key, attempt, slot = candidate.run_key, candidate.attempt_id, (candidate.task, candidate.ordinal)
    for _ in range(_CHAIN):
        source = source_of(connection, run_key, *slot)
        worked = None if source is None else _work_of(connection, source, [run_key] if source == attempt else [])
        if worked is None or source is None:
            break
        if not worked.grading_only:
            phases = (worked.open_seconds, worked.setup_seconds, worked.agent_seconds, worked.collect_seconds)
            work = [seconds for seconds in (candidate.execution_seconds, *phases) if seconds is not None]
            return worked.agent_seconds, round(sum(work), 6) if work else None
        run_key, attempt, slot = worked.run_key, source, (worked.task, worked.ordinal)
    return candidate.agent_seconds, candidate.execution_seconds


def _work_of(connection: Connection, attempt: str, but_not: Collection[int]) -> Any:
    """Return the last try of an attempt that did its work, or if there is none, its last one."""
    query = (
        select(TRY, ATTEMPT.c.task, ATTEMPT.c.ordinal)
        .join(ATTEMPT, and_(ATTEMPT.c.run_key == TRY.c.run_key, ATTEMPT.c.attempt_id == TRY.c.attempt_id))
        .where(ATTEMPT.c.attempt_id == attempt, TRY.c.run_key.not_in(list(but_not)))
        .order_by(TRY.c.grading_only, TRY.c.try_number.desc())
    )
    return connection.execute(query.limit(1)).one_or_none()


def issues_of(connection: Connection, keys: Iterable[Key]) -> dict[Key, tuple[CandidateIssue, ...]]:
    """Return the issues of counted tries, or of attempts without any try."""
    found: defaultdict[Key, list[CandidateIssue]] = defaultdict(list)
    of_try = and_(
        TRY.c.run_key == ISSUE.c.run_key, TRY.c.attempt_id == ISSUE.c.attempt_id,
        TRY.c.try_number == ISSUE.c.try_number,
    )  # fmt: skip
    any_try = TRY.alias()
    has_tries = exists().where(any_try.c.run_key == ISSUE.c.run_key, any_try.c.attempt_id == ISSUE.c.attempt_id)
    query = (
        select(ISSUE.c.run_key, ISSUE.c.attempt_id, ISSUE.c.code, ISSUE.c.severity, ISSUE.c.message)
        .outerjoin(TRY, of_try)
        .where(or_(TRY.c.counted, and_(ISSUE.c.try_number.is_(None), ~has_tries)))
        .order_by(ISSUE.c.run_key, ISSUE.c.attempt_id, ISSUE.c.position)
    )
    for run_key, names in by_run(keys):
        for chunk in chunks(names):
            rows = connection.execute(query.where(ISSUE.c.run_key == run_key, ISSUE.c.attempt_id.in_(chunk)))
            for _, attempt, code, severity, message in rows:
                found[run_key, attempt].append(CandidateIssue(code, severity, message))
    return {key: tuple(issues) for key, issues in found.items()}


def checkpoints_of(connection: Connection, tries: Mapping[Key, int]) -> dict[Key, Checkpoint]:
    """Return what the given try of each attempt saved."""
    files: defaultdict[tuple[int, str, int], list[CheckpointFile]] = defaultdict(list)
    answers: dict[tuple[int, str, int], str | None] = {}
    for run_key, names in by_run(tries):
        for chunk in chunks(names):
            saved = select(ARTIFACT).where(ARTIFACT.c.run_key == run_key, ARTIFACT.c.attempt_id.in_(chunk))
            for _, attempt, number, *file in connection.execute(saved):
                files[run_key, attempt, number].append(CheckpointFile(*file))
            digests = select(TRY.c.attempt_id, TRY.c.try_number, TRY.c.answer_sha256)
            mine = digests.where(TRY.c.run_key == run_key, TRY.c.attempt_id.in_(chunk))
            for attempt, number, answer in connection.execute(mine):
                answers[run_key, attempt, number] = answer
    return {
        (run_key, attempt): Checkpoint(number, answers.get(key), tuple(sorted(files.get(key, ()))))
        for (run_key, attempt), number in tries.items()
        for key in [(run_key, attempt, number)]
    }


def by_run(keys: Iterable[Key]) -> Iterator[tuple[int, list[str]]]:
    """Yield each run with its attempts."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for run_key, attempt in keys:
        found[run_key].append(attempt)
    yield from found.items()


def chunks(names: Iterable[str], size: int = 500) -> Iterator[list[str]]:
    """Yield names in lists that a query can take."""
    every = list(names)
    yield from (every[start : start + size] for start in range(0, len(every), size))
