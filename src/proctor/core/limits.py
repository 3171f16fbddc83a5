"""The limits of an invocation, checked where they are made (spec 03 G1 to G11)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proctor.errors import UsageError


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Limits of one model endpoint (G11): attempts that use it at a time, and starts of attempts in a minute."""

    max_connections: int | None = None
    requests_per_minute: float | None = None


@dataclass(frozen=True, slots=True)
class GateLimits:
    """The limits of an invocation; a name that is missing, None or 0 has no limit.

    `providers`: sandboxes at a time (G3). `open_per_second`: sandboxes opened (G4). `exclusive`: providers that are
    right only one at a time (G5). `host_cpus` and `host_memory_bytes`: what this machine has for the sandboxes of
    `host_providers` (G10). `models`: by endpoint (G11). Raises `UsageError`, naming the field, for anything but numbers
    in range (G1.3); `True` is not a number here.
    """

    task_concurrency: int = 32
    providers: Mapping[str, int | None] = field(default_factory=dict[str, int | None])
    open_per_second: Mapping[str, float] = field(default_factory=dict[str, float])
    exclusive: frozenset[str] = frozenset()
    host_cpus: float | None = None
    host_memory_bytes: int | None = None
    host_providers: frozenset[str] = frozenset()
    models: Mapping[str, ModelLimits] = field(default_factory=dict[str, ModelLimits])

    def __post_init__(self) -> None:
        if type(self.task_concurrency) is not int or self.task_concurrency < 1:
            raise UsageError(
                f"task_concurrency must be an integer of at least 1, not {self.task_concurrency!r}",
                hint="pass a number such as `--task-concurrency 8`",
            )
        for name, limit in self.providers.items():
            if limit is not None and (type(limit) is not int or limit < 0):
                raise UsageError(
                    f"the limit of provider `{name}` must be an integer of at least 0, not {limit!r}",
                    hint=f"pass a number such as `--provider-limit {name}=8`; 0 is off",
                )
        for name, rate in self.open_per_second.items():
            if not _is_number(rate):
                raise UsageError(
                    f"the open rate of provider `{name}` must be a number of at least 0, not {rate!r}",
                    hint=f"pass a number such as `--env-open-qps {name}=4`; 0 is off",
                )
        for name, of_model in self.models.items():
            _check_model(name, of_model)
        for name, value in (("host_cpus", self.host_cpus), ("host_memory_bytes", self.host_memory_bytes)):
            if value is not None and (not _is_number(value) or value == 0):
                raise UsageError(f"{name} must be a number above 0, not {value!r}", hint=f"mend {name}")

    def of_provider(self, name: str) -> int | None:
        """Return how many sandboxes a provider may have at a time, or None where it has no limit."""
        return self.providers.get(name) or None

    def open_interval_seconds(self, name: str) -> float:
        """Return how far apart openings at a provider have to start; 0 where there is no pace."""
        rate = self.open_per_second.get(name, 0.0)
        return 1.0 / rate if rate else 0.0

    def of_model(self, name: str) -> ModelLimits:
        """Return the limits of a model endpoint."""
        return self.models.get(name, _NO_LIMITS)


_NO_LIMITS = ModelLimits()


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


def _check_model(name: str, limits: ModelLimits) -> None:
    most: Any = limits.max_connections
    if most is not None and (type(most) is not int or most < 1):
        raise UsageError(
            f"max_connections of model `{name}` must be an integer of at least 1, not {most!r}",
            hint="set model.max_connections to 1 or more",
        )
    rate = limits.requests_per_minute
    if rate is not None and (not _is_number(rate) or rate == 0):
        raise UsageError(
            f"requests_per_minute of model `{name}` must be a number above 0, not {rate!r}",
            hint="set model.requests_per_minute to a number such as 60",
        )
