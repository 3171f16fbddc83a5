"""What cannot be had together, each in one row: all that applies is said at once, before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proctor.config.layers import FieldPath, Layered
from proctor.config.problems import ConfigErrors, Problem
from proctor.config.schema import ExecutionConfig, ExperimentConfig, ModelConfig
from proctor.harnesses.command_endpoint import why_unreachable
from proctor.plugins.api import Benchmark, Harness, Provider
from proctor.report.wording import plural


@dataclass(frozen=True, slots=True)
class Facts:
    """An experiment as far as it is known before its tasks are read."""

    config: ExperimentConfig
    execution: ExecutionConfig
    provider: Provider
    benchmark: Benchmark
    harness: Harness
    fields: Layered


@dataclass(frozen=True, slots=True)
class Combination:
    """One thing that cannot be: the field to point at, when it applies, what is said, and what to do."""

    path: FieldPath
    applies: Callable[[Facts], bool]
    message: Callable[[Facts], str]
    hint: str
    of_execution: bool = False


def _model_inside(facts: Facts) -> ModelConfig | None:
    """Return the model, where a program of the harness calls it from inside of the sandbox."""
    return facts.config.model if getattr(facts.harness, "calls_model_inside", False) else None


def _turns(facts: Facts) -> int:
    """Return how many turns a session of the benchmark's tasks has at most, as far as that is known beforehand."""
    return getattr(facts.benchmark, "turns", 1)


def _unreachable(facts: Facts) -> str | None:
    model = _model_inside(facts)
    return None if model is None else why_unreachable(model.id)


COMBINATIONS: tuple[Combination, ...] = (
    Combination(
        ("sandbox_reuse",),
        lambda facts: facts.config.sandbox_reuse and not facts.provider.capabilities.reuse,
        lambda facts: f"provider `{facts.provider.name}` cannot reuse sandboxes",
        "leave `sandbox_reuse` out",
    ),
    Combination(
        ("retry_min_delay_seconds",),
        lambda facts: facts.execution.retry_min_delay_seconds > facts.execution.retry_max_delay_seconds,
        lambda facts: "execution.retry_min_delay_seconds is above retry_max_delay_seconds",
        "swap or raise one",
        of_execution=True,
    ),
    Combination(
        ("model", "id"),
        lambda facts: _unreachable(facts) is not None,
        lambda facts: f"harness `{facts.harness.name}` runs a program, and {_unreachable(facts)}",
        "take a model behind an endpoint; `python -m proctor.testing.model_server` is one for trying things out",
    ),
    Combination(
        ("model", "params"),
        lambda facts: (model := _model_inside(facts)) is not None and bool(model.params),
        lambda facts: f"harness `{facts.harness.name}` calls the model itself, and does not know of model.params",
        "leave `model.params` out; what the program has for it goes into `harness.params`, such as `args`",
    ),
    Combination(
        ("harness", "id"),
        lambda facts: hasattr(facts.benchmark, "tools") and not getattr(facts.harness, "takes_tools", False),
        lambda facts: (
            f"benchmark `{facts.benchmark.name}` has tools of its own, and harness `{facts.harness.name}` "
            "offers none to its model"
        ),
        "take one that does, such as `bash-agent`",
    ),
    Combination(
        ("harness", "id"),
        lambda facts: (turns := getattr(facts.harness, "turns", None)) is not None and turns < _turns(facts),
        lambda facts: (
            f"benchmark `{facts.benchmark.name}` has a task of {_turns(facts)} turns in one session, and harness "
            f"`{facts.harness.name}` takes {plural(getattr(facts.harness, 'turns', 1), 'turn')}"
        ),
        "take a harness that can go on with a session, or leave `benchmark.params.resume` out",
    ),
)
"""Later features add their rows here."""


def refuse_combinations(facts: Facts, execution: Layered) -> None:
    """Raise one `UsageError` that lists every combination that cannot be; `execution` are the layers of the section."""
    found = [
        Problem(
            row.message(facts),
            row.hint,
            (execution if row.of_execution else facts.fields).source_of(row.path),
        )
        for row in COMBINATIONS
        if row.applies(facts)
    ]
    if found:
        raise ConfigErrors(found)
