"""What people type, as pydantic models: every field has one name on every door, and unknown fields are errors."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


def _whole_number(value: Any) -> Any:
    """Refuse what pydantic would turn into an integer in silence: booleans, and floats without a fraction."""
    if isinstance(value, bool | float):
        raise ValueError("must be a whole number")
    return value


def _not_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _finite_positive(value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueError("must be a finite number of seconds above 0")
    return value


def _directory(value: str) -> str:
    if not value or "\0" in value:
        raise ValueError("must be the name of a directory")
    return value


Count = Annotated[int, BeforeValidator(_whole_number), Field(ge=1)]
"""A whole number of at least 1."""

LimitOrOff = Annotated[int, BeforeValidator(_whole_number), Field(ge=0)]
"""A whole number of at least 1, or 0 for off."""


def _positive(value: float) -> float:
    if not 0 < value < float("inf"):
        raise ValueError("must be a finite number above 0")
    return value


def _not_negative(value: float) -> float:
    if not 0 <= value < float("inf"):
        raise ValueError("must be a finite number of at least 0")
    return value


def _pattern(value: str) -> str:
    if not value:
        raise ValueError("a pattern must not be empty: it would match everything")
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from None
    return value


Positive = Annotated[float, BeforeValidator(_not_boolean), AfterValidator(_positive)]
"""A finite number above 0."""

RateOrOff = Annotated[float, BeforeValidator(_not_boolean), AfterValidator(_not_negative)]
"""A finite number above 0, or 0 for off."""

Pattern = Annotated[str, AfterValidator(_pattern)]
"""A regular expression."""

Seconds = Annotated[float, BeforeValidator(_not_boolean), AfterValidator(_finite_positive)]
"""A finite time above 0; `inf`, `nan`, 0 and negative times are errors, so that no limit can be switched off by one."""

Directory = Annotated[str, AfterValidator(_directory)]
"""The name of a directory; the empty text is none."""


class Config(BaseModel):
    """Base of all: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ComponentConfig(Config):
    """A benchmark or harness by id, with its parameters."""

    id: str
    params: dict[str, Any] = {}


class ModelConfig(Config):
    """A model: its id, its endpoint, its parameters."""

    id: str
    base_url: str | None = None
    """Address of an OpenAI-compatible endpoint, `/v1` included; it is written down, and holds no credential."""
    api_key: str | None = None
    """Credential; never written anywhere. Default: the environment variable of the model family."""
    identity: str | None = None
    """What the endpoint counts as when results are compared for reuse. Default: its host name."""
    params: dict[str, Any] = {}
    """Sampling parameters, such as `temperature`."""
    max_connections: Count | None = None
    """Attempts that use this endpoint at once, over all experiments."""
    requests_per_minute: Positive | None = None
    """Starts of attempts on this endpoint per minute."""


class EnvironmentConfig(Config):
    """The environment of the sandboxes."""

    provider: str = "local"
    env: dict[str, str] = {}
    """Environment variables of every command in the sandbox."""


class SharedStateConfig(Config):
    """Outside state that only one run may use at a time."""

    key: str


class ExperimentConfig(Config):
    """One experiment: benchmark x harness x model x environment, and its run controls."""

    benchmark: ComponentConfig
    harness: ComponentConfig
    model: ModelConfig | None = None
    environment: EnvironmentConfig = EnvironmentConfig()
    attempts: Count = 1
    """Attempts per task."""
    max_concurrency: Count | None = None
    """The experiment's own cap on attempts at once, beside the global one."""
    agent_timeout_seconds: Seconds | None = None
    """Limit of the agent phase of a try."""
    grade_timeout_seconds: Seconds = 600.0
    """Limit of the grade phase of a try."""
    max_retries: LimitOrOff = 0
    """Tries of an attempt after the first; a wrong answer is never tried again."""
    retry_pattern_list: tuple[Pattern, ...] = ()
    """Regular expressions for code or message of ERROR issues that deserve another try."""
    early_exit: bool = False
    """Whether a task is done with its first passed attempt."""
    budget: Positive | None = None
    """US dollars that the experiment may spend."""
    expected_cost_per_attempt: Positive | None = None
    """US dollars to reserve for an attempt, until the cost of one was seen."""
    stop_on_repeated: LimitOrOff = 3
    """Permanent failures in a row with one code that stop a provider or model; 0 is off."""
    setup: str | None = None
    """Hook before the first sandbox, as `package.module:function`."""
    teardown: str | None = None
    """Hook after the last sandbox, whenever setup began; must be repeatable."""
    shared_state: SharedStateConfig | None = None
    sandbox_reuse: bool = False
    """Whether attempts run one after another in sandboxes that are reset in between."""
    flags: dict[str, Any] = {}
    """Free values that harness and tasks can read; part of the identity."""


class ExecutionConfig(Config):
    """How much runs at once."""

    task_concurrency: Count | None = None
    """The global limit: attempts executing at once, over all experiments."""
    retry_min_delay_seconds: Seconds = 5.0
    retry_max_delay_seconds: Seconds = 60.0
    retry_after_cap_seconds: Seconds = 600.0
    """The longest Retry-After of a server that is obeyed."""


class RuntimeConfig(Config):
    """Where and how it runs."""

    provider_limits: dict[str, LimitOrOff] = {}
    """Attempts executing at once through a provider; 0 is off."""
    results_dir: Directory = "results"
    env_open_qps: dict[str, RateOrOff] = {}
    """Sandboxes opened per second at a provider; 0 is off."""
    lease_wait_seconds: Seconds | None = None
    """How long to wait for shared state. Default: without end on a terminal, else 600 s."""


SECTIONS: dict[str, type[Config]] = {"execution": ExecutionConfig, "runtime": RuntimeConfig}
"""Top-level sections that `--set` addresses by name; every other first word is a field of the experiment."""
