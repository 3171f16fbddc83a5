"""What a referee keeps of an attempt, a lane and an experiment, as commands and events tell it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from proctor.core.schedule import ExperimentPlan, Filling
from proctor.model.attempt import TryResult
from proctor.model.events import Completion, StopReason
from proctor.model.ids import AttemptId

Place = tuple[int, int]
"""(ordinal, task) of a slot."""


class Violation(Exception):
    """A rule was broken."""


def require(holds: object, message: str) -> None:
    """Raise `Violation` unless something holds."""
    if not holds:
        raise Violation(message)


@dataclass(slots=True)
class Live:
    """An attempt in flight, as commands and events tell it."""

    index: int
    ordinal: int
    task: int
    gates: Counter[str]
    where: str = "executing"
    """executing, backing off, resuming, waiting for grading, grading, between tries"""
    try_number: int = 1
    only: bool = False
    """Whether its try only grades; `next_only` is for the next one."""
    next_only: bool = False
    saved: bool = False
    """Whether the agent's part is in a checkpoint that counts."""
    lane: str | None = None
    cancelled: bool = False
    sandbox: str | None = None
    endpoint: str | None = None
    """What it backs off on."""
    refused_open: str | None = None
    """The provider that refused an opening, while it backs off for that."""
    before: str = "executing"
    last: TryResult | None = None
    earliest: float = 0.0
    latest: float = 0.0
    """Its next try starts in between, if its permits are there."""
    spent: float = 0.0

    @property
    def between(self) -> bool:
        """Whether no try of it is running."""
        return self.where == "between tries"


@dataclass(slots=True)
class LaneBook:
    """A lane."""

    index: int
    pool: str
    gates: Counter[str]
    opened_at: float
    attempt: AttemptId | None = None
    opened: bool = False
    """Whether it has a sandbox."""
    closing: bool = False
    gone: bool = False


@dataclass(slots=True)
class Case:
    """One experiment."""

    index: int
    plan: ExperimentPlan
    queued: set[Place]
    regraded: frozenset[Place] = frozenset()
    """Those whose first try only grades."""
    sealed: set[Place] = field(default_factory=set[Place])
    stopped: Counter[StopReason] = field(default_factory=Counter[StopReason])
    completion: Completion | None = None
    stage: str = "waiting"
    """waiting, leasing, leased, setting up, open, tearing down, releasing, done"""
    holds_lease: bool = False
    set_up: bool = False
    spent: float = 0.0
    largest: float | None = None

    @classmethod
    def of(cls, index: int, plan: ExperimentPlan) -> Case:
        """Return an experiment of which nothing has started."""
        places = {(o, t) for o in range(plan.attempts) for t in range(len(plan.task_ids))}
        regraded = frozenset((o, t) for t, o, filling in plan.decided if filling is Filling.GRADING_ONLY)
        left = places - {(o, t) for t, o, _ in plan.decided} | regraded
        before = plan.spent_before_usd, plan.largest_before_usd
        return cls(index, plan, left, regraded, spent=before[0], largest=before[1])

    @property
    def reserve(self) -> float | None:
        """What one attempt is expected to cost at most."""
        return self.plan.expected_cost_usd if self.largest is None else self.largest
