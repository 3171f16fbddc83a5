"""Experiments to slots: which tasks, which slots, what will be done with each, and what the scheduler has to know.

Everything about a plan that can be wrong is said here, before anything starts. A slot has no object of its own: a plan
holds tasks and a number of attempts, and makes keys and entries on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from proctor.core.group_plans import environment_numbers, group_plans
from proctor.core.host_room import declared_by
from proctor.core.identity import SharedIdentity, experiment_parts, task_parts
from proctor.core.reuse import NEW, Decided
from proctor.core.schedule import ExperimentPlan, OnUnavailable, RetryPolicy
from proctor.core.select import check_tasks, select
from proctor.errors import InternalError, UsageError
from proctor.model.attempt import GradingMode
from proctor.model.ids import SlotKey
from proctor.model.spec import Experiment, ModelSpec, Task

REFERENCE_HARNESS = "oracle"
"""The harness that applies reference solutions; for every other they are no part of the identity."""


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """What planning has to know of the resolved plugins of an experiment.

    `harness_name` is the plugin's own name, whatever it was asked for by; `grader_versions` are by the grader ids that
    the tasks use.
    """

    benchmark_version: str
    harness_version: str
    harness_name: str
    grader_versions: Mapping[str, str]
    benchmark_isolated: bool = False
    harness_isolated: bool = False
    harness_needs_sandbox: bool = False
    gradable_without_sandbox: bool = False
    """Whether the tasks can be graded in mode none: what declares no need of a sandbox gets none in other modes too."""
    judging: frozenset[str] = frozenset()
    """The ids of the graders that ask a judge."""
    provider_reuses: bool = True
    """Whether sandboxes of the provider can be used by several attempts."""
    sandbox_lifetime_seconds: float | None = None
    """How long a sandbox lives at the provider; None is for ever."""
    credentials: frozenset[str] = field(default=frozenset(), repr=False)
    """Texts that are known to be credentials: under the name of a secret they count in no identity."""


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """One experiment with the tasks chosen for it, in benchmark order."""

    experiment: Experiment
    tasks: Sequence[Task]
    facts: PluginFacts
    expected_seconds: Sequence[float | None] = ()
    """By task: the median of earlier attempts; empty where nothing is known."""
    groups: Mapping[str, OnUnavailable] = field(default_factory=dict[str, OnUnavailable])
    """The task groups that the benchmark declares, by name."""


class PlanEntry(NamedTuple):
    """One slot of a plan: what is done with it, and its identity, whole and by the parts that are its task's."""

    slot: SlotKey
    decision: Decided
    identity: str
    task_parts: Mapping[str, str]


@dataclass(frozen=True)
class RunPlan:
    """The plan of one experiment; its number of slots is the denominator, fixed here."""

    experiment: Experiment
    tasks: tuple[Task, ...]
    facts: PluginFacts
    schedule: ExperimentPlan
    decided: Mapping[tuple[int, int], Decided] = field(default_factory=dict[tuple[int, int], Decided])
    """What is done with slots (place of the task, ordinal) for which something is saved; the others are new."""
    unpriced_before: int = 0
    """Earlier attempts that count to the budget, with a cost of which not all is known."""

    def __len__(self) -> int:
        return self.schedule.slots

    @cached_property
    def shared_identity(self) -> SharedIdentity:
        """The parts of the identity that all slots share."""
        facts = self.facts
        parts = experiment_parts(
            self.experiment,
            benchmark_version=facts.benchmark_version,
            harness_version=facts.harness_version,
            credentials=facts.credentials,
        )
        return SharedIdentity.of(parts)

    def task_parts(self, task: Task) -> dict[str, str]:
        """Return the parts of the identity that are a task's own."""
        return task_parts(
            task,
            grader_version=self.facts.grader_versions[task.grader.id],
            with_reference=self.facts.harness_name == REFERENCE_HARNESS,
            credentials=self.facts.credentials,
            judge=self.experiment.judge if task.grader.id in self.facts.judging else None,
        )

    def entries(self) -> Iterator[PlanEntry]:
        """Yield every slot in the order in which plans, tables and files list them: task, then ordinal (03 O6)."""
        shared = self.shared_identity
        for index, task in enumerate(self.tasks):
            own = self.task_parts(task)
            for ordinal in range(self.schedule.attempts):
                slot = self.schedule.slot(index, ordinal)
                decided = self.decided.get((index, ordinal), NEW)
                yield PlanEntry(slot, decided, shared.slot(own, ordinal), own)


__all__ = [
    "Decided", "ExperimentPlan", "PlanEntry", "PlannedInput", "PluginFacts", "RunPlan", "check_tasks", "plan",
    "select",
]  # fmt: skip


def plan(inputs: Sequence[PlannedInput]) -> list[RunPlan]:
    """Make the plan of each experiment, in the order given.

    Raises `UsageError` for duplicate or unusable task ids, names or numbers, `NothingToRun` for an experiment without
    tasks.
    """
    seen: set[str] = set()
    for given in inputs:
        _check_experiment(given.experiment, seen)
    return [_run_plan(given) for given in inputs]


def _run_plan(given: PlannedInput) -> RunPlan:
    experiment, facts, tasks = given.experiment, given.facts, tuple(given.tasks)
    check_tasks(tasks, experiment.benchmark.id)
    for task in tasks:
        if task.grader.id not in facts.grader_versions:
            raise InternalError(f"grader `{task.grader.id}` of task `{task.id}` was not resolved before planning")
    # Grading in the agent's sandbox needs one, whatever the agent does, unless it can do without.
    in_sandbox = experiment.grading is GradingMode.REUSE and not facts.gradable_without_sandbox
    always = facts.harness_needs_sandbox or in_sandbox
    environments = environment_numbers(tasks, experiment.environment)
    declared = declared_by(tasks, experiment.environment)
    groups = group_plans(experiment, tasks, given.groups, environments, provider_reuses=facts.provider_reuses)
    schedule = ExperimentPlan(
        name=experiment.name,
        task_ids=tuple(task.id for task in tasks),
        attempts=experiment.attempts,
        provider=experiment.environment.provider,
        agent_sandbox=tuple(
            always or task.needs_sandbox or bool(task.artifacts or task.group is not None) for task in tasks
        ),
        grading=experiment.grading,
        isolated=facts.benchmark_isolated and facts.harness_isolated,
        max_concurrency=experiment.max_concurrency,
        model=endpoint_name(experiment.model) if experiment.model else None,
        judge=endpoint_name(experiment.judge) if experiment.judge and facts.judging else None,
        retry=RetryPolicy(
            max_retries=experiment.retry.max_retries,
            min_delay_seconds=experiment.retry.min_delay_seconds,
            max_delay_seconds=experiment.retry.max_delay_seconds,
            retry_after_cap_seconds=experiment.retry.retry_after_cap_seconds,
            patterns=experiment.retry.patterns,
        ),
        stop_on_repeated=experiment.stop_on_repeated,
        early_exit=experiment.early_exit,
        budget_usd=experiment.budget_usd,
        expected_cost_usd=experiment.expected_cost_usd,
        expected_seconds=tuple(given.expected_seconds),
        has_setup=bool(experiment.setup or experiment.teardown),
        shared_state_key=experiment.shared_state_key,
        sandbox_reuse=experiment.sandbox_reuse,
        cpus=declared.cpus,
        memory_bytes=declared.memory_bytes,
        environments=environments,
        groups=groups,
        lifetime_seconds=facts.sandbox_lifetime_seconds,
    )
    return RunPlan(experiment, tasks, facts, schedule)


def _check_experiment(experiment: Experiment, seen: set[str]) -> None:
    name = experiment.name
    if not name:
        raise UsageError("an experiment has no name", hint="give it a name; it names the run")
    if name in seen:
        raise UsageError(f"two experiments are called `{name}`", hint="give each a name of its own")
    seen.add(name)
    for what, value in (("attempts", experiment.attempts), ("max_concurrency", experiment.max_concurrency)):
        allowed = what == "max_concurrency" and value is None
        if not allowed and (type(value) is not int or value < 1):
            raise UsageError(
                f"{what} of experiment `{name}` must be an integer of at least 1, not {value!r}",
                hint=f"set {what} to 1 or more",
            )


def endpoint_name(model: ModelSpec) -> str:
    """Return the name by which limits of a model's endpoint go (G11): its id, and its address where it has one."""
    return f"{model.id} at {model.base_url}" if model.base_url else model.id
