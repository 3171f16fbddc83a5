"""A budget holds with many attempts at a time, whatever is refused, fails, or is judged (spec 03 E4)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Ended

from proctor.model.attempt import Usage
from proctor.testing.model_server import serve
from proctor.testing.replies import Answer, Failure, Request

Proctor = Callable[..., Ended]

PRICES = [f"--set={part}.price.{kind}=10" for part in ("model", "judge") for kind in ("input", "output")]
QUICK = [f"--set=execution.retry_{end}_delay_seconds=0.001" for end in ("min", "max")]
TASKS = 120
AT_A_TIME = 50


class Counter:
    """Answers for so much a call, refuses and fails every so many, and counts what it is paid."""

    def __init__(self, text: str, usd: float, *, refuse: int = 0, fail: int = 0) -> None:
        self._answer = Answer(text, usage=Usage(1, round(usd * 100_000)))
        self._refuse, self._fail = refuse, fail
        self.asked = self.answered = 0
        self.lock = threading.Lock()

    def __call__(self, request: Request) -> Answer | Failure:
        with self.lock:
            self.asked += 1
            if self._refuse and self.asked % self._refuse == 0:
                return Failure(429)
            if self._fail and self.asked % self._fail == 0:
                return Failure(500)
            self.answered += 1
            return self._answer


def run(proctor: Proctor, agent: Counter, judge: Counter, *options: str) -> tuple[Ended, dict[str, Any], int]:
    """Return how it ended, its summary, and how many calls of the agent were open at most."""
    rows = [{"question": f"2 + {n}?", "answer": str(2 + n)} for n in range(TASKS)]
    Path("sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with serve(agent) as one, serve(judge) as other:
        ended = proctor(
            "run", "jsonl", "chat", "openai/a", "--set=benchmark.params.path=sums.jsonl",
            f"--set=model.base_url={one.base_url}", f"--set=judge.base_url={other.base_url}", "--judge=openai/j",
            '--set=benchmark.params.grader={"kind": "model"}', *PRICES, *QUICK, f"--task-concurrency={AT_A_TIME}",
            *options,
        )  # fmt: skip
        most = one.peak_open_requests
    return ended, json.loads((ended.run_dir / "summary.json").read_text()), most


@pytest.mark.long
def test_E4_a_budget_is_used_up_and_not_overshot_where_attempts_cost_the_same(proctor: Proctor) -> None:
    agent, judge = Counter("4", 0.02), Counter('{"verdict": "yes", "reason": "-"}', 0.01)
    ended, summary, most = run(proctor, agent, judge, "--budget=1.5")
    assert (ended.code, agent.answered, judge.answered) == (3, 50, 50)
    assert summary["cost_usd"] == pytest.approx(1.5)
    assert summary["counts"]["not_dispatched"] == {"budget": TASKS - 50}
    assert most > 1


@pytest.mark.long
def test_E4_with_retries_and_a_judge_that_fails_no_more_is_spent_than_was_in_flight(proctor: Proctor) -> None:
    """What is known to be spent is above the budget by no more than the attempts in flight cost above their reserve."""
    agent = Counter("4", 0.02, refuse=9, fail=11)
    judge = Counter('{"verdict": "yes", "reason": "-"}', 0.01, refuse=5, fail=4)
    _, summary, _ = run(proctor, agent, judge, "--budget=1.5", "--max-retries=3")
    paid = agent.answered * 0.02 + judge.answered * 0.01
    assert summary["cost_at_least_usd"] == pytest.approx(paid), "every call that was answered is counted once"
    assert summary["counts"]["not_dispatched"]["budget"] > 0
    assert paid <= 1.5 + AT_A_TIME * 0.01 + 1e-9
    assert paid > 1.3, "it is used up"
