"""The wire of OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Iterator

from proctor.model.attempt import Usage
from proctor.model.spec import Json
from proctor.plugins.api import ChatMessage, Tool, ToolCall
from proctor.testing.replies import Answer, Request
from proctor.testing.wire_common import (
    Event,
    Wire,
    list_of,
    object_of,
    pieces_of,
    reported,
    string_of,
    text_of,
    tool_of,
)


def chat_usage(usage: Usage) -> dict[str, Json]:
    """Return usage as OpenAI reports it: cached tokens are a part of the prompt."""
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    said: dict[str, Json] = {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
    }
    if usage.cache_read_tokens or usage.cache_write_tokens:
        said["prompt_tokens_details"] = {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        }
    if usage.reasoning_tokens:
        said["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return said


def _read(body: Json) -> tuple[list[ChatMessage], list[Tool]]:
    given = object_of(body, "the body")
    listed = list_of(given.get("messages"), "`messages`")
    if not listed:
        raise ValueError("`messages` must have at least one message")
    tools = [object_of(each, "a tool") for each in list_of(given.get("tools") or [], "`tools`")]
    functions = [object_of(each["function"], "a function") for each in tools if "function" in each]
    return [_message_of(each) for each in listed], [tool_of(each, "parameters") for each in functions]


def _message_of(value: Json) -> ChatMessage:
    message = object_of(value, "a message")
    role = string_of(message.get("role"), "the role of a message")
    calls = tuple(_call_of(each) for each in list_of(message.get("tool_calls") or [], "`tool_calls`"))
    content = message.get("content")
    text = "" if content is None and calls else text_of(content, "a message")
    if role != "tool":
        return ChatMessage(role, text, calls)
    return ChatMessage(role, text, tool_call_id=string_of(message.get("tool_call_id"), "`tool_call_id`"))


def _call_of(value: Json) -> ToolCall:
    call = object_of(value, "a tool call")
    function = object_of(call.get("function"), "the function of a tool call")
    name = string_of(function.get("name"), "the name of a tool call")
    return ToolCall(str(call.get("id", "")), name, string_of(function.get("arguments"), "the arguments of a tool call"))


def _said_call(call: ToolCall, arguments: str) -> dict[str, Json]:
    identity: dict[str, Json] = {"id": call.id} if call.id else {}
    return {**identity, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _head(answer: Answer, request: Request, number: int, kind: str) -> dict[str, Json]:
    model = answer.model or request.model
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 0, "model": model}


def _whole(answer: Answer, request: Request, number: int) -> dict[str, Json]:
    no_text = answer.refusal is not None or (answer.tool_calls and not answer.text)
    message: dict[str, Json] = {
        "role": "assistant",
        "content": None if no_text else answer.text,
        "refusal": answer.refusal,
    }
    if answer.reasoning is not None:
        message["reasoning_content"] = answer.reasoning
    if answer.tool_calls:
        message["tool_calls"] = [_said_call(call, call.arguments) for call in answer.tool_calls]
    choice: dict[str, Json] = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.reason}
    body = _head(answer, request, number, "chat.completion")
    body["choices"] = [] if answer.empty else [choice]
    usage = reported(answer, request, chat_usage)
    if usage is not None:
        body["usage"] = usage
    return body


def _deltas(answer: Answer) -> Iterator[tuple[dict[str, Json], bool]]:
    """Give what is added in each event, and whether that is a part of a tool call's arguments."""
    yield {"role": "assistant", "content": None if answer.tool_calls and not answer.text else ""}, False
    for piece in pieces_of(answer.reasoning or ""):
        yield {"reasoning_content": piece}, False
    for piece in pieces_of(answer.refusal or ""):
        yield {"refusal": piece}, False
    for piece in pieces_of(answer.text if answer.refusal is None else ""):
        yield {"content": piece}, False
    for index, call in enumerate(answer.tool_calls):
        yield {"tool_calls": [{"index": index, **_said_call(call, "")}]}, False
        for piece in pieces_of(call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, True


def _events(answer: Answer, request: Request, number: int) -> list[Event]:
    head = _head(answer, request, number, "chat.completion.chunk")
    tail: dict[str, Json] = {"usage": None} if request.wants_usage else {}

    def event(delta: dict[str, Json], finish_reason: str | None = None, in_tool_call: bool = False) -> Event:
        choice: Json = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return Event({**head, "choices": [choice], **tail}, in_tool_call=in_tool_call)

    events: list[Event] = []
    if not answer.empty:
        events += [event(delta, in_tool_call=in_tool_call) for delta, in_tool_call in _deltas(answer)]
        events.append(event({}, answer.reason))
    usage = reported(answer, request, chat_usage) if request.wants_usage else None
    if usage is not None:
        events.append(Event({**head, "choices": [], "usage": usage}))
    return [*events, Event("[DONE]")]


def openai_error(message: str, code: str | None, status: int) -> dict[str, Json]:
    """Return OpenAI's error object."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _error_event(message: str, code: str | None, status: int) -> Event:
    return Event(openai_error(message, code, status))


CHAT = Wire("chat", "/v1/chat/completions", _read, _whole, _events, openai_error, _error_event)
"""OpenAI's chat completions."""
