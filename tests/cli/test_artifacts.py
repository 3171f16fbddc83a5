"""What attempts leave behind, and grading that is repeated alone, as a user meets them (spec 05, 06 V5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Ended

Proctor = Callable[..., Ended]
RETRIES = ("--max-retries", "2", "--set", "execution.retry_min_delay_seconds=0.01")


def shelf(trace: Path, **params: Any) -> list[str]:
    """Return the arguments of a run of `Shelf` with `Hoarder`."""
    assignments = [f"benchmark.params.trace={trace}", f"harness.params.trace={trace}"]
    for name, value in params.items():
        kind = "harness" if name in ("files", "depth", "diff_bytes", "fails") else "benchmark"
        assignments.append(f"{kind}.params.{name}={value}")
    return [
        "run",
        "saving_plugins:Shelf",
        "saving_plugins:Hoarder",
        *(a for each in assignments for a in ("--set", each)),
    ]


def result_of(ended: Ended) -> dict[str, Any]:
    [path] = ended.run_dir.rglob("result.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize("mode", ["none", "fresh"])
def test_T3_only_grading_is_tried_again(mode: str, proctor: Proctor, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    ended = proctor(*shelf(trace, mode=mode, breaks=2, fails="harness.limit"), *RETRIES)
    assert ended.code == 0
    assert "100.0% (1/1 passed)" in ended.err
    assert trace.read_text().splitlines() == ["agent t0", "grade t0", "grade t0", "grade t0"]
    first, second, third = result_of(ended)["tries"]
    assert [first.get("grading_only"), second.get("grading_only"), third.get("grading_only")] == [None, True, True]
    assert (first["usage"]["cost_usd"], second.get("usage"), third.get("usage")) == (1.0, None, None)
    assert {"out/1", "change.diff"} == {
        file["name"].removeprefix("artifacts/") for file in first["files"] if file["name"].startswith("artifacts/")
    }
    assert "files" not in second
    assert [issue["code"] for issue in third["issues"]] == ["harness.limit"], "it says what the agent did wrong"
    tries = next(ended.run_dir.rglob("tries"))
    assert {path.name for path in (tries / "2").iterdir()} == {"try.log"}
    assert not (tries / "3").exists()
    summary = json.loads((ended.run_dir / "summary.json").read_text())
    assert summary["cost_usd"] == 1.0
    assert sum(issue["count"] for issue in summary["issues"] if issue["code"] == "harness.limit") == 1


def test_T3_grading_in_the_agents_sandbox_is_tried_again_with_the_agent(proctor: Proctor, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    ended = proctor(*shelf(trace, mode="reuse", breaks=1), *RETRIES)
    assert ended.code == 0
    assert trace.read_text().splitlines() == ["agent t0", "grade t0"] * 2


def test_case_41_a_grader_that_hangs_is_asked_again_and_is_no_0_in_the_end(proctor: Proctor, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    ended = proctor(*shelf(trace, breaks=9, how="hang"), "--set", "grade_timeout_seconds=0.2", *RETRIES)
    assert ended.code == 3
    assert trace.read_text().splitlines() == ["agent t0", *["grade t0"] * 3]
    result = result_of(ended)
    assert result["verdict"] == "errored"
    assert "score" not in result


@pytest.mark.parametrize("damage", ["checkpoint/answer.txt", "artifacts/out/1"])
def test_T3_work_that_was_damaged_meanwhile_is_done_again(damage: str, proctor: Proctor, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    ended = proctor(*shelf(trace, breaks=1, damage=damage), *RETRIES)
    assert ended.code == 0
    assert trace.read_text().splitlines() == ["agent t0", "grade t0", "agent t0", "grade t0"]
    tries = result_of(ended)["tries"]
    assert [each.get("grading_only") for each in tries] == [None, True, None]
    assert [issue["code"] for issue in tries[1]["issues"]] == ["checkpoint.damaged"]


@pytest.mark.long
def test_case_129_too_much_evidence_is_kept_in_part_and_costs_no_result(proctor: Proctor, tmp_path: Path) -> None:
    fifty = 50 * 1024 * 1024
    ended = proctor(*shelf(tmp_path / "trace", mode="none", files=10_001, depth=2_000, diff_bytes=fifty))
    assert ended.code == 0, ended.err
    assert "100.0% (1/1 passed)" in ended.err
    [counted] = result_of(ended)["tries"]
    said = {issue["code"]: issue["message"] for issue in counted["issues"]}
    assert "1 files (0 bytes) are left out" in said["artifact.too_large"]
    assert "the trajectory is kept in part" in said["output.truncated"]
    assert "texts cut" in said["output.truncated"]
    assert "nested too deep" in said["output.truncated"]
    folder = next(ended.run_dir.rglob("tries")) / "1"
    assert len(list((folder / "artifacts/out").iterdir())) == 10_000
    assert (folder / "artifacts/change.diff").stat().st_size == fifty
    assert json.loads((folder / "trajectory.json").read_text())
    assert (ended.run_dir / "journal.jsonl").stat().st_size < 20_000
    shown = proctor("show", str(ended.run_dir))
    assert shown.code == 0


ASKED = [{"path": "left", "required": True}, {"path": "/etc/hostname"}, {"path": "gone", "required": True}]


def test_V5_a_user_names_what_is_kept_beside_what_the_task_declares(proctor: Proctor) -> None:
    ended = proctor(
        "run", "trivial", "plugins:Sleeper", "--limit", "1", "--set", "harness.params.command=echo x > left",
        "--set", f"artifacts={json.dumps(ASKED)}",
    )  # fmt: skip
    [counted] = result_of(ended)["tries"]
    assert {(issue["code"], issue["severity"]) for issue in counted["issues"]} == {
        ("collect.required_missing", "ERROR"),
        ("collect.failed", "ERROR"),
    }
    assert [file["name"] for file in counted["files"]] == [
        "checkpoint/manifest.json",
        "artifacts/left",
    ]
    assert ended.code == 0


def test_08_D8_an_attempt_with_an_answer_is_small_and_of_few_files(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "oracle", "--set", "benchmark.params.tasks=50", "--progress", "none")
    files = [path for path in (ended.run_dir / "attempts").rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"result.json", "answer.txt"}
    assert len(files) == 100
    size = (ended.run_dir / "journal.jsonl").stat().st_size + sum(path.stat().st_size for path in files)
    assert size / 50 <= 2048
