"""Environments as people declare them: in files, on the command line and in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self, cast

from pydantic import BeforeValidator, Field, field_validator, model_validator

from proctor.authoring.environment_values import (
    Host,
    Image,
    LocalPath,
    Memory,
    Service,
    User,
    Variables,
    Workdir,
)
from proctor.authoring.field_values import Config, Count, Positive
from proctor.model.environment import FULL_NETWORK, Network

MODES = ("none", "full")
"""Network policies that are one word."""

FILE_SYSTEMS = ("image", "build", "compose")
"""What says what the file system of a sandbox is; an environment has one of them."""

_POLICY = "`none`, `full` or {allow: [HOST, ...]}"


def _also(*forms: Mapping[str, Any]) -> Any:
    """Return what adds short forms to the schema of a field that may be left out."""

    def add(schema: dict[str, Any]) -> None:
        schema["anyOf"] = [*forms, *schema.get("anyOf", ())]

    return Field(json_schema_extra=add)


_MODE_FORM = {"enum": [*MODES], "type": "string"}
_PATH_FORM = {"type": "string", "minLength": 1}


def _hosts(value: Any) -> Any:
    if isinstance(value, str | Mapping) or not hasattr(value, "__len__"):
        raise ValueError("must be a list of hosts")
    return value


def _spelled_out(value: Any, forms: str) -> Any:
    """Return a policy that is one word as a mapping. Raises `ValueError` for what is no policy.

    An empty mapping is none either: whoever left something out must not get the whole network for it.
    """
    if isinstance(value, str) and value in MODES:
        return {"allow": []} if value == "none" else {}
    if isinstance(value, str) or not isinstance(value, Mapping | Config) or value == {}:
        raise ValueError(f"must be {forms}")
    return cast("Any", value)


class PolicyConfig(Config):
    """What commands may reach in one phase."""

    may_be_text: ClassVar[bool] = True

    allow: Annotated[tuple[Host, ...] | None, BeforeValidator(_hosts)] = None
    """Hosts, and nothing else: names, `*.name` for all below one, addresses; each with `:port` where only that is
    meant, else for ports 80 and 443."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return _spelled_out(value, _POLICY)

    @property
    def network(self) -> Network:
        """The policy."""
        if self.allow is None:
            return FULL_NETWORK
        return Network("allow", tuple(sorted({*self.allow}))) if self.allow else Network("none")


class NetworkConfig(PolicyConfig):
    """What commands may reach: one policy for all phases, or one for each."""

    setup: Annotated[PolicyConfig | None, _also(_MODE_FORM)] = None
    """In phase setup; default: as for the agent."""
    agent: Annotated[PolicyConfig | None, _also(_MODE_FORM)] = None
    """In phase agent; default: `full`."""
    grade: Annotated[PolicyConfig | None, _also(_MODE_FORM)] = None
    """In phase grade; default: as for the agent."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return _spelled_out(value, f"{_POLICY}, or one of these for each of `setup`, `agent` and `grade`")

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if "allow" in self.model_fields_set and any((self.setup, self.agent, self.grade)):
            raise ValueError("`allow` stands for all phases: write it in `setup`, `agent` or `grade`, or without them")
        return self


class ResourcesConfig(Config):
    """What a sandbox may use. What is not said is not limited, and counts 0 where sandboxes share a machine."""

    cpus: Positive | None = None
    """Processors, also parts of one."""
    memory: Memory | None = None
    """Such as `512MiB`, `2GB` (2,000,000,000 bytes) or `2g` (2 GiB), or a number of bytes."""
    processes: Count | None = None
    """Processes and threads at once."""


class BuildConfig(Config):
    """An image that is built from a Dockerfile."""

    may_be_text: ClassVar[bool] = True

    context: LocalPath
    """The directory that is built from."""
    dockerfile: LocalPath = "Dockerfile"
    """Its Dockerfile, as a path in the directory."""
    args: dict[str, str] = Field(default={})
    """Build arguments by name."""
    target: Service | None = None
    """The stage that is built; default: the last one."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"context": value} if isinstance(value, str) else value


class ComposeConfig(Config):
    """Services of a compose file that make one sandbox."""

    may_be_text: ClassVar[bool] = True

    file: LocalPath
    """The compose file."""
    service: Service = "main"
    """The service that commands run in."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"file": value} if isinstance(value, str) else value


class EnvironmentFields(Config):
    """What sandboxes are made from, whoever makes them."""

    image: Image | None = None
    """The name of an image. What begins with `./`, `../`, `/` or `~` is a path of this machine, in a file relative to
    that file."""
    build: Annotated[BuildConfig | None, _also(_PATH_FORM)] = None
    """An image that is built, in place of `image`; a path alone is the directory that it is built from."""
    compose: Annotated[ComposeConfig | None, _also(_PATH_FORM)] = None
    """Services of a compose file, in place of `image`; a path alone is the file."""
    env: Variables = Field(default={})
    """Environment variables of every command in the sandbox."""
    resources: ResourcesConfig = ResourcesConfig()
    """What a sandbox may use."""
    network: Annotated[NetworkConfig | None, _also(_MODE_FORM)] = None
    """What commands may reach: `none`, `full`, {allow: [HOST, ...]}, or one of these by phase; default: `full`."""
    user: User | None = None
    """Whom commands run as; default: as the image says."""
    workdir: Workdir | None = None
    """The work directory, absolute; default: as the image says, or the provider."""
    proxy: bool = False
    """Whether commands in the sandbox get the proxy variables of this machine, in both spellings; `env` is stronger."""

    @field_validator("resources", mode="before")
    @classmethod
    def _no_resources(cls, value: Any) -> Any:
        return {} if value is None else value

    @model_validator(mode="after")
    def _one_file_system(self) -> Self:
        there = [name for name in FILE_SYSTEMS if getattr(self, name) is not None]
        if len(there) > 1:
            said = " and ".join(f"`{name}`" for name in there)
            raise ValueError(f"{said} both say what the file system is: keep one of them")
        return self


class EnvironmentConfig(EnvironmentFields):
    """The environment of the sandboxes."""

    provider: str | None = None
    """Who makes the sandboxes. Default: `bwrap` where it works, else `local`; `PROCTOR_PROVIDER` names another."""


__all__ = [
    "FILE_SYSTEMS", "MODES", "BuildConfig", "ComposeConfig", "EnvironmentConfig", "EnvironmentFields",
    "NetworkConfig", "PolicyConfig", "ResourcesConfig",
]  # fmt: skip
