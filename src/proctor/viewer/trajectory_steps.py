"""Steps of a trajectory as they are shown: texts within one budget, so that a page never grows with what was said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

import msgspec

from proctor.viewer.colours import Run, coloured
from proctor.viewer.run_list import number_in, object_in
from proctor.viewer.trajectory import RawStep

TEXT_CHARACTERS = 20_000
"""So much is shown of one text: three quarters of its beginning, a quarter of its end."""
PAGE_CHARACTERS = 1_000_000
"""So much is shown of all texts of a page."""
COLOUR_CHARACTERS = 60
"""What a change of colour adds to a page."""
LEAST_CHARACTERS = 200
"""So much is shown of a text even where the page is full."""
CALLS_SHOWN = 50
"""Of one step; so many results as well."""
METRICS_SHOWN = 12
NEW_LINE = "\n"
UNLIKELY = 1e18
"""A number of a step that is as large is none that anybody counted."""
FOLDED_LINES = 12
"""A longer result is folded."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text within its bound, with the colours that a terminal would show; `left_out` characters are missing."""

    runs: Sequence[Run]
    left_out: int = 0
    lines: int = 1

    @property
    def is_long(self) -> bool:
        """Whether it is folded."""
        return self.lines > FOLDED_LINES or self.left_out > 0


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool and what came of it."""

    name: str
    arguments: Text
    results: Sequence[Text] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A step; None is unknown. `raw` is there instead of all else where the step cannot be decoded."""

    number: str
    source: str
    model: str | None = None
    at: str | None = None
    message: Text | None = None
    reasoning: Text | None = None
    calls: Sequence[Call] = ()
    observations: Sequence[Text] = ()
    more: int = 0
    """So many calls and results are not shown."""
    metrics: Sequence[tuple[str, float]] = ()
    stop_reason: str | None = None
    extra: Text | None = None
    raw: RawStep | None = None


class Budget:
    """How much text a page still has room for."""

    def __init__(self, characters: int = PAGE_CHARACTERS) -> None:
        self._left = characters

    def text(self, value: Any) -> Text | None:
        """Return a value as text, cut in the middle; None for nothing."""
        words = text_of(value)
        if not words:
            return None
        most = max(LEAST_CHARACTERS, min(TEXT_CHARACTERS, self._left))
        left_out = max(0, len(words) - most)
        if left_out:
            tail = most // 4
            words = f"{words[: most - tail]}\n[... {left_out:,} ...]\n{words[len(words) - tail :]}"
        runs = coloured(words)
        self._left -= len(words) + COLOUR_CHARACTERS * len(runs)
        return Text(runs, left_out, words.count("\n") + 1)


def text_of(value: Any) -> str:
    """Return what stands in a field as text: texts as they are, parts of a message together, all else as JSON."""
    if value is None or value == "":
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [object_in({"": part}, "").get("text") for part in cast("list[Any]", value)]
        texts = [part for part in parts if isinstance(part, str)]
        if texts and len(texts) == len(parts):
            return "\n".join(texts)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if len(members) == 1 and isinstance(only := next(iter(members.values())), str):
            return f"{next(iter(members))}:{NEW_LINE if NEW_LINE in only else ' '}{only}"
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=1).decode("utf-8", "replace")
    except (ValueError, RecursionError):
        return "(cannot be shown: nested too deep, or no text)"


def shown_step(step: Mapping[str, Any] | RawStep, number: int, budget: Budget) -> Step:
    """Return a step as it is shown; `number` is its place, which stands where it has no number of its own."""
    if isinstance(step, RawStep):
        return Step(str(number), "?", raw=step)
    all_results = _results(step)
    results = all_results[:CALLS_SHOWN]
    extra = dict(object_in(step, "extra"))
    calls: list[Call] = []
    made = _list(step.get("tool_calls"))
    for one in made[:CALLS_SHOWN]:
        call_id = one.get("tool_call_id")
        own = [each for each in results if call_id is not None and each.get("source_call_id") == call_id]
        taken = set(map(id, own))
        results = [each for each in results if id(each) not in taken]
        found = [text for each in own if (text := budget.text(each.get("content"))) is not None]
        arguments = budget.text(one.get("arguments")) or Text(())
        calls.append(Call(_word(one.get("function_name")) or "?", arguments, found))
    seen = [text for one in results if (text := budget.text(one.get("content"))) is not None]
    return Step(
        _word(step.get("step_id")) or str(number),
        _word(step.get("source")) or "?",
        _word(step.get("model_name")),
        _word(step.get("timestamp")),
        budget.text(step.get("message")),
        budget.text(step.get("reasoning_content")),
        calls,
        seen,
        max(0, len(made) - CALLS_SHOWN) + len(all_results[CALLS_SHOWN:]),
        _metrics(object_in(step, "metrics")),
        _word(extra.pop("stop_reason", None)),
        budget.text(extra or None),
    )


def _results(step: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return _list(object_in(step, "observation").get("results"))


def _list(value: Any) -> list[Mapping[str, Any]]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", item) for item in items if isinstance(item, dict)]


def _word(value: Any) -> str | None:
    return str(value)[:200] if isinstance(value, str | int | float) and value != "" else None


def _metrics(members: Mapping[str, Any]) -> list[tuple[str, float]]:
    numbers = [(name[:60], number_in(members, name)) for name in islice(members, METRICS_SHOWN)]
    return [(name, number) for name, number in numbers if number is not None and abs(number) < UNLIKELY]
