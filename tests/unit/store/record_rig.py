"""What the tests of the record share: runs on disk, journals that make little sense, and what a record holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from sqlalchemy import select
from store_cases import AT, EVENT_STRATEGIES

from proctor.model.attempt import Grade, Issue, Outcome, Phase, TryResult, Usage, Verdict, verdict_of
from proctor.model.events import (
    AttemptSealed,
    Completion,
    Event,
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    RunStarted,
    SavedFile,
    TryEnded,
    TryStarted,
    WorkCheckpointed,
)
from proctor.store.codec import FORMAT_VERSION, encode
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan
from proctor.store.record import Record
from proctor.store.record_database import RecordDatabase
from proctor.store.record_schema import BOOKKEEPING, TABLES

EXPERIMENT: dict[str, Any] = {
    "name": "base",
    "benchmark": {"id": "humaneval", "params": {}},
    "harness": {"id": "chat", "params": {}},
    "model": {"id": "gpt-x"},
    "environment": {"provider": "local"},
    "grading": "none",
    "limits": {"agent_seconds": 60.0, "try_seconds": 300.0},
}
USED = Usage(calls=2, input_tokens=100, output_tokens=20, cost_usd=0.25)


def started(run: str = "r1", *, invocation: str = "invocation01", slots: int = 2) -> RunStarted:
    return RunStarted(FORMAT_VERSION, invocation, run, "base", "0.1.0", "host", 7, slots, slots)


def attempt(
    name: str,
    task: str,
    *,
    solved: bool = True,
    issues: Sequence[Issue] = (),
    usage: Usage = USED,
    agent_seconds: float = 2.0,
    seal: bool = True,
    grade: bool = True,
    broken: bool = False,
    ordinal: int = 0,
    number: int = 1,
    files: Sequence[SavedFile] = (),
) -> Iterator[Event]:
    """One attempt of one try, as far as it is told to go."""
    yield TryStarted(name, task, ordinal, number)
    for phase, seconds in ((Phase.OPEN, 0.5), (Phase.AGENT, agent_seconds), (Phase.COLLECT, 0.25)):
        yield PhaseStarted(name, phase)
        yield PhaseEnded(name, phase, seconds)
    yield WorkCheckpointed(name, number, "ab" * 32, usage, tuple(files))
    if not grade:
        return
    yield PhaseStarted(name, Phase.GRADE)
    yield PhaseEnded(name, Phase.GRADE, 1.0)
    result = (
        TryResult(Outcome.BROKEN, usage=usage, issues=tuple(issues))
        if broken
        else TryResult(Outcome.GRADED, Grade(solved, float(solved)), usage, issues=tuple(issues))
    )
    yield TryEnded(name, number, result)
    if seal:
        verdict = verdict_of(result)
        score = float(solved) if verdict in (Verdict.PASSED, Verdict.FAILED) else None
        yield AttemptSealed(name, task, ordinal, verdict, score, number)


def lines_of(events: Iterable[Event], *, at: float = AT) -> list[bytes]:
    return [encode(event, at + number) for number, event in enumerate(events)]


def make_run(
    root: Path,
    events: Iterable[Event],
    *,
    slots: Sequence[PlannedSlot] = (),
    run: str = "r1",
    group: str = "gpt-x_humaneval_chat",
    at: float = AT,
    shared: dict[str, str] | None = None,
    parts: dict[str, dict[str, str]] | None = None,
    invocation: str = "invocation01",
    end: bool = True,
    plan: bool = True,
) -> RunLayout:
    """Write a run as a runner leaves it: plan, and a journal that begins with the start of the run."""
    layout = RunLayout.create(root, group, default_id=run)
    if plan:
        write_plan(layout.plan, PlanFile(EXPERIMENT, tuple(slots), shared or {"model": "m1"}, parts or {}))
    every: list[Event] = [started(run, invocation=invocation, slots=len(slots)), *events]
    if end:
        every.append(RunEnded("base", Completion.COMPLETE))
    layout.journal.write_bytes(b"".join(lines_of(every, at=at)))
    return layout


def slots_of(
    *tasks: str, decision: str = "execute", reason: str | None = "new", source: str | None = None
) -> list[PlannedSlot]:
    return [PlannedSlot(task, 0, f"identity of {task}", decision, reason, source) for task in tasks]


def content(database: RecordDatabase) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return every row of every table, without what says how it was indexed."""
    with database.reading() as connection:
        return {
            table.name: Counter(
                tuple(row)
                for row in connection.execute(
                    select(*[c for c in table.c if table.name != "journal" or c.name not in BOOKKEEPING])
                )
            )
            for table in TABLES
        }


@cache
def _spare() -> RecordDatabase:
    return RecordDatabase.private()


def made_anew(root: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return what a record that is made from the journals alone holds."""
    record = Record(_spare(), root, "", RecordDatabase.private)
    record.rebuild()
    return content(record.database)


def query(record: Record, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in record.database.connection.exec_driver_sql(sql)]


# ------------------------------------------------------------------------------------- journals that make little sense

_ATTEMPTS = st.sampled_from(["aaaaaaaaaaaa", "bbbbbbbbbbbb", "with\0nul", "with\\0nul"])
_TASKS = st.sampled_from(["one", "two", "tw\0"])


@st.composite
def _odd_event(draw: st.DrawFn, kind: type) -> Event:
    event = draw(EVENT_STRATEGIES[kind])
    names = {field.name for field in fields(event)}
    changes: dict[str, Any] = {}
    if "attempt" in names:
        changes["attempt"] = draw(_ATTEMPTS)
    if "task" in names:
        changes |= {"task": draw(_TASKS), "ordinal": draw(st.integers(0, 1))}
    if "try_number" in names:
        changes["try_number"] = draw(st.integers(1, 3))
    return replace(event, **changes)


_LIKELY = [TryStarted, PhaseEnded, WorkCheckpointed, TryEnded, AttemptSealed]
odd_events = st.one_of([_odd_event(kind) for kind in [*EVENT_STRATEGIES, *_LIKELY * 3]])
odd_journals = st.lists(odd_events, max_size=25)
"""Events of few attempts in any order: most of them no runner would ever write."""
