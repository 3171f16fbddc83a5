"""`proctor accept` fills slots after a person has looked: all that is asked for, or nothing (spec 04)."""

from __future__ import annotations

import errno
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from failing_disk import FailingDisk
from program import Ended

from proctor.store.plan_file import read_plan
from proctor.store.record_check import check_record

Proctor = Callable[..., Ended]

EXPERIMENT = ["reuse_plugins:Counted", "reuse_plugins:Worker"]
NEW = ("--set", "harness.params.style=new")


@pytest.fixture
def work(proctor: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proctor:
    monkeypatch.setenv("WORK_TRACE", str(tmp_path / "trace"))
    (tmp_path / "trace").touch()
    return lambda *options: proctor("run", *EXPERIMENT, "--progress", "none", *options)


def turns(folder: Path) -> int:
    return len((folder / "trace").read_text().splitlines())


def run_dir(folder: Path, run_id: str) -> Path:
    [found] = folder.glob(f"results/**/{run_id}")
    return found


def attempts(proctor: Proctor, run_id: str) -> dict[str, str]:
    """The attempts of a run, with `@`, by task and ordinal."""
    rows = json.loads(proctor("show", run_id, "--json").out)["attempts"]
    return {f"{row['task']}#{row['ordinal']}": f"@{row['attempt']}" for row in rows if "attempt" in row}


def files(folder: Path) -> dict[str, bytes]:
    found = (folder / "results").rglob("*")
    return {str(path): path.read_bytes() for path in found if path.is_file() and ".proctor" not in path.parts}


def decisions(proctor: Proctor, *arguments: str) -> Counter[str]:
    page = proctor("plan", *EXPERIMENT, *arguments, "--json")
    assert page.code == 0, page.err
    records = map(json.loads, page.out.splitlines())
    return Counter(one["decision"].partition(" @")[0] for one in records if one["type"] == "slot")


def test_04_accepted_attempts_fill_their_slots_from_then_on(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one", "--attempts", "2")
    made = attempts(proctor, "one")
    chosen = [made["n0#0"], made["n3#0"], made["n3#1"]]
    before = files(tmp_path)
    accepted = proctor("accept", *chosen, *NEW, "--run-id", "two")
    assert (accepted.code, accepted.err) == (0, "")
    assert accepted.out.count("harness changed (") == 3
    assert "3 attempts accepted; runs that reuse take them from now on" in accepted.out
    assert {path: content for path, content in files(tmp_path).items() if path in before} == before, (
        "nothing is changed"
    )
    two = run_dir(tmp_path, "two")
    assert two.parent == run_dir(tmp_path, "one").parent
    plan = read_plan(two / "plan.json")
    assert [(slot.task, slot.ordinal, slot.decision, f"@{slot.source}") for slot in plan.slots] == [
        ("n0", 0, "accept", chosen[0]), ("n3", 0, "accept", chosen[1]), ("n3", 1, "accept", chosen[2]),
    ]  # fmt: skip
    summary = json.loads((two / "summary.json").read_text())
    assert (summary["completion"], summary["rate"], summary["counts"]["total"]) == ("complete", 1 / 3, 3)
    shown = proctor("show", "two").out
    assert shown.count("accepted from") == 3
    kinds = decisions(proctor, *NEW, "--attempts", "2", "--reuse")
    assert kinds["accept"] == 3
    assert kinds.total() == 20
    assert work("--reuse", *NEW, "--attempts", "2", "--run-id", "three").code == 0
    assert turns(tmp_path) == 20 + 17
    assert proctor("show", "three").out.count("accepted from") == 3
    shutil.rmtree(two)
    assert decisions(proctor, *NEW, "--attempts", "2", "--reuse") == {"accept": 3, "reuse": 17}
    checked = check_record(tmp_path / "results")
    assert (checked.differences, checked.missing) == ([], []), checked


def test_04_a_run_of_accepted_attempts_can_be_named_and_closes_tasks(
    work: Proctor, proctor: Proctor, tmp_path: Path
) -> None:
    work("--run-id", "one")
    made = attempts(proctor, "one")
    proctor("accept", made["n0#0"], made["n1#0"], *NEW, "--run-id", "two")
    more = (*NEW, "--attempts", "3", "--early-exit")
    assert decisions(proctor, *more, "--reuse=two") == {
        "accept": 2, "not dispatched: early exit": 2, "execute: new": 26,
    }  # fmt: skip
    assert decisions(proctor, *NEW, "--reuse", "--rerun")["execute: rerun failed"] == 1, "accepted, and failed"


def test_04_what_is_reused_may_be_accepted_as_well(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one")
    work("--run-id", "two", "--reuse")
    reused = attempts(proctor, "two")
    assert proctor("accept", *reused.values(), *NEW).code == 0
    assert decisions(proctor, *NEW, "--reuse") == {"accept": 10}
    assert turns(tmp_path) == 10


def test_04_what_has_not_changed_needs_no_accepting(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one")
    made = list(attempts(proctor, "one").values())[:2]
    before = files(tmp_path)
    same = proctor("accept", *made)
    assert same.code == 0
    assert same.out.count("nothing to accept") == 2
    assert "nothing needs accepting" in same.out
    assert "name it as for `run`" in same.err
    assert files(tmp_path) == before
    proctor("accept", made[0], *NEW)
    twice = proctor("accept", *made, *NEW)
    assert "1 attempt accepted" in twice.out
    assert twice.out.count("nothing to accept") == 1, "it was accepted before"


def test_02_a_dry_run_and_the_receipt(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one")
    made = attempts(proctor, "one")
    before = files(tmp_path)
    dry = proctor("accept", made["n0#0"], *NEW, "--dry")
    assert dry.code == 0
    assert "1 attempt would be accepted; nothing was written" in dry.out
    assert files(tmp_path) == before
    receipt = json.loads(proctor("accept", made["n0#0"], *NEW, "--json").out)
    assert (receipt["type"], receipt["exit_code"], receipt["written"]) == ("receipt", 0, True)
    [one] = receipt["accepted"]
    assert (f"@{one['attempt']}", one["task"], one["verdict"]) == (made["n0#0"], "n0", "passed")
    assert Path(receipt["run"]["directory"], "journal.jsonl").is_file()


def test_04_the_experiment_can_be_named_as_for_run(work: Proctor, proctor: Proctor) -> None:
    """What was typed before holds no more then: only what is said now."""
    work("--run-id", "one", "--set", "harness.params.style=old")
    made = attempts(proctor, "one")
    assert proctor("accept", made["n0#0"], *EXPERIMENT).code == 0
    assert decisions(proctor, "--reuse")["accept"] == 1
    work("--run-id", "two", "--set", "harness.params.style=older")
    both = [made["n1#0"], attempts(proctor, "two")["n2#0"]]
    refused = proctor("accept", *both, *NEW)
    assert refused.code == 2
    assert "declared differently, in `harness`" in refused.err
    assert proctor("accept", *both, *EXPERIMENT).code == 0
    assert decisions(proctor, "--reuse")["accept"] == 3


@pytest.mark.long
def test_04_a_model_needs_no_credential_to_be_accepted_for(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proctor("run", "trivial", "chat", "mock/echo", "--limit", "1", "--run-id", "one")
    [made] = attempts(proctor, "one").values()
    for names in ((), ("trivial", "chat", "mock/echo")):
        page = proctor("accept", made, *names, "--set", "flags.x=1", "--dry")
        assert (page.code, page.out.count("flags changed")) == (0, 1), page.err
    renamed = proctor("accept", made, "trivial", "chat", "other/model", "--set", "model.base_url=http://h/v1")
    assert renamed.code == 0, renamed.err
    assert "results/other-model-" in renamed.out, "the run is where those of that model are"


def test_04_an_experiment_in_python_is_what_its_file_says_today(
    work: Proctor, proctor: Proctor, tmp_path: Path
) -> None:
    file = tmp_path / "experiments" / "sub" / "it.py"
    file.parent.mkdir(parents=True)

    def says(style: str) -> None:
        file.write_text(
            "from proctor import Experiment\n"
            "experiment = Experiment(benchmark={'id': 'reuse_plugins:Counted', 'params': {'tasks': 3}},\n"
            f"    harness={{'id': 'reuse_plugins:Worker', 'params': {{'style': '{style}'}}}})\n"
        )

    says("old")
    assert proctor("exp", "sub/it", "--run-id", "one", "--fail-under", "0").code == 0
    says("mid-length")
    made = attempts(proctor, "one")
    accepted = proctor("accept", made["n0#0"], made["n1#0"])
    assert accepted.code == 0, accepted.err
    assert accepted.out.count("harness changed (") == 2
    assert proctor("exp", "sub/it", "--run-id", "two", "--fail-under", "0").code == 0
    assert turns(tmp_path) == 3 + 1
    assert proctor("show", "two").out.count("accepted from") == 2


def test_04_a_request_of_a_launch_file_keeps_its_directory(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    def says(style: str) -> None:
        params = f"{{id: 'reuse_plugins:Worker', params: {{style: {style}}}}}"
        requests = "".join(
            f"  - name: {name}\n    benchmark: {{id: 'reuse_plugins:Counted', params: {{tasks: 3}}}}\n"
            f"    harness: {params}\n"
            for name in ("first", "second")
        )
        (tmp_path / "launch.yaml").write_text(f"requests:\n{requests}")

    says("old")
    ended = proctor("launch", "launch.yaml", "--run-id", "one")
    assert ended.code == 0, ended.err
    [second] = tmp_path.glob("results/second*/one")
    rows = json.loads(proctor("show", str(second), "--json").out)["attempts"]
    made = [f"@{row['attempt']}" for row in rows]
    assert "nothing needs accepting" in proctor("accept", *made).out
    says("mid-length")
    for what in (("--set", "harness.params.style=mid-length"), ("launch.yaml",)):
        page = proctor("accept", *made, *what, "--dry")
        assert page.code == 0, page.err
        assert "second: 3 attempts would be accepted" in page.out
    assert proctor("accept", *made, "launch.yaml", "--run-id", "two").code == 0
    assert (second.parent / "two").is_dir()
    assert proctor("launch", "launch.yaml", "--reuse", "--run-id", "three").code == 0
    assert turns(tmp_path) == 6 + 3, "the other request was not accepted"
    (tmp_path / "launch.yaml").write_text((tmp_path / "launch.yaml").read_text().replace("second", "third"))
    refused = proctor("accept", *made, "launch.yaml")
    assert refused.code == 2
    assert "no request of `launch.yaml` made the run of these attempts: it was of `second`" in refused.err


# ------------------------------------------------------------------------------------------------------ all or nothing


def test_04_everything_that_is_wrong_is_said_at_once_and_nothing_is_written(
    work: Proctor, proctor: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORK_FAILS", "n1")
    work("--run-id", "one", "--attempts", "2")
    monkeypatch.delenv("WORK_FAILS")
    work("--run-id", "again", "--attempts", "1")
    work("--run-id", "elsewhere", "--run-name", "other")
    one, again, other = (attempts(proctor, name) for name in ("one", "again", "elsewhere"))
    before = files(tmp_path)
    good = one["n2#0"]
    named = [
        good, "@aaaaaaaaaaaa", "@no", one["n1#0"], one["n9#0"], one["n0#1"], one["n3#0"], again["n3#0"], other["n4#0"],
        good,
    ]  # fmt: skip
    fewer = ("--set", "benchmark.params.tasks=9", "--attempts", "1")
    refused = proctor("accept", *named, *fewer, *NEW)
    assert refused.code == 2
    assert refused.out == ""
    for attempt, why in {
        "@aaaaaaaaaaaa": "is not in `results`",
        "@no": "is not the id of an attempt",
        one["n1#0"]: "has no score to accept: it is errored",
        one["n9#0"]: "is for the task `n9`, which benchmark `reuse_plugins:Counted` does not have any more",
        one["n0#1"]: "has the ordinal 1, and a task has 1 attempt",
        one["n3#0"]: "is for task `n3` #0, as others are",
        again["n3#0"]: "is for task `n3` #0, as others are",
        other["n4#0"]: "is of another experiment",
        good: "is given twice",
    }.items():
        assert f"`{attempt}` {why}" in refused.err, (attempt, refused.err)
    assert "9 of 10 attempts cannot be accepted, so none was" in refused.err
    assert files(tmp_path) == before


def test_04_an_ambiguous_beginning_names_them(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one", "--set", "benchmark.params.tasks=2")
    first, second = (attempt.removeprefix("@") for attempt in attempts(proctor, "one").values())
    journal = run_dir(tmp_path, "one") / "journal.jsonl"
    journal.write_text(journal.read_text().replace(second, first[:6] + second[6:]))
    refused = proctor("accept", f"@{first[:6]}", *NEW)
    assert refused.code == 2
    assert "is the beginning of 2 attempts: " in refused.err
    assert proctor("accept", f"@{first[:11]}", *NEW).code == 0


def test_04_a_damaged_or_deleted_source_is_refused(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    for name in ("journal", "plan", "gone"):
        work("--run-id", name, "--task-concurrency", "1")
    made = {name: attempts(proctor, name)["n0#0"] for name in ("journal", "plan", "gone")}
    lines = (run_dir(tmp_path, "journal") / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (run_dir(tmp_path, "journal") / "journal.jsonl").write_bytes(b"".join([*lines[:-5], b"damaged\n", *lines[-4:]]))
    (run_dir(tmp_path, "plan") / "plan.json").write_text("{}")
    shutil.rmtree(run_dir(tmp_path, "gone"))
    before = files(tmp_path)
    for name, why in (("journal", "is damaged: line"), ("plan", "is damaged: "), ("gone", "is not there any more")):
        refused = proctor("accept", made[name], *NEW)
        assert refused.code == 2
        assert why in refused.err
        assert "nothing was accepted" in refused.err
    assert files(tmp_path) == before


def test_04_an_attempt_that_is_cut_off_is_not_accepted(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one", "--set", "benchmark.params.tasks=1")
    [made] = attempts(proctor, "one").values()
    journal = run_dir(tmp_path, "one") / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if b'"AttemptSealed"' in line)
    journal.write_bytes(b"".join(lines[:place]))
    refused = proctor("accept", made, *NEW)
    assert refused.code == 2
    assert "is not finished: it still goes on, or was cut off" in refused.err


def test_04_a_slot_that_is_filled_keeps_what_fills_it(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one")
    work("--run-id", "two", *NEW)
    old, new = attempts(proctor, "one")["n0#0"], attempts(proctor, "two")["n0#0"]
    refused = proctor("accept", old, *NEW)
    assert refused.code == 2
    assert f"`{old}` is not needed: `{new}` fills its slot" in refused.err


def test_C1_what_would_be_executed_all_the_same_is_not_accepted(
    work: Proctor, proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORK_SECONDS", "0.2")
    monkeypatch.setenv("WORK_ISSUES", "n1")
    work("--run-id", "one", "--set", "benchmark.params.tasks=2")
    made = attempts(proctor, "one")
    limited = proctor("accept", made["n0#0"], *NEW, "--timeout", "0.1")
    assert limited.code == 2
    assert "would be executed again all the same: limit lowered" in limited.err
    matched = proctor("accept", made["n1#0"], *NEW, "--retry-pattern", "connection.*reset")
    assert "would be executed again all the same: retry pattern matches" in matched.err


@pytest.mark.parametrize("what", [[], ["trivial"], ["@abcdefgh", "trivial"], ["@abcdefgh"]], ids=" ".join)
def test_02_what_names_no_attempt_is_a_usage_error(proctor: Proctor, what: list[str]) -> None:
    refused = proctor("accept", *what)
    assert refused.code == 2
    assert "hint:" in refused.err


def test_D6_a_taken_run_id_is_refused(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one")
    before = files(tmp_path)
    refused = proctor("accept", attempts(proctor, "one")["n0#0"], *NEW, "--run-id", "one")
    assert refused.code == 2
    assert "run id `one` is taken" in refused.err
    assert files(tmp_path) == before


def test_04_values_that_were_not_written_have_to_be_named(work: Proctor, proctor: Proctor) -> None:
    secret = ("--set", "environment.env.API_KEY=plain", "--set", "harness.params.style=with-secret-text")
    work("--run-id", "one", *secret, "--set", "environment.env.OTHER_KEY=secret-text")
    made = attempts(proctor, "one")["n0#0"]
    refused = proctor("accept", made, "--set", "flags.x=1")
    assert refused.code == 2
    assert "`harness` of the run holds a credential" in refused.err
    assert "secret-text" not in refused.err
    named = proctor("accept", made, *EXPERIMENT, *secret, "--set", "flags.x=1", "--dry")
    assert named.code == 0, named.err
    assert "flags changed" in named.out


# ------------------------------------------------------------------------------------------------------------ disks


def test_D5_whichever_call_fails_all_is_accepted_or_nothing_is_left(
    work: Proctor, proctor: Proctor, tmp_path: Path
) -> None:
    work("--run-id", "one", "--set", "benchmark.params.tasks=2")
    made = attempts(proctor, "one")
    before = files(tmp_path)
    number, faults = 0, (errno.ENOSPC, errno.EIO, errno.EACCES)
    while True:
        number += 1
        with FailingDisk(number, faults[number % 3]).in_place() as disk:
            ended = proctor("accept", *made.values(), *NEW, "--run-id", "two")
        left = {path: content for path, content in files(tmp_path).items() if path not in before}
        if ended.code == 0:
            assert not disk.failed
            break
        assert ended.code == 2, ended.err
        assert not left, (number, sorted(left))
        assert not (run_dir(tmp_path, "one").parent / "two").exists()
    assert number > 15
    assert decisions(proctor, *NEW, "--set", "benchmark.params.tasks=2", "--reuse") == {"accept": 2}


@pytest.mark.long
def test_04_a_kill_leaves_all_accepted_or_nothing(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one", "--set", "benchmark.params.tasks=2")
    made = attempts(proctor, "one")
    tasks = ("--set", "benchmark.params.tasks=2")
    seen: set[str] = set()
    for number in range(1, 100):
        with FailingDisk(number, errno.EIO, stuck=True).in_place() as disk:
            proctor("accept", *made.values(), *NEW, "--run-id", f"run{number}")
        found = decisions(proctor, *NEW, *tasks, "--reuse")
        assert list(found.values()) == [2], (number, disk.failed, found)
        seen |= {decision.partition(" ")[0] for decision in found}
        if found["accept"]:
            break
    assert seen == {"execute:", "accept"}
