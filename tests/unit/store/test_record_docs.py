"""docs/record.md says what the tables are, and its queries answer what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from record_rig import attempt, make_run, query, slots_of
from store_cases import AT

from proctor.model.attempt import Outcome, Phase, TryResult, Usage, Verdict, issue_of
from proctor.model.events import SlotFilled, TryEnded, TryStarted
from proctor.store.record import Record
from proctor.store.record_database import RecordDatabase
from proctor.store.record_schema import TABLES

PAGE = Path(__file__).parents[3] / "docs" / "record.md"
TYPES = {"TEXT": "text", "BIGINT": "integer", "DOUBLE": "real", "BOOLEAN": "true or false"}


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_page_lists_every_table_with_its_columns() -> None:
    found = re.findall(r"^### (\w+)\n\n(.*?)(?:\n\n|\Z)", page(), re.MULTILINE | re.DOTALL)
    wanted = {
        table.name: [
            f"| {c.name}{' (key)' if c.primary_key else ''} | {TYPES[str(c.type)]} | {c.comment} |" for c in table.c
        ]
        for table in TABLES
    }
    assert {name: text.strip().splitlines()[2:] for name, text in found} == wanted


QUERIES = {
    text.partition("\n\n")[0].strip().partition(":")[0]: sql
    for text, sql in re.findall(
        r"^(\w[^`]*?:)\n\n```sql\n(.*?)```", page().partition("## Questions")[2], re.MULTILINE | re.DOTALL
    )
}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two runs: the second reuses a slot, retries one, and was killed."""
    root = tmp_path_factory.mktemp("results")
    lost = issue_of("provider.lost", "gone", Phase.AGENT)
    make_run(
        root,
        [
            *attempt("aaaaaaaaaaaa", "one", agent_seconds=9.0),
            *attempt("bbbbbbbbbbbb", "two", solved=False, usage=Usage(calls=1)),
        ],
        slots=slots_of("one", "two"),
        parts={"two": {"task": "t1"}},
        shared={"model": "m"},
    )
    make_run(
        root,
        [
            SlotFilled("aaaaaaaaaaaa", "one", 0, "gpt-x_humaneval_chat/r1", Verdict.PASSED, 1.0),
            TryStarted("cccccccccccc", "two", 0, 1),
            TryEnded("cccccccccccc", 1, TryResult(Outcome.BROKEN, usage=Usage(calls=1, cost_usd=0.5), issues=(lost,))),
            *attempt("cccccccccccc", "two", number=2),
            TryStarted("dddddddddddd", "three", 0, 1),
        ],
        slots=[
            *slots_of("one", decision="reuse", reason=None, source="aaaaaaaaaaaa"),
            *slots_of("two", "three"),
        ],
        parts={"two": {"task": "t2"}},
        shared={"model": "m"},
        run="r2",
        at=AT + 86_400,
        invocation="invocation02",
        end=False,
    )
    record = Record(RecordDatabase.private(), root, "", RecordDatabase.private)
    record.catch_up()
    yield record
    record.close()


GROUP = "gpt-x_humaneval_chat"
ANSWERS: dict[str, list[tuple[Any, ...]]] = {
    "Pass rate of each task, over everything that was ever executed": [("two", 2, 0.5), ("one", 1, 1.0)],
    "Pass rate of each run, reused slots included, skipped ones left out": [
        (f"{GROUP}/r1", "gpt-x", 2, 0.5), (f"{GROUP}/r2", "gpt-x", 2, 1.0),
    ],
    "The slowest tasks, by how long the agent worked": [("one", 9.0, 9.0, 1), ("two", 2.0, 2.0, 2)],
    "What each model has cost, and of how many attempts that is not known": [("gpt-x", 1.0, 2, 4)],
    "Where costs come from, by kind of work; what they are at least, and how many calls that leaves out": [
        ("gpt-x", "agent", None, 1.0, 1, 6)
    ],
    "Flaky tasks": [("chat", "gpt-x", "two", 1, 1)],
    "What goes wrong most, and whose doing it is": [("provider.lost", "provider", "FATAL", 1, 1)],
    "Attempts that needed more than one try, what replaced tries ended with, and what they cost": [
        ("cccccccccccc", "two", 2, "passed", "provider.lost", 0.5)
    ],
    "Slots that a run reused, from which run, and why": [
        (f"{GROUP}/r2", "one", 0, "aaaaaaaaaaaa", f"{GROUP}/r1", "reuse", None)
    ],
    "Why slots were executed again": [(f"{GROUP}/r2", "two", "task", "t1", "t2")],
    "Runs that did not come to their end, and how far they came": [
        (f"{GROUP}/r2", "2026-12-01T16:30:35.123456Z", "active or killed", 3, 1, 1, 0)
    ],
    "Tokens and cost by day": [
        ("2026-11-30", 3, 100, 20, 0, 0.25), ("2026-12-01", 3, 100, 20, 0, 0.75),
    ],
}  # fmt: skip


def test_every_question_of_the_page_has_an_answer_here() -> None:
    assert list(QUERIES) == list(ANSWERS)
    assert len(QUERIES) >= 10


@pytest.mark.parametrize("question", ANSWERS)
def test_the_queries_of_the_page_answer_their_questions(record: Record, question: str) -> None:
    assert query(record, QUERIES[question]) == ANSWERS[question]
