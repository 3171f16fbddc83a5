"""Every token that an endpoint served is counted once, and every place says the same sum (spec 09 M6; cases COST)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Ended

from proctor.model.attempt import Usage
from proctor.testing.model_server import serve
from proctor.testing.replies import Answer, Failure, Request

Proctor = Callable[..., Ended]

KINDS = ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
PRICE = {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75, "reasoning": 20}
QUICK = [f"--set=execution.retry_{end}_delay_seconds=0.001" for end in ("min", "max")]


class Till:
    """Answers with usage that differs from call to call, and keeps the sum of what it served."""

    def __init__(self, *, text: str = "ok", refuse: int = 0, fail: int = 0, write: int = 0) -> None:
        self.served: list[Usage] = []
        self._text, self._refuse, self._fail, self._write = text, refuse, fail, write
        self.asked = self.failed = 0

    def __call__(self, request: Request) -> Answer | Failure:
        """Refuse every so many calls for now, fail every so many for good, and answer the others."""
        self.asked += 1
        if self._refuse and self.asked % self._refuse == 0:
            return Failure(429)
        if self._fail and self.asked % self._fail == 0:
            self.failed += 1
            return Failure(500)
        n = self.asked
        used = Usage(1, 100 + n, 50 + 3 * n, 7 * n, n * self._write, min(2 * n, 40))
        self.served.append(used)
        return Answer(self._text, usage=used)

    @property
    def total(self) -> dict[str, int]:
        """What was served, and a call for each that failed."""
        found = {kind: sum(getattr(each, kind) for each in self.served) for kind in KINDS}
        return found | {"calls": found["calls"] + self.failed}

    @property
    def usd(self) -> float:
        """What that costs, worked out by hand."""
        return sum(
            each.input_tokens * 3 + (each.output_tokens - each.reasoning_tokens) * 15 + each.reasoning_tokens * 20
            + each.cache_read_tokens * 0.3 + each.cache_write_tokens * 3.75
            for each in self.served
        ) / 1e6  # fmt: skip


def priced(part: str) -> list[str]:
    return [f"--set={part}.price.{kind}={usd}" for kind, usd in PRICE.items()]


def said_by_record(folder: Path, kind: str) -> tuple[dict[str, int], float]:
    sums = ", ".join(f"sum({kind})" for kind in KINDS)
    with sqlite3.connect(folder / "results/.proctor/record.sqlite") as record:
        query = f"SELECT {sums}, sum(cost_at_least_usd) FROM usage WHERE kind = ?"
        *tokens, usd = record.execute(query, [kind]).fetchone()
    return {name: value or 0 for name, value in zip(KINDS, tokens, strict=True)}, usd or 0.0


def said_by_results(folder: Path, kind: str) -> tuple[dict[str, int], float]:
    parts = [each.get(kind, {}) for path in folder.rglob("result.json")
             for each in json.loads(path.read_text()).get("tries", [])]  # fmt: skip
    usd = sum(part.get("cost_usd", part.get("known_cost_usd", 0.0)) for part in parts)
    return {name: sum(part.get(name, 0) for part in parts) for name in KINDS}, usd


def said_by_summary(summary: dict[str, Any] | None) -> tuple[dict[str, int], float]:
    found = summary or {}
    return {kind: found.get(kind, 0) for kind in KINDS}, found.get("cost_at_least_usd", 0.0)


def agree(ended: Ended, till: Till, *, field: str, kind: str) -> None:
    summary = json.loads((ended.run_dir / "summary.json").read_text())
    truth = till.total, pytest.approx(till.usd, abs=1e-9)
    assert said_by_summary(summary[field]) == truth
    assert said_by_results(ended.folder, field) == truth
    assert said_by_record(ended.folder, kind) == truth
    assert ((summary[field] or {}).get("unpriced_calls", 0)) == till.failed


@pytest.mark.parametrize(
    ("api", "model"),
    [
        ("chat", "openai/any"),
        pytest.param("responses", "openai/any", marks=pytest.mark.long),
        pytest.param("messages", "anthropic/any", marks=pytest.mark.long),
    ],
)
def test_case_cost_145_retried_calls_and_tries_are_counted_once_on_every_wire(
    proctor: Proctor, api: str, model: str
) -> None:
    till = Till(refuse=5, fail=7, write=2 if api == "messages" else 0)
    with serve(till) as server:
        address = server.root_url if api == "messages" else server.base_url
        more = ["--set=model.params.api=responses"] if api == "responses" else []
        ended = proctor(
            "run", "trivial", "chat", model, "--limit=10", f"--set=model.base_url={address}", *more,
            *priced("model"), "--max-retries=3", *QUICK,
        )  # fmt: skip
    assert till.failed > 0
    agree(ended, till, field="usage", kind="agent")


def test_case_cost_145_a_judge_that_fails_and_grading_that_is_retried(proctor: Proctor) -> None:
    lines = [{"question": f"2 + {n}?", "answer": str(2 + n)} for n in range(6)]
    Path("sums.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    agent, judge = Till(), Till(text='{"verdict": "yes", "reason": "it is"}', refuse=4, fail=3)
    with serve(agent) as one, serve(judge) as other:
        ended = proctor(
            "run", "jsonl", "chat", "openai/a", "--set=benchmark.params.path=sums.jsonl", "--judge=openai/j",
            '--set=benchmark.params.grader={"kind": "model"}', f"--set=model.base_url={one.base_url}",
            f"--set=judge.base_url={other.base_url}", *priced("model"), *priced("judge"), "--max-retries=3", *QUICK,
        )  # fmt: skip
    assert judge.failed > 0
    assert len(agent.served) == 6, "the work is not paid for twice because its judge failed"
    agree(ended, agent, field="usage", kind="agent")
    agree(ended, judge, field="grader_usage", kind="grader")
    summary = json.loads((ended.run_dir / "summary.json").read_text())
    assert summary["cost_at_least_usd"] == pytest.approx(agent.usd + judge.usd)
    assert summary["unpriced_calls"] == judge.failed
