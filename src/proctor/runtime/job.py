"""What one try needs, made by whoever wires the program."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from proctor.core.schedule import RetryPolicy
from proctor.model.attempt import GradingMode
from proctor.model.spec import EnvironmentSpec, Json, Task, TimeLimits
from proctor.plugins.api import Benchmark, Grader, Harness, Model, Provider
from proctor.runtime.lanes import Lane

Save = Callable[[str, bytes | Json], None]
"""Keeps evidence of a try under a name: bytes as they are, anything else as JSON."""


@dataclass(frozen=True, slots=True)
class TryJob:
    """Everything that one try needs; plugins are made and validated, nothing is looked up by name any more."""

    attempt: str
    try_number: int
    task: Task
    benchmark: Benchmark
    harness: Harness
    grader: Grader
    grading: GradingMode
    provider: Provider
    environment: EnvironmentSpec
    agent_sandbox: bool
    limits: TimeLimits
    model: Model | None = None
    flags: Mapping[str, Json] = field(default_factory=dict[str, Json])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    log_level: int = logging.DEBUG
    lane: Lane | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """How long what is refused inside the try is waited for."""
