"""What is done with a slot, given what is saved for it: the one decision table for every door (spec 04).

Saved attempts come newest first. The first that has a score decides, whatever older ones came to: to look further for
a better one would be a choice among samples. What has no score is looked past, so that a run that broke off does not
hide a complete one before it; newer work that only lacks its grade is taken where no score can be reused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from proctor.core.failure import is_permanent, matches
from proctor.model.attempt import Issue, Verdict
from proctor.model.codes import Severity
from proctor.model.ids import AttemptId


class Rerun(StrEnum):
    """What is executed again although it could be reused, in this invocation only."""

    FAILED = "failed"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Door:
    """How an invocation looks at what is saved.

    `agent_seconds` and `try_seconds` are the limits now in force, None where there is none; `patterns` those of retries
    (spec 05 T6). With `sandbox_wanted` every slot is executed, since what is wanted is a live sandbox (C4).
    """

    rerun: Rerun | None = None
    checkpoint_resume: bool = True
    sandbox_wanted: bool = False
    patterns: tuple[str, ...] = ()
    agent_seconds: float | None = None
    try_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SavedAttempt:
    """An attempt on record whose identity equals that of the slot.

    `verdict` is None where the attempt was cut off: its run ended, or was killed, before it did. Issues and seconds are
    those of the counted try; a phase or try that was ended by its limit counts as exactly that limit (C1). `gradable`
    says that the agent's work is checkpointed and the mode is none or fresh, `intact` that all of it is there and
    unchanged.
    """

    attempt: AttemptId
    verdict: Verdict | None
    issues: tuple[Issue, ...] = ()
    agent_seconds: float = 0.0
    try_seconds: float = 0.0
    gradable: bool = False
    intact: bool = True

    @property
    def scored(self) -> bool:
        """Whether it has a score."""
        return self.verdict in (Verdict.PASSED, Verdict.FAILED)


class Kind(StrEnum):
    """What is done with a slot."""

    EXECUTE = "execute"
    REUSE = "reuse"
    GRADE_ONLY = "grade only"
    ACCEPT = "accept"
    NOT_DISPATCHED = "not dispatched"


class Decided(NamedTuple):
    """What is done with a slot, why, and the saved attempt that it is done with."""

    kind: Kind
    reason: str | None = None
    source: AttemptId | None = None

    def __str__(self) -> str:
        """Return it as `proctor plan` prints it (spec 04 P4)."""
        reason = f": {self.reason}" if self.reason else ""
        source = f" @{self.source}" if self.source else ""
        return f"{self.kind}{reason}{source}"


NEW = Decided(Kind.EXECUTE, "new")
SANDBOX_WANTED = Decided(Kind.EXECUTE, "sandbox wanted")


class Saved(StrEnum):
    """What a saved attempt is to a slot: the rows of the table."""

    PASSED = "passed"
    FAILED = "failed"
    MATCHES = "retry pattern matches"
    DOES_NOT_FIT = "limit lowered"
    GRADABLE = "gradable"
    RESUME_OFF = "checkpoint resume off"
    DAMAGED = "saved data damaged"
    ERRORED = "previous errored"
    SKIPPED = "previous skipped"
    CANCELLED = "previous cancelled"
    CUT_OFF = "previous cut off"


class Row(NamedTuple):
    """The decision by what is asked for. Where something is executed, the row's own name is the reason."""

    usually: Kind
    rerun_failed: Kind
    rerun_all: Kind = Kind.EXECUTE


_EXECUTE = Row(Kind.EXECUTE, Kind.EXECUTE)

GONE = Decided(Kind.EXECUTE, "previous run deleted")
"""What filled it was made by a run that is no longer on the disk."""
UNREADABLE = Decided(Kind.EXECUTE, Saved.DAMAGED.value)
"""What filled it is of a run whose plan cannot be read, so that nobody knows what it was."""

TABLE: Mapping[Saved, Row] = {
    Saved.PASSED: Row(Kind.REUSE, Kind.REUSE),
    Saved.FAILED: Row(Kind.REUSE, Kind.EXECUTE),
    Saved.MATCHES: _EXECUTE,
    Saved.DOES_NOT_FIT: _EXECUTE,
    Saved.GRADABLE: Row(Kind.GRADE_ONLY, Kind.GRADE_ONLY),
    Saved.RESUME_OFF: _EXECUTE,
    Saved.DAMAGED: _EXECUTE,
    Saved.ERRORED: _EXECUTE,
    Saved.SKIPPED: _EXECUTE,
    Saved.CANCELLED: _EXECUTE,
    Saved.CUT_OFF: _EXECUTE,
}
"""The table of spec 04, row by row; a test enumerates it."""

_UNSCORED: Mapping[Verdict | None, Saved] = {
    Verdict.ERRORED: Saved.ERRORED,
    Verdict.SKIPPED: Saved.SKIPPED,
    Verdict.CANCELLED: Saved.CANCELLED,
    None: Saved.CUT_OFF,
}


def saved_as(attempt: SavedAttempt, door: Door) -> Saved:
    """Return the row of the table that a saved attempt is in."""
    if attempt.scored:
        if any(_deserves_another(issue, door.patterns) for issue in attempt.issues):
            return Saved.MATCHES
        if not _fits(attempt, door):
            return Saved.DOES_NOT_FIT
        return Saved.PASSED if attempt.verdict is Verdict.PASSED else Saved.FAILED
    if attempt.gradable:
        if not door.checkpoint_resume:
            return Saved.RESUME_OFF
        return Saved.GRADABLE if attempt.intact else Saved.DAMAGED
    return _UNSCORED[attempt.verdict]


def _deserves_another(issue: Issue, patterns: Sequence[str]) -> bool:
    """Say whether the user asked for work with this issue to be done again; what is permanent would not change."""
    return issue.severity is Severity.ERROR and not is_permanent(issue) and matches(issue, patterns)


def _fits(attempt: SavedAttempt, door: Door) -> bool:
    """Say whether an attempt would have ended as it did under the limits now in force (C1)."""
    limits = ((attempt.agent_seconds, door.agent_seconds), (attempt.try_seconds, door.try_seconds))
    return all(limit is None or seconds <= limit for seconds, limit in limits)


def decide(saved: Sequence[SavedAttempt], door: Door) -> Decided:
    """Return what is done with a slot for which `saved`, newest first, has an equal identity."""
    if not saved:
        return NEW
    if door.sandbox_wanted:
        return SANDBOX_WANTED
    gradable: SavedAttempt | None = None
    scored: SavedAttempt | None = None
    for attempt in saved:
        if attempt.scored:
            scored = attempt
            break
        if gradable is None and saved_as(attempt, door) is Saved.GRADABLE:
            gradable = attempt
    found = [one for one in (scored, gradable) if one is not None] or [_telling(saved, door)]
    for attempt in found:
        kind = _kind(TABLE[saved_as(attempt, door)], door)
        if kind is not Kind.EXECUTE:
            return Decided(kind, None, attempt.attempt)
    counts = saved_as(found[0], door)
    rerun = door.rerun if TABLE[counts].usually is not Kind.EXECUTE else None
    return Decided(Kind.EXECUTE, f"rerun {rerun}" if rerun else counts.value)


def _telling(saved: Sequence[SavedAttempt], door: Door) -> SavedAttempt:
    """Return the attempt that says why a slot is executed: one whose work could have been graded, else the newest."""
    lost = (Saved.DAMAGED, Saved.RESUME_OFF)
    return next((one for one in saved if saved_as(one, door) in lost), saved[0])


def _kind(row: Row, door: Door) -> Kind:
    return {None: row.usually, Rerun.FAILED: row.rerun_failed, Rerun.ALL: row.rerun_all}[door.rerun]


def closed_by_early_exit(decided: Sequence[Decided], passed: Sequence[bool]) -> list[Decided]:
    """Return what is done with the slots of one task under early exit: a reused passed attempt closes it (03 E2).

    `passed` says for each slot whether what it reuses passed. What is reused stays.
    """
    closing = next((one.source for one, good in zip(decided, passed, strict=True) if good), None)
    if closing is None:
        return list(decided)
    closed = Decided(Kind.NOT_DISPATCHED, "early exit", closing)
    return [one if one.kind in (Kind.REUSE, Kind.ACCEPT) else closed for one in decided]


def changed(planned: Mapping[str, str], saved: Mapping[str, str]) -> Decided:
    """Return the decision on a slot for which the newest saved attempt has another identity: the part is named.

    Both map parts to their hashes. Where several parts differ, all are named, the first with its hashes.
    """
    names = changed_parts(planned, saved)
    if not names:
        return Decided(Kind.EXECUTE, "ordinal changed")
    first, *others = names
    more = f", {', '.join(others)} changed" if others else ""
    old, new = saved.get(first, "absent"), planned.get(first, "absent")
    return Decided(Kind.EXECUTE, f"{first} changed ({old[:8]} -> {new[:8]}){more}")


def changed_parts(planned: Mapping[str, str], saved: Mapping[str, str]) -> list[str]:
    """Return the names of the parts that differ; both map parts to their hashes."""
    return sorted(name for name in planned.keys() | saved.keys() if planned.get(name) != saved.get(name))


def endpoint_changed(planned: str | None, saved: str | None) -> Decided:
    """Return the decision on a slot of which only the endpoint differs; None is that of the model's family (P2)."""
    old, new = saved or "default endpoint", planned or "default endpoint"
    advice = f"`model.identity={saved}` says that both are the same" if saved else "give both one `model.identity`"
    return Decided(Kind.EXECUTE, f"model changed ({old} -> {new}), only its endpoint: {advice}")
