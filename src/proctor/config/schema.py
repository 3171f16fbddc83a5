"""What people type, as pydantic models: every field has one name on every door, and unknown fields are errors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from proctor.authoring.environment_fields import EnvironmentConfig
from proctor.authoring.environment_values import Memory
from proctor.authoring.field_values import Config
from proctor.config.values import (
    Count,
    Directory,
    LimitOrOff,
    Listed,
    Params,
    PathInside,
    Patterns,
    Positive,
    RateOrOff,
    Seconds,
    Word,
    not_yet,
)
from proctor.model.spec import ARTIFACT_LIMIT_BYTES


class ComponentConfig(Config):
    """A benchmark or harness by id, with its parameters."""

    id: str
    """The name of the plugin, or `package.module:Name`."""
    params: Params = Field(default={})
    """Its parameters; which there are, the plugin says."""


Price = Annotated[RateOrOff, Field(le=1_000_000)]
"""US dollars per million tokens; more than a dollar for a token is a mistake."""


class PriceConfig(Config):
    """Prices of a model in US dollars per million tokens; 0 is free, and what is left out is unknown."""

    input: Price | None = None
    """Input that is neither read from nor written to a cache."""
    output: Price | None = None
    """Output."""
    cache_read: Price | None = None
    """Input that is read from a cache. Default: 0 where `input` is 0."""
    cache_write: Price | None = None
    """Input that is written to a cache. Default: 0 where `input` is 0."""
    reasoning: Price | None = None
    """Reasoning, which is a part of the output. Default: as `output`."""


class EndpointConfig(Config):
    """An endpoint of a model, and its parameters."""

    base_url: str | None = None
    """Address of an OpenAI-compatible endpoint, `/v1` included; it is written down, and holds no credential."""
    api_key: str | None = None
    """Credential; never written anywhere. Default: the environment variable of the model family."""
    identity: str | None = None
    """What the endpoint counts as when results are compared for reuse. Default: its host name."""
    params: Params = Field(default={})
    """Sampling parameters, such as `temperature`."""
    max_connections: Count | None = None
    """Attempts that use this endpoint at once, over all experiments."""
    requests_per_minute: Positive | None = None
    """Starts of attempts on this endpoint per minute."""
    price: PriceConfig | None = None
    """What its tokens cost. Default: what the table of prices says; an endpoint of your own is not in it."""


class ModelConfig(EndpointConfig):
    """A model: its id, its endpoint, its parameters."""

    id: str
    """What the endpoint calls it, or `mock/...`; or a name among the `models` of the project."""


class SharedStateConfig(Config):
    """Outside state that only one run may use at a time."""

    key: str
    """What it is called by everything that uses it."""


class ArtifactConfig(Config):
    """A file or directory that is taken out of the agent's sandbox when the agent is done."""

    path: PathInside
    """Relative to the work directory, or absolute in the sandbox."""
    required: bool = False
    """Whether it is the agent's failure when it is missing."""
    max_bytes: Count = ARTIFACT_LIMIT_BYTES
    """How much is kept of it in all."""


class ExperimentConfig(Config):
    """One experiment: benchmark x harness x model x environment, and its run controls."""

    benchmark: ComponentConfig
    """Where the tasks come from."""
    harness: ComponentConfig
    """What works on them."""
    model: ModelConfig | None = None
    """The model that the harness drives, where it needs one."""
    judge: ModelConfig | None = None
    """The model that graders ask, where they need one; as `model`."""
    environment: EnvironmentConfig = EnvironmentConfig()
    """Where the work is done."""
    attempts: Count = 1
    """Attempts per task."""
    max_concurrency: Count | None = None
    """The experiment's own cap on attempts at once, beside the global one."""
    grading: Literal["none", "fresh", "reuse"] | None = None
    """Where grading happens, at most as loose as the benchmark declares. Default: as it declares."""
    artifacts: Annotated[tuple[ArtifactConfig, ...], Listed] = ()
    """What is kept of every task's sandbox, beside what the tasks declare."""
    open_timeout_seconds: Seconds = 600.0
    """Limit of opening a sandbox."""
    setup_timeout_seconds: Seconds = 600.0
    """Limit of the setup phase of a try: the task's material, and the start of the harness."""
    agent_timeout_seconds: Seconds | None = None
    """Limit of the agent phase of a try."""
    agent_idle_timeout_seconds: Seconds | None = None
    """How long the agent may give no sign of life: output, a model call, progress."""
    collect_timeout_seconds: Seconds = 120.0
    """Limit of taking out what the agent left behind."""
    grade_timeout_seconds: Seconds = 600.0
    """Limit of the grade phase of a try."""
    dispose_timeout_seconds: Seconds = 60.0
    """Limit of disposing of a sandbox."""
    timeout_seconds: Seconds | None = None
    """Limit of a whole try: all its phases together but dispose."""
    max_retries: LimitOrOff | None = None
    """Tries of an attempt after the first; a wrong answer is never tried again. Default: that of `execution`."""
    retry_pattern_list: Patterns = ()
    """Regular expressions for code or message of ERROR issues that deserve another try. Default: `execution`'s."""
    early_exit: bool = False
    """Whether a task is done with its first passed attempt."""
    budget: Positive | None = None
    """US dollars that the experiment may spend."""
    expected_cost_per_attempt: Positive | None = None
    """US dollars to reserve for an attempt, until the cost of one was seen."""
    stop_on_repeated: LimitOrOff = 3
    """Permanent failures in a row with one code that stop a provider or model; 0 is off."""
    setup: str | None = None
    """Hook before the first sandbox, as `package.module:function`, or `path/to/file.py:function` from the project."""
    teardown: str | None = None
    """Hook after the last sandbox, whenever setup began; must be repeatable."""
    sandbox_setup: str | None = None
    """Function that is called once with each physical sandbox of an agent, as `setup` is written."""
    sandbox_teardown: str | None = None
    """The same before the sandbox goes, whenever `sandbox_setup` began."""
    shared_state: SharedStateConfig | None = None
    """Outside state that is this experiment's alone while it runs."""
    sandbox_reuse: bool = False
    """Whether attempts run one after another in sandboxes that are reset in between."""
    flags: dict[str, Any] = Field(default={})
    """Free values that harness and tasks can read; part of the identity."""
    tags: Annotated[tuple[Word, ...], Listed] = ()
    """Words that `--tag` chooses the whole experiment by."""
    labels: dict[str, str] = Field(default={})
    """Texts by name, for people; they are kept with the run and are no part of the identity."""


class ExecutionConfig(Config):
    """How much runs at once, and how often what fails is tried again."""

    task_concurrency: Count | None = None
    """The global limit: attempts executing at once, over all experiments."""
    attempts: Count = 1
    """Attempts per task, of experiments that say nothing of it; likewise the five below."""
    max_retries: LimitOrOff = 0
    """Tries of an attempt after the first."""
    retry_pattern_list: Patterns = ()
    """Regular expressions for code or message of ERROR issues that deserve another try."""
    agent_timeout_seconds: Seconds | None = None
    """Limit of the agent phase of a try."""
    timeout_seconds: Seconds | None = None
    """Limit of a whole try: all its phases together but dispose."""
    retry_min_delay_seconds: Seconds = 5.0
    """How long at least is waited before another try; it doubles from try to try."""
    retry_max_delay_seconds: Seconds = 60.0
    """How long at most, where a server asks for nothing longer."""
    retry_after_cap_seconds: Seconds = 600.0
    """The longest Retry-After of a server that is obeyed."""
    timeout_multiplier: Positive = 1.0
    """Scales every limit of a try."""


class RuntimeConfig(Config):
    """Where and how it runs."""

    provider_limits: dict[str, LimitOrOff] = Field(default={})
    """Attempts executing at once through a provider; 0 is off."""
    results_dir: Directory = "results"
    """The directory of all results; in a file relative to that file, else to where the command is given."""
    env_open_qps: dict[str, RateOrOff] = Field(default={})
    """Sandboxes opened per second at a provider; 0 is off."""
    checkpoint_resume: bool = True
    """Whether work of an earlier run that was saved and not graded is only graded, with `--reuse`."""
    record_url: str | None = None
    """Where the record is. Default: `.proctor/record.sqlite` in the results directory."""
    lease_wait_seconds: Seconds | None = None
    """How long to wait for shared state. Default: without end on a terminal, else 600 s."""
    timeout_seconds: Seconds | None = None
    """Limit of the whole invocation, after which it is interrupted."""
    cleanup_grace_seconds: Seconds = 30.0
    """How long what is cancelled by an interrupt may take to clean up."""
    engine: Annotated[Literal["local", "ray"], not_yet("local")] = "local"
    """Where tries execute: in this process."""
    keep_environment: Literal["failed", "all"] | None = None
    """Whether sandboxes are kept after their try: those of tries that did not pass, or all."""
    host_cpus: Positive | None = None
    """CPUs that sandboxes on this machine may declare in all. Default: those that this process may use."""
    host_memory: Memory | None = None
    """Memory that sandboxes on this machine may declare in all, such as `16GiB`. Default: what this machine has."""
    max_build_concurrency: Count = 2
    """Images that are built or fetched at once."""


OF_EXECUTION = tuple(name for name in ExecutionConfig.model_fields if name in ExperimentConfig.model_fields)
"""Fields of an experiment that `execution` has for those that say nothing of them."""

SECTIONS: dict[str, type[Config]] = {"execution": ExecutionConfig, "runtime": RuntimeConfig}
"""Top-level sections that `--set` addresses by name; every other first word is a field of the experiment."""
