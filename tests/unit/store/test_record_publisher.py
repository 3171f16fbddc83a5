"""The publisher: the record follows runs in its own thread, and whatever happens there, a run does not notice (D3)."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from record_rig import attempt, content, lines_of, made_anew, make_run, slots_of
from store_cases import AT

from proctor.store import record_publisher
from proctor.store.record import Record, record_path
from proctor.store.record_errors import RecordBusy, RecordError
from proctor.store.record_publisher import RecordPublisher

HANG_SECONDS = 100
"""Only a hang takes so long."""


class Watched(Record):
    """A record that says when it has indexed a run."""

    indexed: threading.Event
    before: Callable[[], None]

    def index_run(self, run_dir: Path, *arguments: Any) -> int:
        self.before()
        count = super().index_run(run_dir, *arguments)
        self.indexed.set()
        return count


class Opener:
    """Opens a `Watched`, which does `before` before it indexes a run."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.indexed = threading.Event()
        self.before = before

    def __call__(self, root: Path, url: str | None) -> Record:
        record = Watched.open(root, url, catch_up=False, busy_seconds=0.01)
        record.indexed, record.before = self.indexed, self.before
        return record


def ask(root: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(record_path(root))) as other:
        return other.execute(sql).fetchall()


@pytest.fixture
def told() -> list[str]:
    return []


def test_D3_an_attempt_can_be_queried_while_its_run_is_active(tmp_path: Path, told: list[str]) -> None:
    layout = make_run(tmp_path, [], slots=slots_of("one", "two"), end=False)
    opener = Opener()
    publisher = RecordPublisher(tmp_path, tell=told.append, open_record=opener)
    publisher.start()
    for number, (name, task) in enumerate([("aaaaaaaaaaaa", "one"), ("bbbbbbbbbbbb", "two")], 1):
        with layout.journal.open("ab") as journal:
            journal.write(b"".join(lines_of(attempt(name, task), at=AT + 100 * number)))
        publisher.publish(layout.directory)
        assert opener.indexed.wait(HANG_SECONDS)
        opener.indexed.clear()
        assert ask(tmp_path, "SELECT count(*) FROM attempt WHERE verdict = 'passed'") == [(number,)]
    assert publisher.close(HANG_SECONDS)
    assert told == []
    assert not record_path(tmp_path).with_name("record.sqlite-wal").exists()


def test_D3_what_was_published_last_is_indexed_at_the_end(tmp_path: Path, told: list[str]) -> None:
    """Also what earlier runs left, as far as there is time for it."""
    layout = make_run(tmp_path, attempt("aaaaaaaaaaaa", "one"), slots=slots_of("one"))
    publisher = RecordPublisher(tmp_path, tell=told.append)
    publisher.start()
    publisher.publish(layout.directory)
    assert publisher.close(HANG_SECONDS)
    assert publisher.close(HANG_SECONDS)
    with Record.open(tmp_path, catch_up=False) as record:
        assert content(record.database) == made_anew(tmp_path)


def test_what_earlier_runs_left_is_indexed_beside(tmp_path: Path, told: list[str]) -> None:
    for number in range(3):
        make_run(tmp_path, attempt(f"{number}" * 12, "one"), slots=slots_of("one"), run=f"r{number}")
    done = threading.Event()

    class Counting(Record):
        def catch_up_steps(self, *arguments: Any) -> Any:
            yield from super().catch_up_steps(*arguments)
            done.set()

    publisher = RecordPublisher(
        tmp_path, tell=told.append, open_record=lambda root, url: Counting.open(root, url, catch_up=False)
    )
    publisher.start()
    assert done.wait(HANG_SECONDS)
    assert publisher.close(HANG_SECONDS)
    assert ask(tmp_path, "SELECT count(*) FROM attempt") == [(3,)]


def test_74_a_locked_record_is_left_for_later_and_said_once(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_publisher, "RETRY_SECONDS", 0.01)
    layout = make_run(tmp_path, attempt("aaaaaaaaaaaa", "one"), slots=slots_of("one"))
    Record.open(tmp_path, catch_up=False).close()
    tries = threading.Semaphore(0)
    opener = Opener(tries.release)
    publisher = RecordPublisher(tmp_path, tell=told.append, open_record=opener)
    with closing(sqlite3.connect(record_path(tmp_path), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        publisher.publish(layout.directory)
        publisher.start()
        for _ in range(3):
            assert tries.acquire(timeout=HANG_SECONDS)
        other.execute("ROLLBACK")
    assert opener.indexed.wait(HANG_SECONDS)
    assert publisher.close(HANG_SECONDS)
    [said] = told
    assert "other processes" in said
    assert ask(tmp_path, "SELECT count(*) FROM attempt") == [(1,)]


def test_74_a_record_that_stays_locked_does_not_hold_up_the_end(tmp_path: Path, told: list[str]) -> None:
    layout = make_run(tmp_path, attempt("aaaaaaaaaaaa", "one"), slots=slots_of("one"))
    Record.open(tmp_path, catch_up=False).close()
    with closing(sqlite3.connect(record_path(tmp_path), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        publisher = RecordPublisher(tmp_path, tell=told.append, open_record=Opener())
        publisher.start()
        publisher.publish(layout.directory)
        assert publisher.close(HANG_SECONDS)
        other.execute("ROLLBACK")
    with Record.open(tmp_path) as record:
        assert content(record.database) == made_anew(tmp_path), "the next start does the rest"


def test_the_end_waits_for_a_limited_time(tmp_path: Path, told: list[str]) -> None:
    layout = make_run(tmp_path, [])
    reached, go_on = threading.Event(), threading.Event()

    def block() -> None:
        reached.set()
        go_on.wait(HANG_SECONDS)

    publisher = RecordPublisher(tmp_path, tell=told.append, open_record=Opener(block))
    publisher.publish(layout.directory)
    publisher.start()
    assert reached.wait(HANG_SECONDS)
    assert not publisher.close(0.01)
    go_on.set()
    assert publisher.close(HANG_SECONDS)


@pytest.mark.parametrize(
    "error", [RecordError("it is read-only", hint="make it writable"), RecordBusy("locked"), RuntimeError("a bug")]
)
def test_D3_whatever_goes_wrong_runs_go_on(tmp_path: Path, told: list[str], error: Exception) -> None:
    layout = make_run(tmp_path, [])

    def refuse(root: Path, url: str | None) -> Record:
        raise error

    publisher = RecordPublisher(tmp_path, tell=told.append, open_record=refuse)
    publisher.publish(layout.directory)
    publisher.start()
    publisher.publish(layout.directory)
    assert publisher.close(HANG_SECONDS)
    publisher.publish(layout.directory)
    if isinstance(error, RecordError):
        assert "runs go on without it" in told[-1]


def test_77_a_record_that_is_damaged_meanwhile_is_made_anew(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = make_run(tmp_path, attempt("aaaaaaaaaaaa", "one"), slots=slots_of("one"))
    Record.open(tmp_path).close()
    path = record_path(tmp_path)
    with closing(sqlite3.connect(path)) as other:
        [(page,)] = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'journal'").fetchall()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    monkeypatch.setattr("proctor.store.record_database.CHECKED_BYTES", 0)
    publisher = RecordPublisher(tmp_path, tell=told.append, open_record=Opener())
    publisher.publish(layout.directory)
    publisher.start()
    assert publisher.close(HANG_SECONDS)
    assert any("set aside" in said for said in told)
    with Record.open(tmp_path) as record:
        assert content(record.database) == made_anew(tmp_path)


def test_a_publisher_that_was_never_started_closes(tmp_path: Path) -> None:
    publisher = RecordPublisher(tmp_path)
    publisher.publish(tmp_path / "run")
    assert publisher.close()
    assert list(tmp_path.iterdir()) == []


def test_starting_imports_no_database(tmp_path: Path) -> None:
    """So that a run starts as fast as ever."""
    import subprocess
    import sys

    code = "import sys, proctor.store.record_publisher; print([m for m in sys.modules if 'sqlalchemy' in m])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
