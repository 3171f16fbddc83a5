"""The steps of a trajectory, each within its bounds; part of `plugins.atif`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast

from proctor.model.attempt import Usage
from proctor.model.bounds import TREE_CHARACTERS, TREE_DEPTH, TREE_NODES, shortened
from proctor.model.spec import Json
from proctor.plugins.models import ToolCall

# Whoever keeps a trajectory counts texts and values. A value that weighs as much as its share of the texts makes one
# bound of the two. A quarter is left for what is written without being counted, such as the names of fields.
VALUE_WEIGHT = TREE_CHARACTERS // TREE_NODES
STEPS_WEIGHT = TREE_CHARACTERS * 3 // 4
"""Of all steps together, in characters."""
STEP_WEIGHT = STEPS_WEIGHT // 2
"""Of one step, in characters: one fits whole at each end of a trajectory that is cut."""
STEP_VALUES = 12
"""Values of a step without calls and results."""
ARGUMENTS_DEPTH = TREE_DEPTH - 20


class Step:
    """One step, and how much room is left in it; `cut` says whether something had none."""

    def __init__(self, source: str, message: str) -> None:
        self.room = STEP_WEIGHT - STEP_VALUES * VALUE_WEIGHT
        self.cut = False
        self.calls: set[str] = set()
        self.fields: dict[str, Json] = {"source": source, "message": self.text(message)}

    @property
    def weight(self) -> int:
        """How much it weighs."""
        return STEP_WEIGHT - self.room

    def text(self, text: str) -> str:
        """Return as much of a text as has room."""
        kept = shortened(text, max(self.room, 0))
        self.room -= len(kept)
        self.cut = self.cut or len(kept) < len(text)
        return kept

    def note(self, name: str, value: Json) -> None:
        """Add something that the format has no field for."""
        self.fields.setdefault("extra", {})[name] = value

    def _has_room(self, weight: int) -> bool:
        """Take room for something, if there is as much."""
        if weight > self.room:
            return False
        self.room -= weight
        return True

    def _left_out(self, what: str) -> None:
        """Count something that has no room in it."""
        self.cut = True
        counts = self.fields.setdefault("extra", {}).setdefault("left_out", {})
        counts[what] = counts.get(what, 0) + 1

    def call(self, call: ToolCall) -> None:
        """Add a call of a tool. Arguments that are no JSON object stand in `extra`: the format wants an object."""
        if not self._has_room(6 * VALUE_WEIGHT + 2 * len(call.id)):
            self._left_out("tool_calls")
            return
        unique = call.id if call.id not in self.calls else f"{call.id}#{len(self.calls)}"  # the format wants it so
        name, arguments = self.text(call.name), arguments_of(call)
        weight = None if arguments is None else _weight(arguments, self.room)
        if arguments is None or weight is None:
            raw = self.fields.setdefault("extra", {}).setdefault("raw_arguments", {})
            raw[unique] = self.text(call.arguments)
            arguments = {}
        else:
            self.room -= weight
        made = {"tool_call_id": unique, "function_name": name, "arguments": arguments}
        self.fields.setdefault("tool_calls", []).append(made)
        self.calls.add(unique)

    def result(self, content: str, call_id: str | None) -> None:
        """Add what came of a call, or of something else."""
        if not self._has_room(4 * VALUE_WEIGHT + len(call_id or "")):
            self._left_out("results")
            return
        named = {"source_call_id": call_id} if call_id in self.calls else {}
        results = self.fields.setdefault("observation", {"results": []})["results"]
        results.append({**named, "content": self.text(content)})


def arguments_of(call: ToolCall) -> dict[str, Json] | None:
    """Return the arguments of a call; None where they are no JSON object, as strict readers see it."""
    try:
        value: Any = json.loads(call.arguments, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Json]", value) if isinstance(value, dict) else None


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _weight(value: Json, most: int) -> int | None:
    """Return how much a value weighs; None where that is more than `most`, or it is nested too deep."""
    weight, waiting = 0, [(value, ARGUMENTS_DEPTH)]
    while waiting:
        one, depth = waiting.pop()
        weight += VALUE_WEIGHT + (len(one) if isinstance(one, str) else 0)
        if weight > most or depth == 0:
            return None
        if isinstance(one, Mapping):
            members = cast("Mapping[str, Json]", one)
            weight += sum(map(len, members))
            waiting += [(member, depth - 1) for member in members.values()]
        elif isinstance(one, list):
            waiting += [(item, depth - 1) for item in cast("list[Json]", one)]
    return weight


def prompt_tokens(usage: Usage) -> int:
    """Return the whole input: in a trajectory cached tokens are a part of it, while our kinds are disjoint."""
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def metrics_of(usage: Usage) -> Json:
    """Return what one call used, as the format has it."""
    metrics: dict[str, Json] = {
        "prompt_tokens": prompt_tokens(usage),
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_tokens,
    }
    if usage.cost_usd is not None:
        metrics["cost_usd"] = usage.cost_usd
    if usage.reasoning_tokens:
        metrics["extra"] = {"reasoning_tokens": usage.reasoning_tokens}
    return metrics
