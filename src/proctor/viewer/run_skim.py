"""What a comparison needs of a run, from the lines of its journal that say so; the others are looked at, not decoded.

That takes a fifth of the time of folding them all. Whatever is out of the ordinary, a damaged line or an attempt that
goes on after its end, is left to the whole fold (`run_read`), which can say what it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from proctor.core.aggregate import Missing
from proctor.errors import StoreError
from proctor.model.attempt import Usage, Verdict
from proctor.model.events import EVENT_TYPES, AttemptSealed, RunStarted, SlotFilled, TryEnded, TryStarted
from proctor.report.compare import Side
from proctor.report.in_flight import InFlight
from proctor.report.view import RunView
from proctor.store.codec import decode
from proctor.viewer.run_read import layout_of, name_of, plan_of, read_run
from proctor.viewer.sides import side_of_plan

_KIND = len('{"type":"') + 8
"""So many bytes of a line tell the kinds of events apart that are read here."""


def _kind(name: str) -> bytes:
    return f'{{"type":"{name}",'.encode()[:_KIND]


_BULK = {"SandboxOpened", "SandboxDisposed", "PhaseStarted", "PhaseEnded", "WorkCheckpointed", "GradingQueued",
         "GradingStarted", "BackoffStarted", "BackoffEnded", "ImageWaitStarted", "ImageWaitEnded", "TryResumed",
         "IssueRaised"}  # fmt: skip
_PASSED_OVER = frozenset(_kind(event.__name__) for event in EVENT_TYPES if event.__name__ in _BULK)
"""They are many, and change nothing that a comparison says."""
_BEGUN, _ENDED, _SEALED, _FILLED = (_kind(one.__name__) for one in (TryStarted, TryEnded, AttemptSealed, SlotFilled))


class _Used(msgspec.Struct, frozen=True, gc=False):
    calls: int = 0
    cost_usd: Annotated[float, msgspec.Meta(ge=0)] | None = None


class _Grade(msgspec.Struct, frozen=True, gc=False):
    sub_scores: dict[str, float] = msgspec.field(default_factory=dict[str, float])


class _Result(msgspec.Struct, gc=False):
    grade: _Grade | None = None
    usage: _Used = _Used()
    grader_usage: _Used = _Used()


class _Ended(msgspec.Struct, gc=False):
    attempt: str
    result: _Result


class _Final(msgspec.Struct, gc=False):
    """The fields of `AttemptSealed` and `SlotFilled`."""

    attempt: str
    task: str
    ordinal: int
    verdict: Verdict
    score: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    tries: int = 0
    run: str = ""
    cost_usd: Annotated[float, msgspec.Meta(ge=0)] | None = None
    accepted: bool = False
    sub_scores: dict[str, float] = msgspec.field(default_factory=dict[str, float])


_DECODE_BEGUN = msgspec.json.Decoder(TryStarted)
_DECODE_ENDED = msgspec.json.Decoder(_Ended)
_DECODE_FINAL = msgspec.json.Decoder(_Final)


class _Unusual(Exception):
    """The journal has what has to be read by the whole fold."""


@dataclass(slots=True)
class _Skim:
    view: RunView
    calls: int = 0
    cost_usd: float | None = 0.0
    begun: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """The lines of the last tries of attempts that have not ended."""
    ended: set[str] = field(default_factory=set[str])
    sub_scores: dict[str, dict[str, float]] = field(default_factory=dict[str, "dict[str, float]"])
    """Those of the last grades of attempts that have not ended."""

    def take(self, line: bytes) -> None:
        kind = line[:_KIND]
        if kind == _BEGUN:
            attempt = _DECODE_BEGUN.decode(line).attempt
            self.begun[attempt] = self._ordinary(line, attempt not in self.ended)
        elif kind == _ENDED:
            self._end(_DECODE_ENDED.decode(line))
        elif kind == _SEALED:
            self._seal(_DECODE_FINAL.decode(line))
        elif kind == _FILLED:
            one = _DECODE_FINAL.decode(line)
            event = SlotFilled(
                one.attempt,
                one.task,
                one.ordinal,
                one.run,
                one.verdict,
                one.score,
                one.cost_usd,
                one.accepted,
                one.sub_scores,
            )
            self.view.add(event, self._now)
        else:
            event, at = decode(line)
            self._ordinary(line, isinstance(event, RunStarted) == (self.view.started_at is None))
            self.view.add(event, at)
            if isinstance(event, RunStarted):
                self.view.experiment = event.experiment

    @property
    def _now(self) -> float:
        """The moment of the last event that was decoded with its own: what is counted here needs no other."""
        if self.view.last_at is None:
            raise _Unusual("it does not begin with the start of the run")
        return self.view.last_at

    def _ordinary(self, line: bytes, is_so: bool) -> bytes:
        if not is_so:
            raise _Unusual(line[:100])
        return line

    def _end(self, one: _Ended) -> None:
        if one.attempt not in self.begun:
            raise _Unusual("the start of an attempt is missing")
        if one.result.grade is not None and one.result.grade.sub_scores:
            self.sub_scores[one.attempt] = one.result.grade.sub_scores
        else:
            self.sub_scores.pop(one.attempt, None)
        for used in (one.result.usage, one.result.grader_usage):
            if used.calls:
                self.calls += used.calls
                whole, cost = self.cost_usd, used.cost_usd
                self.cost_usd = None if whole is None or cost is None else whole + cost

    def _seal(self, one: _Final) -> None:
        if one.attempt in self.ended or (self.begun.pop(one.attempt, None) is None and one.tries):
            raise _Unusual("an attempt ends that was not begun, or twice")
        self.ended.add(one.attempt)
        if own := self.sub_scores.pop(one.attempt, None):
            self.view.in_flight[one.attempt] = InFlight(one.task, one.ordinal, one.tries, self._now, sub_scores=own)
        event = AttemptSealed(one.attempt, one.task, one.ordinal, one.verdict, one.score, one.tries)
        self.view.add(event, self._now)

    def settled(self, last: bytes) -> RunView:
        """Return the view, with what is in flight, after the last line."""
        for line in self.begun.values():
            self.view.add(*decode(line))
        _, self.view.last_at = decode(last)
        if self.calls:
            self.view.usage = Usage(self.calls, cost_usd=self.cost_usd)  # refuses a cost that is not finite
        if self.view.queued < 0:
            raise _Unusual("more slots than the run has")
        return self.view


def skimmed(journal: Path, name: str) -> RunView | None:
    """Return counts, scores, cost and moments of a run of a `name`; None where that takes the whole fold."""
    skim = _Skim(RunView(name))
    last = b""
    try:
        with journal.open("rb") as file:
            for line in file:
                if not line.endswith(b"}\n"):
                    if line.endswith(b"\n"):
                        return None
                    break  # the end of a line that is being written, or never was
                if line[:_KIND] not in _PASSED_OVER:
                    skim.take(line)
                last = line
        return skim.settled(last)
    except (_Unusual, OSError, ValueError, ArithmeticError, StoreError):
        return None


def compared(run_dir: Path, missing: Missing | None = None) -> tuple[Side, list[str]]:
    """Return a run as a side of a comparison, whose slots without a score do what `missing` says, and what is wrong.

    Raises `UsageError` where a directory is not that of a run, `StoreError` where it cannot be read.
    """
    layout = layout_of(run_dir)
    plan, problem = plan_of(layout)
    wrong: list[str] = []
    view = skimmed(layout.journal, name_of(plan))
    if view is None:
        read = read_run(run_dir)
        view, plan, problem = read.view, read.plan, read.plan_problem
        wrong += [read.trouble.message] if read.trouble is not None else []
    view.missing = missing
    wrong += [f"{problem}; what differs in the identities cannot be said"] if problem is not None else []
    return side_of_plan(view, layout, plan), wrong
