"""Directories of runs: where they are, and that they are made by one process only (spec 08 layout, D6)."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from store_cases import FaultyFiles, PowerCutFiles, every_fault

from proctor.errors import CannotStart, JournalLocked, UsageError
from proctor.model.events import GradingQueued
from proctor.store.codec import encode
from proctor.store.journal import Journal
from proctor.store.layout import RunLayout, component_name, experiment_dir_name
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan

TIME = "20261130_163035"


def test_the_paths_of_a_run_are_those_of_the_specification(tmp_path: Path) -> None:
    layout = RunLayout.create(tmp_path / "results", "m_b_h", default_id=TIME, run_name="nightly/main")
    run = tmp_path / "results/nightly/main/m_b_h" / TIME
    assert layout.directory == run
    assert layout.run_id == TIME
    assert {layout.plan, layout.journal, layout.lock, layout.log} == {
        run / name for name in ("plan.json", "journal.jsonl", "journal.lock", "run.log")
    }
    assert (layout.summary_json, layout.summary_markdown) == (run / "summary.json", run / "summary.md")
    task = component_name("HumanEval/0")
    assert layout.result("HumanEval/0", 3) == run / "attempts" / task / "3/result.json"
    tries = run / "attempts" / task / "3/tries/2"
    assert layout.try_dir("HumanEval/0", 3, 2) == tries
    assert list(run.iterdir()) == [], "asking for a path makes nothing"


def test_a_taken_run_id_is_an_error_and_a_taken_time_gets_a_suffix(tmp_path: Path) -> None:
    for expected in (TIME, f"{TIME}_2", f"{TIME}_3"):
        assert RunLayout.create(tmp_path, "e", default_id=TIME).run_id == expected
    assert RunLayout.create(tmp_path, "e", default_id=TIME, run_id="Exp_V5.5-TEST").run_id == "Exp_V5.5-TEST"
    with pytest.raises(UsageError, match=r"run id `Exp_V5\.5-TEST` is taken") as caught:
        RunLayout.create(tmp_path, "e", default_id=TIME, run_id="Exp_V5.5-TEST")
    assert "--run-id" in str(caught.value.hint)
    assert len(list((tmp_path / "e").iterdir())) == 4, "and nothing was made for it"
    assert RunLayout.create(tmp_path, "other", default_id=TIME, run_id="Exp_V5.5-TEST").run_id == "Exp_V5.5-TEST"


_STARTS = """
import sys, threading
from pathlib import Path
from proctor.store.layout import RunLayout
print("ready", flush=True)
sys.stdin.readline()
def start():
    print(RunLayout.create(Path(sys.argv[1]), "e", default_id="20261130_163035").run_id + "\\n", end="", flush=True)
threads = [threading.Thread(target=start) for _ in range(5)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_name_87_twenty_starts_at_one_instant_have_twenty_directories(tmp_path: Path) -> None:
    """Four processes of five threads, the clock frozen; the directories above are made by them as well."""
    results = tmp_path / "not/there/yet"
    command = [sys.executable, "-c", _STARTS, str(results)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    ids: list[str] = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        ids += process.communicate()[0].split()
        assert process.returncode == 0
    assert len(ids) == 20
    assert (
        set(ids) == {path.name for path in (results / "e").iterdir()} == {TIME, *(f"{TIME}_{n}" for n in range(2, 21))}
    )


def test_name_87_twenty_threads_at_one_instant_have_twenty_directories(tmp_path: Path) -> None:
    barrier = threading.Barrier(20)
    made: list[Path] = []

    def start() -> None:
        barrier.wait()
        made.append(RunLayout.create(tmp_path, "e", default_id=TIME).directory)

    threads = [threading.Thread(target=start) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 20


@pytest.mark.parametrize("name", ["..", ".", "a/../b", "a/..", "/abs", "/", "", "a//b", "a/", "./a"])
def test_a_run_name_cannot_leave_the_results(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="run name") as caught:
        RunLayout.create(tmp_path / "results", "e", default_id=TIME, run_name=name)
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == [], "nothing was made"


@pytest.mark.parametrize(
    "run_id",
    [
        "", ".", "..", "a/b", "/a", "a\\b", "a b", "a:b", ".hidden", "dot.", "CON", "nul.txt", "a\0b", "a\nb", "\ud800",
        "x" * 81, "e\u0301", "日" * 27,
    ],
)  # fmt: skip
def test_a_run_id_is_a_plain_name(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(UsageError, match="run id") as caught:
        RunLayout.create(tmp_path / "results", "e", default_id=TIME, run_id=run_id)
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == [], "nothing was made"


def test_the_hint_of_a_bad_run_id_can_be_used(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        RunLayout.create(tmp_path, "e", default_id=TIME, run_id="my first run!/v2")
    near = str(caught.value.hint).split("`")[-2]
    assert near == "my-first-run!-v2"
    assert RunLayout.create(tmp_path, "e", default_id=TIME, run_id=near).run_id == near


@pytest.mark.parametrize("experiment_dir", ["a/b", "", ".", "..", "/a"])
def test_an_experiment_directory_is_one_component(tmp_path: Path, experiment_dir: str) -> None:
    with pytest.raises(ValueError, match="not one directory name"):
        RunLayout.create(tmp_path, experiment_dir, default_id=TIME)


def test_name_85_names_far_too_long_still_make_a_run(tmp_path: Path) -> None:
    """Results 150 deep, a model id of 400 characters, a task id of 300 characters of three bytes."""
    deep = tmp_path / "/".join(["d"] * 150)
    layout = RunLayout.create(deep, experiment_dir_name("m" * 400, "b", "h"), default_id=TIME)
    result = layout.result("語" * 300, 0)
    result.parent.mkdir(parents=True)
    result.write_text("{}")
    assert max(len(part.encode()) for part in result.parts) <= 255


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(CannotStart, match="cannot make the directory") as caught:
        RunLayout.create(tmp_path / "results", "e", default_id=TIME)
    assert "is a file" in str(caught.value.hint)


def test_a_link_that_leads_nowhere_is_said_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "results").symlink_to(tmp_path / "gone")
    with pytest.raises(CannotStart, match="cannot make the directory") as caught:
        RunLayout.create(tmp_path / "results", "e", default_id=TIME)
    assert caught.value.hint == "choose another `--results-dir`"


def test_D5_whichever_call_fails_while_a_run_is_made_is_a_store_error(tmp_path: Path) -> None:
    numbers = iter(range(10**6))

    def scenario(files: FaultyFiles) -> None:
        results = tmp_path / str(next(numbers))
        try:
            layout = RunLayout.create(results, "e", default_id=TIME, files=files)
        except CannotStart:
            assert files.failed
            assert files.forever or not (results / "e" / TIME).exists(), "the run id is free again"
        else:
            assert layout.directory.is_dir()

    assert every_fault(scenario) > 50


def test_02_whichever_call_fails_before_a_run_is_open_nothing_was_started_and_nothing_is_left(tmp_path: Path) -> None:
    """Plan and journal are made as the program does it; the run id can be used for the next start."""
    numbers = iter(range(10**6))

    def scenario(files: FaultyFiles) -> None:
        results = tmp_path / str(next(numbers))
        layout = RunLayout.create(results, "e", default_id=TIME)
        (results / "e/other").mkdir()
        try:
            with layout.opening(files), ExitStack() as opened:
                write_plan(layout.plan, PlanFile({}, (PlannedSlot("t", 0, "i"),)), files=files)
                journal = Journal.create(layout.journal, at=0.0, files=files)
                opened.callback(journal.close)
                journal.append(GradingQueued("x"), 0.0)
                journal.flush()
                journal.sync()
                opened.pop_all()
        except CannotStart:
            assert files.failed
            assert files.forever or not layout.directory.exists()
        else:
            assert layout.plan.exists()
            journal.close()
        assert (results / "e/other").is_dir()

    assert every_fault(scenario) > 100


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ZeroDivisionError(), UsageError("no")])
def test_whatever_ends_the_opening_of_a_run_frees_its_id(tmp_path: Path, error: BaseException) -> None:
    layout = RunLayout.create(tmp_path, "e", default_id=TIME)

    def open_it() -> None:
        with layout.opening():
            write_plan(layout.plan, PlanFile({}, (PlannedSlot("t", 0, "i"),)))
            raise error

    with pytest.raises(type(error)):
        open_it()
    assert not layout.directory.exists()
    assert RunLayout.create(tmp_path, "e", default_id=TIME, run_id=TIME).run_id == TIME


def test_discarding_a_run_leaves_what_is_not_its_own(tmp_path: Path) -> None:
    layout = RunLayout.create(tmp_path, "e", default_id=TIME)
    (layout.directory / "notes.txt").write_text("mine")
    layout.plan.write_text("{}")
    layout.discard()
    assert [path.name for path in layout.directory.iterdir()] == ["notes.txt"]


def test_a_journal_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    layout = RunLayout.create(tmp_path, "e", default_id=TIME)
    with Journal.create(layout.journal, at=0.0):
        with pytest.raises(JournalLocked), layout.opening():
            Journal.create(layout.journal, at=0.0)
        assert layout.journal.exists()


def test_a_run_survives_a_power_cut_with_all_that_was_synced(tmp_path: Path) -> None:
    """Also when all the directories above it were made with it."""
    files = PowerCutFiles()
    layout = RunLayout.create(tmp_path / "a/b", "e", default_id=TIME, run_name="n", files=files)
    write_plan(layout.plan, PlanFile({}, (PlannedSlot("t", 0, "i"),)), files=files)
    journal = Journal.create(layout.journal, at=0.0, files=files)
    journal.append(GradingQueued("x"), 0.0)
    journal.flush()
    journal.sync()
    journal.append(GradingQueued("y"), 0.0)
    journal.flush()
    left = files.survivors(tmp_path)
    journal.close()
    run = f"a/b/n/e/{TIME}"
    assert left[f"{run}/plan.json"] == layout.plan.read_bytes()
    assert left[f"{run}/journal.jsonl"] == encode(GradingQueued("x"), 0.0)


class _NoDirectorySync(FaultyFiles):
    """A file system that cannot sync directories."""

    def fsync(self, descriptor: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def test_a_file_system_that_cannot_sync_directories_will_do(tmp_path: Path) -> None:
    assert RunLayout.create(tmp_path / "r", "e", default_id=TIME, files=_NoDirectorySync()).directory.is_dir()
