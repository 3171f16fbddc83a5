"""TaskFatal and ExperimentFatal: what they stop, what the slots are then, what is said (spec 02, 05)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from program import Ended

Proctor = Callable[..., Ended]

RUN = ("run", "group_plugins:Grouped", "group_plugins:Doer", "--task-concurrency", "1", "--attempts", "3")


def counts_of(ended: Ended) -> dict[str, Any]:
    [run] = ended.receipt["runs"]
    return run["counts"]


def set_harness(**params: Any) -> list[str]:
    return [word for name, value in params.items() for word in ("--set", f"harness.params.{name}={value}")]


@pytest.mark.parametrize("where", ["start", "send"])
def test_05_task_fatal_of_a_harness_stops_the_undispatched_attempts_of_its_task(proctor: Proctor, where: str) -> None:
    ended = proctor(*RUN, *set_harness(deed="task", where=where), "--max-retries", "2", "--json")
    assert ended.code == 3, ended.err
    counts = counts_of(ended)
    assert (counts["passed"], counts["errored"], counts["total"]) == (6, 3, 9)
    issues = {event["task"]: event for event in ended.events if event["type"] == "AttemptSealed"}
    assert issues["t1"]["verdict"] == "passed"
    tries = [event for event in ended.events if event["type"] == "TryStarted" and event["task"] == "t0"]
    assert len(tries) == 1, "never retried, and the others not begun"


def test_05_experiment_fatal_of_a_harness_stops_all_that_was_not_dispatched(proctor: Proctor) -> None:
    ended = proctor(*RUN, *set_harness(deed="experiment", on="t1"), "--json")
    assert ended.code == 3, ended.err
    counts = counts_of(ended)
    assert (counts["passed"], counts["errored"]) == (1, 8), "t0 #0 had passed before t1 #0 raised"
    assert len([event for event in ended.events if event["type"] == "TryStarted"]) == 2


@pytest.mark.parametrize(("deed", "errored"), [("task", 3), ("experiment", 9)])
def test_05_the_preparation_of_a_task_may_stop_more_than_itself(proctor: Proctor, deed: str, errored: int) -> None:
    ended = proctor(*RUN, "--set", "harness.params.sandbox=true", "--set", f"benchmark.params.deed={deed}", "--json")
    assert ended.code == 3, ended.err
    assert counts_of(ended)["errored"] == errored


@pytest.mark.parametrize(
    ("deed", "code", "words"),
    [
        ("task", "task.fatal", "the data of this task is gone"),
        ("experiment", "experiment.fatal", "the licence has run"),
    ],
)
def test_05_there_is_one_message_that_says_what_to_mend(proctor: Proctor, deed: str, code: str, words: str) -> None:
    ended = proctor(*RUN, *set_harness(deed=deed), "--progress", "plain")
    assert ended.code == 3
    said = [line for line in ended.err.splitlines() if code in line and words in line]
    assert len(said) == 1, ended.err


def test_05_attempts_that_were_in_flight_go_on(proctor: Proctor) -> None:
    """With three at once, the two siblings of the one that raised are not cancelled."""
    arguments = [word if word != "1" else "3" for word in RUN]
    ended = proctor(*arguments, *set_harness(deed="task", times=1, where="send"), "--json")
    counts = counts_of(ended)
    assert counts["cancelled"] == 0
    assert counts["passed"] + counts["errored"] == 9
    assert counts["errored"] >= 1


@pytest.mark.parametrize(("deed", "reused"), [("task", 6), ("experiment", 0)])
def test_05_they_are_not_reused(proctor: Proctor, deed: str, reused: int) -> None:
    """Permanent FATALs are never carried."""
    assert proctor(*RUN, *set_harness(deed=deed)).code == 3
    counts = counts_of(proctor(*RUN, *set_harness(deed=deed), "--reuse", "--json"))
    assert counts["reused_passed"] == reused
    assert counts["reused_failed"] == 0
    assert counts["errored"] >= 3


def test_L5_a_sandbox_setup_may_stop_the_experiment(proctor: Proctor) -> None:
    hooks = ["--set", "sandbox_setup=hooks.py:prepare", "--set", "harness.params.sandbox=true"]
    from pathlib import Path

    Path("hooks.py").write_text(
        "from proctor.errors import ExperimentFatal\n\n\nasync def prepare(sandbox):\n    raise ExperimentFatal('no')\n"
    )
    ended = proctor(*RUN, *hooks, "--json")
    assert ended.code == 3
    assert counts_of(ended)["errored"] == 9
    codes = {event["issue"]["code"] for event in ended.events if event["type"] == "IssueRaised"}
    assert codes == {"experiment.fatal"}
    assert json.dumps(ended.receipt)
