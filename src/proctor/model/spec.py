"""What is declared and resolved before anything starts: experiments, tasks, models, environments, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proctor.model.attempt import GradingMode

Json = Any
"""A JSON value: None, bool, int, float, str, list of Json, dict of str to Json."""


def _no_params() -> dict[str, Json]:
    return {}


@dataclass(frozen=True, slots=True)
class Component:
    """A plugin by id, with its parameters as validated JSON values."""

    id: str
    params: Mapping[str, Json] = field(default_factory=_no_params)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model id, its endpoint and its parameters. `api_key` is a credential: never written, never hashed."""

    id: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    identity: str | None = None
    params: Mapping[str, Json] = field(default_factory=_no_params)


@dataclass(frozen=True, slots=True)
class Resources:
    """What a sandbox may use; `None` is undeclared and counts 0 at the host gate."""

    cpus: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What a sandbox is made from: dead, hashable data."""

    provider: str = "local"
    image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    resources: Resources = Resources()
    network: str = "full"


@dataclass(frozen=True, slots=True)
class Reference:
    """The task author's solution, for `oracle` only: an answer, or a script to run in the sandbox."""

    answer: str | None = None
    script: str | None = None


def _no_files() -> dict[str, bytes]:
    return {}


@dataclass(frozen=True, slots=True)
class Task:
    """One problem: prompt, files, environment declaration, grader.

    `grader` parameters are hidden from the agent. `needs_sandbox` says that the work on the task needs a sandbox even
    if the harness would not; a task without it is worked on without one, which costs nothing to open.
    """

    id: str
    grader: Component
    prompt: str = ""
    files: Mapping[str, bytes] = field(default_factory=_no_files)
    reference: Reference | None = None
    tags: tuple[str, ...] = ()
    environment: EnvironmentSpec | None = None
    needs_sandbox: bool = False


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Limits of a try in seconds of execution; `None` is none."""

    open_seconds: float | None = 600.0
    setup_seconds: float | None = 600.0
    agent_seconds: float | None = None
    collect_seconds: float | None = 120.0
    grade_seconds: float | None = 600.0
    dispose_seconds: float | None = 60.0


@dataclass(frozen=True, slots=True)
class Experiment:
    """One declared configuration, resolved: benchmark x harness x model x environment, plus its run controls."""

    name: str
    benchmark: Component
    harness: Component
    model: ModelSpec | None = None
    environment: EnvironmentSpec = EnvironmentSpec()
    attempts: int = 1
    max_concurrency: int | None = None
    grading: GradingMode = GradingMode.NONE
    limits: TimeLimits = TimeLimits()
    flags: Mapping[str, Json] = field(default_factory=_no_params)
