"""Runs that go on are found without their journals, and one that does not answer holds nobody (case 165)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from proctor.store.active_runs import Seen, look, runs_below, survey
from proctor.store.files import write_file
from proctor.store.journal import Journal
from proctor.store.lock import this_host
from proctor.store.owner import Living, Owner, this_owner
from proctor.store.progress_file import FORMAT, Progress, encode_progress

PROMPT_SECONDS = 60.0


def run_at(directory: Path, *, locked: bool = True) -> Path:
    directory.mkdir(parents=True)
    (directory / "journal.jsonl").write_bytes(b"\x00 not read")
    (directory / "plan.json").write_text("{}")
    if locked:
        (directory / "journal.lock").write_text(json.dumps({"pid": 1, "host": this_host(), "started": "then"}))
    return directory


def told(directory: Path, owner: Owner | None, **more: object) -> Path:
    given = {
        "format": FORMAT, "proctor": "1", "invocation": "i", "run": directory.name, "experiment": "e", "owner": owner,
        "started_at": 1.0, "written_at": 2.0, "every_seconds": 1.0, "ended": False, "completion": None,
        "counts": {"total": 0}, "backing_off": 0, "waiting_for_grading": 0, "between_tries": 0, "cost_usd": None,
    }  # fmt: skip
    progress = Progress(**{**given, **more})  # type: ignore[arg-type]
    write_file(directory / "progress.json", encode_progress(progress))
    return directory


def test_07_runs_are_found_at_any_level_and_not_looked_into(tmp_path: Path) -> None:
    active = {run_at(tmp_path / "e" / "1"), run_at(tmp_path / "mine" / "nested" / "e" / "1")}
    over = run_at(tmp_path / "e" / "2", locked=False)
    run_at(tmp_path / ".hidden" / "e" / "1")
    run_at(tmp_path / "e" / "1" / "attempts" / "t" / "0")
    assert set(runs_below(tmp_path)) == active
    assert set(runs_below(tmp_path, locked=False)) == active | {over}
    assert list(runs_below(tmp_path / "nowhere")) == []


def test_07_a_writer_that_is_this_process_is_alive_and_ends_when_it_closes(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    journal = Journal.create(directory / "journal.jsonl", at=0.0, pid=1, host=this_host())
    for owner in (this_owner(), None):
        told(directory, owner)
        seen = look(directory, this_owner())
        assert seen.life is not None
        assert seen.life.living is Living.ALIVE
    journal.close()
    seen = look(directory, this_owner())
    assert (seen.writer, seen.life, seen.problem) == (None, None, None)


def test_10_I2_a_lock_without_its_process_is_that_of_a_dead_one(tmp_path: Path) -> None:
    here = this_owner()
    directory = told(run_at(tmp_path / "run"), Owner(here.host, here.boot_id, here.pid_namespace, here.pid, 1))
    seen = look(directory, here)
    assert seen.life is not None
    assert seen.life.living is Living.DEAD
    assert "another one by now" in seen.life.why


def test_07_of_another_host_nobody_knows(tmp_path: Path) -> None:
    seen = look(told(run_at(tmp_path / "run"), Owner("elsewhere", "b", "n", 1, 1)), this_owner())
    assert seen.life is not None
    assert seen.life.living is Living.UNKNOWN


def test_165_damaged_files_are_told_of_beside_the_others(tmp_path: Path) -> None:
    torn = run_at(tmp_path / "e" / "torn")
    (torn / "progress.json").write_text("{")
    locked = told(run_at(tmp_path / "e" / "locked"), this_owner())
    (locked / "journal.lock").write_text("?")
    none = run_at(tmp_path / "e" / "none")
    found = {seen.directory: seen for seen in survey([tmp_path], this_owner(), within_seconds=PROMPT_SECONDS).runs}
    assert set(found) == {torn, locked, none}
    assert "damaged" in (found[torn].problem or "")
    assert found[locked].progress is not None
    assert found[none].problem is None


@pytest.mark.parametrize("silent", [3, 20])
def test_165_those_that_do_not_answer_are_listed_and_hold_nobody(silent: int, tmp_path: Path) -> None:
    """More of them than there are threads keep others from being seen, and the answer comes all the same."""
    runs = [Path(f"{number:02d}") for number in range(80)]
    gone = threading.Event()

    def slow(directory: Path, here: Owner | None) -> Seen:
        if directory in runs[:silent]:
            gone.wait()
        return Seen(directory)

    try:
        limit = 1.0 if silent == 3 else 0.2
        found = survey([tmp_path], None, within_seconds=limit, list_runs=lambda _: runs, look=slow)
        assert [seen.directory for seen in found.runs] == runs
        late = [seen.directory for seen in found.runs if "did not answer" in (seen.problem or "")]
        assert set(late) >= set(runs[:silent])
        assert found.whole
        if silent == 3:
            assert len(late) == 3
    finally:
        gone.set()


def test_165_a_directory_that_cannot_be_listed_in_time_is_said_to_be_missing(tmp_path: Path) -> None:
    gone = threading.Event()

    def stuck(root: Path) -> list[Path]:
        gone.wait()
        return []

    try:
        found = survey([tmp_path], None, within_seconds=0.05, list_runs=stuck)
        assert not found.whole
    finally:
        gone.set()


def test_165_a_bug_with_one_run_is_that_runs_trouble(tmp_path: Path) -> None:
    def fails(directory: Path, here: Owner | None) -> Seen:
        if directory == Path("b"):
            raise ZeroDivisionError("no")
        return Seen(directory)

    listed: Callable[[Path], list[Path]] = lambda _: [Path("a"), Path("b")]  # noqa: E731
    found = survey([tmp_path], None, within_seconds=PROMPT_SECONDS, list_runs=listed, look=fails)
    assert [seen.problem for seen in found.runs] == [None, "ZeroDivisionError: no"]
