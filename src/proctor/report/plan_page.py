"""What is known of a plan before anything starts, as data: `report.plan_text` says it, the command line fills it in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PlannedExperiment:
    """One experiment: how much there is of it, what it is made of, and what its forecast rests on."""

    name: str
    tasks: int
    attempts: int
    benchmark: str
    harness: str
    model: str | None
    provider: str
    grading: str
    agent_sandboxes: int
    """Tasks whose attempts open a sandbox for the agent's part."""
    early_exit: bool
    budget_usd: float | None
    runs_before: int
    samples: int
    tasks_known: int
    decisions: Mapping[str, int]
    """How many of its slots each decision is about."""
    prices: Mapping[str, str] = field(default_factory=dict[str, str])
    """What its models cost, in words, by what they are: `model`, `judge`; a model that nobody sells is left out."""
    spent_before_usd: float = 0.0
    """What earlier runs paid for its slots, which counts to the budget."""
    judge: str | None = None
    """The model that graders ask, where one of its tasks has such a grader."""

    @property
    def slots(self) -> int:
        """The number of slots."""
        return self.tasks * self.attempts


@dataclass(frozen=True, slots=True)
class GateInForce:
    """A limit: what it is called, how much it lets through, what it counts, and where it comes from.

    `limit` is in words, with its unit; `value` is the number, None where there is not just one.
    """

    name: str
    limit: str
    value: float | None
    scope: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class SlotLine:
    """One slot with what will be done with it and why."""

    experiment: str
    task: str
    ordinal: int
    decision: str
    identity: str
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A value that is less in one case of ten, in five, and in nine."""

    p10: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is expected under one setting. `seconds` is None where nothing was run before: then `rounds` are given."""

    task_concurrency: int
    at_once: int
    seconds: Quantiles | None
    cost_usd: Quantiles | None
    attempts: Quantiles | None
    rounds: int | None
    draws: int
    block: int
    """So many slots were taken together to make the forecast, where there are very many; else 1."""
    cost_at_least_usd: Quantiles | None = None
    """Where `cost_usd` is not known, because of earlier attempts only a part is: what it is at least."""


@dataclass(frozen=True, slots=True)
class PlanPage:
    """Everything that is said of a plan but its slots one by one."""

    headline: str
    experiments: Sequence[PlannedExperiment]
    gates: Sequence[GateInForce]
    concurrency_source: str
    decisions: Mapping[str, int]
    predictions: Sequence[Prediction]
    notes: Sequence[str] = ()

    @property
    def slots(self) -> int:
        """The number of slots of all experiments."""
        return sum(one.slots for one in self.experiments)
