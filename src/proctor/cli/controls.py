"""The limits of an invocation, and where its results go: from layers, providers and defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from proctor.cli.host_capacity import host_cpus, host_memory_bytes
from proctor.cli.model_limits import model_limits
from proctor.config.layers import Layered, Level, Source
from proctor.config.load import validate
from proctor.config.problems import Collected, placed
from proctor.config.project import record_url_of, results_dir_of
from proctor.config.schema import ExecutionConfig, RuntimeConfig
from proctor.core.limits import ModelLimits
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
    limit_sources: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where the limit of each provider came from."""
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
    host_cpus: float | None = None
    """CPUs that sandboxes on this machine may declare in all."""
    host_memory_bytes: int | None = None
    """Memory that they may declare in all; None is no limit, where nobody knows how much there is."""
    host_providers: frozenset[str] = frozenset()
    """Providers whose sandboxes are on this machine."""
    host_sources: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where the two came from, by `cpus` and `memory`."""
    max_build_concurrency: int = 2
    """Images that are built or fetched at once."""
    keep_environment: Literal["failed", "all"] | None = None
    """Which sandboxes are kept after their try: those of tries that did not pass, or all; None is none."""


def resolve_controls(
    execution: Layered, runtime: Layered, *, providers: Iterable[Provider], models: Iterable[ModelSpec] = ()
) -> Controls:
    """Return the limits in force: what is set in the strongest layer, then what providers declare, then defaults.

    Raises `UsageError`, which lists what is wrong; an unknown provider name in a limit is wrong (spec 03 G1.2).
    """
    wrong = Collected()
    asked, settings = ExecutionConfig(), RuntimeConfig()
    with wrong.gather():
        asked = validate(ExecutionConfig, execution.tree, what="execution", at=execution.source_of)
    with wrong.gather():
        settings = validate(RuntimeConfig, runtime.tree, what="runtime", at=runtime.source_of)
    for table in ("provider_limits", "env_open_qps"):
        for name in getattr(settings, table):
            with wrong.gather(), placed(runtime.source_of((table, name))):
                _check_provider(name)
    wrong.raise_any()
    used = {provider.name: provider for provider in providers}
    number, source = _concurrency(asked.task_concurrency, execution, used.values())
    limits = {name: provider.default_limit or 0 for name, provider in used.items()}
    rates = {name: provider.default_open_per_second for name, provider in used.items()}
    return Controls(
        task_concurrency=number,
        concurrency_source=source,
        provider_limits={**limits, **settings.provider_limits},
        limit_sources={
            name: came_from(runtime.source_of(("provider_limits", name)))
            for name in {**limits, **settings.provider_limits}
        },
        results_dir=results_dir_of(runtime, settings.results_dir),
        open_per_second={**rates, **settings.env_open_qps},
        exclusive=frozenset(name for name, provider in used.items() if provider.exclusive),
        models=model_limits(models),
        lease_wait_seconds=settings.lease_wait_seconds,
        timeout_seconds=settings.timeout_seconds,
        cleanup_grace_seconds=settings.cleanup_grace_seconds,
        checkpoint_resume=settings.checkpoint_resume,
        record_url=record_url_of(runtime, settings.record_url),
        host_cpus=host_cpus() if settings.host_cpus is None else settings.host_cpus,
        host_memory_bytes=host_memory_bytes() if settings.host_memory is None else int(settings.host_memory),
        host_providers=frozenset(name for name, provider in used.items() if not provider.remote),
        host_sources={what: came_from(runtime.source_of((f"host_{what}",))) for what in ("cpus", "memory")},
        max_build_concurrency=settings.max_build_concurrency,
        keep_environment=settings.keep_environment,
    )


def came_from(source: Source) -> str:
    """Return where a value came from, as the PLAN line says it: `from flag`, `from proctor.yaml`, `default`."""
    if source.level is Level.BUILT_IN:
        return "default"
    typed = source.level is Level.FLAG and source.name.startswith("-")
    return "from flag" if typed else f"from {source.name}"


def _check_provider(name: str) -> None:
    if name not in names(Kind.PROVIDER):
        raise UnknownName("provider", name, names(Kind.PROVIDER), list_with=Kind.PROVIDER.list_with)


def _concurrency(setting: int | None, execution: Layered, providers: Iterable[Provider]) -> tuple[int, str]:
    """Spec 03 G1.1: the first that is set; recommendations of several providers add up, a silent one counting 32."""
    if setting is not None:
        return setting, came_from(execution.source_of(("task_concurrency",)))
    asked = {provider.name: provider.recommended_concurrency for provider in providers}
    if not any(asked.values()):
        return DEFAULT_TASK_CONCURRENCY, "default"
    numbers = {name: number or DEFAULT_TASK_CONCURRENCY for name, number in asked.items()}
    words = " + ".join(f"{name} {number}" for name, number in numbers.items())
    one = f"from {next(iter(numbers))} default"
    return sum(numbers.values()), one if len(numbers) == 1 else f"from {words} defaults"
