"""What the scheduler has to know of an experiment: data, checked where it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from proctor.errors import InternalError
from proctor.model.attempt import GradingMode
from proctor.model.ids import SlotKey


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Tries after the first (spec 05 T1): how many, how long to wait before one, and for which ERROR issues.

    Waits double from `min_delay_seconds` to `max_delay_seconds`; a server's Retry-After is obeyed when longer, up to
    `retry_after_cap_seconds`. `patterns` are regular expressions for codes and messages of ERROR issues that deserve
    another try; FATAL ones need none.
    """

    max_retries: int = 0
    min_delay_seconds: float = 5.0
    max_delay_seconds: float = 60.0
    retry_after_cap_seconds: float = 600.0
    patterns: tuple[str, ...] = ()


class OnUnavailable(StrEnum):
    """What a task group does when its sandbox is of no use any more."""

    STOP_GROUP = "stop-group"
    REPLACE_SANDBOX = "replace-sandbox"


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A task group (spec 03 L3): its members, by their place in the benchmark, share one lane and one sandbox."""

    name: str
    members: tuple[int, ...]
    on_unavailable: OnUnavailable


class Filling(StrEnum):
    """What planning decided of a slot that is not simply to be executed (spec 04)."""

    REUSED = "reused"
    """A saved attempt fills it: nothing of it is executed."""
    REUSED_PASSED = "reused, passed"
    """Likewise, by one that passed: with early exit that closes its task."""
    GRADING_ONLY = "grading only"
    """The agent's part is in the checkpoint of an earlier run: the first try only grades."""


class DecidedSlot(NamedTuple):
    """One slot of which planning decided, by the task's place in the benchmark and the ordinal, both from 0."""

    task: int
    ordinal: int
    filling: Filling


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    """What the scheduler has to know of one experiment.

    `agent_sandbox` says for each task whether the agent's part of an attempt opens a sandbox of `provider`; grading in
    mode fresh always opens one, of `grading_provider` (default: the same). `isolated` says that attempts of one task
    may overlap (spec 03 G6). `model` and `judge` name endpoints (G11). Tuples by task may be empty: nothing is known,
    declared or different. `environments` numbers the physical environments of the tasks: equal numbers are equal.
    `decided` names the slots that are not simply executed, in any order and each once.
    """

    name: str
    task_ids: tuple[str, ...]
    attempts: int
    provider: str
    agent_sandbox: tuple[bool, ...]
    grading: GradingMode = GradingMode.NONE
    isolated: bool = True
    max_concurrency: int | None = None
    grading_provider: str | None = None
    model: str | None = None
    judge: str | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    stop_on_repeated: int = 3
    """So many permanent failures in a row with one code stop a provider or model; 0 is off."""
    early_exit: bool = False
    budget_usd: float | None = None
    expected_cost_usd: float | None = None
    """Of one attempt."""
    spent_before_usd: float = 0.0
    """What earlier runs paid for these slots as they are now; it counts to the budget."""
    largest_before_usd: float | None = None
    """The most that one attempt cost in them, as far as it is known; None where nothing was paid."""
    expected_seconds: tuple[float | None, ...] = ()
    """By task: the median of earlier attempts."""
    cpus: tuple[float, ...] = ()
    memory_bytes: tuple[int, ...] = ()
    environments: tuple[int, ...] = ()
    has_setup: bool = False
    """Whether there is a setup or a teardown hook."""
    shared_state_key: str | None = None
    sandbox_reuse: bool = False
    groups: tuple[GroupPlan, ...] = ()
    lifetime_seconds: float | None = None
    """How long a sandbox lives at its provider; None is for ever."""
    decided: tuple[DecidedSlot, ...] = ()

    def __post_init__(self) -> None:
        tasks = len(self.task_ids)
        by_task = (self.expected_seconds, self.cpus, self.memory_bytes, self.environments)
        members = [member for group in self.groups for member in group.members]
        fits = (
            len(self.agent_sandbox) == tasks > 0
            and self.attempts >= 1
            and all(len(values) in (0, tasks) for values in by_task)
            and all(0 <= member < tasks for member in members)
            and len(set(members)) == len(members)
            and not (self.groups and self.sandbox_reuse)
            and all(seconds is None or 0 <= seconds < math.inf for seconds in self.expected_seconds)
            and (not self.decided or self._decides_well())
        )
        if not fits:
            raise InternalError(f"the plan of experiment `{self.name}` does not fit together")

    @property
    def slots(self) -> int:
        """The number of slots, whatever is done with them."""
        return len(self.task_ids) * self.attempts

    @property
    def reused(self) -> int:
        """The number of slots that saved attempts fill; the others are there to be executed."""
        return sum(slot.filling is not Filling.GRADING_ONLY for slot in self.decided)

    def _decides_well(self) -> bool:
        places = {(task, ordinal) for task, ordinal, _ in self.decided}
        tasks, attempts = len(self.task_ids), self.attempts
        return (
            len(places) == len(self.decided)
            and all(0 <= task < tasks and 0 <= ordinal < attempts for task, ordinal in places)
            and (self.grading is not GradingMode.REUSE or self.reused == len(places))
        )

    @property
    def graded_at(self) -> str:
        """The provider at which a fresh grading sandbox is opened."""
        return self.grading_provider or self.provider

    def slot(self, task: int, ordinal: int) -> SlotKey:
        """Return the key of a slot, by the task's place in the benchmark and the ordinal, both from 0."""
        return SlotKey(self.name, self.task_ids[task], ordinal)

    def environment_of(self, task: int) -> int:
        """Return the number of the physical environment of a task."""
        return self.environments[task] if self.environments else 0
