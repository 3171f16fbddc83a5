"""What a program left behind, and what is read from it: answer, usage, trajectory, problems.

A parser is a function of a `ProgramRun` that returns a `ProgramReport`. It sees all turns of the session so far, also
where the program was cut off in the middle: it takes what is there, and raises nothing for what is not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from proctor.model.attempt import Usage
from proctor.model.bounds import TOKENS_AT_MOST
from proctor.model.spec import Json
from proctor.plugins.api import ToolCall
from proctor.plugins.atif import Trajectory

JsonObject = dict[str, Json]

_NO_FIELDS: JsonObject = {}


@dataclass(frozen=True, slots=True)
class TurnOutput:
    """One turn: what was asked, and what the program printed."""

    prompt: str
    stdout: bytes = b""
    stderr: bytes = b""
    output: bytes = b""
    """What is read of it: what it printed, or the file that its declaration names."""
    exit_code: int | None = None
    """None where it did not return."""


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """One session of a program, as far as it came. `files` are those that its declaration keeps, by path."""

    turns: Sequence[TurnOutput]
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    session: str = "session"
    name: str = "command"
    version: str = "unknown"
    model: str | None = None

    def trajectory(self) -> Trajectory:
        """Return a trajectory of this session in which nothing was said yet."""
        return Trajectory(session=self.session, agent=self.name, version=self.version, model=self.model)


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """What is known of a session: the answer of its last turn, and what all turns used.

    `usage` is None where nothing is known, and its cost is that which the program reported. It is a part of what was
    used where `partial`. `problems` are issue codes with their messages.
    """

    answer: str | None = None
    usage: Usage | None = None
    trajectory: Json | None = None
    steps: int | None = None
    problems: Sequence[tuple[str, str]] = ()
    partial: bool = False


Parser = Callable[[ProgramRun], ProgramReport]


# ---------------------------------------------------------------------------------- reading what nobody vouches for


def json_lines(data: bytes) -> Iterator[JsonObject]:
    """Yield the JSON objects of lines; what is none, such as a line that was cut, is passed over."""
    for line in data.splitlines():
        value = json_or_none(line) if line.lstrip().startswith(b"{") else None
        if isinstance(value, dict):
            yield cast("JsonObject", value)


def json_or_none(data: bytes) -> Json | None:
    """Return a JSON value, foreign bytes in it replaced; None where it is none."""
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def objects(value: Json) -> Iterator[JsonObject]:
    """Yield the objects of a list; nothing where it is no list."""
    if isinstance(value, list):
        yield from (item for item in cast("list[Json]", value) if isinstance(item, dict))


def mapping(value: Json) -> JsonObject:
    """Return an object; an empty one where it is none."""
    return cast("JsonObject", value) if isinstance(value, dict) else _NO_FIELDS


def text_of(value: Json) -> str:
    """Return a text: of a string, of the parts of a message, else JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        parts = (mapping(one).get("text", one) for one in cast("list[Json]", value))
        return "\n".join(map(text_of, parts))
    return json.dumps(value, ensure_ascii=False)


def count(value: Json) -> int:
    """Return a number of tokens; 0 where it is none."""
    return value if type(value) is int and 0 <= value <= TOKENS_AT_MOST else 0


def cost(value: Json) -> float | None:
    """Return a cost in USD; None where it is none."""
    known: Any = value
    return float(known) if type(known) in (int, float) and 0 <= known < float("inf") else None


def at(value: Json, path: str) -> Json | None:
    """Return the field of a JSON value at a path such as `result.usage.0.tokens`; None where there is none."""
    for name in path.split("."):
        if isinstance(value, list) and name.isdecimal():
            items = cast("list[Json]", value)
            value = items[int(name)] if int(name) < len(items) else None
        else:
            value = mapping(value).get(name)
    return value


def distinct(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return the calls of one step with ids that differ, which a model need not take care of."""
    found: dict[str, ToolCall] = {}
    for number, call in enumerate(calls, start=1):
        name = call.id if call.id and call.id not in found else f"{call.id or 'call'}#{number}"
        found[name] = replace(call, id=name)
    return list(found.values())


def openai_usage(reported: JsonObject) -> Usage:
    """Return the usage of one call as OpenAI's interfaces report it, where cached tokens are a part of the input."""
    whole = count(reported.get("prompt_tokens", reported.get("input_tokens")))
    inside = mapping(reported.get("prompt_tokens_details", reported.get("input_tokens_details")))
    thought = mapping(reported.get("completion_tokens_details", reported.get("output_tokens_details")))
    read = count(inside.get("cached_tokens"))
    write = count(inside.get("cache_write_tokens", inside.get("cache_creation_tokens")))
    return Usage(
        calls=1,
        input_tokens=max(0, whole - read - write),
        output_tokens=count(reported.get("completion_tokens", reported.get("output_tokens"))),
        cache_read_tokens=read,
        cache_write_tokens=write,
        reasoning_tokens=count(thought.get("reasoning_tokens")),
    )
