"""A budget is what results may cost, whichever runs paid for them (spec 03 E4, 04 C3; case COST 147)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from program import Ended

from proctor.model.attempt import Usage
from proctor.testing.model_server import serve
from proctor.testing.replies import Answer, Failure

Proctor = Callable[..., Ended]

PRICE = ["--set=model.price.input=100", "--set=model.price.output=100"]
ONE = Answer("ok", usage=Usage(1, 1_000))
"""Costs $0.10."""
RUN = ["run", "trivial", "chat", "openai/any", "--limit=6", "--task-concurrency=1", *PRICE]
PAY = ["run", "trivial", "paying:Payer", "openai/any", "--limit=2", "--task-concurrency=2"]


def run(proctor: Proctor, replies: list[Any], *options: str, of: list[str] = RUN) -> tuple[Ended, dict[str, Any], int]:
    """Return how it ended, its summary, and how many calls it made."""
    with serve(replies) as server:
        ended = proctor(*of, f"--set=model.base_url={server.base_url}", *options)
        calls = len(server.requests)
    newest = max(ended.folder.glob("results/**/summary.json"), key=lambda path: path.stat().st_mtime_ns)
    return ended, json.loads(newest.read_text()), calls


@pytest.mark.long
def test_case_cost_147_without_a_raise_nothing_starts_and_with_one_earlier_spend_counts(proctor: Proctor) -> None:
    first, summary, calls = run(proctor, [ONE] * 6, "--budget=0.35")
    assert (first.code, calls) == (3, 3)
    assert summary["counts"]["not_dispatched"] == {"budget": 3}
    assert "raise `--budget`" in first.err

    same, summary, calls = run(proctor, [ONE] * 6, "--budget=0.35", "--reuse")
    assert (same.code, calls) == (3, 0), "what is left is no room for another one"
    assert summary["counts"]["not_dispatched"] == {"budget": 3}
    assert (summary["cost_usd"], summary["reused_cost_usd"]) == (0, pytest.approx(0.3)), "it is not paid again (C3)"
    assert "is spent, so nothing more is started: earlier runs paid $0.30 for its attempts, $0.05 is left" in same.err

    more, summary, calls = run(proctor, [ONE] * 6, "--budget=0.5", "--reuse")
    assert (more.code, calls) == (3, 2), "$0.30 was spent, so two more fit"
    assert summary["cost_usd"] == pytest.approx(0.2)
    assert "counts what was spent before: earlier runs paid $0.30 for its attempts, $0.20 is left" in more.err

    rest, summary, calls = run(proctor, [ONE] * 6, "--budget=1", "--reuse")
    assert (rest.code, calls) == (0, 1)
    assert summary["completion"] == "complete"


@pytest.mark.long
def test_case_cost_147_the_plan_says_what_is_left(proctor: Proctor) -> None:
    with serve([ONE] * 6) as server:
        address = f"--set=model.base_url={server.base_url}"
        proctor(*RUN, address, "--budget=0.35")
        again = ["plan", *RUN[1:], address, "--reuse"]
        spent = proctor(*again, "--budget=0.35")
        some = proctor(*again, "--budget=0.5")
        data = json.loads(proctor(*again, "--budget=0.5", "--json").out.splitlines()[0])
    assert "budget $0.35, $0.30 of it spent before" in spent.out
    assert "expected attempts   0 of" in spent.out
    assert "warning: the budget of $0.35 of" in spent.err
    assert "note: the budget of $0.50 of" in some.err
    assert data["experiments"][0]["spent_before_usd"] == pytest.approx(0.3)


def test_03_E4_what_came_to_nothing_was_paid_for_as_well(proctor: Proctor) -> None:
    """A run whose attempts all break does not get its budget anew with each resume."""
    replies = [ONE, Failure(500), ONE, Failure(500)]
    first, summary, _ = run(proctor, replies + [Failure(500)] * 4, "--max-retries=0")
    assert first.code == 3
    assert summary["counts"]["errored"] == 4
    again, summary, calls = run(proctor, [ONE] * 6, "--budget=0.45", "--reuse", "--max-retries=0")
    assert calls == 2
    assert "earlier runs paid at least $0.20 for its attempts, $0.25 at most is left" in again.err


@pytest.mark.long
def test_03_E4_what_is_executed_from_the_start_has_its_budget_from_the_start(proctor: Proctor) -> None:
    run(proctor, [ONE] * 6, "--budget=0.35")
    for options in ([], ["--reuse", "--rerun=all"]):
        again, summary, calls = run(proctor, [ONE] * 6, "--budget=0.35", *options)
        assert calls == 3
        assert "earlier runs" not in again.err
        assert summary["cost_usd"] == pytest.approx(0.3)


def test_03_E4_what_came_to_nothing_counts_also_once_there_is_a_result(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAYER_BREAKS", "1")
    run(proctor, [ONE] * 2, *PRICE, of=PAY)
    monkeypatch.delenv("PAYER_BREAKS")
    for before, attempts in (("0.20", "1"), ("0.40", "2")):
        ended, _, calls = run(proctor, [ONE] * 2, *PRICE, "--budget=9", "--reuse", f"--attempts={attempts}", of=PAY)
        assert (ended.code, calls) == (0, 2)
        assert f"earlier runs paid ${before} for its attempts" in ended.err


def test_03_E4_attempts_whose_cost_was_never_known_say_nothing_of_what_the_next_ones_cost(proctor: Proctor) -> None:
    """Else as many as there is room for would start at once, each expected to be free."""
    run(proctor, [ONE] * 2, of=PAY)
    again, summary, calls = run(proctor, [ONE] * 4, *PRICE, "--budget=0.15", "--reuse", "--attempts=3", of=PAY)
    assert (again.code, calls, summary["cost_usd"]) == (3, 1, pytest.approx(0.1))
