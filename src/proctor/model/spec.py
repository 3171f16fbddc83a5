"""What is declared and resolved before anything starts: experiments, tasks, models, environments, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proctor.model.attempt import GradingMode
from proctor.model.environment import DEFAULT_ENVIRONMENT, EnvironmentSpec
from proctor.model.price import ModelPrice

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
    max_connections: int | None = None
    requests_per_minute: float | None = None
    price: ModelPrice | None = None
    """What its tokens cost, where that is said; a table of prices may know it all the same."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory of this machine. `digest` is of everything that is in it, and stands for the path."""

    path: str
    digest: str


def _no_folders() -> dict[str, Folder]:
    return {}


def _no_code() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Reference:
    """The task author's solution, for `oracle` only: an answer, a script or command to run in the sandbox, or calls.

    `folders` are put into the sandbox first, each at the absolute path that is its key. `env` is for script and
    command; a value `${NAME}` or `${NAME:-default}` stands for a variable of this machine. `calls`
    are of the benchmark's tools, each `{"name", "arguments"}`. `steps` are the solutions of a task of several steps, by
    their names.
    """

    answer: str | None = None
    script: str | None = None
    command: str | None = None
    folders: Mapping[str, Folder] = field(default_factory=_no_folders)
    env: Mapping[str, str] = field(default_factory=_no_code)
    calls: tuple[Mapping[str, Json], ...] = ()
    steps: Mapping[str, Reference] = field(default_factory=dict[str, "Reference"])


def _no_files() -> dict[str, bytes]:
    return {}


ARTIFACT_LIMIT_BYTES = 64 * 1024 * 1024
"""What is kept of an artifact unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file or directory that is taken out of the agent's sandbox in phase collect.

    `path` is relative to the work directory, or absolute inside the sandbox. One that is `required` and missing is
    the agent's doing (`collect.required_missing`); what is beyond `max_bytes` in all is left out.
    """

    path: str
    required: bool = False
    max_bytes: int = ARTIFACT_LIMIT_BYTES


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
    grade_environment: EnvironmentSpec | None = None
    """What grading `fresh` opens its own sandbox from, where that is not `environment`."""
    needs_sandbox: bool = False
    artifacts: tuple[Artifact, ...] = ()
    """What is taken out of the agent's sandbox, which the task needs then; grading `fresh` finds it in its own sandbox,
    at the same paths."""
    agent_timeout_seconds: float | None = None
    """Limit of the agent phase, where the experiment sets none."""
    grade_timeout_seconds: float | None = None
    """Limit of phase grade, where the experiment leaves it at its default."""
    timeout_seconds: float | None = None
    """Limit of a whole try, where the experiment sets none."""
    group: str | None = None
    """The task group that it is a member of."""
    code: Mapping[str, str] = field(default_factory=_no_code)
    """What code it consists of: the name of each file or package, and its digest or version."""
    hidden: Mapping[str, Folder] = field(default_factory=_no_folders)
    """What only its grader sees, by a name that the grader's parameters know."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Limits of a try in seconds of execution; `None` is none.

    `try_seconds` bounds all phases together but `dispose`. `agent_idle_seconds` bounds how long the agent may give no
    sign of life: output, a model call, progress. `task_factor` is what the limits that a task declares are multiplied
    by.
    """

    open_seconds: float | None = 600.0
    setup_seconds: float | None = 600.0
    agent_seconds: float | None = None
    collect_seconds: float | None = 120.0
    grade_seconds: float | None = 600.0
    dispose_seconds: float | None = 60.0
    try_seconds: float | None = None
    agent_idle_seconds: float | None = None
    task_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class RetrySpec:
    """Tries after the first: how many, for which ERROR issues besides the FATAL ones, and how long to wait before one.

    `patterns` are regular expressions for code or message. Waits double from the least to the longest; a server's
    Retry-After is obeyed where it is longer, up to the cap.
    """

    max_retries: int = 0
    patterns: tuple[str, ...] = ()
    min_delay_seconds: float = 5.0
    max_delay_seconds: float = 60.0
    retry_after_cap_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Experiment:
    """One declared configuration, resolved: benchmark x harness x model x environment, plus its run controls."""

    name: str
    benchmark: Component
    harness: Component
    model: ModelSpec | None = None
    judge: ModelSpec | None = None
    """The model that graders ask, where they need one."""
    environment: EnvironmentSpec = DEFAULT_ENVIRONMENT
    attempts: int = 1
    max_concurrency: int | None = None
    grading: GradingMode = GradingMode.NONE
    limits: TimeLimits = TimeLimits()
    retry: RetrySpec = RetrySpec()
    early_exit: bool = False
    budget_usd: float | None = None
    expected_cost_usd: float | None = None
    """Of one attempt, for the budget, until one was seen."""
    stop_on_repeated: int = 3
    setup: str | None = None
    """Dotted path of the setup hook, `package.module:function`."""
    teardown: str | None = None
    shared_state_key: str | None = None
    sandbox_reuse: bool = False
    """Whether attempts run one after another in sandboxes that are reset in between."""
    flags: Mapping[str, Json] = field(default_factory=_no_params)
    artifacts: tuple[Artifact, ...] = ()
    """What is kept of every task's sandbox, beside what the tasks declare."""
    sandbox_setup: str | None = None
    """Path of the function that is called once with each physical sandbox of an agent, before anything else is done."""
    sandbox_teardown: str | None = None
    code: Mapping[str, str] = field(default_factory=_no_code)
    """What its hooks stand for, by the name of the hook: the identity that they declare, else the digest of their
    source."""
    directory: str | None = None
    """The name of the directory of its runs, where it is not made of model, benchmark and harness."""
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=_no_code)
    """Free words for people, kept with the run."""
