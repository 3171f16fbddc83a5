"""`proctor record`: rebuild, check, export and clean, with exit codes and JSON (spec 08 D2, D3)."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from program import Ended

Proctor = Callable[..., Ended]


@pytest.fixture
def runs(proctor: Proctor, tmp_path: Path) -> Path:
    """Two runs without a record; return the results."""
    for run in ("r1", "r2"):
        assert proctor("run", "trivial", "oracle", "--limit", "3", "--run-id", run).code == 0
    shutil.rmtree(tmp_path / "results" / ".proctor", ignore_errors=True)
    return tmp_path / "results"


def ask(results: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(results / ".proctor" / "record.sqlite")) as record, record:
        return record.execute(sql).fetchall()


def test_D2_rebuild_makes_every_row_anew(proctor: Proctor, runs: Path) -> None:
    ended = proctor("record", "rebuild")
    assert (ended.code, ended.err) == (0, "")
    assert "2 runs" in ended.out
    assert ask(runs, "SELECT verdict, count(*) FROM attempt GROUP BY 1") == [("passed", 6)]
    assert ask(runs, "SELECT benchmark, harness, model FROM run") == [("trivial", "oracle", None)] * 2
    ask(runs, "DELETE FROM attempt")
    data = json.loads(proctor("record", "rebuild", "--json").out)
    assert (data["runs"], data["indexed"], data["problems"]) == (2, 2, {})
    assert proctor("record", "check").code == 0


def test_D2_check_says_what_differs_and_changes_nothing(proctor: Proctor, runs: Path) -> None:
    assert proctor("record", "check").code == 1, "there is no record"
    assert not (runs / ".proctor").exists()
    proctor("record", "rebuild")
    right = proctor("record", "check")
    assert (right.code, right.err) == (0, "")
    assert "as the journals say" in right.out
    ask(runs, "UPDATE attempt SET score = 0.5 WHERE attempt_id = (SELECT min(attempt_id) FROM attempt)")
    for _ in range(2):
        wrong = proctor("record", "check")
        assert wrong.code == 1
        assert "attempt: 1 extra, 1 lacking" in wrong.out
        assert "score=0.5" in wrong.out
        assert "hint: `proctor record rebuild`" in wrong.err
    data = json.loads(proctor("record", "check", "--json").out)
    assert (data["right"], data["differences"][0]["table"]) == (False, "attempt")


def test_77_a_damaged_record_is_found_and_made_anew(proctor: Proctor, runs: Path) -> None:
    proctor("record", "rebuild")
    path = runs / ".proctor" / "record.sqlite"
    path.write_bytes(b"nothing like a database")
    checked = proctor("record", "check")
    assert checked.code == 1
    assert "damaged" in checked.out
    rebuilt = proctor("record", "rebuild")
    assert rebuilt.code == 0
    assert "set aside as `record.sqlite.damaged-1`" in rebuilt.err
    assert proctor("record", "check").code == 0


def test_D1_a_journal_that_is_damaged_is_told(proctor: Proctor, runs: Path) -> None:
    [journal] = runs.glob("*/r1/journal.jsonl")
    with journal.open("ab") as file:
        file.write(b"{oops}\n")
    rebuilt = proctor("record", "rebuild")
    assert rebuilt.code == 3
    assert "warning: none_trivial_oracle/r1: line " in rebuilt.err
    assert proctor("record", "check").code == 0, "the record says what the journals say, as far as they can be read"


@pytest.mark.parametrize("kind", ["sqlite", "csv", "jsonl", "parquet"])
def test_D2_export(proctor: Proctor, runs: Path, kind: str) -> None:
    target = runs.parent / "out"
    ended = proctor("record", "export", "--format", kind, "out", "--json")
    assert (ended.code, ended.err) == (0, "")
    data = json.loads(ended.out)
    assert (data["format"], data["rows"]["attempt"]) == (kind, 6)
    assert target.is_file() if kind == "sqlite" else (target / f"attempt.{kind}").is_file()
    again = proctor("record", "export", "--format", kind, "out")
    assert (again.code, again.out) == (2, "")
    assert "exists already" in again.err
    assert "hint:" in again.err


def test_export_of_results_that_cannot_be_written_reads_the_journals(proctor: Proctor, runs: Path) -> None:
    (runs / ".proctor").write_text("in the way")
    ended = proctor("record", "export", "--format", "csv", "out")
    assert ended.code == 0
    assert "warning:" in ended.err
    assert len((runs.parent / "out" / "attempt.csv").read_text().splitlines()) == 7


def test_clean_removes_the_rows_of_runs_that_are_gone(proctor: Proctor, runs: Path) -> None:
    assert proctor("record", "clean").err == "0 runs removed from the record\n"
    assert not (runs / ".proctor").exists()
    proctor("record", "rebuild")
    [gone] = runs.glob("*/r2")
    shutil.rmtree(gone)
    checked = proctor("record", "check")
    assert checked.code == 1
    assert "hint: `proctor record clean`" in checked.err
    dry = proctor("record", "clean", "--dry-run")
    assert (dry.code, dry.out, dry.err) == (0, "none_trivial_oracle/r2\n", "1 run would be removed from the record\n")
    assert json.loads(proctor("record", "clean", "--json").out) == {
        "runs": ["none_trivial_oracle/r2"],
        "dry_run": False,
    }
    assert ask(runs, "SELECT run_id FROM run") == [("r1",)]
    assert proctor("record", "check").code == 0


def test_D3_another_place(proctor: Proctor, runs: Path) -> None:
    url = f"sqlite:///{runs.parent / 'elsewhere' / 'r.sqlite'}"
    for _ in range(2):
        assert proctor("record", "rebuild", "--record-url", url, "--results-dir", "results").code == 0
    assert proctor("record", "check", "--record-url", url).code == 0
    assert not (runs / ".proctor").exists()


@pytest.mark.parametrize("command", [["rebuild"], ["check"], ["clean"], ["export", "--format", "csv", "out"]])
@pytest.mark.parametrize(
    "options", [["--results-dir", "nowhere"], ["--record-url", "postgresql://u:secret@h/d"]], ids=["results", "url"]
)
def test_02_what_cannot_be_is_refused_before_anything_is_done(
    proctor: Proctor, runs: Path, command: list[str], options: list[str]
) -> None:
    ended = proctor("record", *command, *options)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert "hint: " in ended.err
    assert "secret" not in ended.err
    assert not (runs / ".proctor").exists()


def test_02_an_unknown_command_names_the_nearest(proctor: Proctor) -> None:
    ended = proctor("record", "chekc")
    assert ended.code == 2
    assert "did you mean `record check`?" in ended.err
