"""Interrupts during setup and teardown, while waiting for a lease, and what the record says of other ends."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from program import HANG_SECONDS, Ended
from test_interrupts import wait_until

from proctor.core.scheduler import Scheduler

Process = Callable[..., "subprocess.Popen[str]"]
Proctor = Callable[..., Ended]

HOOKS = """
import os, time
from pathlib import Path

def first_hangs():
    if Path("began").exists():
        Path("again").touch()
        return
    Path("began.new").write_text(str(os.getpid()))
    os.rename("began.new", "began")
    while True:
        time.sleep(60)
"""


@pytest.fixture(autouse=True)
def hooks(tmp_path: Path) -> None:
    (tmp_path / "hooking.py").write_text(HOOKS)


def hook_of(folder: Path) -> Path:
    return Path(f"/proc/{(folder / 'began').read_text()}")


def goes(folder: Path) -> bool:
    """Whether the hook's process ends; a killed one may be there for a moment after its parent."""
    end = time.monotonic() + HANG_SECONDS
    while hook_of(folder).exists() and time.monotonic() < end:
        time.sleep(0.01)
    return not hook_of(folder).exists()


def summary_of(folder: Path) -> dict[str, object]:
    [summary] = (folder / "results").rglob("summary.json")
    return json.loads(summary.read_text())


@pytest.mark.long
def test_10_I1_a_setup_that_hangs_is_ended(process: Process, tmp_path: Path) -> None:
    started = process("run", "trivial", "oracle", "--set", "setup=hooking:first_hangs", "--limit", "2")
    wait_until((tmp_path / "began").exists, started)
    started.send_signal(signal.SIGTERM)
    _, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 143, err
    assert goes(tmp_path)
    assert "2 slots not dispatched: interrupt" in err
    assert summary_of(tmp_path)["completion"] == "interrupted"


@pytest.mark.long
def test_10_I1_a_second_signal_cuts_a_teardown_short_and_the_next_run_runs_it_first(
    process: Process, proctor: Proctor, tmp_path: Path
) -> None:
    run = ["run", "trivial", "oracle", "--limit", "2", "--set", "teardown=hooking:first_hangs"]
    started = process(*run)
    wait_until((tmp_path / "began").exists, started)
    [journal] = tmp_path.rglob("journal.jsonl")
    started.send_signal(signal.SIGINT)
    wait_until(lambda: '"Interrupted"' in journal.read_text(), started)
    assert hook_of(tmp_path).exists(), "a first signal leaves it its time"
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130, err
    assert goes(tmp_path)
    assert "cut short, as the end of the run was forced; the next run of this experiment runs it first" in err
    again = proctor(*run)
    assert again.code == 0
    assert "running teardown `hooking:first_hangs` first" in again.err
    assert (tmp_path / "again").exists()


@pytest.mark.long
def test_10_I1_a_wait_for_a_lease_is_ended_and_the_holder_is_not(process: Process, tmp_path: Path) -> None:
    lease = ["--set", "shared_state.key=k", "--limit", "1"]
    holder = process("run", "trivial", "plugins:Sleeper", "--set", "harness.params.seconds=3600", *lease)
    wait_until(lambda: any('"agent"' in path.read_text() for path in tmp_path.rglob("journal.jsonl")), holder)
    waiter = process("run", "trivial", "oracle", *lease)
    assert waiter.stderr is not None
    said = ""
    while "waiting for shared state `k`" not in said:
        said = waiter.stderr.readline()
        assert said
    waiter.send_signal(signal.SIGINT)
    _, err = waiter.communicate(timeout=HANG_SECONDS)
    assert waiter.returncode == 130, err
    assert "1 slot not dispatched: interrupt" in err
    assert holder.poll() is None
    holder.send_signal(signal.SIGINT)
    holder.communicate(timeout=HANG_SECONDS)
    assert holder.returncode == 130


@pytest.mark.long
def test_10_I2_a_run_that_goes_on_is_said_to_go_on(process: Process, proctor: Proctor, tmp_path: Path) -> None:
    started = process("run", "trivial", "plugins:Sleeper", "--set", "harness.params.seconds=3600", "--limit", "1")
    wait_until(lambda: any('"agent"' in path.read_text() for path in tmp_path.rglob("journal.jsonl")), started)
    [journal] = tmp_path.rglob("journal.jsonl")
    shown = proctor("show", str(journal.parent))
    assert shown.code == 0
    assert f"warning: the run is still running: process {started.pid} on " in shown.err
    started.kill()
    started.communicate(timeout=HANG_SECONDS)
    shown = proctor("show", str(journal.parent))
    assert f"warning: the run ended without a trace: process {started.pid} on " in shown.err


def test_sbx_116_a_time_limit_is_on_record(proctor: Proctor) -> None:
    ended = proctor(
        "run", "trivial", "plugins:Sleeper", "--set", "harness.params.seconds=3600", "--limit", "3",
        "--task-concurrency", "2", "--set", "runtime.timeout_seconds=0.3",
    )  # fmt: skip
    assert ended.code == 3
    assert "interrupted by its time limit of 0.3 s: attempts in flight are being cancelled" in ended.err
    assert "missing: 3 attempts of 3 tasks (2 cancelled, 1 not dispatched)" in ended.err
    assert "stopping: its time limit of 0.3 s" in (ended.run_dir / "run.log").read_text()


def test_sbx_116_a_budget_is_on_record(proctor: Proctor) -> None:
    ended = proctor(
        "run", "trivial", "chat", "mock/fixed", "--set", "model.params.text=ok", "--budget", "0.000001",
        "--set", "expected_cost_per_attempt=1",
    )  # fmt: skip
    assert ended.code == 3
    assert "not dispatched: budget" in ended.err
    assert "slots are not dispatched: budget" in (ended.run_dir / "run.log").read_text()


def test_sbx_116_a_bug_of_ours_is_on_record(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Scheduler.handle

    def breaks(self: Scheduler, event: object, *, now: float) -> object:
        if type(event).__name__ == "TryEnded":
            raise ZeroDivisionError("impossible")
        return honest(self, event, now=now)  # type: ignore[arg-type]

    monkeypatch.setattr(Scheduler, "handle", breaks)
    ended = proctor("run", "trivial", "oracle", "--limit", "3")
    assert ended.code == 70
    assert "interrupted by a bug of proctor: ZeroDivisionError: impossible" in ended.err
    assert "stopping: a bug of proctor: ZeroDivisionError: impossible" in (ended.run_dir / "run.log").read_text()
    shown = proctor("show", str(ended.run_dir))
    assert "it was stopping because of a bug of proctor: ZeroDivisionError: impossible" in shown.err


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_10_I1_check_is_interrupted_as_a_run_is(process: Process, tmp_path: Path, number: signal.Signals) -> None:
    started = process("check", "plugins:Gradeable", "--set", "setup=hooking:first_hangs")
    wait_until((tmp_path / "began").exists, started)
    started.send_signal(number)
    out, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 128 + number, err
    assert "gradeable" not in out
