"""`proctor check`, `proctor show` and `proctor list` (spec 02)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

from proctor.model.events import DispatchStopped, StopReason
from proctor.store.codec import encode

Proctor = Callable[..., Ended]


def test_a_gradeable_benchmark(proctor: Proctor) -> None:
    ended = proctor("check", "trivial")
    assert ended.code == 0
    assert "trivial is gradeable: all 10 tasks solved by the reference solutions, none by doing nothing" in ended.out
    assert {path.parent.name for path in ended.run_dirs} == {"none_trivial_oracle", "none_trivial_nop"}


@pytest.mark.parametrize(("broken", "says"), [("unsolvable", "errored"), ("wrong", "failed"), ("free", "passed")])
def test_a_benchmark_that_is_not_gradeable_exits_1_and_names_the_tasks(
    proctor: Proctor, broken: str, says: str
) -> None:
    ended = proctor("check", "plugins:Gradeable", "--set", f"benchmark.params.broken={broken}")
    assert ended.code == 1
    assert f"bad: {says}" in ended.err
    assert "good: " not in ended.err
    assert "is not gradeable: 1 of 2 tasks at fault" in ended.out


def test_check_runs_both_harnesses_in_one_invocation_under_one_limit(proctor: Proctor) -> None:
    ended = proctor("check", "trivial", "--json", "--task-concurrency", "1", "--limit", "2")
    [plan] = [event for event in ended.events if event["type"] == "plan"]
    assert [one["experiment"] for one in plan["experiments"]] == ["trivial/oracle", "trivial/nop"]
    assert [run["counts"]["passed"] for run in ended.receipt["runs"]] == [2, 0]
    running = peak = 0
    for event in ended.events:
        running += (event["type"] == "TryStarted") - (event["type"] == "TryEnded")
        peak = max(peak, running)
    assert peak == 1


def test_show_lists_slots_in_plan_order_with_what_became_of_them(proctor: Proctor) -> None:
    ended = proctor("run", "trivial", "plugins:Sleeper", "--set", "harness.params.every=2", "--limit", "4")
    shown = proctor("show", ended.run_dir)
    assert shown.code == 0
    rows = [line.split()[:3] for line in shown.out.splitlines()[:4]]
    assert [row[0] for row in rows] == ["t0000", "t0001", "t0002", "t0003"]
    assert [row[2] for row in rows] == ["passed", "errored", "passed", "errored"]
    assert "50.0–100.0% incomplete (2/4 passed, 2 errored)" in shown.out  # noqa: RUF001
    data = json.loads(proctor("show", ended.run_dir, "--json").out)
    assert data["headline"] == json.loads((ended.run_dir / "summary.json").read_text())["headline"]
    assert [row["verdict"] for row in data["attempts"]] == ["passed", "errored", "passed", "errored"]


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_08_D1_show_reads_a_torn_journal_and_says_so(proctor: Proctor, keep: float) -> None:
    run_dir = proctor("run", "trivial", "oracle").run_dir
    journal = run_dir / "journal.jsonl"
    whole = journal.read_bytes()
    cut = int(len(whole) * keep)
    if whole[cut - 1 : cut] == b"\n":
        cut -= 3
    journal.write_bytes(whole[:cut])
    ended = proctor("show", run_dir)
    assert ended.code == 0
    assert "torn line" in ended.err
    assert "ended without a trace" in ended.err
    assert "t0000" in ended.out


def test_show_prints_what_stands_before_a_damaged_line_and_exits_3(proctor: Proctor) -> None:
    run_dir = proctor("run", "trivial", "oracle").run_dir
    journal = run_dir / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[-3] = b"\x00garbage\n"
    journal.write_bytes(b"".join(lines))
    ended = proctor("show", run_dir)
    assert ended.code == 3
    assert f"damaged at line {len(lines) - 2}" in ended.err
    assert "t0000" in ended.out


def lines_of(run_dir: Path) -> list[bytes]:
    return (run_dir / "journal.jsonl").read_bytes().splitlines(keepends=True)


def write_lines(run_dir: Path, lines: list[bytes]) -> None:
    (run_dir / "journal.jsonl").write_bytes(b"".join(lines))


def states(ended: Ended) -> list[str]:
    """What the rows of the table say of their slots."""
    return [line[line.index("#") :].split("  ")[1] for line in ended.out.splitlines() if line.startswith("t0")]


def test_a_journal_without_its_first_lines_is_damaged_and_what_is_there_is_shown(proctor: Proctor) -> None:
    run_dir = proctor("run", "trivial", "oracle", "--limit", "3", "--task-concurrency", "1").run_dir
    whole = lines_of(run_dir)
    for first in range(1, len(whole)):
        write_lines(run_dir, whole[first:])
        ended = proctor("show", run_dir)
        assert ended.code == 3
        assert "damaged at line 1: it does not begin with the start of the run" in ended.err
        sealed = sum(b'"type":"AttemptSealed"' in line for line in whole[first:])
        assert states(ended).count("passed") == sealed
        assert f" {sealed} passed" in ended.out
        data = json.loads(proctor("show", run_dir, "--json").out)
        assert data["experiment"] == "trivial/oracle", "known from the plan"
        assert data["counts"]["total"] == 3
    write_lines(run_dir, whole)
    assert proctor("show", run_dir).code == 0


def test_show_survives_any_journal_whose_lines_are_lost_doubled_or_out_of_order(proctor: Proctor) -> None:
    run_dir = proctor("run", "trivial", "plugins:Sleeper", "--set", "harness.params.every=2", "--limit", "4").run_dir
    plan = (run_dir / "plan.json").read_bytes()
    whole = lines_of(run_dir)
    rng = random.Random(1)
    for number in range(60):
        write_lines(run_dir, rng.choices(whole, k=rng.randint(0, 2 * len(whole))))
        if number % 2:
            (run_dir / "plan.json").unlink(missing_ok=True)
        else:
            (run_dir / "plan.json").write_bytes(plan)
        ended = proctor("show", run_dir, "--json")
        assert ended.code in (0, 3)
        counts = json.loads(ended.out)["counts"]
        stopped = counts.pop("not_dispatched")
        assert counts.pop("total") == sum(counts.values()) + sum(stopped.values())
        assert proctor("show", run_dir).code == ended.code


def test_D4_an_event_of_a_newer_proctor_is_said_once_and_what_stands_before_it_is_shown(proctor: Proctor) -> None:
    run_dir = proctor("run", "trivial", "oracle", "--limit", "3", "--task-concurrency", "1").run_dir
    whole = lines_of(run_dir)
    seal = next(index for index, line in enumerate(whole) if b'"type":"AttemptSealed"' in line)
    newer = b'{"type":"Unheard","at":"2026-11-30T16:30:35.123456Z"}\n'
    write_lines(run_dir, [*whole[: seal + 1], newer, *whole[seal + 1 :]])
    ended = proctor("show", run_dir)
    assert ended.code == 3
    assert ended.err.count("written by a newer proctor") == 1
    assert f"line {seal + 2}: event `Unheard` is not known here" in ended.err
    assert states(ended) == ["passed", "queued", "queued"]


def test_D4_a_plan_of_a_newer_proctor_is_said_once(proctor: Proctor) -> None:
    run_dir = proctor("run", "trivial", "oracle", "--limit", "3").run_dir
    plan = run_dir / "plan.json"
    plan.write_text(plan.read_text().replace('"format":1', '"format":9', 1))
    ended = proctor("show", run_dir)
    assert ended.code == 0
    assert ended.err.count("written by a newer proctor") == 1


def test_rows_of_a_run_that_was_killed_are_queued_or_unfinished(proctor: Proctor) -> None:
    run_dir = proctor("run", "trivial", "oracle", "--limit", "4", "--task-concurrency", "1").run_dir
    whole = lines_of(run_dir)
    second = [index for index, line in enumerate(whole) if b'"type":"TryStarted"' in line][1]
    write_lines(run_dir, whole[: second + 1])
    ended = proctor("show", run_dir)
    assert ended.code == 0
    assert states(ended) == ["passed", "unfinished", "queued", "queued"]
    assert "4 total · 1 running · 2 queued" in ended.out
    stop = encode(DispatchStopped("trivial/oracle", StopReason.DISK, 2), 1796056235.0)
    write_lines(run_dir, [*whole[: second + 1], stop])
    assert states(proctor("show", run_dir)) == ["passed", "unfinished", "not dispatched", "not dispatched"]
    write_lines(run_dir, [])
    assert states(proctor("show", run_dir)) == ["queued"] * 4


def test_show_without_a_plan_lists_what_the_journal_has(proctor: Proctor) -> None:
    run_dir = proctor("run", "trivial", "oracle", "--limit", "2").run_dir
    (run_dir / "plan.json").unlink()
    ended = proctor("show", run_dir)
    assert ended.code == 0
    assert "t0001" in ended.out
    assert "no plan" in ended.err


def test_show_works_on_a_copy_and_changes_nothing(proctor: Proctor, tmp_path: Path) -> None:
    run_dir = proctor("run", "trivial", "oracle", "--limit", "2").run_dir
    copy = tmp_path / "elsewhere"
    run_dir.rename(copy)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert proctor("show", copy).code == 0
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


def test_list_names_what_is_installed(proctor: Proctor) -> None:
    data = json.loads(proctor("list", "--json").out)
    assert set(data["benchmarks"]) >= {"humaneval", "trivial"}
    assert set(data["harnesses"]) >= {"chat", "nop", "oracle"}
    assert set(data["providers"]) >= {"local"}
    assert all(origin.startswith("proctor ") for origin in data["harnesses"].values())
    assert "trivial" in proctor("list", "benchmarks").out


def test_02_show_and_record_look_where_the_project_has_its_results(
    proctor: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "proctor.yaml").write_text("runtime: {results_dir: elsewhere, record_url: 'sqlite:///index.sqlite'}\n")
    made = proctor("run", "trivial", "oracle", "--limit", "1", "--run-id", "first")
    assert made.code == 0
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    shown = proctor("show", "first")
    assert (shown.code, "1 passed" in shown.out) == (0, True)
    checked = proctor("record", "check", "--json")
    assert (checked.code, checked.err) == (0, "")


def test_02_the_directory_of_an_experiment_is_no_run_and_its_newest_run_is_named(proctor: Proctor) -> None:
    proctor("run", "trivial", "nop", "--limit", "1", "--run-id", "early")
    proctor("run", "trivial", "nop", "--limit", "1", "--run-id", "late")
    ended = proctor("show", "results/none_trivial_nop")
    assert ended.code == 2
    assert "hint: it holds 2 runs, the newest is `results/none_trivial_nop/late`" in ended.err
