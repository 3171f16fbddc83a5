"""Limits of model endpoints, which all experiments of an invocation share (spec 03 G11)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from proctor.core.limits import ModelLimits
from proctor.core.plan import endpoint_name
from proctor.model.spec import Experiment, ModelSpec


def endpoints_of(experiment: Experiment) -> list[ModelSpec]:
    """Return the models whose endpoints an experiment may use: the agent's, and the judge."""
    return [model for model in (experiment.model, experiment.judge) if model is not None]


def model_limits(models: Iterable[ModelSpec]) -> dict[str, ModelLimits]:
    """Return the limits by endpoint: of those that experiments declare for one endpoint the smallest holds for all."""
    found: dict[str, ModelLimits] = {}
    for model in models:
        if model.max_connections or model.requests_per_minute:
            name = endpoint_name(model)
            known = found.get(name, ModelLimits())
            found[name] = ModelLimits(
                min(filter(None, (known.max_connections, model.max_connections)), default=None),
                min(filter(None, (known.requests_per_minute, model.requests_per_minute)), default=None),
            )
    return found


def differing_limits(models: Iterable[ModelSpec]) -> Iterator[str]:
    """Yield what to say of endpoints for which experiments declare different limits."""
    declared: dict[tuple[str, str], set[float]] = {}
    for model in models:
        for field in ("max_connections", "requests_per_minute"):
            limit: float | None = getattr(model, field)
            if limit:
                declared.setdefault((endpoint_name(model), field), set()).add(limit)
    for (name, field), limits in declared.items():
        if len(limits) > 1:
            numbers = ", ".join(f"{limit:g}" for limit in sorted(limits))
            yield f"model {name}: {field} is declared as {numbers}; the smallest holds for all that use it"
