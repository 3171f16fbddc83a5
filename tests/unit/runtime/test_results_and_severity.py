"""Whether there is a result decides how bad an issue is, and whose it is (spec 05, the table of codes)."""

from __future__ import annotations

from typing import Any

import pytest
from test_try_runner import Bench, codes, ok

from proctor.core.failure import FINAL, RETRY, after_try
from proctor.errors import Fault, SkipTask
from proctor.model.attempt import GradingMode, Phase, Usage, Verdict, verdict_of
from proctor.model.codes import Severity
from proctor.testing.actions import raises
from proctor.testing.fake_provider import FakeProvider
from proctor.testing.fakes import FakeBenchmark, FakeHarness

REFUSED = "model.invalid_request"


def refused(answered: int, phase: Phase = Phase.AGENT, *, noted: bool = False) -> Bench:
    """Return a try whose harness is refused a request after so many calls were answered."""
    harness = FakeHarness()

    async def ask() -> Any:
        for _ in range(answered):
            harness.contexts[0].usage(Usage(calls=1, input_tokens=5, output_tokens=7))
        if noted:
            harness.contexts[0].issue(REFUSED, "status 400: the context is too long")
            return "ok"
        raise Fault(REFUSED, "status 400: the context is too long")

    if phase is Phase.AGENT:
        harness.on_send = ask
    else:
        harness.on_start = ask
    return Bench(harness=harness)


@pytest.mark.parametrize("answered", [1, 3])
def test_05_a_refused_request_after_work_was_done_is_an_error_that_is_graded(answered: int) -> None:
    bench = refused(answered)
    result = bench.run()
    assert verdict_of(result) is Verdict.FAILED, "graded on what was collected: there is no answer"
    assert [(issue.code, issue.severity, issue.phase) for issue in result.issues] == [
        (REFUSED, Severity.ERROR, Phase.AGENT)
    ]
    assert "collect" in bench.phases
    assert "grade" in bench.phases
    assert after_try(result, 1, max_retries=3, patterns=(".",)) == FINAL, "a permanent ERROR is never retried"


def test_05_a_refused_request_before_any_work_is_fatal_and_final() -> None:
    result = refused(0).run()
    assert verdict_of(result) is Verdict.ERRORED
    assert [(issue.code, issue.severity) for issue in result.issues] == [(REFUSED, Severity.FATAL)]
    assert after_try(result, 1, max_retries=3) == FINAL


def test_05_a_refused_request_outside_of_the_agent_phase_is_fatal() -> None:
    result = refused(2, Phase.SETUP).run()
    assert verdict_of(result) is Verdict.ERRORED
    assert [(issue.code, issue.severity) for issue in result.issues] == [(REFUSED, Severity.FATAL)]


@pytest.mark.parametrize(("answered", "verdict"), [(0, Verdict.ERRORED), (1, Verdict.PASSED)])
def test_05_what_a_harness_notes_of_a_refused_request_weighs_the_same(answered: int, verdict: Verdict) -> None:
    assert verdict_of(refused(answered, noted=True).run()) is verdict


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"provider": FakeProvider(on_open=raises(Fault("harness.limit", "x")))}, "provider.open_failed"),
        ({"benchmark": FakeBenchmark(on_setup=raises(Fault("usage.missing", "x")))}, "task.setup_failed"),
        ({"harness": FakeHarness(on_start=raises(Fault("harness.exit_nonzero", "x")))}, "harness.crashed"),
    ],
    ids=["open", "setup", "start"],
)
def test_05_what_leaves_no_result_is_fatal_whatever_it_is_called_and_tried_again(
    changes: dict[str, Any], code: str
) -> None:
    result = Bench(**changes).run()
    assert codes(result)[-1] == code
    assert result.fatal is result.issues[-1]
    assert "there is no result" in result.issues[-1].message
    assert after_try(result, 1, max_retries=1) == RETRY


@pytest.mark.parametrize("grading", list(GradingMode))
def test_05_clean_up_that_skips_the_task_is_trouble_beside_the_outcome(grading: GradingMode) -> None:
    provider = FakeProvider(on_dispose=raises(SkipTask("not now")))
    harness = FakeHarness(on_send=ok, on_close=raises(SkipTask("not now")))
    result = Bench(provider=provider, harness=harness, grading=grading).run()
    assert verdict_of(result) is Verdict.PASSED
    assert set(codes(result)) == {"dispose.failed"}
