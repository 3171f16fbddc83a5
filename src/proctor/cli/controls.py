"""The limits of an invocation, and where its results go: from flags, `--set`, providers and defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from proctor.config.load import split_assignments, validate
from proctor.config.schema import ExecutionConfig, RuntimeConfig
from proctor.core.limits import ModelLimits
from proctor.core.plan import endpoint_name
from proctor.errors import UnknownName
from proctor.model.spec import ModelSpec
from proctor.plugins.api import Provider
from proctor.plugins.registry import Kind, names

DEFAULT_TASK_CONCURRENCY = 32


@dataclass(frozen=True, slots=True)
class Controls:
    """Limits of the invocation and where results go."""

    task_concurrency: int
    concurrency_source: str
    provider_limits: Mapping[str, int]
    results_dir: str
    open_per_second: Mapping[str, float] = field(default_factory=dict[str, float])
    exclusive: frozenset[str] = frozenset()
    models: Mapping[str, ModelLimits] = field(default_factory=dict[str, ModelLimits])
    lease_wait_seconds: float | None = None
    timeout_seconds: float | None = None
    """Limit of the whole invocation."""
    cleanup_grace_seconds: float = 30.0
    """How long what an interrupt cancels may take to clean up."""
    checkpoint_resume: bool = True
    """Whether saved work that was not graded may be graded without the agent."""
    record_url: str | None = None
    """Where the record is, if not in the results directory."""


def resolve_controls(
    assignments: tuple[str, ...],
    *,
    task_concurrency: int | None,
    provider_limits: Iterable[tuple[str, int]],
    results_dir: str | None,
    providers: Iterable[Provider],
    env_open_qps: Iterable[tuple[str, float]] = (),
    lease_wait_seconds: float | None = None,
    models: Iterable[ModelSpec] = (),
) -> Controls:
    """Return the limits in force: command line, then `--set`, then what providers declare, then defaults.

    Raises `UsageError`; an unknown provider name in a limit is one (spec 03 G1.2).
    """
    _, trees = split_assignments(assignments)
    typed = {} if results_dir is None else {"results_dir": results_dir}
    execution = validate(ExecutionConfig, trees["execution"], what="execution")
    runtime = validate(RuntimeConfig, {**trees["runtime"], **typed}, what="runtime")
    limits = {provider.name: provider.default_limit or 0 for provider in providers}
    for name, limit in [*runtime.provider_limits.items(), *provider_limits]:
        limits[_known_provider(name)] = limit
    rates = {provider.name: provider.default_open_per_second for provider in providers}
    for name, rate in [*runtime.env_open_qps.items(), *env_open_qps]:
        rates[_known_provider(name)] = rate
    number, source = _concurrency(task_concurrency, execution.task_concurrency, providers)
    return Controls(
        task_concurrency=number,
        concurrency_source=source,
        provider_limits=limits,
        results_dir=runtime.results_dir,
        open_per_second=rates,
        exclusive=frozenset(provider.name for provider in providers if provider.exclusive),
        models={
            endpoint_name(model): ModelLimits(model.max_connections, model.requests_per_minute)
            for model in models
            if model.max_connections or model.requests_per_minute
        },
        lease_wait_seconds=lease_wait_seconds or runtime.lease_wait_seconds,
        timeout_seconds=runtime.timeout_seconds,
        cleanup_grace_seconds=runtime.cleanup_grace_seconds,
        checkpoint_resume=runtime.checkpoint_resume,
        record_url=runtime.record_url,
    )


def _known_provider(name: str) -> str:
    if name not in names(Kind.PROVIDER):
        raise UnknownName("provider", name, names(Kind.PROVIDER), list_with=Kind.PROVIDER.list_with)
    return name


def _concurrency(flag: int | None, setting: int | None, providers: Iterable[Provider]) -> tuple[int, str]:
    """Spec 03 G1.1: the first that is set; recommendations of several providers add up, a silent one counting 32."""
    if flag is not None:
        return flag, "from flag"
    if setting is not None:
        return setting, "from --set"
    asked = {provider.name: provider.recommended_concurrency for provider in providers}
    if not any(asked.values()):
        return DEFAULT_TASK_CONCURRENCY, "default"
    numbers = {name: number or DEFAULT_TASK_CONCURRENCY for name, number in asked.items()}
    words = " + ".join(f"{name} {number}" for name, number in numbers.items())
    one = f"from {next(iter(numbers))} default"
    return sum(numbers.values()), one if len(numbers) == 1 else f"from {words} defaults"
