"""What every try of an experiment is bound by: time limits, the mode of grading, what is kept of its sandbox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from proctor.config.schema import OF_EXECUTION, ExecutionConfig, ExperimentConfig
from proctor.config.values import SECONDS_AT_MOST
from proctor.errors import UsageError
from proctor.model.attempt import GradingMode
from proctor.model.spec import Artifact, TimeLimits
from proctor.plugins.api import Benchmark

LIMIT_FIELDS: Mapping[str, str] = {
    "open_timeout_seconds": "open_seconds",
    "setup_timeout_seconds": "setup_seconds",
    "agent_timeout_seconds": "agent_seconds",
    "agent_idle_timeout_seconds": "agent_idle_seconds",
    "collect_timeout_seconds": "collect_seconds",
    "grade_timeout_seconds": "grade_seconds",
    "dispose_timeout_seconds": "dispose_seconds",
    "timeout_seconds": "try_seconds",
}
"""Fields of an experiment that limit a try, by what each becomes."""

TIGHTER = (GradingMode.REUSE, GradingMode.FRESH, GradingMode.NONE)
"""From the loosest to the tightest: the less the grader sees of what the agent did beside its work."""


def stated(config: ExperimentConfig, execution: ExecutionConfig, name: str) -> Any:
    """Return what an experiment says, or else what `execution` has for those that say nothing, if it has the field."""
    silent = name in OF_EXECUTION and name not in config.model_fields_set
    return getattr(execution if silent else config, name)


def time_limits(config: ExperimentConfig, execution: ExecutionConfig) -> TimeLimits:
    """Return the limits of a try, scaled. Raises `UsageError`."""
    factor = execution.timeout_multiplier
    scaled: dict[str, float | None] = {}
    for field, limit in LIMIT_FIELDS.items():
        seconds: float | None = stated(config, execution, field)
        if seconds is not None:
            seconds *= factor
            if not 0 < seconds <= SECONDS_AT_MOST:
                raise UsageError(
                    f"`{field}`: scaled by {factor:g} it is {seconds:g} s, which is no limit of a try",
                    hint="change it, or `--timeout-multiplier` (`execution.timeout_multiplier`)",
                )
        scaled[limit] = seconds
    return TimeLimits(**scaled, task_factor=factor)


def grading_mode(config: ExperimentConfig, benchmark: Benchmark) -> GradingMode:
    """Return how attempts are graded: as the benchmark declares, or tighter where it allows that.

    Raises `UsageError` for a looser mode, and for a tighter one that the benchmark cannot be graded in.
    """
    declared = GradingMode(benchmark.grading)
    if config.grading is None:
        return declared
    wanted = GradingMode(config.grading)
    if TIGHTER.index(wanted) < TIGHTER.index(declared):
        raise UsageError(
            f"`grading`: {wanted} is looser than {declared}, in which benchmark `{config.benchmark.id}` is graded",
            hint="leave it out; it may only be tightened, from reuse to fresh to none",
        )
    allowed = {declared, *map(GradingMode, benchmark.gradings)}
    if wanted not in allowed:
        modes = ", ".join(
            mode for mode in TIGHTER if mode in allowed and TIGHTER.index(mode) >= TIGHTER.index(declared)
        )
        raise UsageError(
            f"`grading`: benchmark `{config.benchmark.id}` cannot be graded in mode {wanted}",
            hint=f"it can be in: {modes}",
        )
    return wanted


def graded_in_place(config: ExperimentConfig, benchmark: Benchmark | None) -> bool:
    """Say whether the sandbox of the agent is that of grading as well; of a mode that cannot be it is said later."""
    return benchmark is not None and (config.grading or benchmark.grading) == GradingMode.REUSE


def kept_artifacts(config: ExperimentConfig) -> tuple[Artifact, ...]:
    """Return what is kept of every sandbox. Raises `UsageError` for a path that is named twice."""
    twice = [path for path, count in Counter(one.path for one in config.artifacts).items() if count > 1]
    if twice:
        raise UsageError(f"`artifacts`: `{twice[0]}` is there twice", hint="name each path once")
    return tuple(Artifact(one.path, one.required, one.max_bytes) for one in config.artifacts)
