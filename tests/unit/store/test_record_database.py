"""The file of the record: made, migrated, refused, set aside, waited for (spec 08 D2, D3, D4; cases DB 74 to 78)."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from record_rig import attempt, content, made_anew, make_run, query, slots_of
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable
from store_cases import AT, tree

from proctor.errors import StoreError, UsageError
from proctor.store.record import Record, record_path
from proctor.store.record_check import check_record
from proctor.store.record_columns import METADATA
from proctor.store.record_database import RecordDatabase
from proctor.store.record_errors import RecordBusy, RecordDamaged, RecordError, RecordNewer, explain, explained
from proctor.store.record_file import connect
from proctor.store.record_rows import INSERT_ATTEMPT, invocations_of
from proctor.store.record_schema import COLUMNS, REVISIONS, TABLES, complete_for_postgresql
from proctor.store.record_versions import migrate

HANG_SECONDS = 100
"""Only a hang takes so long."""

FIXTURE = Path(__file__).with_name("test_record_0001.sql")
"""A record of the first format, as SQL."""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    root = tmp_path / "results"
    make_run(root, attempt("aaaaaaaaaaaa", "one"), slots=slots_of("one"))
    return root


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the record as a writer that does not let go."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


# ------------------------------------------------------------------------------------------------------ made and closed


def test_D2_a_missing_record_is_made_from_the_journals(results: Path) -> None:
    with Record.open(results) as record:
        assert record.notices == []
        assert content(record.database) == made_anew(results)
        assert query(record, "PRAGMA journal_mode") == [("wal",)]
    record.close()
    assert sorted(os.listdir(results / ".proctor")) == ["record.sqlite", "record.sqlite-users"], "the log is folded in"
    (results / ".proctor" / "record.sqlite").unlink()
    with Record.open(results) as record:
        assert content(record.database) == made_anew(results)


def test_D3_a_record_can_be_elsewhere_for_several_results(results: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make_run(other, attempt("bbbbbbbbbbbb", "one"), slots=slots_of("one"))
    url = f"sqlite:///{tmp_path / 'shared' / 'all.sqlite'}"
    for root in (results, other):
        with Record.open(root, url) as record:
            assert len(record.runs()) == 1
    with Record.open(results, url, catch_up=False) as record:
        assert query(record, "SELECT count(*), count(DISTINCT root) FROM run") == [(2, 2)]
        record.rebuild()
        assert query(record, "SELECT count(*) FROM attempt") == [(2,)], "the rows of the other results stay"
        assert [one.run_dir.is_relative_to(results) for one in record.attempts("")] == [True]
    assert not (results / ".proctor").exists()
    assert check_record(other, url).right


@pytest.mark.parametrize("url", ["postgresql://u:geheim@h/d", "sqlite://", "sqlite:///:memory:", "nonsense"])
def test_D3_an_address_that_cannot_be_used_is_refused_without_its_password(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError) as raised:
        record_path(tmp_path, url)
    assert "sqlite:///" in str(raised.value.hint)
    assert "geheim" not in raised.value.message


def test_the_results_have_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no such file") as raised:
        Record.open(tmp_path / "none")
    assert raised.value.hint
    assert not (tmp_path / "none").exists()


def test_to_look_writes_nothing_anywhere(results: Path) -> None:
    before = tree(results)
    with Record.look(results) as record:
        assert content(record.database) == made_anew(results)
    assert tree(results) == before
    Record.open(results).close()
    make_run(results, attempt("bbbbbbbbbbbb", "two"), run="r2")
    before = tree(results)
    with Record.look(results) as record:
        assert record.notices == []
        assert content(record.database) == made_anew(results)
    assert tree(results) == before


def test_to_look_sees_what_an_active_process_has_committed(results: Path) -> None:
    with Record.open(results), Record.look(results) as copy:
        assert query(copy, "SELECT attempt_id FROM attempt") == [("aaaaaaaaaaaa",)]
    with Record.look(results.parent / "none") as nothing:
        assert nothing.runs() == []


# ------------------------------------------------------------------------------------------------------------ formats


def test_D4_a_newer_record_is_refused(results: Path) -> None:
    Record.open(results).close()
    path = record_path(results)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE alembic_version SET version_num = '9999'")
    before = path.read_bytes()
    for call in (Record.open, check_record):
        with pytest.raises(RecordNewer, match=r"newer proctor.*9999") as raised:
            call(results)
        assert "upgrade" in str(raised.value.hint)
    assert path.read_bytes() == before
    with Record.look(results) as record:
        assert "newer proctor" in record.notices[0]
        assert content(record.database) == made_anew(results)


def test_a_database_of_something_else_is_left_alone(results: Path) -> None:
    path = record_path(results)
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE theirs (a)")
    with pytest.raises(RecordError, match="something else"):
        Record.open(results)
    assert [name for name in os.listdir(path.parent) if "damaged" in name] == []


def schema_of(database: RecordDatabase) -> dict[str, str]:
    rows = database.connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {name: " ".join(sql.split()) for name, sql in rows if name != "alembic_version"}


def test_D4_the_migrations_lead_to_the_tables_that_are_made_at_once() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", "proctor.store:migrations")
    scripts = ScriptDirectory.from_config(config)
    assert [script.revision for script in scripts.walk_revisions()][::-1] == list(REVISIONS)
    made = RecordDatabase.private()
    migrated = RecordDatabase("migrated", connect("", 5.0))
    with migrated.writing() as connection:
        migrate(connection)
    assert schema_of(migrated) == schema_of(made)
    version = "SELECT version_num FROM alembic_version"
    assert migrated.connection.exec_driver_sql(version).scalar_one() == REVISIONS[-1]
    made.close()
    migrated.close()


def test_D4_a_record_of_each_format_can_be_read(tmp_path: Path) -> None:
    path = record_path(tmp_path)
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as old:
        old.executescript(FIXTURE.read_text(encoding="utf-8"))
    with Record.open(tmp_path, catch_up=False) as record:
        assert query(record, "SELECT task, verdict, score FROM attempt ORDER BY task") == [
            ("one", "passed", 1.0), ("two", "failed", 0.0),
        ]  # fmt: skip
        assert query(record, "SELECT version_num FROM alembic_version") == [(REVISIONS[-1],)]


def test_D3_the_tables_can_be_made_in_postgresql() -> None:
    dialect = postgresql.dialect()
    complete_for_postgresql()
    for table in TABLES:
        assert "BIGINT" in str(CreateTable(table).compile(dialect=dialect)) or table.name == "invocation"
        for index in table.indexes:
            text = str(CreateIndex(index).compile(dialect=dialect))
            assert (" WHERE " in text) == (index.name in ("member_by_reference", "slot_by_identity"))
    assert "SELECT slot.identity" in str(INSERT_ATTEMPT.compile(dialect=dialect, column_keys=COLUMNS["attempt"]))
    assert "CASE WHEN" in str(invocations_of().compile(dialect=dialect))
    assert set(METADATA.tables) == {table.name for table in TABLES}


# ------------------------------------------------------------------------------------------------------------- damage


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database\n" * 1000)


def one_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(os.urandom(4096))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


def no_format(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("DELETE FROM alembic_version")


@pytest.mark.parametrize("damage", [garbage, one_page, cut, no_format])
def test_77_a_damaged_record_is_set_aside_and_made_anew(results: Path, damage: object) -> None:
    Record.open(results).close()
    path = record_path(results)
    assert callable(damage)
    damage(path)
    spoilt = path.read_bytes()
    with Record.look(results) as record:
        assert content(record.database) == made_anew(results)
    assert path.read_bytes() == spoilt
    with Record.open(results) as record:
        [notice] = record.notices
        assert "set aside as `record.sqlite.damaged-1`" in notice
        assert content(record.database) == made_anew(results)
    assert path.with_name("record.sqlite.damaged-1").read_bytes() == spoilt
    with Record.open(results) as record:
        assert record.notices == [], "it is said once"


def test_77_damage_that_shows_only_later_is_mended_as_well(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large record is not looked through at every start."""
    Record.open(results).close()
    path = record_path(results)
    with closing(sqlite3.connect(path)) as other:
        [(page,)] = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'attempt'").fetchall()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(os.urandom(4096))
    monkeypatch.setattr("proctor.store.record_database.CHECKED_BYTES", 0)
    with Record.open(results) as record:
        assert record.notices == []
        found = record.candidates(["identity of one"])
        assert [one.attempt_id for one in found["identity of one"]] == ["aaaaaaaaaaaa"]
        assert "set aside" in record.notices[0]
        assert content(record.database) == made_anew(results)


def test_77_a_damaged_record_is_not_renamed_under_the_feet_of_others(results: Path) -> None:
    with Record.open(results) as record:
        record.database.fold_log()
        one_page(record_path(results))
        with pytest.raises(RecordDamaged) as raised:
            Record.open(results, suspect=True)
        assert raised.value.hint
        assert [name for name in os.listdir(results / ".proctor") if "damaged" in name] == []
    with Record.open(results, suspect=True) as record:
        assert content(record.database) == made_anew(results)


# ----------------------------------------------------------------------------------------------------- busy and shared


def test_74_who_finds_it_locked_waits_and_then_leaves_it_for_later(results: Path) -> None:
    layout = make_run(results, attempt("bbbbbbbbbbbb", "two"), run="r2", at=AT + 100)
    with Record.open(results, catch_up=False, busy_seconds=0.01) as record:
        with locked(record_path(results)):
            with pytest.raises(RecordBusy, match="other processes") as raised:
                record.index_run(layout.directory)
            assert raised.value.hint
            with pytest.raises(RecordBusy):
                record.catch_up()
            assert record.candidates(["identity of one"]) == {}, "who only reads does not wait"
        record.catch_up()
        assert content(record.database) == made_anew(results)


def test_74_who_waits_can_be_told_to_give_up(results: Path) -> None:
    with Record.open(results, catch_up=False, busy_seconds=1e6) as record, locked(record_path(results)):
        asked: list[bool] = []

        def give_up() -> bool:
            asked.append(True)
            return len(asked) == 2

        with pytest.raises(RecordBusy):
            record.index_run(results / "gpt-x_humaneval_chat" / "r1", give_up)


INDEXES = """
import sys
from pathlib import Path
from proctor.store.record import Record
root, runs = Path(sys.argv[1]), sys.argv[2:]
with Record.open(root, catch_up=False, busy_seconds=1e6) as record:
    for _ in range(5):
        for run in runs:
            journal = root / "gpt-x_humaneval_chat" / run / "journal.jsonl"
            whole = journal.with_name("whole").read_bytes()
            part = whole[: len(journal.read_bytes()) + len(whole) // 4]
            journal.write_bytes(part)
            record.index_run(journal.parent)
    record.catch_up()
"""


@pytest.mark.long
@pytest.mark.integration
def test_D3_several_processes_publish_at_once(tmp_path: Path) -> None:
    """Each follows two growing runs and catches up with those of the others; one of them rebuilds meanwhile."""
    names = [f"r{number}" for number in range(6)]
    for number, name in enumerate(names):
        events = [event for n in range(20) for event in attempt(f"{number:06d}{n:06d}", f"task-{n}")]
        layout = make_run(tmp_path, events, slots=slots_of(*(f"task-{n}" for n in range(20))), run=name)
        layout.directory.joinpath("whole").write_bytes(layout.journal.read_bytes())
        layout.journal.write_bytes(b"")
    commands = [[sys.executable, "-c", INDEXES, str(tmp_path), *names[start::3]] for start in range(3)]
    processes = [subprocess.Popen(command) for command in commands]
    with Record.open(tmp_path, catch_up=False, busy_seconds=1e6) as record:
        record.rebuild()
    assert [process.wait(HANG_SECONDS) for process in processes] == [0, 0, 0]
    assert check_record(tmp_path).right
    with Record.open(tmp_path) as record:
        assert content(record.database) == made_anew(tmp_path)
        assert query(record, "SELECT count(*) FROM attempt WHERE verdict = 'passed'") == [(120,)]


@pytest.mark.long
@pytest.mark.integration
def test_78_records_are_opened_and_closed_at_once_by_many(results: Path) -> None:
    code = "import sys, pathlib, proctor.store.record as r; r.Record.open(pathlib.Path(sys.argv[1])).close()"
    processes = [subprocess.Popen([sys.executable, "-c", code, str(results)]) for _ in range(5)]
    assert [process.wait(HANG_SECONDS) for process in processes] == [0] * 5
    assert check_record(results).right


# ------------------------------------------------------------------------------------------------------- file systems


def test_76_on_a_network_it_is_used_without_a_log_and_says_so(results: Path) -> None:
    for _ in range(2):
        with Record.open(results, file_system="nfs4") as record:
            [notice] = record.notices
            assert "record_url" in notice
            assert query(record, "PRAGMA journal_mode") == [("delete",)]
            assert content(record.database) == made_anew(results)
    with Record.open(results) as record:
        assert query(record, "PRAGMA journal_mode") == [("wal",)]


def test_76_where_no_log_works_a_rollback_journal_serves(results: Path) -> None:
    with Record.open(results, vfs="unix-dotfile") as record:
        [notice] = record.notices
        assert "without a write-ahead log" in notice
        assert content(record.database) == made_anew(results)


def test_76_where_no_locks_work_it_says_where_else_it_can_be(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.store.record_database.why_no_locks", lambda folder: "function not implemented")
    with pytest.raises(RecordError, match="locks do not work") as raised:
        Record.open(results)
    assert "record_url" in str(raised.value.hint)
    assert not record_path(results).exists()


@pytest.mark.parametrize("what", ["a file", "a link to nowhere"])
def test_D5_a_place_that_cannot_be_used_is_named(results: Path, what: str) -> None:
    place = results / ".proctor"
    place.write_text("") if what == "a file" else place.symlink_to(results / "nowhere" / "deep")
    with pytest.raises(StoreError) as raised:
        Record.open(results)
    assert str(place) in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize(
    ("code", "word"),
    [
        (sqlite3.SQLITE_BUSY, "locked"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "locked"),
        (sqlite3.SQLITE_CORRUPT, "damaged"),
        (sqlite3.SQLITE_NOTADB, "damaged"),
        (sqlite3.SQLITE_PROTOCOL, "locks"),
        (sqlite3.SQLITE_IOERR_SHMMAP, "shared memory"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, "read-only"),
        (sqlite3.SQLITE_CANTOPEN, "cannot be opened"),
        (sqlite3.SQLITE_FULL, "full"),
        (sqlite3.SQLITE_IOERR_FSYNC, "reading or writing failed"),
        (sqlite3.SQLITE_MISUSE, "strange"),
    ],
)
def test_what_sqlite_says_is_said_with_what_to_do(code: int, word: str) -> None:
    error = sqlite3.OperationalError("strange")
    error.sqlite_errorcode = code
    made = explain(error, "write", "r/record.sqlite")
    assert word in made.message
    assert "r/record.sqlite" in made.message
    assert made.hint


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ENOTDIR, errno.EIO])
def test_what_the_system_says_is_said_with_what_to_do(code: int) -> None:
    with pytest.raises(RecordError) as raised, explained("open", "r/record.sqlite"):
        raise OSError(code, os.strerror(code))
    assert os.strerror(code).lower() in raised.value.message
    assert raised.value.hint
