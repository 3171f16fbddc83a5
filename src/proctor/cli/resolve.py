"""From what was declared to plugins that are made and validated: all that can be wrong is found here, at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from proctor.authoring.environment_spec import digests_shared
from proctor.cli.combinations import Facts, refuse_combinations
from proctor.cli.resolve_config import configured
from proctor.cli.resolve_hooks import HOOKS, ResolvedHooks, resolve_hooks
from proctor.cli.resolve_parts import check_json, environment_spec, free, make, make_provider, model_specs, open_model
from proctor.cli.resolve_try import graded_in_place, grading_mode, kept_artifacts, stated, time_limits
from proctor.config.declared import Declared
from proctor.config.default_provider import why_not_preferred
from proctor.config.layers import Layered
from proctor.config.problems import Collected, placed
from proctor.config.scalars import hidden_in, holds_variable
from proctor.config.schema import ExecutionConfig, ExperimentConfig
from proctor.errors import UsageError
from proctor.model.environment import EnvironmentSpec
from proctor.model.secrets import secrets_in
from proctor.model.spec import Component, Experiment, RetrySpec, Task
from proctor.plugins.api import Benchmark, Grader, Harness, Model, Provider
from proctor.plugins.groups import Group
from proctor.plugins.registry import Kind
from proctor.store.lease_info import checked_key

T = TypeVar("T")

ChooseTasks = Callable[[Sequence[Task]], Sequence[Task]]


@dataclass(slots=True)
class Resolved:
    """One experiment with the objects that carry it out."""

    experiment: Experiment
    benchmark: Benchmark
    harness: Harness
    provider: Provider
    model: Model | None = None
    judge: Model | None = None
    """What its graders ask; there once a task with such a grader was planned."""
    fields: Layered = field(default_factory=lambda: Layered({}, ()))
    notes: Sequence[str] = ()
    """What the user should know before it starts."""
    graders: dict[int, Grader] = field(default_factory=dict[int, Grader])
    """By the identity of the task's grader component: tasks that share one share the grader."""
    choose: ChooseTasks | None = None
    """Which of the benchmark's tasks are the experiment's, beside `--tasks` and `--limit`; default: all."""
    tasks: list[Task] | None = None
    """What the benchmark has, once it was read."""
    like: Resolved | None = None
    """The first experiment with the same benchmark, which reads its tasks and makes their graders for all of them."""
    hooks: ResolvedHooks = field(default_factory=ResolvedHooks)
    groups: Mapping[str, Group] = field(default_factory=dict[str, Group])
    """The task groups of the benchmark, by name, once its tasks were read."""
    secrets: Sequence[str] = ()
    """Values of the variables that it was declared with; they are not to be written anywhere."""
    reuse: bool | str | None = None
    """What it says of earlier runs itself; None is what the command says."""
    checkpoint_resume: bool | None = None
    """Likewise, of work that was saved and not graded."""
    why_provider: str | None = None
    """Why its provider, which nobody named, is not the one that is preferred; None where it is, or was named."""

    def grader(self, task: Task) -> Grader:
        """Return the grader of a task."""
        return self.graders[id(task.grader)]

    def make_graders(self, tasks: Iterable[Task]) -> None:
        """Make and validate the graders of all tasks. Raises `UsageError`."""
        for task in tasks:
            if id(task.grader) not in self.graders:
                self.graders[id(task.grader)] = make(Kind.GRADER, task.grader.id, task.grader.params)[0]


def resolve_all(declared: Sequence[Declared]) -> list[Resolved]:
    """Make all experiments and their plugins. Raises one `UsageError` that lists everything wrong with any of them."""
    resolved: list[Resolved] = []
    wrong = Collected()
    with digests_shared():
        for one in declared:
            with wrong.gather():
                resolved.append(resolve(one, what=f"experiment `{one.name}`" if len(declared) > 1 else "experiment"))
    wrong.raise_any()
    providers: dict[str, Provider] = {}
    for one in resolved:  # experiments at one provider share what it keeps, and finalize it once
        one.provider = providers.setdefault(one.experiment.environment.provider, one.provider)
    share_benchmarks(resolved)
    return resolved


def share_benchmarks(resolved: Sequence[Resolved]) -> None:
    """Let experiments with the same benchmark and the same parameters share it, so that it is read once."""
    first: dict[tuple[str, str], Resolved] = {}
    for one in resolved:
        benchmark = one.experiment.benchmark
        params = json.dumps(benchmark.params, sort_keys=True)
        other = first.setdefault((benchmark.id, params), one)
        if other is not one:
            one.like, one.benchmark, one.graders = other, other.benchmark, other.graders


def resolve(declared: Declared, what: str = "experiment", *, with_model: bool = True) -> Resolved:
    """Make one experiment and its plugins, its model only on demand: that may want a credential.

    Raises `UsageError`, which lists what is wrong.
    """
    config, execution, notes = configured(declared, what)
    parts = _made(config, declared.fields, f"experiment `{declared.name}`")
    fields = declared.fields
    hooks = ResolvedHooks()
    experiment = Experiment(declared.name, parts.benchmark, parts.harness)
    wrong = Collected()
    with wrong.gather():
        facts = Facts(config, execution, parts.provider, parts.benchmark_plugin, parts.harness_plugin, fields)
        refuse_combinations(facts, declared.execution)
    with wrong.gather():
        paths = {name: getattr(config, name) for name in HOOKS}
        hooks = resolve_hooks(
            declared.name, paths, declared.hooks, declared.project, at=lambda name: fields.source_of((name,))
        )
    with wrong.gather():
        experiment = _experiment(declared, config, execution, parts)
    wrong.raise_any()
    experiment = replace(experiment, **hooks.paths, code=hooks.code)
    resolved = Resolved(
        experiment,
        parts.benchmark_plugin,
        parts.harness_plugin,
        parts.provider,
        fields=fields,
        notes=notes,
        choose=declared.choose,
        hooks=hooks,
        secrets=sorted(
            {*hidden_in([layer.tree for layer in fields.layers]), *declared.secrets, *_of_build(parts.environment)}
        ),
        reuse=declared.reuse,
        checkpoint_resume=declared.checkpoint_resume,
        why_provider=why_not_preferred() if config.environment.provider is None else None,
    )
    if experiment.model is not None and with_model:
        resolved.model = open_model(experiment.model, fields)
    return resolved


def _of_build(environment: EnvironmentSpec) -> Iterator[str]:
    """Yield the credentials among the arguments of a build."""
    return secrets_in(dict(environment.build.args) if environment.build is not None else {})


@dataclass(frozen=True, slots=True)
class _Made:
    """The plugins of an experiment, and what they were made of."""

    benchmark: Component
    benchmark_plugin: Benchmark
    harness: Component
    harness_plugin: Harness
    environment: EnvironmentSpec
    provider: Provider


def _made(config: ExperimentConfig, fields: Layered, what: str) -> _Made:
    """Make benchmark, harness and provider. Raises `UsageError`, which lists what is wrong with any of them."""
    wrong = Collected()
    benchmark: tuple[Any, Mapping[str, Any]] = (None, {})
    harness: tuple[Any, Mapping[str, Any]] = (None, {})
    provider: Any = None
    environment = EnvironmentSpec()
    with wrong.gather():
        benchmark = make(Kind.BENCHMARK, config.benchmark.id, config.benchmark.params, fields, "benchmark")
    with wrong.gather():
        harness = make(Kind.HARNESS, config.harness.id, config.harness.params, fields, "harness")
    with wrong.gather():
        environment = environment_spec(config.environment, fields)
        provider = make_provider(environment, fields, what, graded_in_place=graded_in_place(config, benchmark[0]))
    wrong.raise_any()
    return _Made(
        Component(config.benchmark.id, benchmark[1]),
        benchmark[0],
        Component(config.harness.id, harness[1]),
        harness[0],
        environment,
        provider,
    )


def _experiment(declared: Declared, config: ExperimentConfig, execution: ExecutionConfig, parts: _Made) -> Experiment:
    """Return an experiment but for its hooks. Raises `UsageError`."""
    fields = declared.fields
    flags = free(config.flags)
    check_json(flags, "flags", lambda path: fields.source_of(("flags", *path)))
    return Experiment(
        name=declared.name,
        benchmark=parts.benchmark,
        harness=parts.harness,
        **model_specs(config, parts.harness_plugin, fields),
        environment=parts.environment,
        attempts=stated(config, execution, "attempts"),
        max_concurrency=config.max_concurrency,
        grading=_placed(fields, "grading", lambda: grading_mode(config, parts.benchmark_plugin)),
        limits=time_limits(config, execution),
        retry=_retry(config, execution),
        early_exit=config.early_exit,
        budget_usd=config.budget,
        expected_cost_usd=config.expected_cost_per_attempt,
        stop_on_repeated=config.stop_on_repeated,
        shared_state_key=_placed(fields, "shared_state", lambda: _key(config, fields)),
        sandbox_reuse=config.sandbox_reuse,
        flags=flags,
        artifacts=_placed(fields, "artifacts", lambda: kept_artifacts(config)),
        directory=declared.directory,
        tags=config.tags,
        labels=config.labels,
    )


def _placed(fields: Layered, name: str, make_value: Callable[[], T]) -> T:
    """Return a value; an error about it says where the field was written."""
    with placed(fields.source_of((name,))):
        return make_value()


def _key(config: ExperimentConfig, fields: Layered) -> str | None:
    if config.shared_state is None:
        return None
    written: Any = fields.tree["shared_state"]
    if isinstance(written, Mapping) and holds_variable(cast("Mapping[str, Any]", written).get("key")):
        raise UsageError(
            "`shared_state.key` holds the value of a variable, which is written nowhere, and the key is shown to all",
            hint="write the key out",
        )
    return checked_key(config.shared_state.key)


def _retry(config: ExperimentConfig, execution: ExecutionConfig) -> RetrySpec:
    return RetrySpec(
        execution.max_retries if config.max_retries is None else config.max_retries,
        stated(config, execution, "retry_pattern_list"),
        execution.retry_min_delay_seconds,
        execution.retry_max_delay_seconds,
        execution.retry_after_cap_seconds,
    )
