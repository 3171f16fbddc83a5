"""Real prices in real runs: what is shown, recorded, warned of and stopped by (spec 09 M6, 03 E4; cases COST)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Ended

import proctor as proctor_package
from proctor.model.attempt import Usage
from proctor.testing.model_server import serve
from proctor.testing.replies import Answer, Failure

Proctor = Callable[..., Ended]

PRICE = [f"--set=model.price.{kind}={usd}" for kind, usd in
         (("input", 3), ("output", 15), ("cache_read", "0.3"), ("cache_write", "3.75"))]  # fmt: skip
USED = Usage(1, 3, 81, 500_000)
USD = 0.151224  # (3 x 3 + 81 x 15 + 500,000 x 0.3) / 1,000,000
QUICK = ["--set", "execution.retry_min_delay_seconds=0.001", "--set", "execution.retry_max_delay_seconds=0.001"]
NO_USAGE = Answer("ok", usage=None)


def ok(usage: Usage = USED) -> Answer:
    return Answer("ok", usage=usage)


def run(proctor: Proctor, replies: list[Any], *options: str, limit: int = 1) -> tuple[Ended, dict[str, Any]]:
    with serve(replies) as server:
        address = f"model.base_url={server.base_url}"
        ended = proctor("run", "trivial", "chat", "openai/any", f"--limit={limit}", "--set", address, *options)
    return ended, json.loads((ended.run_dir / "summary.json").read_text())


def recorded(ended: Ended, query: str) -> list[Any]:
    with sqlite3.connect(ended.folder / "results/.proctor/record.sqlite") as record:
        return record.execute(query).fetchall()


def attempt_of(ended: Ended) -> str:
    lines = map(json.loads, (ended.run_dir / "journal.jsonl").read_text().splitlines())
    return next(line["attempt"] for line in lines if line["type"] == "AttemptSealed")


def test_case_cost_145_every_display_tells_the_same_cost_and_keeps_the_kinds_apart(proctor: Proctor) -> None:
    ended, summary = run(proctor, [ok()], *PRICE)
    assert summary["cost_usd"] == pytest.approx(USD)
    assert summary["usage"] == {
        "calls": 1, "input_tokens": 3, "output_tokens": 81, "cache_read_tokens": 500_000, "cache_write_tokens": 0,
        "reasoning_tokens": 0, "cost_usd": pytest.approx(USD), "cost_at_least_usd": pytest.approx(USD),
        "unpriced_calls": 0, "price_sources": ["given"],
    }  # fmt: skip
    assert "500,003 tokens in (500,000 read from cache), 81 out · $0.1512" in ended.err
    assert "warning" not in ended.err
    [tried] = json.loads((ended.run_dir / "attempts/t0000/0/result.json").read_text())["tries"]
    assert tried["usage"]["cost_usd"] == pytest.approx(USD)
    assert tried["usage"]["price_sources"] == ["given"]
    assert recorded(ended, "SELECT kind, cache_read_tokens, unpriced_calls, price_sources FROM usage") == [
        ("agent", 500_000, 0, "given")
    ]
    assert recorded(ended, "SELECT cost_usd, cost_at_least_usd FROM usage") == [(tried["usage"]["cost_usd"],) * 2]
    shown = proctor("show", f"@{attempt_of(ended)}", "--results-dir", ended.folder / "results")
    assert "81 out · $0.1512 (given)" in shown.out
    trajectory = json.loads(next(ended.run_dir.rglob("trajectory.json")).read_text())
    assert trajectory["final_metrics"]["total_cost_usd"] == pytest.approx(USD)


def test_case_cost_143_a_sum_without_a_part_says_so_everywhere(proctor: Proctor) -> None:
    ended, summary = run(proctor, [ok(), NO_USAGE, ok()], *PRICE, "--json", "--task-concurrency=1", limit=3)
    said = "at least $0.3024, plus 1 call without price"
    assert said in (ended.run_dir / "summary.md").read_text()
    [receipt] = [json.loads(line) for line in ended.out.splitlines() if '"receipt"' in line]
    for data in (summary, receipt["runs"][0]):
        assert (data["cost_usd"], data["unpriced_calls"]) == (None, 1)
        assert data["cost_at_least_usd"] == pytest.approx(2 * USD)
    progress = json.loads((ended.run_dir / "progress.json").read_text())
    assert (progress["cost_usd"], progress["unpriced_calls"]) == (None, 1)
    assert said in proctor("status", ended.run_dir).out
    assert recorded(ended, "SELECT count(*), sum(unpriced_calls) FROM usage") == [(3, 1)]
    assert "price.unknown" not in {issue["code"] for issue in summary["issues"]}, "it is the usage that was missing"


def test_case_cost_143_a_model_without_a_price_is_said_at_planning_and_once_in_the_run(proctor: Proctor) -> None:
    ended, summary = run(proctor, [ok()] * 3, limit=3)
    assert ended.err.count("no price is known for model `openai/any` at http://127.0.0.1") == 2
    assert ended.err.index("warning: no price is known for model") < ended.err.index("[1/3]")
    assert "say `model.price.input` and `model.price.output`, in US dollars per million tokens" in ended.err
    [issue] = [issue for issue in summary["issues"] if issue["code"] == "price.unknown"]
    assert issue == {"severity": "WARNING", "code": "price.unknown", "count": 1}
    assert (summary["cost_usd"], summary["cost_at_least_usd"], summary["unpriced_calls"]) == (None, 0, 3)
    assert "cost unknown" in ended.err
    assert "$0" not in ended.err


def test_case_cost_144_a_kind_of_tokens_without_a_price_makes_the_cost_unknown(proctor: Proctor) -> None:
    ended, summary = run(proctor, [ok(), ok()], *PRICE[:2], "--task-concurrency=1", limit=2)
    assert ended.err.count("no price of cache read tokens is known for model `openai/any`") == 1
    assert summary["cost_at_least_usd"] == pytest.approx(2 * 0.001224)
    assert "at least $0.0024, plus 2 calls without price" in ended.err


def test_04_P4_a_plan_says_at_least_where_earlier_costs_are_known_in_part(proctor: Proctor) -> None:
    """Of each earlier call the price of one kind of tokens is not known."""
    with serve([ok(), ok()]) as server:
        given = ["trivial", "chat", "openai/any", "--limit=2", *PRICE[:2], f"--set=model.base_url={server.base_url}"]
        proctor("run", *given)
        plan, data = proctor("plan", *given), proctor("plan", *given, "--json")
        several = proctor("plan", *given, "--task-concurrency=1,2")
    [line] = [line for line in plan.out.splitlines() if line.startswith("expected cost ")]
    assert "at least $0.00" in line
    assert line.endswith(": a part of what earlier attempts cost is not known")
    assert several.out.count("at least $0.00") == 2
    [forecast] = [json.loads(line) for line in data.out.splitlines() if '"forecast"' in line]
    assert forecast["cost_usd"] is None
    assert forecast["cost_at_least_usd"]["p50"] == pytest.approx(2 * 0.001224, rel=0.7), "by lot, as few are known"
    assert "retries count as in earlier runs" in plan.out


@pytest.mark.parametrize("zero", ["0", "0.0", '"0"'])
def test_case_cost_144_a_price_of_zero_is_known(proctor: Proctor, zero: str) -> None:
    given = [f"--set=model.price.{kind}={zero}" for kind in ("input", "output")]
    ended, summary = run(proctor, [ok(), NO_USAGE], *given, limit=2)
    assert (summary["cost_usd"], summary["unpriced_calls"]) == (0, 0)
    assert "$0.00" in ended.err
    assert "price" not in ended.err


@pytest.mark.parametrize("wrong", ["-1", "-0.5", "NaN", "Infinity", "1e300", "cheap", "true"])
def test_case_cost_144_what_is_no_price_is_refused_at_planning(proctor: Proctor, wrong: str) -> None:
    ended = proctor("plan", "trivial", "chat", "mock/echo", f"--set=model.price.input={wrong}")
    assert ended.code == 2
    assert "model.price.input" in ended.err
    assert any(words in ended.err for words in ("number", "less than or equal"))


def by_alias(proctor: Proctor, price: str) -> tuple[Ended, dict[str, Any]]:
    """Run with a model of the project whose price stands in YAML; the endpoint counts no tokens in its last answer."""
    with serve([ok(), NO_USAGE]) as server:
        Path("proctor.yaml").write_text(
            f"models: {{own: {{id: openai/any, base_url: '{server.base_url}', price: {price}}}}}\n"
        )
        ended = proctor("run", "trivial", "chat", "own", "--limit=2", "--task-concurrency=1")
    return ended, json.loads((ended.run_dir / "summary.json").read_text()) if ended.run_dirs else {}


@pytest.mark.parametrize("free", ["{input: 0, output: 0.0}", "{input: '0', output: \"0\"}"])
def test_case_cost_144_free_is_known_in_yaml(proctor: Proctor, free: str) -> None:
    _, summary = by_alias(proctor, free)
    assert (summary["cost_usd"], summary["unpriced_calls"]) == (0, 0)


@pytest.mark.parametrize("nothing", ["null", "{}", "{input: null, output: ~}"])
def test_case_cost_144_null_is_unknown_in_yaml(proctor: Proctor, nothing: str) -> None:
    ended, summary = by_alias(proctor, nothing)
    assert "no price is known" in ended.err
    assert summary["cost_usd"] is None


@pytest.mark.parametrize("wrong", ["{input: -1}", "{input: .nan}", "{input: .inf}", "{inputs: 1}", "3", "{input: yes}"])
def test_case_cost_144_what_is_no_price_is_refused_in_yaml(proctor: Proctor, wrong: str) -> None:
    ended, _ = by_alias(proctor, wrong)
    assert ended.code == 2
    assert "proctor.yaml:1" in ended.err
    assert "price" in ended.err


def test_09_M6_a_price_stands_in_the_plan_with_its_source(proctor: Proctor) -> None:
    with_table = ["plan", "trivial", "chat", "openai/gpt-5", "--set=model.api_key=sk-0123456789"]
    ended = proctor(*with_table)
    assert "model: $1.25 input, $10 output, $0.125 cache read," in ended.out
    assert "per million tokens (genai-prices " in ended.out
    plan = json.loads(proctor(*with_table, "--json").out.splitlines()[0])
    assert plan["experiments"][0]["prices"]["model"] in ended.out
    own = proctor("plan", "trivial", "chat", "openai/any", "--set=model.base_url=http://127.0.0.1:1/v1")
    assert "model: price unknown" in own.out
    assert "warning: no price is known for model `openai/any` at http://127.0.0.1:1/v1" in own.err


def test_09_M6_retried_cost_is_apart_by_the_kinds_of_tokens(proctor: Proctor) -> None:
    replies = [ok(), Failure(500), ok()]
    ended, summary = run(proctor, replies, *PRICE, "--max-retries=1", "--task-concurrency=1", *QUICK, limit=2)
    assert summary["cost_at_least_usd"] == pytest.approx(2 * USD)
    assert (summary["cost_usd"], summary["unpriced_calls"]) == (None, 1), "a call that failed costs nobody knows what"
    retried = summary["retried_usage"]
    assert (retried["calls"], retried["cost_usd"], retried["cost_at_least_usd"]) == (1, None, 0)
    assert "cost of what they replaced unknown" in ended.err


def test_case_cost_147_a_budget_stops_a_run_with_a_state_and_an_exit_code_of_its_own(proctor: Proctor) -> None:
    one_by_one = ["--task-concurrency=1", "--budget=0.5"]
    ended, summary = run(proctor, [ok()] * 10, *PRICE, *one_by_one, limit=10)
    assert ended.code == 3
    assert summary["counts"]["passed"] + summary["counts"]["failed"] == 3, "the fourth would be the dollar too much"
    assert summary["counts"]["not_dispatched"] == {"budget": 7}
    assert summary["completion"] == "stopped"
    assert summary["cost_usd"] == pytest.approx(3 * USD)
    assert "cannot hold" not in ended.err
    assert "incomplete" in summary["headline"]


def test_03_E4_a_budget_that_cannot_hold_is_said_at_planning(proctor: Proctor) -> None:
    for model in ("mock/echo", "openai/any"):
        given = ["trivial", "chat", model, "--budget=5", "--set=model.base_url=http://127.0.0.1:1/v1"]
        ended = proctor("plan", *given)
        assert (
            f"warning: the budget of $5.00 of trivial/chat/{model} cannot hold: no price is known for model"
            in ended.err
        )
        assert "cannot hold" not in proctor("plan", *given, *PRICE).err
    half = proctor("plan", "trivial", "chat", "mock/echo", "--budget=5", PRICE[0])
    assert "cannot hold: no price of output is known for model `mock/echo`" in half.err


def judged(proctor: Proctor, *options: str) -> tuple[Ended, dict[str, Any]]:
    """Run two questions, of which a judge with a price of its own says what is right."""
    lines = [{"question": f"2 + {n}?", "answer": str(2 + n)} for n in range(2)]
    Path("sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    verdict = Answer('{"verdict": "yes", "reason": "it is"}', usage=Usage(1, 1_000, 100))
    with serve([ok()] * 2) as agent, serve([verdict] * 2) as judge:
        ended = proctor(
            "run", "jsonl", "chat", "openai/a", "--set=benchmark.params.path=sums.jsonl", "--judge=openai/j",
            '--set=benchmark.params.grader={"kind": "model"}', f"--set=model.base_url={agent.base_url}",
            f"--set=judge.base_url={judge.base_url}", *PRICE, "--task-concurrency=1", *options,
        )  # fmt: skip
    return ended, json.loads((ended.run_dir / "summary.json").read_text())


JUDGE_PRICE = ["--set=judge.price.input=20", "--set=judge.price.output=100"]
JUDGED = 0.03  # (1,000 x 20 + 100 x 100) / 1,000,000


def test_case_cost_145_what_grading_costs_is_a_line_of_its_own(proctor: Proctor) -> None:
    ended, summary = judged(proctor, *JUDGE_PRICE)
    assert summary["usage"]["cost_usd"] == pytest.approx(2 * USD)
    assert summary["grader_usage"]["cost_usd"] == pytest.approx(2 * JUDGED)
    assert (summary["grader_usage"]["input_tokens"], summary["usage"]["input_tokens"]) == (2_000, 6)
    assert summary["cost_usd"] == pytest.approx(2 * (USD + JUDGED))
    assert "of that for grading: 2 model calls · 2,000 tokens in, 200 out · $0.06" in ended.err
    assert recorded(ended, "SELECT kind, count(*) FROM usage GROUP BY kind ORDER BY kind") == [
        ("agent", 2), ("grader", 2),
    ]  # fmt: skip
    shown = proctor("show", f"@{attempt_of(ended)}", "--results-dir", ended.folder / "results")
    assert "1 call for grading · 1,000 tokens in, 100 out · $0.03 (given)" in shown.out


def test_03_E4_what_grading_costs_counts_to_the_budget(proctor: Proctor) -> None:
    """The second attempt would fit if only the agent's calls counted."""
    ended, summary = judged(proctor, *JUDGE_PRICE, f"--budget={2 * USD + JUDGED}")
    assert (ended.code, summary["counts"]["not_dispatched"]) == (3, {"budget": 1})


def test_case_cost_143_a_judge_without_a_price_makes_the_sum_unknown(proctor: Proctor) -> None:
    ended, summary = judged(proctor)
    assert "warning: no price is known for judge `openai/j`" in ended.err
    assert "say `judge.price.input` and `judge.price.output`" in ended.err
    assert "at least $0.3024, plus 2 calls without price" in ended.err
    assert (summary["usage"]["cost_usd"], summary["grader_usage"]["cost_usd"]) == (pytest.approx(2 * USD), None)


def test_case_cost_143_in_python_a_sum_without_a_part_says_so(proctor: Proctor) -> None:
    with serve([ok(), NO_USAGE]) as server:
        model = {
            "id": "openai/any",
            "base_url": server.base_url,
            "price": {"input": 3, "output": 15, "cache_read": 0.3},
        }
        result = proctor_package.run("trivial", "chat", model, limit=2, task_concurrency=1, progress="none")
    assert (result.cost_usd, result.unpriced_calls) == (None, 1)
    assert result.cost_at_least_usd == pytest.approx(USD)
