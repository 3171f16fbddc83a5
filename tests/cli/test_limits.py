"""Time limits of tries, as a user meets them: what ends, when, what is kept, what goes on (spec 05 Time).

Only a hang makes these fail: the bounds are far from what is measured.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import HANG_SECONDS, Ended
from test_interrupts import ours, wait_until

from proctor.runtime.watched_sandbox import CUT_OFF_BYTES

Process = Callable[..., "subprocess.Popen[str]"]
Program = Callable[..., Ended]
LATE_SECONDS = 30.0


def timed(*options: str, **params: Any) -> list[str]:
    given = [text for name, value in params.items() for text in ("--set", f"harness.params.{name}={value}")]
    return ["run", "trivial", "timing:Timed", "--json", *given, *options]


def lines(ended: Ended, kind: str) -> list[dict[str, Any]]:
    found = map(json.loads, (ended.run_dir / "journal.jsonl").read_text().splitlines())
    return [line for line in found if line["type"] == kind]


def codes(ended: Ended) -> list[str]:
    return [line["issue"]["code"] for line in lines(ended, "IssueRaised")]


def counts(ended: Ended) -> tuple[int, int, int]:
    found = ended.receipt["runs"][0]["counts"]
    return found["passed"], found["failed"], found["errored"]


def agent_seconds(ended: Ended) -> float:
    return max(line["seconds"] for line in lines(ended, "PhaseEnded") if line["phase"] == "agent")


@pytest.mark.long
@pytest.mark.parametrize("own", ["", "1e12"])
def test_cases_time_95_100_a_limit_of_1_s_ends_the_whole_tree_whatever_an_adapter_asks_for(
    program: Program, tmp_path: Path, own: str
) -> None:
    command = "echo started; (setsid sleep 300 &); sleep 300 & wait"
    ended = program(
        *timed("--limit", "1", "--timeout", "1", command=command, timeout_seconds=own),
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert ended.code == 0, ended.err
    assert ours(tmp_path) == []
    assert agent_seconds(ended) < LATE_SECONDS
    assert codes(ended) == ["time.agent"]
    assert counts(ended) == (0, 1, 0)
    [log] = ended.run_dir.rglob("try.log")
    assert "started\n" in log.read_text(), "what was printed so far is kept"


@pytest.mark.long
def test_cases_hang_11_a_program_that_asks_and_gets_no_answer_ends_at_its_limit(program: Program) -> None:
    asks = "while :; do echo 'your name?'; read answer; done"
    ended = program(*timed("--limit", "1", "--timeout", "2", command=asks))
    assert codes(ended) == ["time.agent"]
    [log] = ended.run_dir.rglob("try.log")
    assert "your name?" in log.read_text()
    assert log.stat().st_size < 2 * CUT_OFF_BYTES, "of what it printed, head and tail are kept"


@pytest.mark.sampled
@pytest.mark.parametrize("own", ["inf", "nan", "-1", "0"])
def test_cases_time_100_what_an_adapter_asks_for_that_is_no_limit_is_its_crash(program: Program, own: str) -> None:
    ended = program(*timed("--limit", "1", "--timeout", "60", command="sleep 300", timeout_seconds=own))
    assert codes(ended) == ["harness.crashed"]
    assert "timeout_seconds must be a finite number above 0" in lines(ended, "IssueRaised")[0]["issue"]["message"]


@pytest.mark.sampled
@pytest.mark.parametrize("deed", ["spin", "sleep"])
def test_cases_time_107_a_harness_that_holds_the_event_loop_is_ended_and_the_others_are_not(
    program: Program, deed: str
) -> None:
    ended = program(*timed("--set", "benchmark.params.tasks=4", "--timeout", "3", deed=deed))
    assert ended.code == 0, ended.err
    assert codes(ended) == ["time.agent"]
    assert counts(ended) == (3, 1, 0)
    message = lines(ended, "IssueRaised")[0]["issue"]["message"]
    assert "agent reached its limit of 3 s (agent_timeout_seconds); it held the event loop for " in message
    assert "timing.py:" in message
    assert "use asyncio.to_thread" in message
    assert "timing.py:" in (ended.run_dir / "run.log").read_text(), "it is said before as well"


@pytest.mark.long
def test_cases_time_107_a_thread_that_nobody_can_cancel_holds_neither_the_run_nor_the_exit(program: Program) -> None:
    ended = program(*timed("--set", "benchmark.params.tasks=4", "--timeout", "1", deed="thread"))
    assert ended.code == 0, ended.err
    assert codes(ended) == ["time.agent"]
    assert counts(ended) == (3, 1, 0)


@pytest.mark.long
def test_05_a_session_that_holds_the_event_loop_when_it_is_closed_costs_a_warning(program: Program) -> None:
    ended = program(*timed("--set", "benchmark.params.tasks=4", "--set", "dispose_timeout_seconds=1", deed="late"))
    assert ended.code == 0, ended.err
    assert codes(ended) == ["dispose.failed"]
    assert counts(ended) == (4, 0, 0)


@pytest.mark.long
def test_10_I1_an_interrupt_does_not_wait_for_a_harness_that_holds_the_event_loop(
    process: Process, tmp_path: Path
) -> None:
    started = process(*timed("--set", "benchmark.params.tasks=4", "--task-concurrency", "1", deed="spin"))
    journals = lambda: [path.read_text() for path in tmp_path.rglob("journal.jsonl")]  # noqa: E731
    wait_until(lambda: any('"phase":"agent"' in text for text in journals()), started)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130, err
    ended = Ended(130, out, err, tmp_path)
    assert ended.receipt["runs"][0]["completion"] == "interrupted"


@pytest.mark.long
def test_cases_time_104_an_agent_that_prints_lives_and_one_that_is_silent_is_ended(program: Program) -> None:
    steps, idle = 14, 5.0
    prints = f"for i in $(seq {steps}); do echo $i; sleep 0.5; done"
    slow = program(*timed("--limit", "1", "--set", f"agent_idle_timeout_seconds={idle}", command=prints))
    assert codes(slow) == []
    assert agent_seconds(slow) > idle
    silent = program(
        *timed("--limit", "1", "--set", "agent_idle_timeout_seconds=1", "--run-id", "silent", "--timeout", "90",
               command="echo once; sleep 300"),
    )  # fmt: skip
    [run] = [path for path in silent.run_dirs if path.name == "silent"]
    issues = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines() if "IssueRaised" in line]
    assert [line["issue"]["code"] for line in issues] == ["time.idle"]
    assert "its limit was 90 s (agent_timeout_seconds)" in issues[0]["issue"]["message"]


@pytest.mark.long
def test_05_the_multiplier_scales_the_limits_of_a_try(program: Program) -> None:
    ended = program(*timed("--limit", "1", "--timeout", "1000", "--timeout-multiplier", "0.001", command="sleep 300"))
    assert codes(ended) == ["time.agent"]
    assert "reached its limit of 1 s" in lines(ended, "IssueRaised")[0]["issue"]["message"]
    plan = json.loads((ended.run_dir / "plan.json").read_text())
    assert '"agent_seconds": 1.0' in json.dumps(plan)
    assert not math.isclose(agent_seconds(ended), 0.0)
