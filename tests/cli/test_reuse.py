"""Nothing finished is bought twice, and nothing stale is taken for fresh (spec 04)."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

from proctor.errors import NothingToRun, UsageError
from proctor.sdk import run
from proctor.store.plan_file import read_plan

Proctor = Callable[..., Ended]

RUN = ["run", "reuse_plugins:Counted", "reuse_plugins:Worker", "--progress", "none"]


@pytest.fixture
def work(proctor: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proctor:
    monkeypatch.setenv("WORK_TRACE", str(tmp_path / "trace"))
    (tmp_path / "trace").touch()
    return lambda *options: proctor(*RUN, *options)


def turns(folder: Path) -> Counter[str]:
    return Counter(line.split()[0] for line in (folder / "trace").read_text().splitlines())


def newest(folder: Path) -> Path:
    return max((path.parent for path in folder.glob("results/**/journal.jsonl")), key=lambda path: path.name)


def counts(run: Path) -> dict[str, int]:
    found = json.loads((run / "summary.json").read_text())["counts"]
    return {name: number for name, number in found.items() if number and name != "not_dispatched"}


def reasons(run: Path) -> Counter[str]:
    return Counter(f"{slot.decision}: {slot.reason}" for slot in read_plan(run / "plan.json").slots)


def digest_of(directory: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        found.update(f"{path.relative_to(directory)} {path.stat().st_mtime_ns}".encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


def test_C3_what_is_finished_is_reused_and_its_source_untouched(work: Proctor, tmp_path: Path) -> None:
    assert work().code == 0
    first = newest(tmp_path)
    before = digest_of(first)
    again = work("--reuse")
    assert again.code == 0
    assert sum(turns(tmp_path).values()) == 10
    second = newest(tmp_path)
    assert second != first
    assert counts(second) == {"total": 10, "reused_passed": 5, "reused_failed": 5}
    assert json.loads((second / "summary.json").read_text())["rate"] == 0.5
    assert digest_of(first) == before
    assert not (second / "attempts").exists(), "nothing is copied"


def test_P1_all_slots_reused_meets_or_misses_a_gate_like_any_run(work: Proctor) -> None:
    work()
    assert work("--reuse", "--fail-under", "0.5").code == 0
    assert work("--reuse", "--fail-under", "0.6").code == 1


def test_C3_show_says_of_each_reused_slot_where_it_is_from(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one", "--tasks", "n0,n1")
    work("--run-id", "two", "--reuse", "--tasks", "n0,n1,n2")
    [first] = tmp_path.glob("results/*/one")
    name = f"{first.parent.name}/one"
    for what in ("two", f"results/{first.parent.name}/two"):
        lines = proctor("show", what).out.splitlines()
        assert [line.split()[2] for line in lines[:3]] == ["passed", "failed", "passed"]
        assert [line.endswith(f"  reused from {name}") for line in lines[:3]] == [True, True, False]
    data = json.loads(proctor("show", "two", "--json").out)
    assert [row.get("reused_from") for row in data["attempts"]] == [name, name, None]
    assert data["reused_cost_usd"] == 0
    attempt = "@" + data["attempts"][0]["attempt"]
    for where in ([], ["one"], ["two"], [str(first)]):
        page = proctor("show", *where, attempt)
        assert (page.code, page.err) == (0, "")
        assert "try 1" in page.out
        assert page.out.splitlines()[1].endswith(name), "it is shown where it was made"
    shutil.rmtree(first)
    gone = proctor("show", attempt)
    assert gone.code == 2
    assert f"was made by the run `{name}`, which is not there" in gone.err


def test_06_a_run_id_that_several_runs_have_is_not_guessed(work: Proctor, proctor: Proctor) -> None:
    work("--run-id", "one")
    work("--run-id", "one", "--run-name", "other")
    refused = proctor("show", "one")
    assert refused.code == 2
    assert "2 runs have the id `one`" in refused.err
    assert refused.err.count("/one`") == 2
    assert "is not the directory of a run" in proctor("show", "three").err


def test_R1_a_reuse_that_broke_off_hides_nothing(
    work: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work()
    monkeypatch.setenv("WORK_FAILS", "n0,n1,n2")
    assert work("--reuse", "--rerun", "all").code == 3
    monkeypatch.delenv("WORK_FAILS")
    before = turns(tmp_path)
    assert work("--reuse").code == 0
    assert turns(tmp_path) == before, "n0, n1 and n2 are those of the first run again"


def test_R1_a_run_id_names_the_source_and_an_unknown_one_lists_those_there_are(work: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one")
    work("--run-id", "two")
    assert work("--reuse=one", "--run-id", "three").code == 0
    plan = read_plan(next(tmp_path.glob("results/*/three/plan.json")))
    journal = next(tmp_path.glob("results/*/one/journal.jsonl")).read_text()
    assert all(slot.source and slot.source in journal for slot in plan.slots)
    unknown = work("--reuse=four")
    assert unknown.code == 2
    assert "no run `four`" in unknown.err
    assert all(name in unknown.err for name in ("one", "two", "three"))
    assert sum(turns(tmp_path).values()) == 20


def test_C2_rerun_executes_what_failed_or_everything(work: Proctor, tmp_path: Path) -> None:
    work()
    assert work("--reuse", "--rerun").code == 0
    assert turns(tmp_path) == Counter({f"n{n}": 1 + n % 2 for n in range(10)})
    assert reasons(newest(tmp_path)) == {"reuse: None": 5, "execute: rerun failed": 5}
    work("--reuse", "--rerun", "all")
    assert reasons(newest(tmp_path)) == {"execute: rerun all": 10}
    assert work("--reuse").code == 0
    assert turns(tmp_path) == Counter({f"n{n}": 2 + n % 2 for n in range(10)}), "it changed that invocation only"


@pytest.mark.parametrize("option", [("--rerun",), ("--rerun=all",), ("--no-checkpoint-resume",)], ids=" ".join)
def test_C2_what_needs_reuse_says_so(work: Proctor, option: tuple[str, ...]) -> None:
    refused = work(*option)
    assert refused.code == 2
    assert f"`{option[0].partition('=')[0]}` needs" in refused.err
    assert "add `--reuse`" in refused.err


@pytest.mark.parametrize("option", ["--reuse=", "--rerun=", "--rerun=some", "--reuse=../x"])
def test_02_bad_values_are_named(work: Proctor, option: str) -> None:
    refused = work("--reuse", option)
    assert refused.code == 2
    assert "hint:" in refused.err


def test_C3_raising_attempts_keeps_the_old_ordinals(work: Proctor, tmp_path: Path) -> None:
    work("--attempts", "2")
    work("--reuse", "--attempts", "3")
    assert turns(tmp_path) == Counter({f"n{n}": 3 for n in range(10)})
    assert counts(newest(tmp_path)) == {
        "total": 30, "reused_passed": 10, "reused_failed": 10, "passed": 5, "failed": 5,
    }  # fmt: skip


def test_P2_what_changed_is_executed_and_named(work: Proctor, tmp_path: Path) -> None:
    work()
    work("--reuse", "--set", "harness.params.style=new")
    assert all(reason.startswith("execute: harness changed (") for reason in reasons(newest(tmp_path)))
    work("--reuse", "--set", "harness.params.style=new", "--set", "benchmark.params.prompt=other")
    assert all(reason.startswith("execute: task changed (") for reason in reasons(newest(tmp_path)))
    assert sum(turns(tmp_path).values()) == 30


def test_C1_a_lower_limit_runs_again_and_a_higher_one_does_not(
    work: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORK_SECONDS", "0.2")
    work("--timeout", "60")
    work("--reuse", "--timeout", "600")
    assert sum(turns(tmp_path).values()) == 10
    work("--reuse", "--timeout", "0.1")
    assert reasons(newest(tmp_path)) == {"execute: limit lowered": 10}


def test_04_a_retry_pattern_runs_again_what_it_matches(
    work: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORK_ISSUES", "n2,n3")
    work()
    monkeypatch.delenv("WORK_ISSUES")
    work("--reuse")
    assert sum(turns(tmp_path).values()) == 10
    work("--reuse", "--retry-pattern", "connection.*reset")
    assert reasons(newest(tmp_path)) == {"reuse: None": 8, "execute: retry pattern matches": 2}


@pytest.mark.parametrize("artifacts", [False, True], ids=["answer", "artifacts"])
def test_T3_work_that_lacks_its_grade_is_only_graded(
    work: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, artifacts: bool
) -> None:
    setting = ("--set", f"benchmark.params.artifacts={str(artifacts).lower()}")
    monkeypatch.setenv("GRADER_BROKEN", "1")
    assert work(*setting).code == 3
    first = newest(tmp_path)
    before = digest_of(first)
    assert work("--reuse", *setting).code == 3, "the grader is still at fault"
    monkeypatch.delenv("GRADER_BROKEN")
    assert work("--reuse", *setting).code == 0
    assert sum(turns(tmp_path).values()) == 10, "no work was done again"
    third = newest(tmp_path)
    assert counts(third) == {"total": 10, "passed": 5, "failed": 5}
    assert all(slot.decision == "grade only" and slot.source for slot in read_plan(third / "plan.json").slots)
    assert digest_of(first) == before
    assert work("--reuse", *setting).code == 0
    assert counts(newest(tmp_path)) == {"total": 10, "reused_passed": 5, "reused_failed": 5}


def test_04_damaged_work_and_work_that_is_not_wanted_is_executed(
    work: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADER_BROKEN", "1")
    work()
    monkeypatch.delenv("GRADER_BROKEN")
    first = newest(tmp_path)
    shutil.rmtree(first / "attempts" / "n0")
    answer = next((first / "attempts" / "n1").rglob("answer.txt"))
    answer.write_text("another answer")
    work("--reuse")
    assert reasons(newest(tmp_path)) == {"grade only: None": 8, "execute: saved data damaged": 2}
    assert turns(tmp_path) == Counter({f"n{n}": 2 if n < 2 else 1 for n in range(10)})
    for path in tmp_path.glob("results/*/*/journal.jsonl"):
        if path.parent != first:
            shutil.rmtree(path.parent)
    work("--reuse", "--no-checkpoint-resume")
    assert reasons(newest(tmp_path)) == {"execute: checkpoint resume off": 10}


def test_E2_a_reused_pass_closes_its_task(work: Proctor, tmp_path: Path) -> None:
    work()
    work("--reuse", "--attempts", "3", "--early-exit")
    summary = json.loads((newest(tmp_path) / "summary.json").read_text())
    assert summary["counts"]["not_dispatched"] == {"early exit": 10}
    assert turns(tmp_path) == Counter({f"n{n}": 1 if n % 2 == 0 else 3 for n in range(10)})


def test_P4_plan_says_what_would_be_done_and_makes_nothing(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work()
    before = digest_of(tmp_path / "results")
    page = proctor("plan", *RUN[1:3], "--reuse", "--rerun", "--set", "benchmark.params.tasks=11")
    assert page.code == 0
    assert "11 slots: 5 reuse · 5 execute: rerun failed · 1 execute: new" in page.out
    assert digest_of(tmp_path / "results") == before


def test_D7_a_record_that_is_gone_or_unreadable_changes_nothing(work: Proctor, tmp_path: Path) -> None:
    work()
    shutil.rmtree(tmp_path / "results" / ".proctor")
    assert work("--reuse").code == 0
    (tmp_path / "results" / ".proctor" / "record.sqlite").write_bytes(b"no database at all" * 1000)
    assert work("--reuse").code == 0
    assert sum(turns(tmp_path).values()) == 10


def test_04_work_of_many_files_of_which_one_is_damaged_is_executed(
    work: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More files than the journal lists one by one: the manifest has their digests."""
    setting = ("--set", "benchmark.params.artifacts=true", "--set", "benchmark.params.tasks=1")
    monkeypatch.setenv("GRADER_BROKEN", "1")
    monkeypatch.setenv("WORK_FILES", "150")
    work(*setting)
    monkeypatch.delenv("GRADER_BROKEN")
    next(newest(tmp_path).rglob("artifacts/many/f99")).write_text("damaged")
    assert work("--reuse", *setting).code == 0
    assert reasons(newest(tmp_path)) == {"execute: saved data damaged": 1}


def test_02_reuse_from_python_is_that_of_the_command_line(
    work: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work()
    monkeypatch.chdir(tmp_path)
    again = run(*RUN[1:3], reuse=True)
    assert (again.counts["reused_passed"], again.counts["reused_failed"], again.exit_code) == (5, 5, 0)
    failed = run(*RUN[1:3], reuse=again.run_id, rerun="failed")
    assert (failed.counts["reused_passed"], failed.counts["failed"]) == (5, 5)
    for wrong in ({"rerun": "all"}, {"reuse": "../x"}, {"reuse": True, "rerun": "some"}):
        with pytest.raises(UsageError):
            run(*RUN[1:3], **wrong)
    with pytest.raises(NothingToRun, match="no task was named"):
        run(*RUN[1:3], tasks=[])
    assert sum(turns(tmp_path).values()) == 15
