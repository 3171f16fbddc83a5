"""The contract of models: what is sent, what comes back; part of `proctor.plugins.api`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from proctor.model.attempt import Usage
from proctor.model.spec import Json, ModelSpec


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that a model may call. `parameters` is the JSON schema of its arguments, an object."""

    name: str
    description: str
    parameters: Json


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, as the model wrote it: `arguments` is meant to be a JSON object, and may be anything.

    Endpoints want back what a message cannot say, such as the signature of a thought. `answer` is where a model keeps
    the answer that a call came in: who puts the call into the conversation sends it back without knowing of it.
    """

    id: str
    name: str
    arguments: str
    answer: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation; `role` is system, user, assistant or tool.

    An assistant's message has the tool calls that were its answer. A tool's message is the result of the call
    `tool_call_id`, and stands after the message that made it.
    """

    role: str
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered. `usage` is None when the endpoint reported none.

    `reasoning` is what it thought aloud, where the endpoint tells it apart; it is no part of the answer.
    """

    text: str
    usage: Usage | None
    model: str | None = None
    stop_reason: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None


class Model(Protocol):
    """A model behind its endpoint."""

    spec: ModelSpec

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()) -> Completion:
        """Make one call, in which the model may call `tools`; never repeated in silence.

        Raises `Fault` with a `model.*` code.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


OpenModel = Callable[[ModelSpec], Model]
"""A model family, as registered: makes a model from its specification."""
