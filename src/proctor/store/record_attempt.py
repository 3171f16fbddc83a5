"""The rows of one attempt in the record, from its events as the lines of a journal hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from proctor.model.attempt import Phase
from proctor.model.events import (
    AttemptSealed,
    BackoffEnded,
    IssueRaised,
    PhaseEnded,
    TryEnded,
    TryStarted,
    WorkCheckpointed,
)
from proctor.store.record_values import Row, text, whole

_PHASES = tuple(Phase)
_AGENT, _DISPOSE = _PHASES.index(Phase.AGENT), _PHASES.index(Phase.DISPOSE)
_WORK = tuple(_PHASES.index(phase) for phase in (Phase.OPEN, Phase.SETUP, Phase.AGENT, Phase.COLLECT))


class _Try:
    """What is known of one try."""

    __slots__ = (
        "agent_usage", "answer_sha256", "backoff_seconds", "checkpointed_at", "ended", "ended_at", "files",
        "grading_only", "number", "phases", "raised", "started_at",
    )  # fmt: skip

    def __init__(self, number: int, started_at: str, *, grading_only: bool) -> None:
        self.number = number
        self.grading_only = grading_only
        self.started_at = started_at
        self.ended_at: str | None = None
        self.ended: Any = None
        self.phases: list[float | None] = [None] * len(_PHASES)
        self.backoff_seconds: float | None = None
        self.checkpointed_at: str | None = None
        self.answer_sha256: str | None = None
        self.files: tuple[Any, ...] = ()
        self.agent_usage: Any = UNSET
        self.raised: list[Any] = []

    def issues(self) -> Iterator[Any]:
        """Yield the issues of the result, after those that were raised on the way and are not among them."""
        final = () if self.ended is None else self.ended.result.issues
        for issue in self.raised:
            if issue not in final:
                yield issue
        yield from final

    def usages(self) -> Iterator[tuple[str, Any]]:
        """Yield what was used, by whom; before the end of the try, what its checkpoint says."""
        if self.ended is not None:
            yield "agent", self.ended.result.usage
            yield "grader", self.ended.result.grader_usage
        else:
            yield "agent", self.agent_usage

    def work_seconds(self) -> float | None:
        """Return how long everything before grading executed."""
        return _sum(self.phases[index] for index in _WORK)


class AttemptRows:
    """One attempt; `add` takes its events in order, and what comes after its end changes nothing."""

    __slots__ = ("attempt", "began_at", "early", "ordinal", "sealed", "sealed_at", "stored", "task", "tries")

    def __init__(self, attempt: str, began_at: int) -> None:
        self.attempt = attempt
        self.began_at = began_at
        """Where its first event begins in the journal, in bytes."""
        self.stored = False
        """Whether the record may have rows of it."""
        self.task: str | None = None
        self.ordinal: int | None = None
        self.tries: dict[int, _Try] = {}
        self.early: list[Any] = []
        self.sealed: Any = None
        self.sealed_at: str | None = None

    def add(self, event: Any, kind: type, at: str) -> bool:
        """Take an event; return whether it changes a row."""
        step = self._STEPS.get(kind)
        return step is not None and self.sealed is None and step(self, event, at)

    # ------------------------------------------------------------------------------------------------------- events

    def _last(self) -> _Try | None:
        return next(reversed(self.tries.values()), None)

    def _try_started(self, event: Any, at: str) -> bool:
        self.task, self.ordinal = event.task, event.ordinal
        number = whole(event.try_number)
        self.tries.pop(number, None)  # so that it is the last one
        self.tries[number] = _Try(number, at, grading_only=event.grading_only)
        return True

    def _phase_ended(self, event: Any, at: str) -> bool:
        last = self._last()
        if last is None:
            return False
        index = _PHASES.index(event.phase)
        before = last.phases[index]
        last.phases[index] = event.seconds if before is None else round(before + event.seconds, 6)
        return True

    def _work_checkpointed(self, event: Any, at: str) -> bool:
        last = self._last()
        if last is None:
            return False
        last.checkpointed_at, last.answer_sha256 = at, event.answer_sha256
        last.files, last.agent_usage = tuple(event.files), event.usage
        return True

    def _backoff_ended(self, event: Any, at: str) -> bool:
        last = self._last()
        if last is None:
            return False
        last.backoff_seconds = round((last.backoff_seconds or 0.0) + event.seconds, 6)
        return True

    def _issue_raised(self, event: Any, at: str) -> bool:
        last = self._last()
        (self.early if last is None else last.raised).append(event.issue)
        return True

    def _try_ended(self, event: Any, at: str) -> bool:
        last = self._last()
        if last is None:
            return False
        last.ended, last.ended_at = event, at
        return True

    def _attempt_sealed(self, event: Any, at: str) -> bool:
        self.task, self.ordinal = event.task, event.ordinal
        self.sealed, self.sealed_at = event, at
        return True

    _STEPS: ClassVar[Mapping[type, Callable[..., bool]]] = {
        TryStarted: _try_started,
        PhaseEnded: _phase_ended,
        WorkCheckpointed: _work_checkpointed,
        BackoffEnded: _backoff_ended,
        IssueRaised: _issue_raised,
        TryEnded: _try_ended,
        AttemptSealed: _attempt_sealed,
    }

    # --------------------------------------------------------------------------------------------------------- rows

    def append_to(self, rows: Mapping[str, list[Row]], run_key: int) -> None:
        """Append the rows of this attempt, by table, with the values in the order of the columns."""
        key = (run_key, self.attempt)
        slot = (None, None) if self.task is None else (text(self.task), whole(self.ordinal or 0))
        last = self._last()
        for position, issue in enumerate(self.early):
            rows["issue"].append((*key, None, position, *issue_columns(issue)))
        costs: list[float | None] = []
        issues, checkpoint = len(self.early) if last is None else 0, None
        for each in self.tries.values():
            issues = self._append_try(rows, key, each, costs, counted=each is last)
            checkpoint = each.number if each.checkpointed_at is not None else checkpoint
        sealed = self.sealed
        grade = None if last is None or last.ended is None else last.ended.result.grade
        agent_seconds, execution_seconds = self._seconds(last)
        rows["attempt"].append((
            *key, *slot, None,
            None if sealed is None else sealed.verdict.value,
            None if sealed is None or sealed.score is None else float(sealed.score),
            len(self.tries), issues, checkpoint,
            next((each.started_at for each in self.tries.values()), None),
            self.sealed_at, agent_seconds, execution_seconds,
            None if None in costs else _sum(costs) or 0.0,
            text(msgspec.json.encode(grade.sub_scores).decode()) if grade and grade.sub_scores else None,
            None if grade is None else len(grade.checks),
            None if grade is None else sum(check.ok for check in grade.checks),
        ))  # fmt: skip
        if self.task is not None:
            rows["member"].append((run_key, *slot, self.attempt, "origin", None))

    def _append_try(
        self, rows: Mapping[str, list[Row]], key: Row, each: _Try, costs: list[float | None], *, counted: bool
    ) -> int:
        """Append the rows of one try; return how many issues it has."""
        result = None if each.ended is None else each.ended.result
        grade = None if result is None else result.grade
        number = each.number
        rows["try"].append((
            *key, number, counted, each.grading_only,
            None if result is None else result.outcome.value,
            None if grade is None else grade.solved,
            None if grade is None else float(grade.score),
            each.started_at, each.ended_at, *each.phases, each.backoff_seconds, each.checkpointed_at,
            None if each.answer_sha256 is None else text(each.answer_sha256),
        ))  # fmt: skip
        issues = [(*key, number, position, *issue_columns(issue)) for position, issue in enumerate(each.issues())]
        rows["issue"].extend(issues)
        if each.ended is None:
            costs.append(None)  # what it has used in all is not known
        for kind, usage in each.usages():
            if usage is not UNSET:
                rows["usage"].append((*key, number, kind, *_usage(usage)))
                costs.append(usage.cost_usd)
        for name, file in {text(file.name): file for file in each.files}.items():
            rows["artifact"].append((*key, number, name, text(file.sha256), whole(file.size)))
        return len(issues)

    def _seconds(self, last: _Try | None) -> tuple[float | None, float | None]:
        """Return how long the agent worked for the result, and how long all but disposal executed."""
        if last is None:
            return None, None
        worked = next((each for each in reversed(self.tries.values()) if not each.grading_only), None)
        parts = [last.phases[index] for index in range(len(_PHASES)) if index != _DISPOSE]
        if worked is None:
            return None, _sum(parts)
        if worked is not last:
            parts.append(worked.work_seconds())
        return worked.phases[_AGENT], _sum(parts)


def _sum(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 6) if known else None


def issue_columns(issue: Any) -> Row:
    """Return the columns of a row that come from the issue itself."""
    phase = None if issue.phase is None else issue.phase.value
    return text(issue.code), issue.severity.value, issue.owner.value, phase, text(issue.message)


def _usage(usage: Any) -> Row:
    known, unpriced = usage.cost_usd, 0
    if known is None:
        known, unpriced = usage.known_cost_usd or 0.0, usage.calls - usage.priced_calls
    return (
        whole(usage.calls), whole(usage.input_tokens), whole(usage.output_tokens), whole(usage.cache_read_tokens),
        whole(usage.cache_write_tokens), whole(usage.reasoning_tokens), usage.cost_usd,
        float(known), whole(unpriced), text(", ".join(usage.price_sources)) if usage.price_sources else None,
    )  # fmt: skip
