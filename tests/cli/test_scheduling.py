"""The gates, retries, early exit, hooks and leases, as the command line obeys them (spec 03)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from program import HANG_SECONDS, Ended

from proctor.testing.model_server import serve
from proctor.testing.replies import Answer, Delay, Failure

Proctor = Callable[..., Ended]
Process = Callable[..., "subprocess.Popen[str]"]
QUICK = ["--set", "execution.retry_min_delay_seconds=0.01", "--set", "execution.retry_max_delay_seconds=0.05"]


def journal(run_dir: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run_dir / "journal.jsonl").read_text().splitlines()]


def test_T1_a_retry_replaces_the_work_and_keeps_every_try(proctor: Proctor) -> None:
    ended = proctor(
        "run",
        "trivial",
        "plugins:Flaky",
        "--set",
        "harness.params.every=2",
        "--max-retries",
        "2",
        "--limit",
        "3",
        *QUICK,
    )
    assert ended.code == 0, ended.err
    assert "3/3 passed" in ended.err
    assert "6 retries" in ended.err
    result = json.loads((ended.run_dir / "attempts/t0000/0/result.json").read_text())
    assert [each["outcome"] for each in result["tries"]] == ["broken", "broken", "graded"]
    assert (ended.run_dir / "attempts/t0000/0/tries/1/try.log").is_file()


def test_T1_retries_are_off_by_default_and_a_wrong_answer_is_never_tried_again(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "plugins:Flaky", "--set", "harness.params.every=1", "--limit", "2", *QUICK)
    assert ended.code == 3
    assert "2 errored" in ended.err
    ended = proctor("run", "trivial", "nop", "--max-retries", "3", "--limit", "2", *QUICK)
    assert "2 failed" in ended.err
    assert "retr" not in ended.err


def test_E2_early_exit_stops_at_the_first_pass_of_each_task(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "oracle", "--k", "5", "--early-exit", "--limit", "2", "--task-concurrency", "1")
    assert ended.code == 0, ended.err
    summary = json.loads((ended.run_dir / "summary.json").read_text())
    assert summary["counts"]["passed"] == 2
    assert summary["counts"]["not_dispatched"] == {"early exit": 8}
    assert summary["headline"].startswith("100.0% (2/2 tasks solved at least once; early exit")
    gated = proctor("run", "trivial", "oracle", "--k", "5", "--early-exit", "--limit", "2", "--fail-under", "1")
    assert gated.code == 0, "early exit is no gap, and the gate is about tasks"


def test_E2_early_exit_runs_all_attempts_where_none_passes(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "nop", "--k", "3", "--early-exit", "--limit", "2")
    assert ended.code == 0
    assert "6 failed" in ended.err
    assert "0.0% (0/2 tasks solved at least once" in ended.err


@pytest.mark.parametrize("limit", [1, 3])
def test_G11_connections_of_a_model_are_limited_whatever_the_global_limit(proctor: Proctor, limit: int) -> None:
    with serve([Delay(0.02, Answer("ok"))] * 20) as server:
        ended = proctor(
            "run", "trivial", "chat", "m", "--set", f"model.base_url={server.base_url}", "--task-concurrency", "8",
            "--set", f"model.max_connections={limit}", "--set", "benchmark.params.tasks=12",
        )  # fmt: skip
        assert ended.code == 0, ended.err
        assert server.peak_open_requests == limit


def test_T5_a_rate_limit_is_waited_for_and_no_attempt_suffers(proctor: Proctor) -> None:
    replies = [reply for _ in range(4) for reply in (Failure(429), Answer("ok"))]
    with serve(replies) as server:
        ended = proctor(
            "run", "trivial", "chat", "m", "--set", f"model.base_url={server.base_url}", "--task-concurrency", "1",
            "--limit", "4", *QUICK,
        )  # fmt: skip
        assert len(server.requests) == 8
    assert ended.code == 0, ended.err
    assert "4/4 passed" in ended.err
    types = [line["type"] for line in journal(ended.run_dir)]
    assert types.count("BackoffStarted") == types.count("BackoffEnded") == 4
    assert "4 waits for refused calls" in ended.err


def test_G4_openings_of_sandboxes_are_paced(proctor: Proctor) -> None:
    ended = proctor(
        "run", "trivial", "nop", "--set", "benchmark.params.sandbox=true", "--limit", "5", "--env-open-qps", "local=20"
    )
    assert ended.code == 0, ended.err
    from proctor.store.codec import decode

    opened = [
        at
        for event, at in map(decode, (ended.run_dir / "journal.jsonl").read_bytes().splitlines(keepends=True))
        if type(event).__name__ == "TryStarted"
    ]
    gaps = [later - earlier for earlier, later in pairwise(opened)]
    assert min(gaps) >= 0.045, "at least 1/20 s apart, no burst"


def test_S6_hooks_run_once_around_the_run(proctor: Proctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trace = tmp_path / "hooks"
    monkeypatch.setenv("HOOK_TRACE", str(trace))
    ended = proctor(
        "run", "trivial", "nop", "--set", "setup=plugins:hook_setup", "--set", "teardown=plugins:hook_teardown",
        "--set", "shared_state.key=team/a", "--limit", "3",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert trace.read_text().splitlines() == ["setup trivial/nop team/a", "teardown trivial/nop team/a"]
    types = [line["type"] for line in journal(ended.run_dir)]
    order = ["LeaseGranted", "SetupEnded", "TryStarted", "AttemptSealed", "TeardownEnded", "LeaseReleased", "RunEnded"]
    assert [types.index(name) for name in order] == sorted(types.index(name) for name in order)
    assert proctor("lease", "list", "--json").code == 0


@pytest.mark.long
def test_S6_a_teardown_that_a_kill_missed_is_run_first_by_the_next_run(
    process: Process, proctor: Proctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trace = tmp_path / "hooks"
    monkeypatch.setenv("HOOK_TRACE", str(trace))
    hooks = ["--set", "setup=plugins:hook_setup", "--set", "teardown=plugins:hook_teardown"]
    arguments = ["run", "trivial", "plugins:Sleeper", "--limit", "2", *hooks]
    killed = process(*arguments, "--json", "--set", "harness.params.seconds=600")
    assert killed.stdout is not None
    while '"TryStarted"' not in killed.stdout.readline():
        pass
    killed.kill()
    killed.communicate(timeout=HANG_SECONDS)
    for _ in range(2):  # the second time nothing is owed any more
        ended = proctor(*arguments)
        assert ended.code == 0, ended.err
    done = [line.split()[0] for line in trace.read_text().splitlines()]
    assert done == ["setup", "teardown", "setup", "teardown", "setup", "teardown"]


def test_S6_a_failed_setup_makes_its_slots_errored(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "nop", "--set", "setup=plugins:hook_fails", "--limit", "3")
    assert ended.code == 3
    assert "3 errored" in ended.err
    assert "experiment.setup_failed" in ended.err


@pytest.mark.long
def test_S1_a_shared_key_lets_one_run_in_at_a_time(process: Process, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    arguments = [
        "run", "trivial", "plugins:Sleeper", "--set", "shared_state.key=one", "--set", f"harness.params.trace={trace}",
        "--set", "harness.params.seconds=0.1", "--limit", "3", "--lease-wait", "60",
    ]  # fmt: skip
    started = [process(*arguments, "--run-id", name) for name in ("a", "b")]
    for each in started:
        _, err = each.communicate(timeout=HANG_SECONDS)
        assert each.returncode == 0, err
    pids = [line.split()[-1] for line in trace.read_text().splitlines()]
    changes = sum(one != other for one, other in pairwise(pids))
    assert len(set(pids)) == 2
    assert changes == 1, "all of one run, then all of the other"


@pytest.mark.long
def test_S2_a_wait_for_a_lease_that_is_too_long_is_not_dispatched(process: Process, proctor: Proctor) -> None:
    holder = process(
        "run", "trivial", "plugins:Sleeper", "--set", "shared_state.key=one", "--set", "harness.params.seconds=60",
        "--json",
    )  # fmt: skip
    assert holder.stdout is not None
    while '"TryStarted"' not in holder.stdout.readline():
        pass
    ended = proctor(
        "run", "trivial", "nop", "--set", "shared_state.key=one", "--lease-wait", "0.2", "--run-id", "second"
    )
    assert ended.code == 3
    assert "10 not dispatched (lease 10)" in ended.err
    holder.terminate()
    holder.communicate(timeout=HANG_SECONDS)
    assert holder.returncode == 143
    after = proctor("run", "trivial", "nop", "--set", "shared_state.key=one", "--run-id", "third", "--limit", "1")
    assert after.code == 0, "an interrupted run gives its lease back"


def test_L1_sandbox_reuse_gives_each_attempt_a_clean_work_directory(proctor: Proctor, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    ended = proctor(
        "run", "trivial", "plugins:Littering", "--set", "sandbox_reuse=true", "--set", "harness.params.command=true",
        "--set", f"harness.params.trace={trace}", "--task-concurrency", "2", "--limit", "8",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert "8/8 passed" in ended.err
    sandboxes = {line.split()[2] for line in trace.read_text().splitlines()}
    assert 1 <= len(sandboxes) <= 2
    lines = journal(ended.run_dir)
    assert [line["type"] for line in lines].count("SandboxOpened") == len(sandboxes)
    assert {line["sandbox"] for line in lines if line["type"] == "LaneClosed"} == sandboxes


def test_the_words_of_what_cannot_be(proctor: Proctor) -> None:
    for arguments, says in [
        (["--env-open-qps", "local=fast"], "`local=fast` is not of the form NAME=RATE"),
        (["--env-open-qps", "lcal=1"], "unknown provider `lcal`; did you mean `local`?"),
        (["--max-retries", "-1"], "--max-retries"),
        (["--retry-pattern", "("], "must be a regular expression"),
        (["--retry-pattern", ""], "a pattern must not be empty"),
        (["--budget", "0"], "`0` is not a finite number above 0"),
        (["--set", "setup=nonsense"], "nonsense"),
        (["--set", "shared_state.key= a"], "cannot be the key of shared state"),
        (["--set", "model.max_connections=0"], "max_connections"),
    ]:
        ended = proctor("run", "trivial", "chat", "mock/echo", *arguments)
        assert ended.code == 2, arguments
        assert says in ended.err
        assert "hint:" in ended.err
    assert not (Path(ended.folder) / "results").exists()


def test_hang_6_the_run_waits_for_a_retry_when_nothing_else_is_left(proctor: Proctor) -> None:
    ended = proctor(
        "run", "trivial", "plugins:Flaky", "--set", "harness.params.every=1", "--max-retries", "1", "--limit", "2",
        "--task-concurrency", "2", *QUICK,
    )  # fmt: skip
    assert ended.code == 0
    assert [line["type"] for line in journal(ended.run_dir)].count("TryStarted") == 4


@pytest.mark.parametrize("late", ["issue", "backoff", "overlap"])
def test_what_an_attempt_left_behind_disturbs_nobody(proctor: Proctor, late: str) -> None:
    ended = proctor(
        "run", "trivial", "plugins:Stray", "--set", f"harness.params.failure={late}", "--task-concurrency", "2",
        "--set", "harness.params.seconds=0.05", "--limit", "8",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert "8/8 passed" in ended.err


def test_S6_a_failed_teardown_is_said_and_exits_3(proctor: Proctor) -> None:
    ended = proctor(
        "run",
        "trivial",
        "oracle",
        "--set",
        "teardown=plugins:hook_fails",
        "--set",
        "shared_state.key=k",
        "--limit",
        "2",
    )
    assert ended.code == 3
    assert "WARNING experiment.teardown_failed" in ended.err
    assert "this hook was told to fail" in ended.err
    again = proctor("run", "trivial", "oracle", "--set", "shared_state.key=k", "--lease-wait", "0.1", "--limit", "1")
    assert again.code == 3
    assert "waiting for shared state `k`" in again.err
    assert "has to be recovered" in again.err


def test_a_bug_gives_back_leases_runs_the_teardown_and_leaves_no_sandbox(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from proctor.core.scheduler import Scheduler

    honest = Scheduler.handle

    def breaks(self: Scheduler, event: object, *, now: float) -> object:
        if type(event).__name__ == "TryEnded":
            raise ZeroDivisionError("impossible")
        return honest(self, event, now=now)  # type: ignore[arg-type]

    trace = tmp_path / "hooks"
    monkeypatch.setenv("HOOK_TRACE", str(trace))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(Scheduler, "handle", breaks)
    ended = proctor(
        "run", "trivial", "plugins:Littering", "--set", "sandbox_reuse=true", "--set", "harness.params.command=true",
        "--set", "setup=plugins:hook_setup", "--set", "teardown=plugins:hook_teardown", "--set", "shared_state.key=k",
    )  # fmt: skip
    assert ended.code == 70
    assert [line.split()[0] for line in trace.read_text().splitlines()] == ["setup", "teardown"]
    assert not list((tmp_path / "tmp").rglob("labels.json"))
    monkeypatch.undo()
    assert json.loads(proctor("lease", "list", "--json").out) == []


def test_E4_a_budget_that_cannot_be_kept_is_said_once_at_the_first_call(proctor: Proctor) -> None:
    ended = proctor(
        "run", "trivial", "chat", "mock/fixed", "--set", "model.params.text=ok", "--budget", "1", "--limit", "4"
    )
    assert ended.err.count("the budget cannot be kept") == 1
    without = proctor("run", "trivial", "oracle", "--budget", "1", "--limit", "2")
    assert "cannot be kept" not in without.err
