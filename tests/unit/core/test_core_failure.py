"""What follows from a failure, walked over the whole table of codes."""

from __future__ import annotations

import pytest

from proctor.core.failure import (
    FINAL,
    GRADES_ONLY,
    RETRY,
    RETRY_GRADING,
    STOP_RULES,
    Cause,
    Reach,
    Work,
    after_try,
    furthest,
    is_permanent,
    stop_rule,
)
from proctor.model.attempt import Grade, Issue, Outcome, Phase, TryResult, issue_of
from proctor.model.codes import CODES, Owner, Scope, Severity

PASSED = TryResult(Outcome.GRADED, Grade(solved=True, score=1.0))
WRONG = TryResult(Outcome.GRADED, Grade(solved=False, score=0.0))

REACH = {
    "experiment.setup_failed": Reach.EXPERIMENT,
    "experiment.fatal": Reach.EXPERIMENT,
    "task.fatal": Reach.TASK,
    "image.missing": Reach.IMAGE,
    "image.build_failed": Reach.IMAGE,
    "image.build_stalled": Reach.IMAGE,
    "store.full": Reach.INVOCATION,
    "internal": Reach.INVOCATION,
    "provider.unavailable": Reach.ENDPOINT,
    "model.refused_auth": Reach.ENDPOINT,
    "model.payment": Reach.ENDPOINT,
    "model.not_found": Reach.ENDPOINT,
}


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
    assert furthest(result, endpoint=False) is None
    assert furthest(result, endpoint=True) is None


@pytest.mark.parametrize("code", CODES)
def test_what_a_code_stops(code):
    rule = stop_rule(issue_of(code, ""))
    assert (rule and rule.reach) == REACH.get(code)
    if rule is not None:
        assert rule.repeated == (rule.reach is Reach.ENDPOINT)
        assert rule.errored == (rule.reach in (Reach.TASK, Reach.IMAGE, Reach.EXPERIMENT))
    assert furthest(broken(code), endpoint=code in REACH and REACH[code] is Reach.ENDPOINT) == (
        None if rule is None else (rule, issue_of(code, "on purpose"))
    )


def test_every_scope_is_decided():
    assert set(STOP_RULES) == set(Scope)


def test_only_permanent_fatal_issues_stop_anything():
    milder = Issue("model.payment", "", Severity.ERROR, Owner.MODEL)
    assert stop_rule(milder) is None
    assert stop_rule(issue_of("model.payment", "")) is not None
    assert stop_rule(issue_of("provider.lost", "")) is None


@pytest.mark.parametrize("codes", [("task.fatal", "store.full"), ("store.full", "experiment.fatal", "image.missing")])
def test_of_several_issues_the_one_that_reaches_furthest_decides(codes):
    found = furthest(broken(*codes), endpoint=False)
    assert found is not None
    assert (found[0].reach, found[1].code) == (Reach.INVOCATION, "store.full")


@pytest.mark.parametrize(
    ("patterns", "again"),
    [((), False), (("limit",), True), (("^harness",), True), (("so many steps$",), True), (("nothing",), False)],
)
def test_T6_an_error_is_retried_where_a_pattern_matches_its_code_or_message(patterns, again):
    issues = (issue_of("harness.limit", "so many steps"), issue_of("output.truncated", "limit"))
    result = TryResult(Outcome.GRADED, Grade(solved=True, score=1.0), issues=issues)
    assert after_try(result, 1, max_retries=1, patterns=patterns) == (RETRY if again else FINAL)
    assert after_try(result, 1, patterns=patterns) == FINAL


def test_T6_a_permanent_error_and_a_warning_are_retried_by_no_pattern():
    issues = (issue_of("grade.time", "m"), issue_of("output.truncated", "m"))
    result = TryResult(Outcome.GRADED, Grade(solved=False, score=0.0), issues=issues)
    assert after_try(result, 1, max_retries=1, patterns=(".",)) == FINAL


# ------------------------------------------------------------------------------- the whole again, or grading only

ASKED = "asked for"
"""The message of an ERROR that a pattern matches."""
MISSING, SAVED, KEPT = Work

WHOLE_OR_GRADING = """
                        MISSING  SAVED    KEPT
checkpoint.damaged      whole    whole    whole
ERROR asked in agent    whole    whole    whole
FATAL in agent          whole    whole    grading
anything else           whole    grading  grading
"""

CAUSES = {
    "checkpoint.damaged": ("checkpoint.damaged", (None, *Phase)),
    "ERROR asked in agent": ("harness.limit", (Phase.OPEN, Phase.SETUP, Phase.AGENT, Phase.COLLECT)),
    "FATAL in agent": ("harness.crashed", (Phase.SETUP, Phase.AGENT, Phase.COLLECT)),
    "anything else": ("provider.lost", (None, Phase.OPEN, Phase.GRADE, Phase.DISPOSE)),
}


def cells():
    rows = WHOLE_OR_GRADING.strip("\n").splitlines()[1:]
    for row in rows:
        name = row[:24].strip()
        code, phases = CAUSES[name]
        for work, cell in zip(Work, row[24:].split(), strict=True):
            for phase in phases:
                yield work, issue_of(code, ASKED, phase), cell == "grading"


@pytest.mark.parametrize(("work", "issue", "only"), list(cells()))
def test_T3_whether_the_whole_is_tried_again_or_grading_only(work, issue, only):
    alone = TryResult(Outcome.BROKEN, issues=(issue,))
    crashed = TryResult(Outcome.BROKEN, issues=(issue, issue_of("grader.crashed", "", Phase.GRADE)))
    graded = TryResult(Outcome.GRADED, Grade(solved=True, score=1.0), issues=(issue,))
    for result in (alone, crashed, graded):
        decision = after_try(result, 1, max_retries=1, patterns=(ASKED,), work=work)
        assert decision == (RETRY_GRADING if only else RETRY)
        assert after_try(result, 2, max_retries=1, patterns=(ASKED,), work=work) == FINAL


def test_T3_the_table_has_every_cell_and_only_what_is_saved_is_graded_again():
    assert set(GRADES_ONLY) == set(Work)
    assert all(set(row) == set(Cause) for row in GRADES_ONLY.values())
    assert not any(GRADES_ONLY[MISSING].values())


@pytest.mark.parametrize("phase", [None, *Phase])
def test_T3_an_error_is_no_reason_where_no_pattern_matches_it_or_it_is_permanent(phase):
    crashed = issue_of("grader.crashed", "", Phase.GRADE)
    for code, patterns in (("harness.limit", ()), ("harness.limit", ("other",)), ("grade.time", (".",))):
        result = TryResult(Outcome.BROKEN, issues=(issue_of(code, "", phase), crashed))
        assert after_try(result, 1, max_retries=1, patterns=patterns, work=SAVED) == RETRY_GRADING


@pytest.mark.parametrize("phase", [None, Phase.GRADE, Phase.DISPOSE])
def test_T3_an_error_of_grading_that_is_asked_for_is_graded_again(phase):
    result = TryResult(
        Outcome.GRADED, Grade(solved=False, score=0.0), issues=(issue_of("harness.limit", ASKED, phase),)
    )
    assert after_try(result, 1, max_retries=1, patterns=(ASKED,), work=SAVED) == RETRY_GRADING


@pytest.mark.parametrize("work", list(Work))
def test_T3_what_there_is_of_the_work_makes_no_retry_of_what_is_final(work):
    for result in (PASSED, WRONG, broken("grader.crashed", "model.payment"), TryResult(Outcome.CANCELLED)):
        assert after_try(result, 1, max_retries=9, work=work) == FINAL
