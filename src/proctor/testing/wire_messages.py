"""The wire of Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import cast

from proctor.model.attempt import Usage
from proctor.model.spec import Json
from proctor.models.mock import tokens_of
from proctor.plugins.api import ChatMessage, Tool, ToolCall
from proctor.testing.replies import Answer, Failure, Request
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

SIGNATURE = "c2NyaXB0ZWQ="
"""The signature of scripted thinking: clients send it back, nobody checks it."""

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OWN_TOOLS = {"bash": "command", "computer": "action", "str_replace_based_edit_tool": "command"}
"""Tools that the provider describes by itself, and the argument that each needs."""


def messages_usage(usage: Usage) -> dict[str, Json]:
    """Return usage as Anthropic reports it: what was read from a cache or written to it is no part of the input."""
    said: dict[str, Json] = {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.reasoning_tokens:
        said["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return said


def count_of(messages: tuple[ChatMessage, ...], tools: tuple[Tool, ...]) -> int:
    """Return the answer to a question for the number of tokens, counted as the mock models count."""
    offered = sum(tokens_of(tool.name + tool.description + json.dumps(tool.parameters)) for tool in tools)
    return offered + sum(tokens_of(message.text) for message in messages)


def _read(body: Json) -> tuple[list[ChatMessage], list[Tool]]:
    given = object_of(body, "the body")
    listed = list_of(given.get("messages"), "`messages`")
    if not listed:
        raise ValueError("`messages` must have at least one message")
    messages: list[ChatMessage] = []
    if given.get("system"):
        messages.append(ChatMessage("system", text_of(given["system"], "`system`")))
    for each in listed:
        message = object_of(each, "a message")
        role = string_of(message.get("role"), "the role of a message")
        if role not in ("user", "assistant", "system"):
            raise ValueError(f"there is no role `{role}` in a message")
        messages += _messages_of(role, message.get("content"))
    tools = [object_of(each, "a tool") for each in list_of(given.get("tools") or [], "`tools`")]
    return messages, [_tool_of(each) for each in tools]


def _tool_of(described: Mapping[str, Json]) -> Tool:
    if "input_schema" in described:
        return tool_of(described, "input_schema")
    name = string_of(described.get("name"), "the name of a tool")
    needed = _OWN_TOOLS.get(name)
    properties: Json = {} if needed is None else {needed: {"type": "string"}}
    return Tool(
        name, "", {"type": "object", "properties": properties, "required": [*cast("dict[str, Json]", properties)]}
    )


def _messages_of(role: str, content: Json) -> Iterator[ChatMessage]:
    """Give the messages that one of this wire is: results of tools come first, each by itself."""
    if isinstance(content, str):
        yield ChatMessage(role, content)
        return
    blocks = [object_of(each, "a content block") for each in list_of(content, "the content of a message")]
    for block in blocks:
        if block.get("type") == "tool_result":
            said = text_of(block.get("content") or "", "a tool result")
            call_id = string_of(block.get("tool_use_id"), "the `tool_use_id` of a result")
            yield ChatMessage("tool", said, tool_call_id=call_id)
    calls = tuple(_call_of(block) for block in blocks if block.get("type") == "tool_use")
    texts = [str(block.get("text", "")) for block in blocks if block.get("type") == "text"]
    if texts or calls or not any(block.get("type") == "tool_result" for block in blocks):
        yield ChatMessage(role, "".join(texts), calls)


def _call_of(block: Mapping[str, Json]) -> ToolCall:
    name = string_of(block.get("name"), "the name of a tool use")
    return ToolCall(str(block.get("id", "")), name, json.dumps(block.get("input")))


def _said_call(call: ToolCall, given: Json) -> dict[str, Json]:
    identity: dict[str, Json] = {"id": call.id} if call.id else {}
    return {"type": "tool_use", **identity, "name": call.name, "input": given}


def _input_of(arguments: str) -> Json:
    """Return arguments as a whole answer holds them: what is no JSON is a string there."""
    try:
        given = json.loads(arguments)
        json.dumps(given, allow_nan=False)
    except (ValueError, RecursionError):
        return arguments
    return given


def _text_of(answer: Answer) -> str | None:
    """Return the text of the one text block; None where there is none."""
    text = answer.text if answer.refusal is None else answer.refusal
    return None if not text and answer.tool_calls else text


def _head(answer: Answer, request: Request, number: int) -> dict[str, Json]:
    kind: dict[str, Json] = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
    return {**kind, "model": answer.model or request.model, "content": [], "stop_reason": None, "stop_sequence": None}


def _stop_reason(answer: Answer) -> str:
    return "refusal" if answer.refusal is not None else _STOP_REASONS.get(answer.reason, answer.reason)


def _whole(answer: Answer, request: Request, number: int) -> dict[str, Json]:
    content: list[Json] = []
    if answer.reasoning is not None:
        content.append({"type": "thinking", "thinking": answer.reasoning, "signature": SIGNATURE})
    text = _text_of(answer)
    if text is not None:
        content.append({"type": "text", "text": text})
    content += [_said_call(call, _input_of(call.arguments)) for call in answer.tool_calls]
    body = _head(answer, request, number)
    body |= {"content": [] if answer.empty else content, "stop_reason": _stop_reason(answer)}
    usage = reported(answer, request, messages_usage)
    return body if usage is None else {**body, "usage": usage}


def _blocks(answer: Answer) -> Iterator[tuple[dict[str, Json], list[dict[str, Json]]]]:
    """Give each content block as it starts, and its deltas."""
    if answer.reasoning is not None:
        thought: list[dict[str, Json]] = [
            {"type": "thinking_delta", "thinking": piece} for piece in pieces_of(answer.reasoning)
        ]
        thought.append({"type": "signature_delta", "signature": SIGNATURE})
        yield {"type": "thinking", "thinking": "", "signature": ""}, thought
    text = _text_of(answer)
    if text is not None:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces_of(text)]
    for call in answer.tool_calls:
        said: list[dict[str, Json]] = [{"type": "input_json_delta", "partial_json": ""}]
        said += [{"type": "input_json_delta", "partial_json": piece} for piece in pieces_of(call.arguments)]
        yield _said_call(call, {}), said


def _event(kind: str, in_tool_call: bool = False, **data: Json) -> Event:
    return Event({"type": kind, **data}, kind, in_tool_call)


def _events(answer: Answer, request: Request, number: int) -> list[Event]:
    usage = reported(answer, request, messages_usage)
    head = _head(answer, request, number)
    if usage is not None:
        # The output is counted from its first token on: the last event has all of it, and the two are not to be added.
        first = {key: value for key, value in usage.items() if key != "output_tokens_details"}
        output = first.get("output_tokens")
        head["usage"] = {**first, "output_tokens": min(1, output) if type(output) is int else output}
    events = [_event("message_start", message=head), _event("ping")]
    for index, (block, deltas) in enumerate([] if answer.empty else _blocks(answer)):
        events.append(_event("content_block_start", index=index, content_block=block))
        for delta in deltas:
            in_tool_call = bool(delta.get("partial_json"))
            events.append(_event("content_block_delta", in_tool_call, index=index, delta=delta))
        events.append(_event("content_block_stop", index=index))
    end: dict[str, Json] = {"delta": {"stop_reason": _stop_reason(answer), "stop_sequence": None}}
    if usage is not None:
        end["usage"] = usage
    return [*events, _event("message_delta", **end), _event("message_stop")]


def _error(message: str, code: str | None, status: int) -> dict[str, Json]:
    kind = code or _ERRORS.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"}


def _error_event(message: str, code: str | None, status: int) -> Event:
    return Event(_error(message, code, status), "error")


def _refuse(request: Request) -> Failure | None:
    if "anthropic-version" not in request.headers:
        return Failure(400, "anthropic-version: header is required")
    if request.api_key is None:
        return Failure(401, "x-api-key header is required")
    return Failure(400, "max_tokens: Field required") if request.field("max_tokens") is None else None


MESSAGES = Wire("messages", "/v1/messages", _read, _whole, _events, _error, _error_event, _refuse)
"""Anthropic's messages."""
