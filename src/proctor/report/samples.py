"""What is kept of each attempt that fills a slot, for metrics: columns of numbers, about 60 bytes an attempt."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from proctor.model.attempt import Usage, Verdict
from proctor.report.sub_scores import ByTask, SubScores

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

    __slots__ = ("_costs", "_reused", "_scores", "_seconds", "_sub_scores", "_tasks", "_tokens", "_verdicts")

    def __init__(self) -> None:
        self._tasks: list[str] = []
        self._verdicts: list[Verdict] = []
        self._reused = bytearray()
        self._scores, self._seconds, self._tokens, self._costs = (array("d") for _ in range(4))
        self._sub_scores: SubScores | None = None
        """None while no attempt had any."""

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
        sub_scores: Mapping[str, float] | None = None,
    ) -> None:
        """Take an attempt that was made here, with what all its tries used, and the sub-scores beside its score."""
        self._add(task, verdict, score, sub_scores, reused=False)
        if usage is None:
            self._spend(seconds, None, None)
        else:
            self._spend(seconds, tokens_of(usage), usage.cost_usd if usage.calls else 0.0)

    def add_reused(
        self,
        task: str,
        verdict: Verdict,
        score: float | None,
        cost_usd: float | None,
        sub_scores: Mapping[str, float] | None = None,
    ) -> None:
        """Take an attempt of another run that fills a slot."""
        self._add(task, verdict, score, sub_scores, reused=True)
        self._spend(None, None, cost_usd)

    def sub_scores(self) -> dict[str, ByTask]:
        """Return the sub-scores of the scored attempts, by name and task."""
        return {} if self._sub_scores is None else self._sub_scores.by_task(self._tasks)

    @property
    def sub_scores_left_out(self) -> int:
        """How many more names sub-scores have (`SubScores.left_out`)."""
        return 0 if self._sub_scores is None else self._sub_scores.left_out

    def _add(
        self, task: str, verdict: Verdict, score: float | None, sub_scores: Mapping[str, float] | None, *, reused: bool
    ) -> None:
        if sub_scores and score is not None:
            if self._sub_scores is None:
                self._sub_scores = SubScores()
            self._sub_scores.add(len(self._tasks), sub_scores)
        self._tasks.append(task)
        self._verdicts.append(verdict)
        self._reused.append(reused)
        self._scores.append(UNKNOWN if score is None else score)

    def _spend(self, seconds: float | None, tokens: int | None, cost_usd: float | None) -> None:
        self._seconds.append(UNKNOWN if seconds is None else seconds)
        self._tokens.append(UNKNOWN if tokens is None else tokens)
        self._costs.append(UNKNOWN if cost_usd is None else cost_usd)

    def __iter__(self) -> Iterator[Sample]:
        isnan = math.isnan
        columns = (self._scores, self._reused, self._seconds, self._tokens, self._costs)
        for task, verdict, score, reused, seconds, tokens, cost in zip(
            self._tasks, self._verdicts, *columns, strict=True
        ):
            yield Sample(
                task,
                verdict,
                None if isnan(score) else score,
                bool(reused),
                None if isnan(seconds) else seconds,
                None if isnan(tokens) else int(tokens),
                None if isnan(cost) else cost,
            )


def tokens_of(usage: Usage) -> int:
    """Return all tokens of some usage, of every kind; those of reasoning are part of the output."""
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens
