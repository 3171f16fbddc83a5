"""Hooks of sandboxes, as a user declares them: how often they are called, and what becomes of trouble (spec 03 L5)."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hook_rig import hooks, in_sandboxes, make_project, trace
from program import HANG_SECONDS, Ended

Proctor = Callable[..., Ended]
Process = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path)


def test_L5_each_sandbox_is_set_up_and_torn_down_once(proctor: Proctor, project: Path) -> None:
    ended = proctor(*in_sandboxes(sandbox_setup="box_up", sandbox_teardown="box_down"), "--limit", "3")
    assert ended.code == 0, ended.err
    ups = {line.split()[1] for line in trace(project) if line.startswith("up")}
    downs = [line.split()[1:] for line in trace(project) if line.startswith("down")]
    assert len(ups) == 3
    assert sorted(downs) == sorted([box, box] for box in ups), "each knows its own state"


def test_L5_a_lane_is_set_up_once_for_all_its_attempts(proctor: Proctor, project: Path) -> None:
    lane = ("--set", "sandbox_reuse=true", "--task-concurrency", "1")
    ended = proctor(*in_sandboxes(sandbox_setup="box_up", sandbox_teardown="box_down"), "--limit", "3", *lane)
    assert ended.code == 0, ended.err
    assert [line.split()[0] for line in trace(project)] == ["up", "down"]


def test_L5_a_task_that_needs_no_sandbox_has_nothing_to_set_up(proctor: Proctor, project: Path) -> None:
    ended = proctor("run", "trivial", "nop", "--limit", "2", *hooks(sandbox_setup="box_up"))
    assert ended.code == 0, ended.err
    assert trace(project) == []


def test_05_a_setup_that_fails_errors_the_attempt_and_is_retried(proctor: Proctor, project: Path) -> None:
    ended = proctor(*in_sandboxes(sandbox_setup="box_broken"), "--limit", "2")
    assert ended.code == 3
    assert "2 errored" in ended.err
    assert "sandbox.setup_failed" in ended.err
    assert "no licence" in ended.err
    retry = ("--max-retries", "1", "--set", "execution.retry_min_delay_seconds=0.01", "--limit", "1")
    again = proctor(*in_sandboxes(sandbox_setup="box_once_broken"), *retry)
    assert again.code == 0, again.err
    assert trace(project)[2:] == ["once", "once"]


@pytest.mark.parametrize("lane", [False, True])
def test_05_a_teardown_that_fails_is_a_warning(proctor: Proctor, project: Path, lane: bool) -> None:
    more = ("--set", "sandbox_reuse=true") if lane else ()
    ended = proctor(*in_sandboxes(sandbox_teardown="box_broken"), "--limit", "1", *more)
    assert ended.code == 0, ended.err
    assert "1 WARNING sandbox.teardown_failed" in ended.err
    assert trace(project) == ["broken"]
    lines = (ended.run_dir / "journal.jsonl").read_text().splitlines()
    [kept, *_] = [line for line in lines if "sandbox.teardown_failed" in line]
    assert "no licence" in kept


def test_10_I1_an_interrupt_tears_sandboxes_down(process: Process, project: Path) -> None:
    run = in_sandboxes(sandbox_setup="box_up", sandbox_teardown="box_down")
    run[2] = "plugins:Sleeper"
    started = process(*run, "--set", "harness.params.seconds=600", "--limit", "2")
    end = time.monotonic() + HANG_SECONDS
    while len(trace(project)) < 2 and time.monotonic() < end:
        time.sleep(0.02)
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130, err
    assert sorted(line.split()[0] for line in trace(project)) == ["down", "down", "up", "up"]


@pytest.mark.sampled
@pytest.mark.parametrize("lane", [False, True])
def test_10_I1_a_second_signal_cuts_a_teardown_short(process: Process, project: Path, lane: bool) -> None:
    run = in_sandboxes(sandbox_setup="box_up", sandbox_teardown="box_stuck")
    run[2] = "plugins:Sleeper"
    more = ("--set", "sandbox_reuse=true") if lane else ()
    started = process(*run, "--set", "harness.params.seconds=600", "--limit", "1", "--progress", "plain", *more)
    for number in (1, 2):
        end = time.monotonic() + HANG_SECONDS
        while len(trace(project)) < number and time.monotonic() < end:
            time.sleep(0.02)
        started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130, err
    assert trace(project)[1:] == ["stuck"]
    assert "WARNING sandbox.teardown_failed" in err
    assert "leaked" not in err
    [summary] = project.rglob("summary.json")
    assert "interrupted" in summary.read_text()
