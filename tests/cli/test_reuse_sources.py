"""Where what is reused comes from, and what the plan says where it is not there any more (spec 04 P2, P4, R1, R3)."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

from proctor.cli.earlier_runs import group_of
from proctor.cli.run_writer import experiment_dir_of
from proctor.model.spec import Component, Experiment, ModelSpec
from proctor.store.plan_file import read_plan

Proctor = Callable[..., Ended]

EXPERIMENT = ["reuse_plugins:Counted", "reuse_plugins:Worker"]
MODEL = ["trivial", "chat", "mock/echo", "--limit", "2"]


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


def reasons(folder: Path, run_id: str) -> Counter[str]:
    slots = read_plan(run_dir(folder, run_id) / "plan.json").slots
    return Counter(f"{slot.decision}: {slot.reason}" for slot in slots)


def planned(proctor: Proctor, *arguments: str) -> Counter[str]:
    """What `proctor plan` says of the slots."""
    page = proctor("plan", *arguments, "--json")
    assert page.code == 0, page.err
    records = map(json.loads, page.out.splitlines())
    return Counter(one["decision"] for one in records if one["type"] == "slot")


# ------------------------------------------------------------------------------------------------------ the endpoint


def test_P2_a_model_that_only_moved_is_named_with_what_to_do(proctor: Proctor) -> None:
    def at(host: str, *more: str) -> list[str]:
        return [*MODEL, "--set", f"model.base_url=http://{host}/v1", *more]

    proctor("run", *at("a.example"))
    said = "execute: model changed (a.example -> b.example), only its endpoint: `model.identity=a.example` says"
    assert planned(proctor, *at("b.example"), "--reuse") == {f"{said} that both are the same": 2}
    advice = ("--set", "model.identity=a.example")
    for same in (at("b.example", *advice), at("a.example:9")):  # a port says nothing of the model
        assert all(decision.startswith("reuse @") for decision in planned(proctor, *same, "--reuse"))


def test_P2_a_model_that_differs_in_more_is_not_said_to_have_moved(proctor: Proctor) -> None:
    def at(host: str, text: str, *more: str) -> list[str]:
        settings = ("--set", f"model.base_url=http://{host}/v1", "--set", f"model.params.text={text}")
        return ["trivial", "chat", "mock/fixed", "--limit", "2", *settings, *more]

    proctor("run", *at("a.example", "x"))
    for moved in (at("b.example", "y"), at("b.example", "x", "--set", "flags.x=1")):
        decisions = planned(proctor, *moved, "--reuse")
        assert not any("endpoint" in decision for decision in decisions), decisions
    [decision] = planned(proctor, *at("b.example", "x"), "--reuse")
    assert "only its endpoint" in decision


def test_P2_a_model_without_an_address_had_the_default_endpoint(proctor: Proctor) -> None:
    proctor("run", *MODEL)
    [decision] = planned(proctor, *MODEL, "--set", "model.base_url=http://b.example/v1", "--reuse")
    assert "(default endpoint -> b.example), only its endpoint: give both one `model.identity`" in decision


# -------------------------------------------------------------------------------------------------- of which run


def test_R1_a_run_that_only_graded_leads_to_the_work_that_it_graded(
    work: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADER_BROKEN", "1")
    work("--run-id", "worked")
    work("--run-id", "graded", "--reuse=worked")
    work("--run-id", "again", "--reuse=graded")
    assert reasons(tmp_path, "again") == {"grade only: None": 10}
    monkeypatch.delenv("GRADER_BROKEN")
    assert work("--run-id", "last", "--reuse=again").code == 0
    assert reasons(tmp_path, "last") == {"grade only: None": 10}
    assert turns(tmp_path) == 10, "no work was done again"


def test_R1_a_killed_run_of_which_work_was_graded_is_no_newer_for_it(
    work: Proctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run graded is its own; that it read the work of another makes that one's score no newer."""
    monkeypatch.setenv("GRADER_BROKEN", "1")
    work("--run-id", "worked")
    monkeypatch.delenv("GRADER_BROKEN")
    work("--run-id", "graded", "--reuse")
    work("--run-id", "last", "--reuse=graded")
    graded = (run_dir(tmp_path, "graded") / "journal.jsonl").read_text()
    plan = read_plan(run_dir(tmp_path, "last") / "plan.json")
    assert reasons(tmp_path, "last") == {"reuse: None": 10}
    assert all(slot.source and f'"attempt":"{slot.source}"' in graded for slot in plan.slots)


@pytest.mark.parametrize("rebuilt", [False, True], ids=["known", "rebuilt"])
def test_P4_what_is_deleted_is_said(work: Proctor, proctor: Proctor, tmp_path: Path, rebuilt: bool) -> None:
    work("--run-id", "one")
    work("--run-id", "two", "--reuse", "--set", "benchmark.params.tasks=11")
    shutil.rmtree(run_dir(tmp_path, "one"))
    if rebuilt:
        assert proctor("record", "rebuild").code == 0
    more = ("--set", "benchmark.params.tasks=12")
    decisions = planned(proctor, *EXPERIMENT, "--reuse", *more)
    assert decisions["execute: previous run deleted"] == 10
    assert decisions["execute: new"] == 1
    assert decisions.total() == 12, "what the second run made itself is reused"
    assert sum(number for decision, number in decisions.items() if decision.startswith("reuse @")) == 1
    changed = planned(proctor, *EXPERIMENT, "--reuse", *more, "--set", "harness.params.style=new")
    assert changed["execute: previous run deleted"] == 10
    assert sum(number for decision, number in changed.items() if "harness changed" in decision) == 1


def test_P4_what_is_there_is_named_before_what_is_deleted(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one")
    work("--run-id", "two", "--set", "harness.params.style=mid")
    shutil.rmtree(run_dir(tmp_path, "two"))
    [decision] = planned(proctor, *EXPERIMENT, "--reuse", "--set", "harness.params.style=new")
    assert decision.startswith("execute: harness changed (")


def test_04_exp_looks_in_the_whole_record(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    """By identity alone, wherever it was run; `--rerun` is as everywhere."""
    work("--run-name", "nightly/main", "--run-id", "one")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "it.py").write_text(
        "from proctor import Experiment\n"
        "experiment = Experiment(benchmark='reuse_plugins:Counted', harness='reuse_plugins:Worker')\n"
    )
    exp = ("exp", "it", "--fail-under", "0")
    assert proctor(*exp, "--run-id", "two").code == 0
    assert reasons(tmp_path, "two") == {"reuse: None": 10}
    assert proctor(*exp, "--rerun", "--run-id", "three").code == 0
    assert reasons(tmp_path, "three") == {"reuse: None": 5, "execute: rerun failed": 5}
    assert work("--reuse", "--run-id", "four").code == 0
    assert reasons(tmp_path, "four") == {"execute: new": 10}, "`run` looks at runs of its kind alone"


# ------------------------------------------------------------------------------------------------------- damage


def damage(journal: Path) -> int:
    """Make the line of the fourth finished attempt unreadable; return how many are whole before it."""
    lines = journal.read_bytes().splitlines(keepends=True)
    sealed = [number for number, line in enumerate(lines) if b'"AttemptSealed"' in line]
    lines[sealed[3]] = b"damaged\n"
    journal.write_bytes(b"".join(lines))
    return 3


def test_R3_run_says_what_it_could_not_read(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one", "--task-concurrency", "1")
    damage(run_dir(tmp_path, "one") / "journal.jsonl")
    for _ in range(2):
        ended = proctor("run", *EXPERIMENT, "--reuse=one")
        assert ended.code == 0
        warnings = [line for line in (ended.out + ended.err).splitlines() if line.startswith("warning:")]
        assert any(
            "cannot be read to its end: line" in line and "nothing is reused of what" in line for line in warnings
        ), warnings
    other = proctor("run", *EXPERIMENT, "--reuse", "--run-name", "other")
    assert "cannot be read" not in other.out + other.err, "it is of no run that counts there"


def test_R3_a_run_whose_plan_cannot_be_read_is_damaged(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one")
    plan = run_dir(tmp_path, "one") / "plan.json"
    plan.write_bytes(plan.read_bytes()[:-100])
    proctor("record", "rebuild")
    ended = proctor("run", *EXPERIMENT, "--reuse", "--run-id", "two")
    assert ended.code == 0
    assert "one` cannot be read to its end: plan" in ended.out + ended.err
    assert reasons(tmp_path, "two") == {"execute: saved data damaged": 10}


def test_R3_a_torn_line_of_a_killed_run_is_no_damage(work: Proctor, proctor: Proctor, tmp_path: Path) -> None:
    work("--run-id", "one")
    with (run_dir(tmp_path, "one") / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"type":"Attempt')
    ended = proctor("run", *EXPERIMENT, "--reuse")
    assert ended.code == 0
    assert "damaged" not in ended.out + ended.err
    assert turns(tmp_path) == 10


# ------------------------------------------------------------------------------------------------------ directories


def test_08_the_directory_of_an_experiment_that_names_one() -> None:
    plain = Experiment("e", Component("b"), Component("h"), ModelSpec("m"))
    assert experiment_dir_of(plain) == "m_b_h"
    named = Experiment("e", Component("b"), Component("h"), ModelSpec("m"), directory="nightly/one two")
    [level] = Path(experiment_dir_of(named)).parts
    assert level.startswith("nightly-one-two")
    assert group_of(named, Path("results"), "x/y") == Path("results", "x", "y", level)
