"""`proctor compare` as a user runs it (spec 02, 09 M4)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

Proctor = Callable[..., Ended]


def run(proctor: Proctor, share: str, name: str, *more: str) -> Path:
    ended = proctor(
        "run", "humaneval", "chat", "mock/humaneval", "--set", f"model.params.share={share}", "--limit", "12",
        "--run-id", name, *more,
    )  # fmt: skip
    assert ended.code == 0
    return next(path for path in ended.run_dirs if path.name == name)


@pytest.fixture
def runs(proctor: Proctor) -> tuple[Path, Path]:
    return run(proctor, "0.25", "low"), run(proctor, "0.75", "high")


@pytest.mark.long
def test_M4_two_runs_are_compared_by_their_ids(proctor: Proctor, runs: tuple[Path, Path]) -> None:
    ended = proctor("compare", "low", "high")
    assert ended.code == 0
    assert "B against A, 12 tasks: +0.500" in ended.out
    # 3 of 12 and 9 of 12 of which 3 are the same: 6 wins, no loss; 2 / 2**6.
    assert "p = 0.0312 (McNemar's, exact)" in ended.out
    assert "B wins: 6 tasks" in ended.out
    assert "identities differ in: model" in ended.out
    data = json.loads(proctor("compare", *map(str, runs), "--json").out)
    assert [one["rate"] for one in data["runs"]] == [0.25, 0.75]
    [one] = data["comparisons"]
    assert (one["tasks"], one["difference"], one["p_value"]) == (12, 0.5, 0.03125)
    assert len(one["won"]) == 6
    assert one["lost"] == []
    assert one["corrected_p_value"] is None


@pytest.mark.long
def test_M4_markdown_and_three_runs(proctor: Proctor, runs: tuple[Path, Path]) -> None:
    run(proctor, "0.5", "middle", "--attempts", "2")
    ended = proctor("compare", "low", "middle", "high", "--md")
    assert ended.code == 0
    assert ended.out.count("\n| ") == 4
    assert ended.out.count("with Holm's correction") == 2
    data = json.loads(proctor("compare", "low", "middle", "high", "--all-pairs", "--json").out)
    assert len(data["comparisons"]) == 3
    assert data["comparisons"][0]["test"] == "permutation of signs, exact"


@pytest.mark.long
def test_what_cannot_be_compared(proctor: Proctor, runs: tuple[Path, Path]) -> None:
    for arguments, says in (
        (["low"], "a comparison takes two runs or more"),
        (["low", "low"], "a run is named twice"),
        (["low", "nowhere"], "`nowhere` is not the directory of a run"),
        (["low", "high", "--json", "--md"], "--json and --md are two ways"),
    ):
        ended = proctor("compare", *arguments)
        assert ended.code == 2, arguments
        assert says in ended.err
        assert "hint:" in ended.err


@pytest.mark.long
def test_a_run_whose_plan_is_gone_is_compared_with_a_warning(proctor: Proctor, runs: tuple[Path, Path]) -> None:
    (runs[0] / "plan.json").unlink()
    ended = proctor("compare", "low", "high")
    assert ended.code == 0
    assert "warning: there is no plan" in ended.err
    assert "identities: not known" in ended.out
    assert "identities differ" not in ended.out
    assert "12 tasks" in ended.out


def test_M1_missing_slots_are_a_range_or_what_the_policy_says(proctor: Proctor) -> None:
    """Of ten tasks two are errored in one run, and none in the other."""
    command = ("run", "trivial", "plugins:Sleeper", "--task-concurrency", "1", "--max-retries", "0")
    assert proctor(*command, "--run-id", "some", "--set", "harness.params.every=5").code == 3
    assert proctor(*command, "--run-id", "all").code == 0
    said = proctor("compare", "some", "all")
    assert said.code == 0
    assert "slots without a score: 2 in A, 0 in B\n" in said.out
    assert "the difference over all these tasks is from +0.000 to +0.200" in said.out
    assert "without a score in one of them: 2 tasks" in said.out
    counted = proctor("compare", "some", "all", "--missing", "zero")
    assert " 80.0% (8/10, 2 without score)" in counted.out
    assert "10 tasks: +0.200" in counted.out
    assert "2 in A, 0 in B: counted as not passed" in counted.out
    assert "8 tasks: +0.000" in proctor("compare", "some", "all", "--missing", "exclude").out
    assert "no rate (8/10, 2 without score)" in proctor("compare", "some", "all", "--missing", "fail").out
    refused = json.loads(proctor("compare", "some", "all", "--missing", "fail", "--json").out)
    assert refused["runs"][0]["rate"] is None
    [one] = refused["comparisons"]
    assert (one["difference"], one["p_value"], one["lacking"]) == (None, None, [2, 0])


@pytest.mark.long
def test_M4_limits_and_retries_that_differ_are_named(proctor: Proctor) -> None:
    run(proctor, "0.5", "plain")
    run(proctor, "0.5", "bounded", "--set", "agent_timeout_seconds=90", "--max-retries", "2")
    ended = proctor("compare", "plain", "bounded")
    assert "identities: the same" in ended.out
    assert "agent_seconds (none, 90.0), max_retries (0, 2)" in ended.out
