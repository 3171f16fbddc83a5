"""What the end of a try leads to, by the rules of spec 05: another one, or a verdict (a referee's part)."""

from __future__ import annotations

import re

from proctor.model.attempt import GradingMode, Issue, Outcome, Phase, TryResult, Verdict
from proctor.model.codes import CODES, Severity
from proctor.model.events import TryEnded
from proctor.testing.referee_books import BOX, Ledger
from proctor.testing.referee_cases import Case, Live

_AGENT = (Phase.SETUP, Phase.AGENT, Phase.COLLECT)


def deserves_another(case: Case, live: Live, result: TryResult) -> bool:
    """Say whether a try is to be followed by another (T1, T6)."""
    if result.outcome in (Outcome.CANCELLED, Outcome.SKIPPED) or live.try_number > case.plan.retry.max_retries:
        return False
    fatal = [issue for issue in result.issues if issue.severity is Severity.FATAL]
    if fatal:
        return not any(CODES[issue.code].permanent for issue in fatal)
    return any(_asked_for(case, issue) for issue in result.issues)


def _asked_for(case: Case, issue: Issue) -> bool:
    return (
        issue.severity is Severity.ERROR
        and not CODES[issue.code].permanent
        and any(re.search(pattern, f"{issue.code} {issue.message}") for pattern in case.plan.retry.patterns)
    )


def grades_only(case: Case, live: Live, result: TryResult) -> bool:
    """Say whether only grading is to be tried again (T3)."""
    if not live.saved or case.plan.grading is GradingMode.REUSE:
        return False
    for issue in result.issues:
        if issue.code == "checkpoint.damaged":
            return False
        if issue.phase in (Phase.OPEN, *_AGENT) and _asked_for(case, issue):
            return False
        if issue.phase in _AGENT and issue.severity is Severity.FATAL and not live.only:
            return False
    return True


def verdict_of_try(result: TryResult) -> Verdict:
    """Return the verdict that a try leads to."""
    if result.outcome is Outcome.CANCELLED:
        return Verdict.CANCELLED
    if result.outcome is Outcome.SKIPPED:
        return Verdict.SKIPPED
    if result.grade is None or any(issue.severity is Severity.FATAL for issue in result.issues):
        return Verdict.ERRORED
    return Verdict.PASSED if result.grade.solved else Verdict.FAILED


def spend(case: Case, live: Live, result: TryResult) -> None:
    """Count what a try has cost (E4)."""
    cost = result.usage.cost_at_least_usd + result.grader_usage.cost_at_least_usd
    case.spent += cost
    live.spent += cost
    if live.spent or case.largest is not None or (case.reserve is None and result.outcome is Outcome.GRADED):
        case.largest = max(case.largest or 0.0, live.spent)


def wait_for_another(ledger: Ledger, case: Case, live: Live, event: TryEnded) -> None:
    """Note that another try is to come, when and of what, and what goes back meanwhile (B4, T3)."""
    policy = case.plan.retry
    whole = min(policy.max_delay_seconds, policy.min_delay_seconds * 2 ** (live.try_number - 1))
    asked = event.retry_after_seconds or 0.0
    asked = min(asked, policy.retry_after_cap_seconds) if asked > 0 else 0.0
    live.next_only = live.saved = grades_only(case, live, event.result)
    live.where, live.last = "between tries", event.result
    live.earliest = ledger.now + max(whole / 2, asked)
    live.latest = ledger.now + max(whole, asked)
    ledger.give(live, ["global", "model ", *BOX])
