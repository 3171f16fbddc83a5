"""The rules of the Agent Trajectory Interchange Format (ATIF), for what harnesses collect.

From the published format of the Harbor project (its RFC 0001), versions 1.0 to 1.6: what a reader of version 1.6 would
refuse is said here. A later version may have fields that this one does not know; they are let through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping
from datetime import datetime
from typing import Any, cast

from proctor.testing.conformance import require

_VERSION = re.compile(r"ATIF-v1\.(\d+)")
_KNOWN_MINOR = 6

_TEXT, _COUNT, _NUMBER, _OBJECT, _LIST = (str,), (int,), (int, float), (dict,), (list,)
_TOP: Mapping[str, tuple[type, ...]] = {
    "schema_version": _TEXT, "session_id": _TEXT, "agent": _OBJECT, "steps": _LIST, "notes": _TEXT,
    "final_metrics": _OBJECT, "continued_trajectory_ref": _TEXT, "extra": _OBJECT,
}  # fmt: skip
_AGENT: Mapping[str, tuple[type, ...]] = {
    "name": _TEXT, "version": _TEXT, "model_name": _TEXT, "tool_definitions": _LIST, "extra": _OBJECT,
}  # fmt: skip
_STEP: Mapping[str, tuple[type, ...]] = {
    "step_id": _COUNT, "timestamp": _TEXT, "source": _TEXT, "model_name": _TEXT, "reasoning_effort": (str, float),
    "message": (str, list), "reasoning_content": _TEXT, "tool_calls": _LIST, "observation": _OBJECT,
    "metrics": _OBJECT, "is_copied_context": (bool,), "extra": _OBJECT,
}  # fmt: skip
_CALL: Mapping[str, tuple[type, ...]] = {"tool_call_id": _TEXT, "function_name": _TEXT, "arguments": _OBJECT}
_RESULT: Mapping[str, tuple[type, ...]] = {
    "source_call_id": _TEXT, "content": (str, list), "subagent_trajectory_ref": _LIST,
}  # fmt: skip
_METRICS: Mapping[str, tuple[type, ...]] = {
    "prompt_tokens": _COUNT, "completion_tokens": _COUNT, "cached_tokens": _COUNT, "cost_usd": _NUMBER,
    "prompt_token_ids": _LIST, "completion_token_ids": _LIST, "logprobs": _LIST, "extra": _OBJECT,
}  # fmt: skip
_SUMS: Mapping[str, tuple[type, ...]] = {
    "total_prompt_tokens": _COUNT, "total_completion_tokens": _COUNT, "total_cached_tokens": _COUNT,
    "total_cost_usd": _NUMBER, "total_steps": _COUNT, "extra": _OBJECT,
}  # fmt: skip
_OF_AGENTS = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")


def require_trajectory(value: Any) -> None:
    """Raise `NotConforming`, with everything that is wrong, unless a value is a trajectory."""
    found = list(trajectory_problems(value))
    require(not found, "the trajectory is no ATIF: " + "; ".join(found[:5]))


def trajectory_problems(value: Any) -> Iterator[str]:
    """Yield what in a JSON value breaks a rule of the format."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        yield f"it is no JSON value: {error}"
        return
    needed = ("schema_version", "session_id", "agent", "steps")
    top = yield from _fields(value, "the trajectory", _TOP, needed, strict=False)
    if top is None:
        return
    version = _VERSION.fullmatch(str(top.get("schema_version")))
    if version is None:
        yield f"schema_version is {top.get('schema_version')!r}, and not one like `ATIF-v1.6`"
        return
    strict = int(version[1]) <= _KNOWN_MINOR
    if strict:
        yield from _unknown(top, "the trajectory", _TOP)
    yield from _fields(top.get("agent"), "agent", _AGENT, ("name", "version"), strict=strict)
    steps = _items(top.get("steps"))
    if not steps:
        yield "there are no steps"
    for number, step in enumerate(steps, start=1):
        yield from _step(step, number, strict=strict)
    sums = yield from _fields(top.get("final_metrics"), "final_metrics", _SUMS, strict=strict)
    total = (sums or {}).get("total_steps")
    if total not in (None, len(steps)) and not top.get("notes"):
        yield f"total_steps is {total}, there are {len(steps)} steps, and `notes` does not say why"


def _step(value: Any, number: int, *, strict: bool) -> Iterator[str]:
    where = f"step {number}"
    step = yield from _fields(value, where, _STEP, ("step_id", "source", "message"), strict=strict)
    if step is None:
        return
    if step.get("step_id") != number:
        yield f"{where} has the step_id {step.get('step_id')!r}: they count from 1"
    source = step.get("source")
    if source not in ("system", "user", "agent"):
        yield f"{where} has the source {source!r}, and not system, user or agent"
    elif source != "agent" and (own := [name for name in _OF_AGENTS if step.get(name) is not None]):
        yield f"{where} is one of {source}, and has what only agents have: {', '.join(own)}"
    if not _is_moment(step.get("timestamp")):
        yield f"{where} has the timestamp {step['timestamp']!r}, which is none of ISO 8601"
    ids: list[str] = []
    for call in _items(step.get("tool_calls")):
        made = yield from _fields(call, f"a call of {where}", _CALL, tuple(_CALL), strict=strict)
        ids.append(str((made or {}).get("tool_call_id")))
    if len(set(ids)) < len(ids):
        yield f"{where} has two calls with one tool_call_id"
    seen = yield from _fields(step.get("observation"), f"observation of {where}", {"results": _LIST}, strict=strict)
    for each in _items((seen or {}).get("results")):
        result = yield from _fields(each, f"a result of {where}", _RESULT, strict=strict)
        call_id = (result or {}).get("source_call_id")
        if call_id is not None and call_id not in ids:
            yield f"{where} has a result of the call {call_id!r}, which it did not make"
    metrics = yield from _fields(step.get("metrics"), f"metrics of {where}", _METRICS, strict=strict)
    cached, prompt = ((metrics or {}).get(name) or 0 for name in ("cached_tokens", "prompt_tokens"))
    if isinstance(cached, int) and isinstance(prompt, int) and cached > prompt:
        yield f"{where} has more cached_tokens than prompt_tokens, of which they are a part"


def _fields(
    value: Any, where: str, types: Mapping[str, tuple[type, ...]], needed: tuple[str, ...] = (), *, strict: bool
) -> Generator[str, None, dict[str, Any] | None]:
    """Yield what is wrong with the fields of an object, and return it; None for what is no object."""
    if value is None and not needed:
        value = {}
    if not isinstance(value, dict):
        yield f"{where} is no object"
        return None
    found = cast("dict[str, Any]", value)
    for name in needed:
        if found.get(name) is None:
            yield f"{where} has no `{name}`"
    for name, allowed in types.items():
        one: Any = found.get(name)
        if one is not None and (type(one) not in allowed):
            yield f"`{name}` of {where} is of type {type(one).__name__}"
    if strict:
        yield from _unknown(found, where, types)
    return found


def _unknown(found: Mapping[str, Any], where: str, types: Mapping[str, tuple[type, ...]]) -> Iterator[str]:
    for name in found:
        if name not in types:
            yield f"{where} has a field that the format does not know, `{name}`"


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _is_moment(timestamp: Any) -> bool:
    if timestamp is None:
        return True
    try:
        datetime.fromisoformat(timestamp)
    except (TypeError, ValueError):
        return False
    return True


__all__ = ["require_trajectory", "trajectory_problems"]
