"""The judge of a try: under which permits it is asked, and what its calls use (spec 03 G11, 05, case 139)."""

from __future__ import annotations

from typing import Any

import pytest
from test_try_runner import Bench, codes

from proctor.core.schedule import RetryPolicy
from proctor.errors import Fault
from proctor.model.attempt import Grade, GradingMode, Usage, Verdict, verdict_of
from proctor.model.events import BackoffEnded, BackoffStarted, GradingQueued
from proctor.plugins.api import ChatMessage, Completion
from proctor.testing.fakes import FakeGrader
from support.answering import Answering

USED = Usage(calls=1, input_tokens=10, output_tokens=2, cost_usd=0.5)


class Asking(FakeGrader):
    """Asks the judge so many times, then says that all is well, or raises."""

    needs_judge = True

    def __init__(self, times: int = 1, fault: Exception | None = None) -> None:
        super().__init__()
        self.times = times
        self.fault = fault

    async def grade(self, ctx: Any) -> Grade:
        for _ in range(self.times):
            await ctx.judge.complete([ChatMessage("user", "well?")])
        await ctx.judge.close()
        if self.fault is not None:
            raise self.fault
        return Grade(solved=True, score=1.0)


def said(text: str = "yes", usage: Usage | None = USED, **more: Any) -> Completion:
    return Completion(text, usage, **more)


def kinds(bench: Bench) -> list[type]:
    return [type(event) for event in bench.events]


@pytest.mark.parametrize(
    ("grading", "sandbox", "queued"),
    [
        (GradingMode.NONE, True, 1),
        (GradingMode.NONE, False, 1),
        (GradingMode.FRESH, True, 1),
        (GradingMode.FRESH, False, 1),
        (GradingMode.REUSE, True, 0),
    ],
)
def test_03_G11_grading_none_with_a_judge_asks_for_permits_of_its_own(
    grading: GradingMode, sandbox: bool, queued: int
) -> None:
    bench = Bench(grading=grading, grader=Asking(2), judge=Answering(said(), said()), agent_sandbox=sandbox)
    result = bench.run()
    assert verdict_of(result) is Verdict.PASSED
    assert kinds(bench).count(GradingQueued) == queued
    assert (result.usage.calls, result.grader_usage.calls, result.grader_usage.cost_usd) == (0, 2, 1.0)


def test_03_G11_without_a_judge_grading_none_asks_for_nothing() -> None:
    bench = Bench()
    bench.run()
    assert GradingQueued not in kinds(bench)


def test_05_a_grader_that_asks_without_a_judge_is_at_fault() -> None:
    result = Bench(grader=Asking()).run()
    assert codes(result) == ["grader.crashed"]


@pytest.mark.parametrize("fault", [ValueError("no"), Fault("grader.judge_failed", "no verdict")])
def test_case_139_what_the_judge_used_counts_where_grading_fails(fault: Exception) -> None:
    result = Bench(grader=Asking(1, fault), judge=Answering(said())).run()
    assert verdict_of(result) is Verdict.ERRORED
    assert result.grader_usage.calls == 1
    assert result.grader_usage.cost_usd == 0.5


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Fault("model.malformed", "half a line"), "grader.judge_failed"),
        (Fault("model.refusal", "not allowed"), "grader.judge_failed"),
        (said("", stop_reason="content_filter"), "grader.judge_failed"),
        (Fault("model.server", "status 500"), "model.server"),
    ],
)
def test_05_what_is_wrong_with_the_judge_is_never_the_agents_doing(reply: Completion | Fault, code: str) -> None:
    result = Bench(grader=Asking(), judge=Answering(reply)).run()
    assert verdict_of(result) is Verdict.ERRORED
    assert [issue.code for issue in result.issues if issue.code not in ("usage.missing", "price.unknown")] == [code]
    assert all(issue.fatal for issue in result.issues if issue.code == code)
    assert result.grader_usage.calls == 1


@pytest.mark.parametrize(
    ("code", "times"),
    [("model.refused_auth", 1), ("model.payment", 1), ("model.invalid_request", 1), ("model.rate_limited", 5)],
)
def test_09_M6_a_call_that_the_judge_does_not_take_on_costs_nothing(code: str, times: int) -> None:
    refused = Fault(code, "no", refused=times > 1)
    policy = RetryPolicy(min_delay_seconds=0.001, max_delay_seconds=0.002)
    bench = Bench(grader=Asking(), judge=Answering(*[refused] * times), retry=policy)
    bench.events = Resumed()
    bench.events.bench = bench  # type: ignore[attr-defined]
    result = bench.run()
    assert codes(result) == [code]
    assert result.grader_usage == Usage(), "as for the agent's calls"


def test_09_a_judge_that_reports_no_usage_is_said() -> None:
    result = Bench(grader=Asking(), judge=Answering(said(usage=None))).run()
    assert verdict_of(result) is Verdict.PASSED
    assert "usage.missing" in codes(result)
    assert (result.grader_usage.calls, result.grader_usage.cost_usd) == (1, None)


class Resumed(list[Any]):
    """Events of a bench whose waits get their permits back at once."""

    bench: Bench

    def append(self, event: Any) -> None:
        super().append(event)
        if isinstance(event, BackoffEnded):
            assert self.bench.runner is not None
            self.bench.runner.resume()


def test_05_T5_a_judge_that_refuses_for_now_is_waited_for() -> None:
    """The wait is one of the try, which gives its permits back; what was refused is not paid for."""
    refused = Fault("model.rate_limited", "slow down", refused=True, retry_after="0.01")
    policy = RetryPolicy(min_delay_seconds=0.01, max_delay_seconds=0.02)
    bench = Bench(grader=Asking(), judge=Answering(refused, said()), retry=policy)
    bench.events = Resumed()
    bench.events.bench = bench  # type: ignore[attr-defined]
    result = bench.run()
    assert verdict_of(result) is Verdict.PASSED
    assert result.grader_usage.calls == 1
    waits = [type(event) for event in bench.events if isinstance(event, BackoffStarted | BackoffEnded)]
    assert waits == [BackoffStarted, BackoffEnded]
