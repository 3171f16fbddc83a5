"""A model judges: named on every door, gated, paid for as grading, and never the agent's fault (spec 03 G11, 11)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Ended

from proctor.sdk import run
from proctor.store.plan_file import read_plan
from proctor.testing.model_server import ModelServer, serve
from proctor.testing.replies import Answer, Failure, Request

Proctor = Callable[..., Ended]

YES, NO = '{"verdict": "yes"}', '{"verdict": "no"}'
KEY = "sk-judge-0123456789abcdef"
MODEL = ["mock/fixed", "--set", "model.params.text=Paris"]


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    rows = [{"id": f"q{number}", "question": f"Capital {number}?", "answer": "Paris"} for number in range(4)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    params = {"path": "q.jsonl", "id": "id", "grader": {"kind": "model"}}
    (tmp_path / "proctor.yaml").write_text(json.dumps({"benchmarks": {"jsonl": {"params": params}}}))
    return tmp_path / "proctor.yaml"


def judged(proctor: Proctor, server: ModelServer, *options: str) -> Ended:
    url = f"judge.base_url={server.base_url}"
    return proctor("run", "jsonl", "chat", *MODEL, "--judge", "openai/j", "--set", url, "--progress", "none", *options)


def summary(folder: Path) -> dict[str, Any]:
    """Return summary.json without what it says of prices, which nobody knows here."""
    found = json.loads((folder / "summary.json").read_text())
    found["issues"] = [issue for issue in found["issues"] if issue["code"] != "price.unknown"]
    return found


def newest(ended: Ended) -> Path:
    return max(ended.run_dirs, key=lambda path: path.name)


def test_case_139_a_verdict_in_the_third_answer_counts_and_the_agent_does_nothing_again(
    proctor: Proctor, questions: Path
) -> None:
    with serve(['{"verdict": "y', '{"verdict"', YES]) as server:
        ended = judged(proctor, server, "--limit", "1")
        assert len(server.requests) == 3
    found = summary(ended.run_dir)
    assert (ended.code, found["headline"], found["issues"]) == (0, "100.0% (1/1 passed)", [])
    assert (found["usage"]["calls"], found["grader_usage"]["calls"]) == (1, 3)


def test_case_139_a_judge_without_a_verdict_costs_no_score_and_hides_nothing(proctor: Proctor, questions: Path) -> None:
    with serve(lambda request: Answer("I cannot say")) as server:
        ended = judged(
            proctor, server, "--limit", "1", "--max-retries", "1", "--set", "execution.retry_min_delay_seconds=0.01"
        )
        assert len(server.requests) == 6
    found = summary(ended.run_dir)
    assert found["counts"]["errored"] == 1
    assert {issue["code"] for issue in found["issues"]} == {"grader.judge_failed"}
    assert (found["scored"], found["mean_score"]) == (0, None)
    assert found["usage"]["calls"] == 1, "the agent's part was not done again"
    assert found["grader_usage"]["calls"] == 6
    assert found["metrics"]["agent_seconds"]["samples"] == 1


def test_11_what_the_judge_said_is_kept(proctor: Proctor, questions: Path) -> None:
    said = 'It says Paris.\n{"verdict": "yes", "reason": "the very same"}'
    with serve(lambda request: Answer(said)) as server:
        ended = judged(proctor, server, "--limit", "1")
    [result] = [json.loads(path.read_text()) for path in ended.run_dir.rglob("result.json")]
    assert said in json.dumps(result, ensure_ascii=False).replace('\\"', '"').replace("\\n", "\n")
    [log] = ended.run_dir.rglob("try.log")
    assert "the very same" in log.read_text()


def test_02_a_grader_that_needs_a_judge_is_refused_without_one(proctor: Proctor, questions: Path) -> None:
    ended = proctor("run", "jsonl", "chat", *MODEL)
    assert ended.code == 2
    assert "grader `model` of task `q0` asks a model, and the experiment names no judge" in ended.err
    assert "--judge MODEL" in ended.err
    assert not ended.run_dirs


def test_02_a_judge_that_nobody_asks_counts_for_nothing(proctor: Proctor) -> None:
    plain = proctor("run", "trivial", "nop", "--limit", "1", "--run-id", "one")
    unused = proctor("run", "trivial", "nop", "--limit", "1", "--run-id", "two", "--judge", "openai/none", "--reuse")
    assert "note: no grader asks a judge: `openai/none` is left out of account" in unused.err
    assert unused.code == plain.code == 0
    assert summary(newest(unused))["counts"]["total"] == 1
    assert [slot.decision for slot in read_plan(newest(unused) / "plan.json").slots] == ["reuse"]


def test_05_the_judges_key_is_written_nowhere(proctor: Proctor, questions: Path) -> None:
    with serve(lambda request: Answer(f"{KEY} {YES}"), api_key=KEY) as server:
        ended = judged(proctor, server, "--set", f"judge.api_key={KEY}")
        assert {request.api_key for request in server.requests} == {KEY}
    assert ended.code == 0
    assert summary(ended.run_dir)["counts"]["passed"] == 4
    written = [path for path in ended.folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert not written
    assert KEY not in ended.out + ended.err


def test_03_G11_the_judges_limit_holds_while_agents_go_on(proctor: Proctor, questions: Path) -> None:
    with serve(lambda request: Answer(YES)) as server:
        ended = judged(proctor, server, "--set", "judge.max_connections=1")
        assert (len(server.requests), server.peak_open_requests) == (4, 1)
    assert summary(ended.run_dir)["counts"]["passed"] == 4
    plan = proctor("plan", "jsonl", "chat", *MODEL, "--judge", "mock/echo", "--set", "judge.max_connections=1")
    assert "attempts that use mock/echo" in plan.out
    assert "model mock/fixed · judge mock/echo" in plan.out


def test_05_a_judge_that_limits_the_rate_is_waited_for(proctor: Proctor, questions: Path) -> None:
    with serve([Failure(429, "slow down", retry_after="0.01"), YES]) as server:
        ended = judged(
            proctor, server, "--limit", "1", "--set", "execution.retry_min_delay_seconds=0.01",
            "--set", "execution.retry_max_delay_seconds=0.02",
        )  # fmt: skip
    found = summary(ended.run_dir)
    assert (found["counts"]["passed"], found["issues"]) == (1, [])
    assert "backoff" in (ended.run_dir / "journal.jsonl").read_text().lower()


@pytest.mark.parametrize(
    ("status", "code", "calls"),
    [(401, "model.refused_auth", None), (500, "model.server", 1), (400, "model.invalid_request", None)],
)
def test_05_trouble_with_the_judge_is_no_trouble_with_the_agent(
    proctor: Proctor, questions: Path, status: int, code: str, calls: int | None
) -> None:
    """A call that was not taken on costs nothing, and is none of grading's."""
    with serve(lambda request: Failure(status, "no")) as server:
        ended = judged(proctor, server, "--limit", "1")
    found = summary(ended.run_dir)
    assert (found["counts"]["errored"], [issue["code"] for issue in found["issues"]]) == (1, [code])
    grading = found["grader_usage"]
    assert (found["usage"]["calls"], grading and grading["calls"]) == (1, calls)


def test_04_P2_another_judge_is_another_result_and_the_same_is_reused(proctor: Proctor, questions: Path) -> None:
    def again(judge: str, text: str, run_id: str) -> tuple[str, str | None]:
        ended = proctor(
            "run", "jsonl", "chat", *MODEL, "--judge", judge, "--set", f"judge.params.text=I say {text}",
            "--limit", "1", "--reuse", "--run-id", run_id,
        )  # fmt: skip
        assert ended.code == 0, ended.err
        [slot] = read_plan(newest(ended) / "plan.json").slots
        return slot.decision, slot.reason

    assert again("mock/fixed", YES, "1") == ("execute", "new")
    assert again("mock/fixed", YES, "2")[0] == "reuse"
    decision, reason = again("mock/fixed", NO, "3")
    assert (decision, "judge" in (reason or "")) == ("execute", True)


def test_02_the_judge_may_be_a_name_of_the_project_and_of_any_door(proctor: Proctor, questions: Path) -> None:
    said = json.loads(questions.read_text())
    said["models"] = {"strict": {"id": "mock/fixed", "params": {"text": YES}}}
    questions.write_text(json.dumps(said))
    assert proctor("run", "jsonl", "chat", *MODEL, "--judge", "strict", "--limit", "1").code == 0
    results = run(
        "jsonl", "chat", {"id": "mock/fixed", "params": {"text": "Paris"}}, judge="strict", limit=1, progress="none"
    )
    assert [attempt["verdict"] for attempt in results.attempts] == ["passed"]
    launch = {"requests": [{"name": "a", "benchmark": "jsonl", "harness": "nop", "judge": "strict", "attempts": 1}]}
    (questions.parent / "launch.yaml").write_text(json.dumps(launch))
    assert proctor("launch", "launch.yaml", "--limit", "1").code == 0


def test_11_check_asks_the_judge(proctor: Proctor, questions: Path) -> None:
    def reply(request: Request) -> Answer:
        return Answer(YES if "):\nParis\n(" in request.messages[0].text else NO)

    with serve(reply) as server:
        ended = proctor("check", "jsonl", "--judge", "openai/j", "--set", f"judge.base_url={server.base_url}")
    assert ended.code == 0, ended.err
    assert "jsonl is gradeable: all 4 tasks solved" in ended.out
