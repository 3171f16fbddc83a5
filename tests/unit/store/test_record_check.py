"""Checking, cleaning and copying the record (spec 08 D2)."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from record_rig import attempt, content, lines_of, make_run, query, slots_of
from store_cases import AT, tree

from proctor.errors import MissingPackage, UsageError
from proctor.model.attempt import Phase, issue_of
from proctor.model.events import Interrupted, SavedFile
from proctor.store.codec import encode
from proctor.store.journal import Journal
from proctor.store.layout import RunLayout
from proctor.store.record import Record, record_path
from proctor.store.record_check import check_record
from proctor.store.record_export import export_sqlite, export_tables
from proctor.store.record_schema import COLUMNS, TABLES

ISSUE = issue_of("time.agent", 'limit of 60 s reached, "quoted"\nand more', Phase.AGENT)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    root = tmp_path / "results"
    files = [SavedFile("checkpoint/answer.txt", "ab" * 32, 5)]
    events = [*attempt("aaaaaaaaaaaa", "one", files=files), *attempt("bbbbbbbbbbbb", "two", issues=[ISSUE])]
    make_run(root, events, slots=slots_of("one", "two"), parts={"one": {"task": "t1"}})
    make_run(root, attempt("cccccccccccc", "one"), slots=slots_of("one"), group="other", invocation="invocation02")
    Record.open(root).close()
    return root


def change(root: Path, sql: str) -> None:
    with closing(sqlite3.connect(record_path(root))) as other, other:
        other.execute(sql)


# ------------------------------------------------------------------------------------------------------------- checking


def test_D2_a_record_that_is_right_is_found_right_and_nothing_is_changed(results: Path) -> None:
    before = tree(results)
    checked = check_record(results)
    assert checked.right
    assert (checked.runs, checked.rows) == (2, sum(map(len, content_of(results).values())))
    assert tree(results) == before


def content_of(root: Path) -> dict[str, Any]:
    with Record.open(root, catch_up=False) as record:
        return content(record.database)


@pytest.mark.parametrize("table", [table.name for table in TABLES])
def test_D2_a_row_of_any_table_that_is_changed_or_missing_is_found(results: Path, table: str) -> None:
    column = {"invocation": "host", "journal": "lines", "run": "harness"}.get(table, COLUMNS[table][-1])
    with closing(sqlite3.connect(record_path(results))) as other, other:
        [(keys,)] = other.execute(f'SELECT count(*) FROM "{table}"').fetchall()
        assert keys, "the results have something for every table"
        other.execute(f'UPDATE "{table}" SET {column} = 77')
    checked = check_record(results)
    assert not checked.right
    assert {one.table for one in checked.differences} >= {table}
    assert all(one.extra == one.lacking > 0 for one in checked.differences if one.table == table)
    shutil.rmtree(results / ".proctor")
    Record.open(results).close()
    change(results, f'DELETE FROM "{table}"')
    checked = check_record(results)
    assert not checked.right
    if table == "run":
        assert {one.where for one in checked.differences} >= {"no run"}
    else:
        assert {(one.table, one.extra) for one in checked.differences} == {(table, 0)}
    with Record.open(results, catch_up=False) as record:
        record.rebuild()
    assert check_record(results).right


def test_a_record_that_lacks_runs_says_which(results: Path) -> None:
    make_run(results, [], run="r9", at=AT + 500)
    layout = RunLayout(results / "other" / "r1")
    with layout.journal.open("ab") as journal:
        journal.write(encode(Interrupted(2), AT + 900))
    checked = check_record(results)
    assert sorted(checked.missing) == ["gpt-x_humaneval_chat/r9", "other/r1"]
    assert (checked.differences, checked.behind, checked.right) == ([], [], False)
    Record.open(results).close()
    assert check_record(results).right


def test_a_run_that_goes_on_is_behind_and_not_wrong(results: Path) -> None:
    active = RunLayout.create(results, "other", default_id="r2")
    with Journal.create(active.journal, at=AT) as journal:
        journal.append(Interrupted(2), AT)
        journal.flush()
        checked = check_record(results)
        assert checked.behind == ["other/r2"]
        assert checked.right


def test_a_torn_tail_and_a_damaged_line_are_no_differences(results: Path) -> None:
    for name, tail in (("torn", b'{"type":"Interr'), ("damaged", b"{oops}\n")):
        layout = make_run(results, attempt("dddddddddddd", "one"), group=name, end=False)
        with layout.journal.open("ab") as journal:
            journal.write(tail)
    with Record.open(results, catch_up=False) as record:
        record.catch_up()
    checked = check_record(results)
    assert checked.right
    assert list(checked.problems) == ["damaged/r1"]


def test_a_damaged_file_is_found_in_any_page(results: Path) -> None:
    path = record_path(results)
    whole = path.read_bytes()
    for page in range(1, len(whole) // 4096, 3):
        path.write_bytes(whole[: page * 4096] + b"\xee" * 4096 + whole[(page + 1) * 4096 :])
        checked = check_record(results)
        assert not checked.right
        assert checked.damage
    path.write_bytes(b"no database at all")
    assert check_record(results).damage


def test_a_missing_record_lacks_everything(results: Path) -> None:
    shutil.rmtree(results / ".proctor")
    assert len(check_record(results).missing) == 2
    assert not (results / ".proctor").exists()


@pytest.mark.parametrize("begun", [b"", None], ids=["no byte", "no table"])
def test_10_I2_a_record_whose_maker_was_killed_lacks_everything_and_can_be_looked_at(
    results: Path, begun: bytes | None
) -> None:
    path = record_path(results)
    path.unlink()
    if begun is None:
        with closing(sqlite3.connect(path)) as record:
            record.execute("PRAGMA journal_mode = WAL")
    else:
        path.write_bytes(begun)
    checked = check_record(results)
    assert not checked.right
    assert checked.missing
    assert not checked.differences
    with Record.look(results) as looked:
        assert looked.runs()
        assert not looked.notices
    Record.open(results).close()
    assert check_record(results).right


# ------------------------------------------------------------------------------------------------------------- cleaning


def test_clean_removes_what_is_gone_and_nothing_else(results: Path) -> None:
    shutil.rmtree(results / "other")
    checked = check_record(results)
    assert (checked.gone, checked.right) == (["other/r1"], False)
    with Record.open(results, catch_up=False) as record:
        before = content(record.database)
        assert record.clean(dry_run=True) == ["other/r1"]
        assert content(record.database) == before
        assert record.clean() == ["other/r1"]
        assert record.clean() == []
        assert query(record, "SELECT invocation_id FROM invocation") == [("invocation01",)]
    assert check_record(results).right


def test_clean_does_not_take_a_missing_disk_for_removed_runs(results: Path) -> None:
    with Record.open(results, catch_up=False) as record:
        results.rename(results.with_name("elsewhere"))
        with pytest.raises(UsageError, match="no directory"):
            record.clean()


# -------------------------------------------------------------------------------------------------------------- copying


def test_D2_a_copy_in_sqlite_is_one_file_of_one_moment_while_runs_are_active(results: Path, tmp_path: Path) -> None:
    layout = make_run(results, [], run="r5", end=False)
    target = tmp_path / "copy.sqlite"
    with Record.open(results) as record:
        with layout.journal.open("ab") as journal:
            journal.write(b"".join(lines_of(attempt("dddddddddddd", "one"), at=AT + 50)))
        with Record.open(results, catch_up=False) as other:
            other.index_run(layout.directory)
        rows = export_sqlite(record.database, target)
        expected = content(record.database)
    assert rows == {name: found.total() for name, found in expected.items()}
    assert rows["attempt"] == 4
    assert [path.name for path in tmp_path.iterdir() if path != results] == [target.name]
    with Record.open(results, f"sqlite:///{target}", catch_up=False) as copy:
        assert content(copy.database) == expected


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_each_table_is_a_file_that_says_the_same(results: Path, tmp_path: Path, kind: str) -> None:
    with Record.open(results) as record:
        counts = export_tables(record.database, tmp_path / "out", kind)
        for table in TABLES:
            path = tmp_path / "out" / f"{table.name}.{kind}"
            wanted = [dict(row._mapping) for row in record.database.connection.execute(table.select())]
            assert counts[table.name] == len(wanted)
            key = json.dumps
            assert sorted(read(path, kind), key=key) == sorted((shown(row, kind) for row in wanted), key=key)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(f"{t.name}.{kind}" for t in TABLES)


def read(path: Path, kind: str) -> list[dict[str, Any]]:
    if kind == "csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    if kind == "jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    from pyarrow import parquet

    return parquet.read_table(path).to_pylist()


def shown(row: dict[str, Any], kind: str) -> dict[str, Any]:
    if kind != "csv":
        return row
    words = {True: "true", False: "false", None: ""}
    return {name: words[value] if isinstance(value, bool | None) else str(value) for name, value in row.items()}


@pytest.mark.parametrize("kind", ["sqlite", "csv"])
def test_nothing_is_written_over(results: Path, tmp_path: Path, kind: str) -> None:
    taken = tmp_path / "taken"
    taken.write_text("precious")
    with Record.open(results) as record:
        for target in (taken, tmp_path / "nowhere" / "out"):
            with pytest.raises(UsageError) as raised:
                export_sqlite(record.database, target) if kind == "sqlite" else export_tables(
                    record.database, target, kind
                )
            assert raised.value.hint
    assert taken.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results", "taken"]


def test_parquet_without_its_package_says_how_to_install_it(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with Record.open(results) as record, pytest.raises(MissingPackage) as raised:
        export_tables(record.database, tmp_path / "out", "parquet")
    assert "pip install 'proctor[parquet]'" in str(raised.value.hint)
    assert not (tmp_path / "out").exists()
