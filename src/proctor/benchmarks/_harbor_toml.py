"""What a `task.toml` of the Harbor task format may say: every field that is published, no other."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Annotated, Any, Literal
from unicodedata import normalize

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Wait = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
User = str | int
Bound = Annotated[float, Field(allow_inf_nan=False)]

_IN_NO_NAME = r'<>:"/\\|?*\x00-\x1f\x7f'
"""Characters that no directory has in its name everywhere."""

_MEGABYTES = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Author(_Section):
    """Who wrote a task."""

    name: str
    email: str | None = None


class Package(_Section):
    """[task]: how the task is published."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$")]
    version: Text | None = None
    description: str = ""
    authors: list[Author] = Field(default_factory=list[Author])
    keywords: list[str] = Field(default_factory=list[str])


class _Networked(_Section):
    network_mode: Literal["public", "no-network", "allowlist"] | None = None
    allowed_hosts: list[Text] | None = None

    @model_validator(mode="after")
    def _hosts_need_a_list(self) -> _Networked:
        if self.allowed_hosts is not None and self.network_mode != "allowlist":
            raise ValueError("allowed_hosts is only for network_mode = 'allowlist'")
        return self


class Agent(_Networked):
    """[agent]: while the agent works."""

    timeout_sec: Seconds | None = None
    user: User | None = None


class Healthcheck(_Section):
    """[environment.healthcheck]: a command that has to succeed before the agent starts."""

    command: Text
    interval_sec: Wait = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: Wait = 0.0
    start_interval_sec: Wait = 5.0
    retries: int = Field(default=3, ge=1)


class Environment(_Networked):
    """[environment]: what the sandbox is made from, and what it may use."""

    build_timeout_sec: Seconds | None = None
    docker_image: Text | None = None
    os: str = "linux"
    cpus: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    memory_mb: int | None = Field(default=None, gt=0)
    storage_mb: int | None = Field(default=None, gt=0)
    gpus: int | None = Field(default=None, ge=0)
    gpu_types: list[str] | None = None
    tpu: dict[str, Any] | None = None
    mcp_servers: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    env: dict[str, str] = Field(default_factory=dict)
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None
    workdir: Annotated[str, Field(pattern=r"^/")] | None = None
    allow_internet: bool | None = None

    @field_validator("os")
    @classmethod
    def _lower(cls, value: str) -> str:
        return value.lower()

    @model_validator(mode="before")
    @classmethod
    def _older_names(cls, data: Any) -> Any:
        """Take `memory = "4G"` for `memory_mb`, `storage` likewise, and `allow_internet = false` for no network."""
        if not isinstance(data, dict):
            return data
        found: dict[str, Any] = dict(data)  # pyright: ignore[reportUnknownArgumentType] - any TOML table
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if old in found:
                megabytes = _megabytes(old, found.pop(old))
                if found.setdefault(new, megabytes) != megabytes:
                    raise ValueError(f"{old} and {new} contradict each other")
        return found

    @property
    def network(self) -> str:
        """The mode that holds, an older name considered."""
        if self.network_mode is not None:
            return self.network_mode
        return "no-network" if self.allow_internet is False else "public"


class Collect(_Section):
    """[[verifier.collect]]: a command after the agent's work."""

    command: str
    service: str = "main"
    timeout_sec: Seconds = 60.0
    user: User | None = None


class Verifier(_Networked):
    """[verifier]: how the tests are run."""

    timeout_sec: Seconds = 600.0
    env: dict[str, str] = Field(default_factory=dict)
    user: User | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: Environment | None = None
    collect: list[Collect] = Field(default_factory=list[Collect])

    @model_validator(mode="after")
    def _an_environment_is_apart(self) -> Verifier:
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError("an environment of its own is only for environment_mode = 'separate'")
        return self

    @property
    def separate(self) -> bool:
        """Whether the tests run in a sandbox of their own."""
        return self.environment_mode == "separate" or self.environment is not None


class Solution(_Section):
    """[solution]: what the reference solution is run with."""

    env: dict[str, str] = Field(default_factory=dict)


class ArtifactEntry(_Section):
    """One of `artifacts`: what is taken out of the sandbox."""

    source: Text
    destination: str | None = None
    exclude: list[str] = Field(default_factory=list[str])
    service: str | None = None


class Step(_Section):
    """[[steps]]: one message to the agent, with tests of its own. What it leaves out is as the task has it."""

    name: Annotated[str, Field(pattern=rf"^[^{_IN_NO_NAME}]*[^{_IN_NO_NAME}. ]$", max_length=255)]
    agent: Agent = Field(default_factory=Agent)
    verifier: Verifier = Field(default_factory=Verifier)
    min_reward: Bound | dict[Text, Bound] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: list[Text | ArtifactEntry] = Field(default_factory=list[str | ArtifactEntry])


class TaskToml(_Section):
    """The whole file."""

    schema_version: Annotated[str, Field(pattern=r"^[12]\.[0-9]$")] = "1.4"
    task: Package | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    verifier: Verifier = Field(default_factory=Verifier)
    agent: Agent = Field(default_factory=Agent)
    environment: Environment = Field(default_factory=Environment)
    solution: Solution = Field(default_factory=Solution)
    source: str | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    steps: list[Step] = Field(default_factory=list[Step])
    artifacts: list[Text | ArtifactEntry] = Field(default_factory=list[str | ArtifactEntry])

    @field_validator("steps")
    @classmethod
    def _each_name_once(cls, steps: list[Step]) -> list[Step]:
        names = [normalize("NFC", one.name).casefold() for one in steps]
        if len(set(names)) < len(names):
            raise ValueError("two steps have the same name")
        return steps

    @model_validator(mode="before")
    @classmethod
    def _older_name(cls, data: Any) -> Any:
        if isinstance(data, dict) and "version" in data and "schema_version" not in data:
            found: dict[str, Any] = dict(data)  # pyright: ignore[reportUnknownArgumentType] - any TOML table
            return {"schema_version": found.pop("version"), **found}
        return data  # pyright: ignore[reportUnknownVariableType] - checked by the model


class Unreadable(ValueError):
    """A `task.toml` that is none; `reasons` has all that is wrong with it."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


def parse(text: str) -> TaskToml:
    """Return what a `task.toml` says. Raises `Unreadable`."""
    try:
        return TaskToml.model_validate(tomllib.loads(text))
    except ValidationError as error:
        raise Unreadable(list(_reasons(error))) from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Unreadable([f"it is no TOML: {error}"]) from error


def _reasons(error: ValidationError) -> Iterator[str]:
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        place = ".".join(str(part) for part in one["loc"]) or "the file"
        unknown = one["type"] == "extra_forbidden"
        yield f"`{place}`: {'unknown field' if unknown else one['msg'].removeprefix('Value error, ')}"


def _megabytes(name: str, size: Any) -> int:
    text = str(size).strip().upper()
    try:
        megabytes = int(float(text[:-1]) * _MEGABYTES[text[-1:]])
    except (KeyError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be a size such as '4G' or '512M', not {size!r}") from error
    if megabytes < 1:
        raise ValueError(f"{name} must be at least 1 MB, not {size!r}")
    return megabytes


__all__ = ["ArtifactEntry", "Environment", "Healthcheck", "Step", "TaskToml", "Unreadable", "Verifier", "parse"]
