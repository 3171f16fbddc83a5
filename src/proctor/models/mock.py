"""Models that answer by themselves: deterministic, no network, for tests and for trying things out.

    mock/echo        answers the last message of the user
    mock/fixed       answers `params.text`
    mock/answers     answers from the file `params.file` (JSON lines, see `proctor.testing.scripts.answers`)
    mock/humaneval   solves the share `params.share` of HumanEval (default 1) and answers the rest wrongly
    mock/script      calls the function `params.script`, written as `package.module:function`
    mock/agent       runs `params.commands` by the shell tool that it is offered, then submits or says `params.answer`

A script is a function of the messages, or of the messages and the tools that are offered. It returns a text, or a
`Completion` where the rest of it matters too, such as tool calls; `usage_of` counts for it. Tokens are counted as a
quarter of the UTF-8 bytes, rounded up; every text counts by itself, names and arguments of tool calls among them.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

from pydantic import BaseModel

from proctor.errors import Fault, MissingPackage, UnknownName, UsageError, describe
from proctor.model.spec import ModelSpec
from proctor.models._counted import tokens_of, usage_of
from proctor.models._params import read_params
from proctor.models.shell_agent import shell_agent
from proctor.plugins.api import ChatMessage, Completion, Tool

Script = Callable[[Sequence[ChatMessage]], str | Completion]
"""Answers a conversation; raises `NoAnswer` when it has none to it."""

ToolScript = Callable[[Sequence[ChatMessage], Sequence[Tool]], str | Completion]
"""A script that sees the tools that are offered as well."""


class NoAnswer(LookupError):
    """A script has no answer to a conversation."""


class _NoParams(BaseModel):
    pass


class _Fixed(BaseModel):
    text: str


class _Answers(BaseModel):
    file: str


class _HumanEval(BaseModel):
    share: int | float | str = 1


class _Scripted(BaseModel):
    script: str


class _Agent(BaseModel):
    commands: list[str] = []
    answer: str = "done"


def _echo(messages: Sequence[ChatMessage]) -> str:
    for message in reversed(messages):
        if message.role == "user":
            return message.text
    raise NoAnswer("no message of the user to echo")


def _open_echo(spec: ModelSpec) -> Script:
    read_params(_NoParams, spec)
    return _echo


def _open_fixed(spec: ModelSpec) -> Script:
    text = read_params(_Fixed, spec).text
    return lambda messages: text


def _open_answers(spec: ModelSpec) -> Script:
    params = read_params(_Answers, spec)
    return _load(spec, "proctor.testing.scripts:answers")(params.file)


def _open_humaneval(spec: ModelSpec) -> Script:
    params = read_params(_HumanEval, spec)
    return _load(spec, "proctor.testing.scripts:humaneval")(params.share)


def _open_script(spec: ModelSpec) -> Script | ToolScript:
    return _load(spec, read_params(_Scripted, spec).script)


def _open_agent(spec: ModelSpec) -> ToolScript:
    params = read_params(_Agent, spec)
    return shell_agent(params.commands, params.answer, spec.id)


_KINDS: dict[str, Callable[[ModelSpec], Script | ToolScript]] = {
    "agent": _open_agent,
    "answers": _open_answers,
    "echo": _open_echo,
    "fixed": _open_fixed,
    "humaneval": _open_humaneval,
    "script": _open_script,
}


def _load(spec: ModelSpec, path: str) -> Callable[..., Any]:
    """Import `package.module:function`, only now: scripts belong to `proctor.testing` or to the user."""
    module, colon, attribute = path.partition(":")
    hint = "write it as `package.module:function`, importable from here"
    if not (module and colon and attribute):
        raise UsageError(f"model `{spec.id}`: `{path}` does not name a function", hint=hint)
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except MissingPackage:
        raise
    except Exception as error:
        raise UsageError(f"model `{spec.id}`: `{path}` cannot be loaded: {describe(error)}", hint=hint) from error
    if not callable(found):
        raise UsageError(f"model `{spec.id}`: `{path}` is not a function", hint=hint)
    return found


def with_tools(script: Script | ToolScript) -> ToolScript:
    """Return a script as one that takes the tools too; one that takes one argument never sees them."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        taken = sum(each.kind in kinds for each in inspect.signature(script).parameters.values())
    except (TypeError, ValueError):  # something built in, which has no signature
        taken = 1
    if taken > 1:
        return cast("ToolScript", script)
    alone = cast("Script", script)
    return lambda messages, tools: alone(messages)


class MockModel:
    """A model that answers by a script."""

    def __init__(self, spec: ModelSpec, script: Script | ToolScript) -> None:
        self.spec = spec
        self._script = with_tools(script)

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()) -> Completion:
        """Answer by the script; raises `Fault` ("model.invalid_request") when it has no answer, else what it raises."""
        try:
            answer = self._script(messages, tools)
        except NoAnswer as error:
            raise Fault("model.invalid_request", f"model `{self.spec.id}` has no answer: {error}") from error
        if isinstance(answer, Completion):
            return answer
        if type(answer) is not str:
            raise TypeError(f"the script of model `{self.spec.id}` returned {type(answer).__name__}, not a text")
        return Completion(text=answer, usage=usage_of(messages, answer), model=self.spec.id, stop_reason="stop")

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def script_of(spec: ModelSpec) -> Script | ToolScript:
    """Return the script of the mock model that `spec.id` names; `with_tools` makes any of them callable alike.

    Raises `UnknownName` for a mock model that does not exist, and `UsageError` for parameters that it does not take.
    """
    name = spec.id.removeprefix("mock/")
    kind = _KINDS.get(name)
    if kind is None:
        known = [f"mock/{each}" for each in _KINDS]
        unknown = UnknownName("model", spec.id, known, list_with="proctor list models")
        unknown.hint = f"known are {', '.join(f'`{each}`' for each in known)}"
        raise unknown
    return kind(spec)


def open_model(spec: ModelSpec) -> MockModel:
    """Make the mock model that `spec.id` names; raises what `script_of` raises."""
    return MockModel(spec, script_of(spec))


__all__ = [
    "MockModel", "NoAnswer", "Script", "ToolScript", "open_model", "script_of", "tokens_of", "usage_of", "with_tools",
]  # fmt: skip
