"""The harness `command`: any program that works on a task, as a declaration says. See docs/command-harness.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, model_validator

from proctor.harnesses.command_declaration import Declaration, Text
from proctor.harnesses.command_endpoint import endpoint_of
from proctor.harnesses.command_output import Parser
from proctor.harnesses.command_parsers import parser_of
from proctor.harnesses.command_session import ProgramSession, start_session
from proctor.plugins.api import AttemptContext


class ProgramHarness:
    """What all harnesses that run a program share. A subclass says how its program is declared, and what it means.

    To declare one in Python, give a subclass `options` and `declared`, and name it as `package.module:Name`.
    """

    name = "command"
    version = "1"
    isolated_attempts = True
    needs_model = True
    needs_sandbox = True
    options: type[BaseModel]
    turns: int | None = None
    """How many turns a session takes; None is any number."""
    calls_model_inside = True
    """Whether the program calls the model from inside of the sandbox, which has to reach it then."""

    def declared(self, family: str) -> Declaration:
        """Return the declaration, for a model of a family: `openai` or `anthropic`."""
        raise NotImplementedError

    def parser(self) -> Parser:
        """Return what reads what the program leaves behind."""
        return parser_of(self.declared("openai").output)

    async def start(self, ctx: AttemptContext) -> ProgramSession:
        """Install the program in the sandbox, where it is not there. Raises `Fault`."""
        endpoint = endpoint_of(ctx.model.spec) if self.calls_model_inside else None
        return await start_session(
            ctx, self.declared(endpoint.family if endpoint else "openai"), self.parser(), endpoint
        )


class CommandOptions(Declaration):
    """The declaration; with `file` what is not given comes from that YAML file.

    The path counts from the directory in which proctor runs. What the file says counts for reuse, not where it is.
    """

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "file" not in given:
            return cast("Any", given)
        named = dict(cast("Mapping[str, Any]", given))
        return {**_read_file(named.pop("file")), **named}

    @model_validator(mode="after")
    def _parser_is_there(self) -> CommandOptions:
        parser_of(self.output)
        return self


def _read_file(path: Any) -> dict[str, Any]:
    from ruamel.yaml import YAML  # noqa: PLC0415 - a heavy package
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    if not isinstance(path, str):
        raise ValueError("`file` must be a path")
    try:
        yaml: Any = YAML(typ="safe", pure=True)
        found: Any = yaml.load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"`file` cannot be read: {path}: {(error.strerror or str(error)).lower()}") from error
    except (UnicodeDecodeError, YAMLError) as error:
        raise ValueError(f"`file` cannot be read: {path}: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is no declaration: it holds no mapping")
    return cast("dict[str, Any]", found)


class CommandHarness(ProgramHarness):
    """Runs any program in the sandbox."""

    options: type[BaseModel] = CommandOptions

    def __init__(self, options: CommandOptions) -> None:
        self._declared = options
        self.turns = None if options.resume is not None else 1
        self.needs_model = self.calls_model_inside = options.uses_model

    def declared(self, family: str) -> Declaration:
        """Return the declaration as it was given."""
        return self._declared


class ProgramOptions(BaseModel):
    """Parameters that every ready program takes."""

    model_config = ConfigDict(extra="forbid")

    version: str | None = None
    """The version to install; None takes whatever there is, else the newest."""
    args: tuple[str, ...] = ()
    """More words for its command."""
    env: dict[str, Text] = {}
    """More environment variables, with placeholders as in declarations."""


__all__ = ["CommandHarness", "CommandOptions", "ProgramHarness", "ProgramOptions"]
