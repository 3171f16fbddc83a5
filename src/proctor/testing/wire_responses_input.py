"""The wire of OpenAI's responses: what is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import cast

from proctor.model.spec import Json
from proctor.plugins.api import ChatMessage, Tool, ToolCall
from proctor.testing.wire_common import list_of, object_of, string_of, text_of, tool_of

_LOCAL_SHELL: Json = {
    "type": "object",
    "properties": {"command": {"type": "array", "items": {"type": "string"}}},
    "required": ["command"],
}


def read_responses(body: Json) -> tuple[list[ChatMessage], list[Tool]]:
    """Return the messages and tools of a request; raises `ValueError` for what cannot be read."""
    given = object_of(body, "the body")
    asked = given.get("input")
    messages: list[ChatMessage] = []
    instructions = given.get("instructions")
    if isinstance(instructions, str) and instructions:
        messages.append(ChatMessage("system", instructions))
    if isinstance(asked, str):
        messages.append(ChatMessage("user", asked))
    else:
        for item in list_of(asked, "`input`"):
            _add(messages, object_of(item, "an item of `input`"))
    if not messages:
        raise ValueError("`input` must have at least one item")
    return messages, [tool for _, tool in _tools(given)]


def kind_of_tool(body: Json, name: str) -> str:
    """Return the type of the tool that a call names: "function" for one that was not offered."""
    given = cast("dict[str, Json]", body) if isinstance(body, dict) else {}
    return next((kind for kind, tool in _tools(given) if tool.name == name), "function")


def _tools(given: dict[str, Json]) -> Iterator[tuple[str, Tool]]:
    """Give the tools that the model may call, each with its type; those of the provider's own are left out."""
    for each in list_of(given.get("tools") or [], "`tools`"):
        described = object_of(each, "a tool")
        kind = described.get("type")
        if kind == "function":
            yield "function", tool_of(described, "parameters")
        elif kind == "custom":
            name = string_of(described.get("name"), "the name of a tool")
            yield "custom", Tool(name, str(described.get("description") or ""), {"type": "string"})
        elif kind == "local_shell":
            yield "local_shell", Tool("local_shell", "", _LOCAL_SHELL)


def _add(messages: list[ChatMessage], item: dict[str, Json]) -> None:
    """Add an item to the messages: a call joins the assistant's message before it, as in chat completions."""
    kind = item.get("type", "message")
    if kind == "message":
        role = string_of(item.get("role"), "the role of a message")
        messages.append(ChatMessage(role, text_of(item.get("content"), "a message")))
    elif isinstance(kind, str) and kind.endswith("_call_output"):
        call_id = string_of(item.get("call_id", item.get("id")), "the `call_id` of an output")
        messages.append(ChatMessage("tool", text_of(item.get("output"), "an output"), tool_call_id=call_id))
    elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
        call = _call_of(item)
        if messages and messages[-1].role == "assistant":
            before = messages.pop()
            messages.append(ChatMessage("assistant", before.text, (*before.tool_calls, call)))
        else:
            messages.append(ChatMessage("assistant", "", (call,)))


def _call_of(item: dict[str, Json]) -> ToolCall:
    call_id = str(item.get("call_id") or "")
    if item["type"] == "local_shell_call":
        return ToolCall(call_id, "local_shell", json.dumps(item.get("action")))
    name = string_of(item.get("name"), "the name of a call")
    said = item.get("arguments") if item["type"] == "function_call" else item.get("input")
    return ToolCall(call_id, name, string_of(said, "the arguments of a call"))
