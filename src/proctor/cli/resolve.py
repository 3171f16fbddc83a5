"""From what was typed to plugins that are made and validated: everything that can be wrong is found here, at once."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qsl

from pydantic import BaseModel

from proctor.cli.resolve_try import grading_mode, kept_artifacts, time_limits
from proctor.config.load import Tree, is_secret, merge, settled, split_assignments, validate
from proctor.config.schema import ExecutionConfig, ExperimentConfig, ModelConfig
from proctor.errors import PluginLoadError, ProctorError, UsageError, describe
from proctor.model.secrets import secrets_in
from proctor.model.spec import Component, EnvironmentSpec, Experiment, ModelSpec, RetrySpec, Task
from proctor.plugins.api import Benchmark, Grader, Harness, Model, Provider
from proctor.plugins.registry import Kind, check_made, load, names
from proctor.runtime.redact import Redactor
from proctor.store.lease_info import Teardown, checked_key

DEFAULT_MODEL_FAMILY = "openai"


@dataclass(frozen=True, slots=True)
class Typed:
    """What the command line says about one experiment: ids, and trees of fields in order of precedence."""

    benchmark: str
    harness: str
    model: str | None
    flags: Mapping[str, Any]
    assignments: tuple[str, ...] = ()
    timeout_multiplier: float | None = None


@dataclass(slots=True)
class Resolved:
    """One experiment with the objects that carry it out."""

    experiment: Experiment
    benchmark: Benchmark
    harness: Harness
    provider: Provider
    model: Model | None = None
    notes: Sequence[str] = ()
    """What the user should know before it starts."""
    graders: dict[int, Grader] = field(default_factory=dict[int, Grader])
    """By the identity of the task's grader component: tasks that share one share the grader."""

    def grader(self, task: Task) -> Grader:
        """Return the grader of a task."""
        return self.graders[id(task.grader)]

    def make_graders(self, tasks: Iterable[Task]) -> None:
        """Make and validate the graders of all tasks. Raises `UsageError`."""
        for task in tasks:
            if id(task.grader) not in self.graders:
                self.graders[id(task.grader)] = _make(Kind.GRADER, task.grader.id, task.grader.params)[0]


def resolve_experiment(typed: Typed, name: str) -> Resolved:
    """Make one experiment and its plugins. Raises `UsageError`, which lists what is wrong."""
    tree, sections = split_assignments(typed.assignments)
    execution = validate(ExecutionConfig, sections["execution"], what="execution")
    base: Tree = {"benchmark": {"id": typed.benchmark}, "harness": {"id": typed.harness}}
    if typed.model is not None:
        base["model"] = {"id": typed.model}
    base = merge(merge(tree, base), typed.flags)
    harness_class: Any = load(Kind.HARNESS, base["harness"]["id"])
    notes: list[str] = []
    if "model" in base and not harness_class.needs_model:
        unused = base.pop("model").get("id", "its settings")
        notes.append(f"harness `{base['harness']['id']}` uses no model: `{unused}` is left out of account")
    config = validate(ExperimentConfig, base, what="experiment")
    benchmark, benchmark_params = _make(Kind.BENCHMARK, config.benchmark.id, config.benchmark.params)
    harness, harness_params = _make(Kind.HARNESS, config.harness.id, config.harness.params)
    environment = EnvironmentSpec(provider=config.environment.provider, env=config.environment.env)
    make_provider = load(Kind.PROVIDER, environment.provider)
    with _making(Kind.PROVIDER, environment.provider, environment.env):
        provider: Provider = make_provider()
        check_made(Kind.PROVIDER, environment.provider, provider)
        refused = provider.refuse(environment)
    if refused is not None:
        raise UsageError(
            f"provider `{provider.name}` cannot make this environment: {refused}", hint="change the environment"
        )
    if config.sandbox_reuse and not provider.supports_reuse:
        raise UsageError(f"provider `{provider.name}` cannot reuse sandboxes", hint="leave `sandbox_reuse` out")
    experiment = Experiment(
        name=name,
        benchmark=Component(config.benchmark.id, benchmark_params),
        harness=Component(config.harness.id, harness_params),
        model=_model_spec(config.model, config.harness.id, harness),
        environment=environment,
        attempts=config.attempts,
        max_concurrency=config.max_concurrency,
        grading=grading_mode(config, benchmark),
        limits=time_limits(config, execution, typed.timeout_multiplier),
        retry=_retry(config, execution),
        early_exit=config.early_exit,
        budget_usd=config.budget,
        expected_cost_usd=config.expected_cost_per_attempt,
        stop_on_repeated=config.stop_on_repeated,
        setup=config.setup,
        teardown=config.teardown,
        shared_state_key=config.shared_state.key if config.shared_state else None,
        sandbox_reuse=config.sandbox_reuse,
        flags=settled(config.flags),
        artifacts=kept_artifacts(config),
    )
    _check_hooks(experiment)
    resolved = Resolved(experiment, benchmark, harness, provider, notes=notes)
    if experiment.model is not None:
        resolved.model = open_model(experiment.model)
    return resolved


def _model_spec(config: ModelConfig | None, harness_id: str, harness: Harness) -> ModelSpec | None:
    if config is None:
        if harness.needs_model:
            raise UsageError(
                f"harness `{harness_id}` needs a model",
                hint=f"give one: `proctor run BENCHMARK {harness_id} MODEL`, such as `mock/echo`",
            )
        return None
    if config.base_url is not None and _holds_credential(config.base_url):
        raise UsageError(
            f"model `{config.id}`: model.base_url holds a user name, password or key",
            hint="leave it out of the address and give it as model.api_key (an `@` of a path is written `%40`)",
        )
    return ModelSpec(
        config.id,
        config.base_url,
        config.api_key,
        config.identity,
        settled(config.params),
        config.max_connections,
        config.requests_per_minute,
    )


def _check_hooks(experiment: Experiment) -> None:
    """Refuse hooks that name no function and keys that cannot be told apart, before anything starts."""
    for name, path in (("setup", experiment.setup), ("teardown", experiment.teardown)):
        if path is not None:
            try:
                Teardown(path)
            except UsageError as error:
                raise UsageError(
                    f"{name} `{path}` is not of the form package.module:function", hint=error.hint
                ) from None
    if experiment.shared_state_key is not None:
        checked_key(experiment.shared_state_key)


def _retry(config: ExperimentConfig, execution: ExecutionConfig) -> RetrySpec:
    if execution.retry_min_delay_seconds > execution.retry_max_delay_seconds:
        raise UsageError("execution.retry_min_delay_seconds is above retry_max_delay_seconds", hint="swap or raise one")
    return RetrySpec(
        execution.max_retries if config.max_retries is None else config.max_retries,
        config.retry_pattern_list or execution.retry_pattern_list,
        execution.retry_min_delay_seconds,
        execution.retry_max_delay_seconds,
        execution.retry_after_cap_seconds,
    )


def _holds_credential(address: str) -> bool:
    """Whether an address, which is written to plan.json, holds what must not be: `user:password@`, or `?key=...`."""
    names = [name for name, _ in parse_qsl(address.partition("?")[2], keep_blank_values=True)]
    return "@" in address or any(map(is_secret, names))


def open_model(spec: ModelSpec) -> Model:
    """Make a model: by its family where the id has a known one in front (`mock/...`), else OpenAI-compatible."""
    family = spec.id.partition("/")[0]
    kind = family if family in names(Kind.MODEL) and "/" in spec.id else DEFAULT_MODEL_FAMILY
    make_model = load(Kind.MODEL, kind)
    with _making(Kind.MODEL, kind, {"api_key": spec.api_key, **spec.params}):
        model: Model = make_model(spec)
        check_made(Kind.MODEL, kind, model)
        return model


def _make(kind: Kind, name: str, params: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Return a plugin made with validated options, and the options as JSON with their defaults."""
    make_plugin = load(kind, name)
    options: BaseModel = validate(
        make_plugin.options, settled(params, make_plugin.options), what=f"parameters of {kind.value} `{name}`"
    )
    with _making(kind, name, params):
        plugin = make_plugin(options)
        check_made(kind, name, plugin)
        values = options.model_dump(mode="json")
    odd = _not_finite(values)
    if odd is not None:
        raise UsageError(
            f"parameters of {kind.value} `{name}`: `{odd}` is not a finite number",
            hint="no result could be compared by it",
        )
    return plugin, values


def _not_finite(value: Any, path: str = "") -> str | None:
    """Return the path of a number in a JSON value that is infinite or NaN, if there is one."""
    if isinstance(value, float) and not math.isfinite(value):
        return path
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        items = enumerate(cast("list[Any]", value))
    found = (_not_finite(inner, f"{path}.{key}" if path else str(key)) for key, inner in items)
    return next(filter(None, found), None)


@contextmanager
def _making(kind: Kind, name: str, given: Mapping[str, Any]) -> Generator[None]:
    """Turn what a plugin raises while it is made into a `PluginLoadError`, without the credentials in `given`."""
    try:
        yield
    except ProctorError:
        raise
    except (Exception, SystemExit) as error:
        said = Redactor(secrets_in(given)).text(describe(error))
        raise PluginLoadError(
            f"{kind.value} `{name}` cannot be made: {said}", hint="look at its parameters, or mend the plugin"
        ) from error
