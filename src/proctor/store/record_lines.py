"""Lines of a journal for the record: read as the store's reader reads them, and some ten times faster.

The reader makes an object of the model of every event. Here the lines stay what msgspec makes of them; what the
model's constructors would refuse is looked for by hand, so that both find the same line damaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from proctor.model.attempt import Outcome
from proctor.model.events import EVENT_TYPES, AttemptSealed, RunStarted, SlotFilled, TryEnded, WorkCheckpointed
from proctor.store.codec import FORMAT_VERSION, decode, impossible_in, seconds_of
from proctor.store.shapes import event_union, shape_of

_STRUCTS: dict[type, type] = {shape_of(event).struct: event for event in EVENT_TYPES}
_decode = msgspec.json.Decoder[Any](event_union(shape_of(event) for event in EVENT_TYPES)).decode


def read_line(line: bytes) -> tuple[type, Any]:
    """Return the type of the event in a line, and the event with the fields of that type and its moment as `at`.

    Usage of no calls is `msgspec.UNSET`. Raises `NewerFormat` and `JournalDamaged` as `codec.decode` does.
    """
    try:
        event = _decode(line)
        kind = _STRUCTS[type(event)]
        seconds_of(event.at)
        if kind in _CHECKS and not _CHECKS[kind](event):
            raise ValueError("a value out of its range")
    except (ValueError, RecursionError):
        decode(line)  # says what is wrong with it
        raise
    return kind, event


def _usage_is_right(usage: Any) -> bool:
    if usage is msgspec.UNSET:
        return True
    counts = (
        usage.calls, usage.input_tokens, usage.output_tokens,
        usage.cache_read_tokens, usage.cache_write_tokens, usage.reasoning_tokens, usage.priced_calls,
    )  # fmt: skip
    cost, part = usage.cost_usd, usage.known_cost_usd
    if cost is not None and (part is not None or usage.priced_calls):
        return False
    costs_are_right = all(one is None or 0 <= one < math.inf for one in (cost, part))
    return min(counts) >= 0 and usage.priced_calls <= usage.calls and costs_are_right


def _try_is_right(event: Any) -> bool:
    result = event.result
    grade = result.grade
    if (result.outcome is Outcome.GRADED) != (grade is not None):
        return False
    if grade is not None and not 0 <= grade.score <= 1:
        return False
    return _usage_is_right(result.usage) and _usage_is_right(result.grader_usage)


def _checkpoint_is_right(event: Any) -> bool:
    return _usage_is_right(event.usage)


def _start_is_right(event: Any) -> bool:
    return event.format <= FORMAT_VERSION


def _end_is_right(event: Any) -> bool:
    return impossible_in(event) is None


_CHECKS: dict[type, Callable[[Any], bool]] = {
    TryEnded: _try_is_right,
    WorkCheckpointed: _checkpoint_is_right,
    RunStarted: _start_is_right,
    AttemptSealed: _end_is_right,
    SlotFilled: _end_is_right,
}
