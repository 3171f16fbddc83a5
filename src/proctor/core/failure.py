"""What follows from the way a try ended: another try, the end of the attempt, the end of more than the attempt.

Decisions go by code (`proctor.model.codes`), never by text. A code that the table does not have counts as a problem of
its attempt alone, which another try might not meet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from proctor.model.attempt import Issue, Outcome, Phase, TryResult
from proctor.model.codes import CODES, Owner, Scope, Severity
from proctor.model.events import StopReason


@dataclass(frozen=True, slots=True)
class Final:
    """The try counts: the attempt is sealed with it."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt gets another try: of the whole, or of its grading only."""

    grading_only: bool = False


Decision = Final | Retry

FINAL = Final()
RETRY = Retry()
RETRY_GRADING = Retry(grading_only=True)


class Work(StrEnum):
    """What there is of the agent's part of an attempt when one of its tries has ended."""

    MISSING = "missing"
    """There is no checkpoint, or grading needs the sandbox in which the agent worked."""
    SAVED = "saved"
    """The try that ended did it, and made the checkpoint."""
    KEPT = "kept"
    """It is in the checkpoint of an earlier try; the one that ended only graded."""


class Cause(StrEnum):
    """What it is about a try that asks for another one; of several the first here decides."""

    DAMAGED = "the checkpoint is damaged"
    ASKED = "an ERROR of the agent's part that the user wants to be tried again"
    INCOMPLETE = "the agent's part broke"
    GRADING = "anything else"


GRADES_ONLY: Mapping[Work, Mapping[Cause, bool]] = {
    Work.MISSING: dict.fromkeys(Cause, False),
    Work.SAVED: {Cause.DAMAGED: False, Cause.ASKED: False, Cause.INCOMPLETE: False, Cause.GRADING: True},
    # A try that only graded has no agent's part that could break; what it repeats of the try before may be asked for.
    Work.KEPT: {Cause.DAMAGED: False, Cause.ASKED: False, Cause.INCOMPLETE: True, Cause.GRADING: True},
}
"""Whether only grading is tried again (spec 05 T3); else the whole attempt is, and the checkpoint counts no more."""

_OF_AGENT = frozenset({Phase.OPEN, Phase.SETUP, Phase.AGENT, Phase.COLLECT})
_AFTER_OPEN = _OF_AGENT - {Phase.OPEN}
"""Where a checkpoint was made, what broke in opening was the sandbox of grading."""


CHECKPOINT_DAMAGED = "checkpoint.damaged"


def is_permanent(issue: Issue) -> bool:
    """Say whether trying again cannot help."""
    row = CODES.get(issue.code)
    return row is not None and row.permanent


def matches(issue: Issue, patterns: Sequence[str]) -> bool:
    """Say whether a pattern is found in the code or the message of an issue (spec 05 T6)."""
    return any(re.search(pattern, issue.code) or re.search(pattern, issue.message) for pattern in patterns)


def after_try(
    result: TryResult, try_number: int, *, max_retries: int = 0, patterns: Sequence[str] = (), work: Work = Work.MISSING
) -> Decision:
    """Decide what follows a try (spec 05 T1, T3): tries count from 1, `max_retries` come after the first.

    Worth another try are a FATAL issue, and an ERROR one that a pattern matches; but none if any of the FATAL ones is
    permanent, nor for an ERROR one that is. A wrong answer is never retried: it is no issue. Where the agent's `work`
    is there, only grading may be tried again.
    """
    if result.outcome in (Outcome.CANCELLED, Outcome.SKIPPED) or try_number > max_retries:
        return FINAL
    fatal = [issue for issue in result.issues if issue.fatal]
    if any(is_permanent(issue) for issue in fatal):
        return FINAL
    asked = [
        issue
        for issue in result.issues
        if issue.severity is Severity.ERROR and not is_permanent(issue) and matches(issue, patterns)
    ]
    if not fatal and not asked:
        return FINAL
    return RETRY_GRADING if GRADES_ONLY[work][_cause(fatal, asked)] else RETRY


def _cause(fatal: Sequence[Issue], asked: Sequence[Issue]) -> Cause:
    """Return what a retry is for: FATAL issues, and ERROR ones that the user asked to be tried again."""
    if any(issue.code == CHECKPOINT_DAMAGED for issue in fatal):
        return Cause.DAMAGED
    if any(issue.phase in _OF_AGENT for issue in asked):
        return Cause.ASKED
    if any(issue.phase in _AFTER_OPEN for issue in fatal):
        return Cause.INCOMPLETE
    return Cause.GRADING


class Reach(StrEnum):
    """How much more than its attempt a failure concerns, from the least to the most."""

    TASK = "task"
    IMAGE = "image"
    """The tasks of the experiment with the same physical environment."""
    EXPERIMENT = "experiment"
    ENDPOINT = "endpoint"
    """Everything, of any experiment, that uses the same provider or model endpoint."""
    INVOCATION = "invocation"


class StopRule(NamedTuple):
    """What a permanent FATAL issue of a scope stops.

    With `repeated` it does so only after several in a row with the same code. Slots that are `errored` get this verdict
    with the issue; others are not dispatched.
    """

    reach: Reach
    repeated: bool
    errored: bool


STOP_RULES: Mapping[Scope, StopRule | None] = {
    Scope.ATTEMPT: None,
    Scope.TASK: StopRule(Reach.TASK, repeated=False, errored=True),
    Scope.IMAGE: StopRule(Reach.IMAGE, repeated=False, errored=True),
    Scope.EXPERIMENT: StopRule(Reach.EXPERIMENT, repeated=False, errored=True),
    Scope.PROVIDER: StopRule(Reach.ENDPOINT, repeated=True, errored=False),
    Scope.MODEL: StopRule(Reach.ENDPOINT, repeated=True, errored=False),
    Scope.INVOCATION: StopRule(Reach.INVOCATION, repeated=False, errored=False),
}
"""What the scope of a code means for slots that were not dispatched yet."""

STOP_REASONS: Mapping[str, StopReason] = {"store.full": StopReason.DISK}
"""What slots that are not dispatched are told, where it is not that their scope was stopped."""


def stop_rule(issue: Issue) -> StopRule | None:
    """Return what an issue stops if it comes often enough, or None if it concerns its attempt alone."""
    row = CODES.get(issue.code)
    if row is None or not row.permanent or not issue.fatal:
        return None
    return STOP_RULES[row.scope]


_REACHES = tuple(Reach)


def furthest(result: TryResult, *, endpoint: bool) -> tuple[StopRule, Issue] | None:
    """Return the issue that reaches furthest, with its rule: of those that stop an endpoint, or of the others."""
    found: tuple[StopRule, Issue] | None = None
    for issue in result.issues:
        rule = stop_rule(issue)
        if rule is None or (rule.reach is Reach.ENDPOINT) is not endpoint:
            continue
        if found is None or _REACHES.index(rule.reach) > _REACHES.index(found[0].reach):
            found = rule, issue
    return found


def concerns_model(issue: Issue) -> bool:
    """Say whether an issue is one of a model endpoint."""
    row = CODES.get(issue.code)
    return row is not None and row.owner is Owner.MODEL


def names_provider(code: str) -> bool:
    """Say whether a code is one of a provider, so that what it refused was the opening of a sandbox."""
    row = CODES.get(code)
    return row is not None and row.owner is Owner.PROVIDER


def in_grading(issue: Issue) -> bool:
    """Say whether an issue came up in grading, so that it concerns the judge or the grading sandbox."""
    return issue.phase is Phase.GRADE
