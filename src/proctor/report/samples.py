"""What is kept of each attempt that fills a slot, for metrics: columns of numbers, about 60 bytes an attempt."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from proctor.model.attempt import Usage, Verdict

UNKNOWN = math.nan
"""Stands for a number that is not known, inside of a column only."""


class Sample(NamedTuple):
    """One attempt; None is unknown. `seconds` are those of the agent phase whose work counts."""

    task: str
    verdict: Verdict
    score: float | None
    reused: bool
    seconds: float | None
    tokens: int | None
    cost_usd: float | None


class Samples:
    """The attempts of a run, in the order in which they became final."""

    __slots__ = ("_costs", "_reused", "_scores", "_seconds", "_tasks", "_tokens", "_verdicts")

    def __init__(self) -> None:
        self._tasks: list[str] = []
        self._verdicts: list[Verdict] = []
        self._reused = bytearray()
        self._scores, self._seconds, self._tokens, self._costs = (array("d") for _ in range(4))

    def __len__(self) -> int:
        return len(self._tasks)

    def add(
        self,
        task: str,
        verdict: Verdict,
        score: float | None,
        *,
        seconds: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Take an attempt that was made here, with what all its tries used."""
        tokens, cost = (None, None) if usage is None else (tokens_of(usage), usage.cost_usd if usage.calls else 0.0)
        self._add(task, verdict, score, (seconds, tokens, cost), reused=False)

    def add_reused(self, task: str, verdict: Verdict, score: float | None, cost_usd: float | None) -> None:
        """Take an attempt of another run that fills a slot."""
        self._add(task, verdict, score, (None, None, cost_usd), reused=True)

    def _add(
        self,
        task: str,
        verdict: Verdict,
        score: float | None,
        spent: tuple[float | None, float | None, float | None],
        *,
        reused: bool,
    ) -> None:
        self._tasks.append(task)
        self._verdicts.append(verdict)
        self._reused.append(reused)
        self._scores.append(UNKNOWN if score is None else score)
        for column, number in zip((self._seconds, self._tokens, self._costs), spent, strict=True):
            column.append(UNKNOWN if number is None else number)

    def __iter__(self) -> Iterator[Sample]:
        columns = (self._scores, self._reused, self._seconds, self._tokens, self._costs)
        for task, verdict, score, reused, seconds, tokens, cost in zip(
            self._tasks, self._verdicts, *columns, strict=True
        ):
            known = _known(tokens)
            yield Sample(
                task,
                verdict,
                _known(score),
                bool(reused),
                _known(seconds),
                None if known is None else int(known),
                _known(cost),
            )


def tokens_of(usage: Usage) -> int:
    """Return all tokens of some usage, of every kind; those of reasoning are part of the output."""
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number
