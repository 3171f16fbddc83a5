"""When the disk, a plugin or we ourselves fail: what is said, what is kept, how it ends (spec 02, 05, 08 D5, 10 I4)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from program import HANG_SECONDS, Ended

Proctor = Callable[..., Ended]
Process = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Makes file systems of a given size; needs the right to mount."""
    mounted: list[Path] = []

    def make(options: str) -> Path:
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, check=False
        )
        if done.returncode != 0:
            pytest.skip("cannot mount a file system here")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize(
    "options", ["size=60k", "size=100k", "size=180k", "nr_inodes=15", "nr_inodes=25", "nr_inodes=41"]
)
@pytest.mark.parametrize("extra", [[], ["--no-attempt-files"]])
def test_08_D5_a_full_disk_ends_the_run_with_3_and_says_what_was_kept(
    proctor: Proctor, small_disk: Callable[[str], Path], options: str, extra: list[str]
) -> None:
    disk = small_disk(options)
    ended = proctor(
        "run", "trivial", "chat", "mock/fixed", "--set", "model.params.text=ok", "--set", "benchmark.params.tasks=200",
        "--results-dir", disk, "--json", *extra,
    )  # fmt: skip
    assert "Traceback" not in ended.err
    assert ended.code in (2, 3)  # 2 where not even the plan could be written
    if ended.code == 2:
        assert "hint:" in ended.err
        return
    assert "no space left on device" in ended.err.lower()
    [run] = ended.receipt["runs"]
    counts = run["counts"]
    assert (counts["running"], counts["queued"]) == (0, 0), "nothing runs after the end"
    [journal] = disk.rglob("journal.jsonl")
    kept = journal.read_text().count('"type":"AttemptSealed"')
    assert counts["passed"] + counts["failed"] + counts["errored"] <= kept
    shown = proctor("show", journal.parent, "--json")
    assert shown.code == 0
    assert json.loads(shown.out)["counts"]["passed"] == counts["passed"]


@pytest.mark.parametrize("command", [["run", "trivial", "nop"], ["check", "trivial"]])
@pytest.mark.parametrize("options", ["size=16k", "size=24k", "nr_inodes=5", "nr_inodes=6", "nr_inodes=8"])
def test_08_D5_what_cannot_start_leaves_nothing_behind(
    proctor: Proctor, small_disk: Callable[[str], Path], options: str, command: list[str]
) -> None:
    disk = small_disk(options)
    ended = proctor(*command, "--results-dir", disk, "--set", "benchmark.params.tasks=200")
    assert ended.code in (2, 3)
    assert "Traceback" not in ended.err
    if ended.code == 2:
        assert "hint:" in ended.err
        assert not [path for path in disk.rglob("*") if path.is_file()]


def test_02_a_run_id_that_is_taken_for_one_of_two_runs_starts_neither(proctor: Proctor, tmp_path: Path) -> None:
    (tmp_path / "results/none_trivial_nop/x").mkdir(parents=True)
    ended = proctor("check", "trivial", "--run-id", "x")
    assert ended.code == 2
    assert "run id `x` is taken" in ended.err
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_02_a_bug_of_ours_still_writes_one_receipt_and_keeps_what_was_finished(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from proctor.core.scheduler import Scheduler

    honest = Scheduler.handle
    seen = 0

    def breaks_later(self: Scheduler, event: object, *, now: float) -> object:
        nonlocal seen
        seen += type(event).__name__ == "TryEnded"
        if seen > 5:
            raise ZeroDivisionError("impossible")
        return honest(self, event, now=now)  # type: ignore[arg-type]

    monkeypatch.setattr(Scheduler, "handle", breaks_later)
    ended = proctor("run", "trivial", "oracle", "--json", "--task-concurrency", "1")
    assert ended.code == 70
    assert ended.receipt["exit_code"] == 70
    counts = ended.receipt["runs"][0]["counts"]
    assert counts["passed"] == 5
    assert counts["running"] == counts["queued"] == 0


def test_02_an_internal_issue_exits_70(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "plugins:Sleeper", "--set", "harness.params.failure=internal", "--limit", "2")
    assert ended.code == 70
    assert "this is a bug of proctor" in ended.err


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["task", "thread"])
def test_05_what_ignores_cancellation_holds_neither_the_run_nor_the_exit(process: Process, kind: str) -> None:
    started = process(
        "run", "trivial", "plugins:Stubborn", "--set", f"harness.params.failure={kind}", "--timeout", "0.1",
        "--set", "harness.params.seconds=3600", "--limit", "3",
    )  # fmt: skip
    _, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 0, err
    assert "issues: 3 ERROR time.agent" in err


@pytest.mark.long
def test_10_an_interrupt_ends_a_run_of_harnesses_that_ignore_cancellation(process: Process, tmp_path: Path) -> None:
    started = process("run", "trivial", "plugins:Stubborn", "--set", "harness.params.seconds=3600", "--limit", "2")
    assert started.stderr is not None
    started.stderr.readline()  # the plan: the run has begun
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130
    assert "incomplete" in err or "no score" in err


@pytest.mark.long
def test_10_I1_a_signal_while_it_starts_is_obeyed_and_leaves_a_whole_run(process: Process, tmp_path: Path) -> None:
    started = process("run", "trivial", "plugins:Sleeper", "--set", "harness.params.seconds=60", "--json")
    while not list((tmp_path / "results").rglob("plan.json")):
        assert started.poll() is None
    started.send_signal(signal.SIGTERM)
    out, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 143, err
    receipt = json.loads(out.splitlines()[-1])
    assert receipt["runs"][0]["completion"] == "interrupted"
    assert not list(tmp_path.rglob("journal.lock"))


def test_02_secrets_of_the_environment_are_written_nowhere(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-leaky-0123456789abcdef"
    monkeypatch.setenv("LEAKY_API_KEY", secret)
    ended = proctor("run", "trivial", "plugins:Leaky", "--limit", "2", "--json")
    assert ended.code == 0
    texts = [ended.out, ended.err, *(path.read_text() for path in ended.run_dir.rglob("*") if path.is_file())]
    assert any("redacted" in text for text in texts)
    assert not any(secret in text for text in texts)


def test_08_what_cannot_be_kept_is_trouble_of_its_attempt_alone(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "plugins:Unkeepable", "--limit", "3")
    assert ended.code == 3
    assert "3 errored" in ended.err
    assert "harness.crashed" in ended.err
    assert "store.full" not in ended.err


def test_07_closed_standard_streams_do_not_matter(process: Process, tmp_path: Path) -> None:
    script = 'exec "$0" -m proctor run trivial nop --limit 2 >&- 2>&-'
    done = subprocess.run(["sh", "-c", script, sys.executable], cwd=tmp_path, check=False, env=os.environ)
    assert done.returncode == 0
    assert len(list(tmp_path.rglob("summary.json"))) == 1


@pytest.mark.long
def test_07_waiting_for_grading_is_said_beside_running(proctor: Proctor) -> None:
    from proctor.report.plain import counts_of
    from proctor.report.view import RunView

    ended = proctor(
        "run",
        "humaneval",
        "oracle",
        "--limit",
        "12",
        "--provider-limit",
        "local=1",
        "--task-concurrency",
        "4",
        "--json",
    )
    assert ended.code == 0
    from proctor.store.codec import decode

    view, unexplained = RunView("x"), 0
    for line in (ended.run_dir / "journal.jsonl").read_bytes().splitlines(keepends=True):
        view.add(*decode(line))
        executing = view.counts.running - len(view.waiting_for_grading)
        unexplained = max(unexplained, executing)
        if view.waiting_for_grading:
            assert "waiting for grading" in counts_of(view)
    assert unexplained <= 4


@pytest.mark.long
def test_07_a_receipt_that_cannot_be_written_is_said(process: Process, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "proctor", "run", "trivial", "nop", "--json"],
            cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=os.environ,
        )  # fmt: skip
    assert done.returncode == 3
    assert "could not write to standard output" in done.stderr
    assert len(list(tmp_path.rglob("summary.json"))) == 1


def test_a_benchmark_that_cannot_tell_its_tasks_is_at_fault_itself(proctor: Proctor) -> None:
    ended = proctor("run", "plugins:Gradeable", "nop", "--set", "benchmark.params.broken=tasks")
    assert ended.code == 2
    assert "cannot tell its tasks: OSError: no data" in ended.err
