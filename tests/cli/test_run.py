"""`proctor run`, as a user meets it (spec 02, 07, 08, 09)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

from proctor.store.fold import fold_attempts
from proctor.store.plan_file import read_plan
from proctor.store.reader import read_journal

Proctor = Callable[..., Ended]


def journal(run_dir: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run_dir / "journal.jsonl").read_text().splitlines()]


def peak_overlap(trace: Path) -> int:
    now = peak = 0
    for line in trace.read_text().splitlines():
        now += 1 if line.startswith("start ") else -1
        peak = max(peak, now)
    assert now == 0
    return peak


def test_02_all_passed(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "oracle")
    assert ended.code == 0
    assert ended.out == ""
    assert "trivial/oracle: 100.0% (10/10 passed)" in ended.err
    assert "10 total · 0 running · 0 queued · 10 passed · 0 failed · 0 errored · 0 skipped" in ended.err
    assert str(ended.run_dir.relative_to(ended.folder)) in ended.err


def test_02_a_low_score_is_data_not_an_error(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "nop")
    assert ended.code == 0
    assert "trivial/nop: 0.0% (0/10 passed)" in ended.err
    assert "10 failed · 0 errored" in ended.err


def test_02_a_gate_that_is_not_met_exits_1(proctor: Proctor) -> None:
    assert proctor("run", "trivial", "nop", "--fail-under", "0.1").code == 1
    assert proctor("run", "trivial", "oracle", "--fail-under", "1").code == 0


def test_02_errored_attempts_exit_3_and_the_headline_names_the_range(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "plugins:Sleeper", "--set", "harness.params.every=5", "--task-concurrency", "1")
    assert ended.code == 3
    assert "80.0–100.0% incomplete (8/10 passed, 2 errored)" in ended.err  # noqa: RUF001
    assert "FATAL harness.crashed t0004 #0: RuntimeError: t0004 was told to fail" in ended.err
    log = ended.run_dir / "attempts/t0004/0/tries/1/try.log"
    assert "RuntimeError: t0004 was told to fail" in log.read_text()


def test_02_stronger_exit_codes_win(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "plugins:Sleeper", "--set", "harness.params.every=5", "--fail-under", "1")
    assert ended.code == 3


def test_02_nothing_scored_exits_3(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "plugins:Sleeper", "--set", "harness.params.every=1", "--limit", "2")
    assert ended.code == 3
    assert "no score" in ended.err


def test_08_the_files_of_a_run(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "oracle", "--limit", "2", "--k", "2")
    run_dir = ended.run_dir
    assert run_dir.parent == ended.folder / "results" / "none_trivial_oracle"
    assert re.fullmatch(r"\d{8}_\d{6}", run_dir.name)
    names = {str(path.relative_to(run_dir)) for path in run_dir.rglob("*") if path.is_file()}
    results = {f"attempts/t000{task}/{ordinal}/result.json" for task in (0, 1) for ordinal in (0, 1)}
    assert {"plan.json", "journal.jsonl", "summary.json", "summary.md", "run.log"} | results <= names
    assert "journal.lock" not in names
    types = [line["type"] for line in journal(run_dir)]
    assert types[0] == "RunStarted"
    assert types[-1] == "RunEnded"
    assert types.count("TryStarted") == types.count("AttemptSealed") == 4
    plan = read_plan(run_dir / "plan.json")
    assert [(slot.task, slot.ordinal) for slot in plan.slots] == [
        ("t0000", 0),
        ("t0000", 1),
        ("t0001", 0),
        ("t0001", 1),
    ]
    assert {(slot.decision, slot.reason) for slot in plan.slots} == {("execute", "new")}
    assert len({slot.identity for slot in plan.slots}) == 4


def test_08_D2_result_files_are_what_the_journal_says(proctor: Proctor) -> None:
    run_dir = proctor("run", "trivial", "oracle").run_dir
    folds = list(fold_attempts(read_journal(run_dir / "journal.jsonl")))
    assert len(folds) == 10
    for fold in folds:
        assert (run_dir / f"attempts/{fold.task}/{fold.ordinal}/result.json").read_bytes() == fold.encoded()


def test_08_the_word_of_a_verdict_stands_only_under_verdict(proctor: Proctor) -> None:
    run_dir = proctor("run", "trivial", "nop").run_dir
    text = (run_dir / "journal.jsonl").read_text()
    assert text.count('"failed"') == text.count('"verdict":"failed"') == 10
    result = (run_dir / "attempts/t0000/0/result.json").read_text()
    assert result.count('"failed"') == result.count('"verdict":"failed"') == 1


def test_08_D8_a_trivial_attempt_writes_at_most_2_kib(proctor: Proctor) -> None:
    sizes = {}
    for tasks in (10, 110):
        ended = proctor("run", "trivial", "nop", "--set", f"benchmark.params.tasks={tasks}", "--run-id", f"n{tasks}")
        files = (ended.folder / "results/none_trivial_nop" / f"n{tasks}").rglob("*")
        sizes[tasks] = sum(path.stat().st_size for path in files if path.is_file())
    assert (sizes[110] - sizes[10]) / 100 <= 2048


def test_08_attempt_files_can_be_left_out(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "nop", "--no-attempt-files")
    assert not list(ended.run_dir.rglob("result.json"))
    assert "10 failed" in proctor("show", ended.run_dir).out


def test_07_json_is_plan_events_and_one_receipt(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "nop", "--json", "--limit", "3")
    types = [event["type"] for event in ended.events]
    assert types[0] == "plan"
    assert types[-1] == "receipt"
    assert types.count("AttemptSealed") == 3
    [run] = ended.receipt["runs"]
    assert ended.receipt["exit_code"] == 0
    assert run["counts"]["failed"] == 3
    assert (ended.folder / run["directory"]).samefile(ended.run_dir)
    assert run == json.loads((ended.run_dir / "summary.json").read_text())


def test_07_progress_none_says_nothing_and_saves_everything(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "nop", "--progress", "none")
    assert (ended.out, ended.err) == ("", "")
    assert (ended.run_dir / "summary.md").is_file()


@pytest.mark.parametrize("option", ["--task-concurrency", "--max-concurrency"])
def test_03_G1_the_global_limit_holds(proctor: Proctor, option: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    settings = ["--set", "harness.params.seconds=0.01", "--set", f"harness.params.trace={trace}"]
    ended = proctor("run", "trivial", "plugins:Sleeper", option, "3", "--set", "benchmark.params.tasks=20", *settings)
    assert ended.code == 0
    assert peak_overlap(trace) == 3
    assert "concurrency 3 (from flag)" in ended.err


def test_03_G2_an_experiment_cap_holds_beside_the_global_limit(proctor: Proctor, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    settings = ["--set", "harness.params.seconds=0.01", "--set", f"harness.params.trace={trace}"]
    ended = proctor("run", "trivial", "plugins:Sleeper", "--set", "max_concurrency=2", *settings)
    assert peak_overlap(trace) == 2
    assert "≤2" in ended.err


def test_03_G3_a_provider_limit_holds_and_is_said(proctor: Proctor, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    ended = proctor(
        "run", "trivial", "plugins:Sleeper", "--provider-limit", "local=2", "--set", f"harness.params.trace={trace}",
        "--set", "harness.params.command=true", "--set", "benchmark.params.tasks=8",
    )  # fmt: skip
    assert ended.code == 0
    assert peak_overlap(trace) == 2
    assert "local 2" in ended.err


def test_03_G3_attempts_without_a_sandbox_are_not_counted_at_the_provider(proctor: Proctor, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    ended = proctor(
        "run", "trivial", "plugins:Sleeper", "--provider-limit", "local=1", "--task-concurrency", "4",
        "--set", f"harness.params.trace={trace}", "--set", "harness.params.seconds=0.05",
    )  # fmt: skip
    assert ended.code == 0
    assert peak_overlap(trace) == 4


def test_08_run_names_and_ids(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "nop", "--run-name", "nightly/june", "--run-id", "first", "--results-dir", "out")
    assert ended.run_dir == ended.folder / "out/nightly/june/none_trivial_nop/first"
    again = proctor("run", "trivial", "nop", "--run-name", "nightly/june", "--run-id", "first", "--results-dir", "out")
    assert again.code == 2
    assert "run id `first` is taken" in again.err
    assert "hint:" in again.err


def test_cases_name_87_two_runs_in_one_second_get_directories_of_their_own(proctor: Proctor) -> None:
    for _ in range(3):
        proctor("run", "trivial", "nop", "--limit", "1")
    ended = proctor("list")
    assert len({path.name for path in ended.run_dirs}) == 3


def test_a_model_that_no_one_needs_leaves_no_trace(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "nop", "some-model")
    assert ended.code == 0
    assert ended.run_dir.parent.name == "none_trivial_nop"
    assert "harness `nop` uses no model: `some-model` is left out of account" in ended.err


def test_a_mock_model_needs_no_network(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "chat", "mock/fixed", "--set", "model.params.text=ok", "--limit", "2")
    assert ended.code == 0
    assert "100.0% (2/2 passed)" in ended.err
    summary = json.loads((ended.run_dir / "summary.json").read_text())
    assert summary["usage"]["calls"] == 2
    trajectory = json.loads((ended.run_dir / "attempts/t0000/0/tries/1/trajectory.json").read_text())
    assert trajectory["schema_version"].startswith("ATIF-")


def test_02_a_time_limit_of_the_agent_is_an_error_that_is_graded(proctor: Proctor) -> None:
    ended = proctor(
        "run", "trivial", "plugins:Sleeper", "--set", "harness.params.seconds=60", "--timeout", "0.05", "--limit", "2"
    )
    assert ended.code == 0
    assert "issues: 2 ERROR time.agent" in ended.err
    assert "2 failed · 0 errored" in ended.err


def test_credentials_are_written_nowhere(proctor: Proctor) -> None:
    secret = "sk-abcdefghijklmnop-9876"
    ended = proctor(
        "run", "trivial", "plugins:Sleeper", "--set", f"environment.env.MY_TOKEN={secret}",
        "--set", f"flags.api_key={secret}", "--set", "harness.params.every=2", "--json",
    )  # fmt: skip
    texts = [ended.out, ended.err, *(path.read_text() for path in ended.run_dir.rglob("*") if path.is_file())]
    assert not any(secret in text for text in texts)
