"""What the wires of the scripted model server share: events, pieces of text, counting, reading JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from proctor.model.attempt import Usage
from proctor.model.spec import Json
from proctor.models.mock import tokens_of, usage_of
from proctor.plugins.api import ChatMessage, Tool
from proctor.testing.replies import Answer, Failure, Request, WireName

PIECE_CHARACTERS = 16
"""How much text one event of a stream carries at least."""

MOST_PIECES = 256
"""Into how many pieces a text is cut at most, so that a large answer does not take millions of events."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream; `in_tool_call` where it carries a part of a tool call's arguments."""

    data: Mapping[str, Json] | str
    name: str | None = None
    in_tool_call: bool = False

    def encode(self) -> bytes:
        """Return the event as it is sent."""
        data = self.data if isinstance(self.data, str) else json.dumps(self.data)
        head = "" if self.name is None else f"event: {self.name}\n"
        return f"{head}data: {data}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Wire:
    """How one API looks: where it is asked, how a request is read, how an answer and an error are said.

    `read` raises `ValueError` for a body that cannot be understood; `refuse` says what else the API refuses before the
    model is asked. `whole` and `events` get the number of the answer, which makes its ids unique.
    """

    name: WireName
    path: str
    read: Callable[[Json], tuple[Sequence[ChatMessage], Sequence[Tool]]]
    whole: Callable[[Answer, Request, int], dict[str, Json]]
    events: Callable[[Answer, Request, int], list[Event]]
    error: Callable[[str, str | None, int], dict[str, Json]]
    error_event: Callable[[str, str | None, int], Event]
    refuse: Callable[[Request], Failure | None] = lambda request: None


def pieces_of(text: str) -> Iterator[str]:
    """Cut a text for a stream; an empty one has no pieces."""
    size = max(PIECE_CHARACTERS, -(-len(text) // MOST_PIECES))
    for start in range(0, len(text), size):
        yield text[start : start + size]


def reported(answer: Answer, request: Request, form: Callable[[Usage], dict[str, Json]]) -> dict[str, Json] | None:
    """Return the usage as a wire says it in its `form`; None where it is to be left out."""
    usage = answer.usage
    if usage is None:
        return None
    if usage == "counted":
        return form(_counted(answer, request))
    return form(usage) if isinstance(usage, Usage) else dict(usage)


def _counted(answer: Answer, request: Request) -> Usage:
    text = answer.text if answer.refusal is None else answer.refusal
    usage = usage_of(request.messages, text, answer.tool_calls)
    thought = tokens_of(answer.reasoning or "")
    return replace(usage, output_tokens=usage.output_tokens + thought, reasoning_tokens=thought)


def json_or_none(raw: bytes) -> Json:
    """Return the JSON value of a body; None where it is not JSON."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def object_of(value: Json, what: str) -> dict[str, Json]:
    """Return `value` if it is a JSON object; raises `ValueError`."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be an object")
    return cast("dict[str, Json]", value)


def list_of(value: Json, what: str) -> list[Json]:
    """Return `value` if it is a list; raises `ValueError`."""
    if not isinstance(value, list):
        raise ValueError(f"{what} must be a list")
    return cast("list[Json]", value)


def string_of(value: Json, what: str) -> str:
    """Return `value` if it is a string; raises `ValueError`."""
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a string")
    return value


def text_of(content: Json, what: str) -> str:
    """Return the text of a content: itself, or that of its parts together; raises `ValueError`."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError(f"{what} must have text as its content")
    parts = [object_of(part, "a part of a content") for part in cast("list[Json]", content)]
    return "".join(str(part.get("text", "")) for part in parts)


def tool_of(described: Mapping[str, Json], schema: str) -> Tool:
    """Return a tool that is described by name, description and the schema in the field `schema`."""
    name = string_of(described.get("name"), "the name of a tool")
    return Tool(name, str(described.get("description") or ""), described.get(schema) or {})


def models_body(names: Sequence[str]) -> dict[str, Json]:
    """Return the list of models, with the fields of either provider."""
    listed: list[Json] = [
        {"id": name, "object": "model", "created": 0, "owned_by": "proctor", "type": "model", "display_name": name}
        for name in names
    ]
    return {"object": "list", "data": listed, "has_more": False}
