"""The wire of OpenAI's responses: what is said. What is asked is read in `wire_responses_input`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from proctor.model.attempt import Usage
from proctor.model.spec import Json
from proctor.plugins.api import ToolCall
from proctor.testing.replies import Answer, Request
from proctor.testing.wire_chat import openai_error
from proctor.testing.wire_common import Event, Wire, object_of, pieces_of, reported
from proctor.testing.wire_responses_input import kind_of_tool, read_responses

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_COMPLETE = ("stop", "tool_calls")


def responses_usage(usage: Usage) -> dict[str, Json]:
    """Return usage as OpenAI's responses report it: cached tokens are a part of the input."""
    total = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": total,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": total + usage.output_tokens,
    }


def _items(answer: Answer, request: Request, number: int) -> list[dict[str, Json]]:
    """Return the output, each item as it is when it is done."""
    if answer.empty:
        return []
    items: list[dict[str, Json]] = []
    if answer.reasoning is not None:
        summary: Json = [{"type": "summary_text", "text": answer.reasoning}]
        items.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": None})
    if answer.text or answer.refusal is not None or not answer.tool_calls:
        part: Json = (
            {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
            if answer.refusal is None
            else {"type": "refusal", "refusal": answer.refusal}
        )
        message: dict[str, Json] = {"type": "message", "id": f"msg_{number}", "status": "completed"}
        items.append({**message, "role": "assistant", "content": [part]})
    return items + [_call(call, request, f"{number}_{index}") for index, call in enumerate(answer.tool_calls)]


def _call(call: ToolCall, request: Request, unique: str) -> dict[str, Json]:
    identity: dict[str, Json] = {"call_id": call.id} if call.id else {}
    kind = kind_of_tool(request.body, call.name)
    if kind == "local_shell":
        action = _local_shell_action(call.arguments)
        return {"type": "local_shell_call", "id": f"lsh_{unique}", **identity, "action": action, "status": "completed"}
    if kind == "custom":
        named: dict[str, Json] = {"name": call.name, "input": call.arguments, "status": "completed"}
        return {"type": "custom_tool_call", "id": f"ctc_{unique}", **identity, **named}
    named = {"name": call.name, "arguments": call.arguments, "status": "completed"}
    return {"type": "function_call", "id": f"fc_{unique}", **identity, **named}


def _local_shell_action(arguments: str) -> Json:
    try:
        action = object_of(json.loads(arguments), "the action of a shell call")
    except ValueError:
        action = {"command": arguments}  # malformed, as it was scripted
    return {"type": "exec", "env": {}, "timeout_ms": None, "working_directory": None, "user": None, **action}


def _body(answer: Answer, request: Request, number: int, output: list[dict[str, Json]]) -> dict[str, Json]:
    incomplete = None if answer.reason in _COMPLETE else _INCOMPLETE.get(answer.reason, answer.reason)
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "status": "completed" if incomplete is None else "incomplete",
        "error": None,
        "incomplete_details": None if incomplete is None else {"reason": incomplete},
        "instructions": request.field("instructions"),
        "max_output_tokens": request.field("max_output_tokens"),
        "model": answer.model or request.model,
        "output": [*output],
        "parallel_tool_calls": request.field("parallel_tool_calls", True),
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": request.field("tool_choice", "auto"),
        "tools": request.field("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": reported(answer, request, responses_usage),
        "metadata": {},
    }


@dataclass(slots=True)
class _Stream:
    """The events so far; each is numbered."""

    events: list[Event] = field(default_factory=list[Event])

    def add(self, name: str, in_tool_call: bool = False, **data: Json) -> None:
        body: dict[str, Json] = {"type": name, "sequence_number": len(self.events), **data}
        self.events.append(Event(body, name, in_tool_call))

    def add_text(self, name: str, text: str, last: str, in_tool_call: bool = False, **where: Json) -> None:
        """Add `name`.delta for each piece and `name`.done with all of it in the field `last`."""
        more: dict[str, Json] = {"logprobs": []} if name == "response.output_text" else {}
        for piece in pieces_of(text):
            self.add(f"{name}.delta", in_tool_call, **where, delta=piece, **more)
        self.add(f"{name}.done", **where, **{last: text}, **more)


def _begun(item: dict[str, Json]) -> dict[str, Json]:
    """Return the item as it is when it is added: what is streamed is not in it yet."""
    empty: dict[str, Json] = {"content": [], "summary": [], "arguments": "", "input": ""}
    begun = {key: empty.get(key, value) for key, value in item.items()}
    return {**begun, "status": "in_progress"} if "status" in item else begun


def _stream_item(stream: _Stream, item: dict[str, Json], answer: Answer, index: int) -> None:
    stream.add("response.output_item.added", output_index=index, item=_begun(item))
    where: dict[str, Json] = {"item_id": item["id"], "output_index": index}
    if item["type"] == "reasoning":
        where["summary_index"] = 0
        stream.add("response.reasoning_summary_part.added", **where, part={"type": "summary_text", "text": ""})
        stream.add_text("response.reasoning_summary_text", answer.reasoning or "", "text", **where)
        part: Json = {"type": "summary_text", "text": answer.reasoning}
        stream.add("response.reasoning_summary_part.done", **where, part=part)
    elif item["type"] == "message":
        where["content_index"] = 0
        _stream_content(stream, answer, where, item["content"])
    elif item["type"] == "function_call":
        stream.add_text("response.function_call_arguments", str(item["arguments"]), "arguments", True, **where)
    elif item["type"] == "custom_tool_call":
        stream.add_text("response.custom_tool_call_input", str(item["input"]), "input", True, **where)
    stream.add("response.output_item.done", output_index=index, item=item)


def _stream_content(stream: _Stream, answer: Answer, where: dict[str, Json], content: Json) -> None:
    assert isinstance(content, list)
    if answer.refusal is None:
        empty: Json = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        stream.add("response.content_part.added", **where, part=empty)
        stream.add_text("response.output_text", answer.text, "text", **where)
    else:
        stream.add("response.content_part.added", **where, part={"type": "refusal", "refusal": ""})
        stream.add_text("response.refusal", answer.refusal, "refusal", **where)
    stream.add("response.content_part.done", **where, part=content[0])


def _whole(answer: Answer, request: Request, number: int) -> dict[str, Json]:
    return _body(answer, request, number, _items(answer, request, number))


def _events(answer: Answer, request: Request, number: int) -> list[Event]:
    items = _items(answer, request, number)
    begun = {**_body(answer, request, number, []), "status": "in_progress", "incomplete_details": None, "usage": None}
    stream = _Stream()
    stream.add("response.created", response=begun)
    stream.add("response.in_progress", response=begun)
    for index, item in enumerate(items):
        _stream_item(stream, item, answer, index)
    done = _body(answer, request, number, items)
    stream.add(f"response.{done['status']}", response=done)
    return stream.events


def _error_event(message: str, code: str | None, status: int) -> Event:
    """Return the event of a response that failed, which holds the error."""
    error: Json = {"code": code or "server_error", "message": message}
    response: Json = {"id": "resp_failed", "object": "response", "status": "failed", "error": error, "output": []}
    return Event({"type": "response.failed", "sequence_number": 0, "response": response}, "response.failed")


RESPONSES = Wire("responses", "/v1/responses", read_responses, _whole, _events, openai_error, _error_event)
"""OpenAI's responses."""
