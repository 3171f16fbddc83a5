"""Conversations as the client library has them, and its answers as ours; imported only when a model is opened."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from proctor.model.attempt import Usage
from proctor.plugins.api import ChatMessage, Completion, Tool, ToolCall

NO_ID = "\ue000"
"""Stands for the id of a tool call that came without one, until it gets one."""


def history(messages: Sequence[ChatMessage]) -> list[ModelMessage]:
    """Return the conversation for the library. Raises `ValueError` for a message that has no place in one."""
    found: list[ModelMessage] = []
    names: dict[str, str] = {}
    pending: list[ModelRequestPart] = []
    for message in messages:
        if message.role == "assistant":
            if pending:
                found.append(ModelRequest(parts=pending))
                pending = []
            names |= {call.id: call.name for call in message.tool_calls}
            found.append(_answer_of(message))
        else:
            pending.append(_part_of(message, names))
    if pending:
        found.append(ModelRequest(parts=pending))
    return found


def _part_of(message: ChatMessage, names: dict[str, str]) -> ModelRequestPart:
    if message.role == "system":
        return SystemPromptPart(content=message.text)
    if message.role == "user":
        return UserPromptPart(content=message.text)
    if message.role != "tool":
        raise ValueError(f"a message has the role {message.role!r}; known are system, user, assistant and tool")
    if message.tool_call_id is None:
        raise ValueError("a message of a tool does not say which call it answers")
    name = names.get(message.tool_call_id, "unknown")
    return ToolReturnPart(tool_name=name, content=message.text, tool_call_id=message.tool_call_id)


def _answer_of(message: ChatMessage) -> ModelResponse:
    """Return a message of the assistant: as it came from the endpoint, where it was not changed since."""
    calls = message.tool_calls
    answer = calls[0].answer if calls else None
    if isinstance(answer, ModelResponse):
        said = (_text(answer), tuple(_call(part) for part in _call_parts(answer)))
        if said == (message.text, calls):
            return answer
    parts: list[ModelResponsePart] = [ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in calls]
    if message.text or not calls:
        parts.insert(0, TextPart(content=message.text))
    return ModelResponse(parts=parts)


def parameters(tools: Sequence[Tool]) -> ModelRequestParameters:
    """Return what the model may call; schemas are sent as they are."""
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name, parameters_json_schema=tool.parameters, description=tool.description, strict=False
            )
            for tool in tools
        ]
    )


def completion(
    response: ModelResponse, *, usage: Usage | None, stop_reason: str | None, text: str | None = None, turn: int
) -> Completion:
    """Return an answer as ours. `text` is said where the answer has none; `turn` names calls that came without an id.

    Thoughts are kept apart from the answer, as far as the endpoint tells them apart.
    """
    for number, part in enumerate(_call_parts(response), start=1):
        if part.tool_call_id == NO_ID:
            part.tool_call_id = f"call-{turn}-{number}"
    thoughts = [part.content for part in response.parts if isinstance(part, ThinkingPart) and part.content]
    return Completion(
        text=_text(response) or text or "",
        usage=usage,
        model=response.model_name,
        stop_reason=stop_reason,
        tool_calls=tuple(_call(part, response) for part in _call_parts(response)),
        reasoning="\n\n".join(thoughts) or None,
    )


def _call_parts(response: ModelResponse) -> list[ToolCallPart]:
    return [part for part in response.parts if isinstance(part, ToolCallPart)]


def _call(part: ToolCallPart, answer: ModelResponse | None = None) -> ToolCall:
    return ToolCall(part.tool_call_id, part.tool_name, arguments_of(part), answer)


def arguments_of(part: ToolCallPart) -> str:
    """Return the arguments of a call as the model wrote them; JSON where the endpoint has parsed them already."""
    return part.args if isinstance(part.args, str) else "" if part.args is None else part.args_as_json_str()


def _text(response: ModelResponse) -> str:
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))
