"""What a program left behind, and what is read from it: answer, usage, trajectory, problems.

A parser is a function of a `ProgramRun` that returns a `ProgramReport`. It sees all turns of the session so far, also
where the program was cut off in the middle: it takes what is there, and raises nothing for what is not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from proctor.model.attempt import NO_USAGE, Usage
from proctor.model.bounds import TOKENS_AT_MOST
from proctor.model.spec import Json
from proctor.plugins.api import ToolCall
from proctor.plugins.atif import Trajectory

JsonObject = dict[str, Json]

DIGITS_AT_MOST = 100
"""Of a whole number that is read; Python itself refuses to read much longer ones, with all that is around them."""

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
    used where `partial`: there was a call more, at least. `problems` are issue codes with their messages. `waiting` is
    one as well: what the program waited for, if no call was answered so far. It counts where the program was cut off.
    """

    answer: str | None = None
    usage: Usage | None = None
    trajectory: Json | None = None
    steps: int | None = None
    problems: Sequence[tuple[str, str]] = ()
    partial: bool = False
    waiting: tuple[str, str] | None = None


Parser = Callable[[ProgramRun], ProgramReport]


def unanswered(run: ProgramRun, problems: Sequence[tuple[str, str]] = ()) -> tuple[str, str]:
    """Return what a program waits for of which no call was answered so far: what it said of it, if it did."""
    return problems[0] if problems else ("model.timeout", f"{run.name} got no answer to any call before it was ended")


def no_end(run: ProgramRun) -> tuple[str, str]:
    """Return the problem of a program that ended well, as it says, before it came to the end of its turn."""
    return "harness.crashed", f"{run.name} ended with status 0, without a word on how its turn ended"


# ---------------------------------------------------------------------------------- reading what nobody vouches for


def json_lines(data: bytes) -> Iterator[JsonObject]:
    """Yield the JSON objects of lines; what is none, such as a line that was cut, is passed over."""
    for line in data.splitlines():
        value = json_or_none(line) if line.lstrip().startswith(b"{") else None
        if isinstance(value, dict):
            yield cast("JsonObject", value)


def json_or_none(data: bytes) -> Json | None:
    """Return a JSON value, foreign bytes in it replaced; None where it is none. NaN and its like become texts."""
    try:
        return json.loads(data.decode("utf-8", "replace"), parse_constant=str, parse_float=_float, parse_int=_int)
    except (ValueError, RecursionError):
        return None


def _float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _int(text: str) -> int | str:
    return int(text) if len(text) <= DIGITS_AT_MOST else text


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


def no_count(value: Json) -> bool:
    """Say whether something stands where a number of tokens should, and is none: what was used is not known then."""
    return value is not None and not (type(value) is int and count(value) == value)


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


def minus(usage: Usage, told: Usage) -> Usage:
    """Return what was used since; a cost is known where both are, else the part of it that is."""
    known = usage.cost_usd is not None and (told == NO_USAGE or told.cost_usd is not None)
    cost = max(0.0, usage.cost_at_least_usd - told.cost_at_least_usd)
    calls = max(0, usage.calls - told.calls)
    priced = max(0, usage.calls - usage.unpriced_calls - (told.calls - told.unpriced_calls))
    return Usage(
        calls=calls,
        input_tokens=max(0, usage.input_tokens - told.input_tokens),
        output_tokens=max(0, usage.output_tokens - told.output_tokens),
        cache_read_tokens=max(0, usage.cache_read_tokens - told.cache_read_tokens),
        cache_write_tokens=max(0, usage.cache_write_tokens - told.cache_write_tokens),
        reasoning_tokens=max(0, usage.reasoning_tokens - told.reasoning_tokens),
        cost_usd=cost if known else None,
        known_cost_usd=None if known else cost or None,
        priced_calls=0 if known else min(calls, priced),
    )
