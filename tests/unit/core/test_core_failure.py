"""What follows from a failure, walked over the whole table of codes."""

from __future__ import annotations

import pytest

from proctor.core.failure import FINAL, RETRY, STOP_RULES, Reach, Stop, Streak, after_try, is_permanent, stop_rule
from proctor.model.attempt import Grade, Issue, Outcome, TryResult, issue_of
from proctor.model.codes import CODES, Owner, Scope, Severity
from proctor.model.events import StopReason

PASSED = TryResult(Outcome.GRADED, Grade(solved=True, score=1.0))
WRONG = TryResult(Outcome.GRADED, Grade(solved=False, score=0.0))

AT_ONCE = {
    "experiment.setup_failed": (Reach.EXPERIMENT, StopReason.SCOPE_STOPPED),
    "experiment.fatal": (Reach.EXPERIMENT, StopReason.SCOPE_STOPPED),
    "store.full": (Reach.INVOCATION, StopReason.DISK),
    "internal": (Reach.INVOCATION, StopReason.SCOPE_STOPPED),
}
AFTER_THREE = {"provider.unavailable", "model.refused_auth", "model.payment", "model.not_found"}


def broken(*codes: str) -> TryResult:
    return TryResult(Outcome.BROKEN, issues=tuple(issue_of(code, "on purpose") for code in codes))


@pytest.mark.parametrize("code", CODES)
def test_T1_only_fatal_failures_that_may_pass_are_retried_and_only_within_the_budget(code):
    row = CODES[code]
    again = row.severity is Severity.FATAL and not row.permanent
    assert after_try(broken(code), 1, max_retries=2) == (RETRY if again else FINAL)
    assert after_try(broken(code), 2, max_retries=2) == (RETRY if again else FINAL)
    assert after_try(broken(code), 3, max_retries=2) == FINAL
    assert after_try(broken(code), 1) == FINAL
    assert is_permanent(issue_of(code, "")) == row.permanent


def test_T1_a_wrong_answer_a_cancelled_and_a_skipped_try_are_never_retried():
    lost = (issue_of("provider.lost", ""),)
    for result in (PASSED, WRONG, TryResult(Outcome.CANCELLED, issues=lost), TryResult(Outcome.SKIPPED, issues=lost)):
        assert after_try(result, 1, max_retries=9) == FINAL


def test_one_permanent_failure_outweighs_others_that_may_pass():
    assert after_try(broken("provider.lost", "model.payment"), 1, max_retries=9) == FINAL
    assert after_try(broken("provider.lost", "output.truncated"), 1, max_retries=9) == RETRY


def test_a_graded_try_with_a_fatal_issue_has_no_valid_result_and_is_retried():
    result = TryResult(Outcome.GRADED, Grade(solved=True, score=1.0), issues=(issue_of("collect.failed", ""),))
    assert after_try(result, 1, max_retries=1) == RETRY


def test_a_code_that_the_table_does_not_have_concerns_its_attempt_alone():
    issue = Issue("vendor.own", "?", Severity.FATAL, Owner.HARNESS)
    result = TryResult(Outcome.BROKEN, issues=(issue,))
    assert after_try(result, 1, max_retries=1) == RETRY
    assert Streak().observe(result) is None


@pytest.mark.parametrize("code", CODES)
def test_what_a_code_stops(code):
    streak = Streak()
    first, second, third = (streak.observe(broken(code)) for _ in range(3))
    if code in AT_ONCE:
        assert first == second == third == Stop(*AT_ONCE[code], code)
    elif code in AFTER_THREE:
        assert (first, second, third) == (None, None, Stop(Reach.EXPERIMENT, StopReason.SCOPE_STOPPED, code))
    else:
        assert (first, second, third) == (None, None, None)


def test_every_scope_is_decided():
    assert set(STOP_RULES) == set(Scope)


def test_only_permanent_fatal_issues_stop_anything():
    milder = Issue("model.payment", "", Severity.ERROR, Owner.MODEL)
    assert stop_rule(milder) is None
    assert stop_rule(issue_of("model.payment", "")) is not None
    assert stop_rule(issue_of("provider.lost", "")) is None


@pytest.mark.parametrize("between", [WRONG, PASSED, broken("harness.crashed"), broken("model.not_found")])
def test_another_end_or_another_code_starts_the_row_anew(between):
    streak = Streak()
    ends = [broken("model.payment")] * 2 + [between] + [broken("model.payment")] * 2
    assert [streak.observe(end) for end in ends] == [None] * 5
    assert streak.observe(broken("model.payment")) is not None


@pytest.mark.parametrize("between", [TryResult(Outcome.CANCELLED), TryResult(Outcome.SKIPPED)])
def test_a_cancelled_or_skipped_try_says_nothing(between):
    streak = Streak()
    ends = [broken("model.payment"), between, broken("model.payment"), between]
    assert [streak.observe(end) for end in ends] == [None] * 4
    assert streak.observe(broken("model.payment")) is not None


@pytest.mark.parametrize("codes", [("model.payment", "store.full"), ("store.full", "model.payment")])
def test_of_several_issues_the_one_that_reaches_furthest_decides(codes):
    assert Streak().observe(broken(*codes)) == Stop(Reach.INVOCATION, StopReason.DISK, "store.full")


def test_of_several_issues_of_an_experiment_the_one_that_stops_at_once_decides():
    stop = Streak().observe(broken("model.payment", "experiment.fatal"))
    assert stop == Stop(Reach.EXPERIMENT, StopReason.SCOPE_STOPPED, "experiment.fatal")


def test_a_full_disk_while_cancelling_still_counts():
    result = TryResult(Outcome.CANCELLED, issues=(issue_of("store.full", ""),))
    assert Streak().observe(result) == Stop(Reach.INVOCATION, StopReason.DISK, "store.full")
