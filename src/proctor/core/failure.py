"""What follows from the way a try ended: another try, the end of the attempt, the end of more than the attempt.

Decisions go by code (`proctor.model.codes`), never by text. A code that the table does not have counts as a problem of
its attempt alone, which another try might not meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from proctor.model.attempt import Issue, Outcome, TryResult
from proctor.model.codes import CODES, Scope
from proctor.model.events import StopReason

STOP_ON_REPEATED = 3
"""So many permanent failures in a row with one code stop the rest of an experiment (scopes provider and model)."""


@dataclass(frozen=True, slots=True)
class Final:
    """The try counts: the attempt is sealed with it."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt gets another try."""


Decision = Final | Retry

FINAL = Final()
RETRY = Retry()


def is_permanent(issue: Issue) -> bool:
    """Say whether trying again cannot help."""
    row = CODES.get(issue.code)
    return row is not None and row.permanent


def after_try(result: TryResult, try_number: int, *, max_retries: int = 0) -> Decision:
    """Decide what follows a try (spec 05 T1): tries count from 1, `max_retries` come after the first.

    Only a FATAL issue is worth another try, and only if none of the FATAL ones is permanent. A wrong answer is never
    retried: it is no issue.
    """
    if result.outcome in (Outcome.CANCELLED, Outcome.SKIPPED) or try_number > max_retries:
        return FINAL
    fatal = [issue for issue in result.issues if issue.fatal]
    if not fatal or any(is_permanent(issue) for issue in fatal):
        return FINAL
    return RETRY


class Reach(StrEnum):
    """How much is not dispatched any more."""

    EXPERIMENT = "experiment"
    INVOCATION = "invocation"


class StopRule(NamedTuple):
    """What a permanent FATAL issue of a scope stops, after how many in a row with the same code."""

    reach: Reach
    in_a_row: int


STOP_RULES: Mapping[Scope, StopRule | None] = {
    Scope.ATTEMPT: None,
    # Attempts of one task, or of one image, meet the same problem one by one: each is errored and says why.
    Scope.TASK: None,
    Scope.IMAGE: None,
    Scope.EXPERIMENT: StopRule(Reach.EXPERIMENT, 1),
    Scope.PROVIDER: StopRule(Reach.EXPERIMENT, STOP_ON_REPEATED),
    Scope.MODEL: StopRule(Reach.EXPERIMENT, STOP_ON_REPEATED),
    Scope.INVOCATION: StopRule(Reach.INVOCATION, 1),
}
"""What the scope of a code means for slots that were not dispatched yet."""

_REASONS: Mapping[str, StopReason] = {"store.full": StopReason.DISK}


class Stop(NamedTuple):
    """Slots are not dispatched any more: how many, what they are told, the code that says what to mend."""

    reach: Reach
    reason: StopReason
    code: str


def stop_rule(issue: Issue) -> StopRule | None:
    """Return what an issue stops if it comes often enough, or None if it concerns its attempt alone."""
    row = CODES.get(issue.code)
    if row is None or not row.permanent or not issue.fatal:
        return None
    return STOP_RULES[row.scope]


def _reaches_further(rule: StopRule, other: StopRule) -> bool:
    order = (rule.reach is not Reach.INVOCATION, rule.in_a_row)
    return order < (other.reach is not Reach.INVOCATION, other.in_a_row)


class Streak:
    """Counts permanent failures in a row in one experiment.

    A try that was cancelled or skipped says nothing about provider or model: it neither counts nor ends a row. Every
    other try with another end, or with another code, starts anew.
    """

    def __init__(self) -> None:
        self.code: str | None = None
        self.length = 0

    def observe(self, result: TryResult) -> Stop | None:
        """Take the end of one try into account; return what has to stop because of it, or None."""
        found: tuple[StopRule, str] | None = None
        for issue in result.issues:
            rule = stop_rule(issue)
            if rule is not None and (found is None or _reaches_further(rule, found[0])):
                found = rule, issue.code
        if found is None:
            if result.outcome not in (Outcome.CANCELLED, Outcome.SKIPPED):
                self.code, self.length = None, 0
            return None
        rule, code = found
        self.length = self.length + 1 if code == self.code else 1
        self.code = code
        if self.length < rule.in_a_row:
            return None
        return Stop(rule.reach, _REASONS.get(code, StopReason.SCOPE_STOPPED), code)
