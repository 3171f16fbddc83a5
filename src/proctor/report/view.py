"""The one fold from events to what is known of a run; every display renders this and keeps no count of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from proctor.core.aggregate import Counts
from proctor.model.attempt import NO_USAGE, Usage, Verdict
from proctor.model.events import (
    AttemptSealed,
    BackoffEnded,
    BackoffStarted,
    Completion,
    DispatchStopped,
    Event,
    GradingQueued,
    GradingStarted,
    Interrupted,
    IssueRaised,
    PhaseStarted,
    RunEnded,
    RunStarted,
    SlotFilled,
    StopReason,
    TeardownEnded,
    TryEnded,
    TryStarted,
)
from proctor.model.ids import AttemptId
from proctor.report.in_flight import InFlight


@dataclass(slots=True)
class RunView:
    """What is known of one run after the events so far; times are wall clock seconds."""

    experiment: str
    total: int = 0
    in_flight: dict[AttemptId, InFlight] = field(default_factory=dict[AttemptId, InFlight])
    waiting_for_grading: set[AttemptId] = field(default_factory=set[AttemptId])
    """Those of them that wait for the permits of grading, and hold none."""
    verdicts: Counter[Verdict] = field(default_factory=Counter[Verdict])
    """Of the attempts that were made here."""
    reused: Counter[Verdict] = field(default_factory=Counter[Verdict])
    """Of the slots that saved attempts fill."""
    reused_cost_usd: float | None = 0.0
    """What those cost in the runs that made them; None where a part is not known."""
    not_dispatched: Counter[StopReason] = field(default_factory=Counter[StopReason])
    issues: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """How often each (severity, code) was raised."""
    backoffs: Counter[str] = field(default_factory=Counter[str])
    """How often tries waited inside themselves, by the code of what refused."""
    backoff_seconds: float = 0.0
    usage: Usage = NO_USAGE
    grader_usage: Usage = NO_USAGE
    tries: int = 0
    retries: int = 0
    """Tries after the first of an attempt."""
    grading_only_tries: int = 0
    """Those of them that only graded again what an earlier try had made."""
    only_graded: int = 0
    """Attempts that began with grading: their work is that of an earlier run."""
    retried: Counter[Verdict] = field(default_factory=Counter[Verdict])
    """The verdicts of attempts with more than one try."""
    retried_usage: Usage = NO_USAGE
    """What was used for work and grading that a later try replaced."""
    early_exit: bool = False
    tasks: int = 0
    solved: set[str] = field(default_factory=set[str])
    """With early exit: the tasks of which an attempt has passed."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """With early exit: attempts that failed or were skipped, by task."""
    needless: int = 0
    """With early exit: attempts that were cancelled because their task was solved."""
    scored: int = 0
    score_sum: float = 0.0
    teardown_failed: bool = False
    signal: int | None = None
    completion: Completion | None = None
    started_at: float | None = None
    last_at: float | None = None
    sealed_seconds: float = 0.0
    """Wall time of the attempt that was sealed last, from its first try."""

    def add(self, event: Event, at: float) -> None:  # noqa: PLR0912 - one case per event
        """Take one event, in order."""
        self.started_at = at if self.started_at is None else self.started_at
        self.last_at = at
        match event:
            case PhaseStarted(attempt, phase):
                flight = self.in_flight[attempt]
                flight.phase, flight.phase_at = phase, at
            case TryStarted():
                self._start_try(event, at)
            case TryEnded():
                self._end_try(event)
            case AttemptSealed(attempt, _, _, verdict, score, tries):
                self.waiting_for_grading.discard(attempt)
                self.retried[verdict] += tries > 1
                flight = self.in_flight.pop(attempt, None)  # none where the slot was given up before any try
                self.sealed_seconds = at - flight.started_at if flight else 0.0
                self.verdicts[verdict] += 1
                self._take_score(event.task, verdict, score)
            case SlotFilled():
                self._fill(event)
            case GradingQueued(attempt):
                self.waiting_for_grading.add(attempt)
            case GradingStarted(attempt):
                self.waiting_for_grading.discard(attempt)
            case IssueRaised(_, issue):
                self.issues[issue.severity, issue.code] += 1
            case BackoffStarted(attempt, code, _):
                self.in_flight[attempt].backing_off = code
                self.backoffs[code] += 1
            case BackoffEnded(attempt, seconds):
                self.in_flight[attempt].backing_off = None
                self.backoff_seconds += seconds
            case TeardownEnded(_, issue) if issue is not None:
                self.issues[issue.severity, issue.code] += 1
                self.teardown_failed = True
            case DispatchStopped(_, reason, slots):
                self.not_dispatched[reason] += slots
            case Interrupted(signal):
                self.signal = signal
            case RunStarted():
                self.total, self.tasks, self.early_exit = event.slots, event.tasks, event.early_exit
            case RunEnded(_, completion):
                self.completion = completion
            case _:
                pass

    def _start_try(self, event: TryStarted, at: float) -> None:
        self.tries += 1
        self.retries += event.try_number > 1
        self.grading_only_tries += event.grading_only
        self.only_graded += event.grading_only and event.try_number == 1
        known = self.in_flight.get(event.attempt)
        flight = InFlight(event.task, event.ordinal, event.try_number, known.started_at if known else at)
        if known is not None:
            self.retried_usage += known.grading
            if event.grading_only:
                flight.work = known.work
            else:
                self.retried_usage += known.work
        self.in_flight[event.attempt] = flight

    def _end_try(self, event: TryEnded) -> None:
        self.usage += event.result.usage
        self.grader_usage += event.result.grader_usage
        flight = self.in_flight.get(event.attempt)
        if flight is not None:
            flight.ended, flight.backing_off = True, None
            flight.work += event.result.usage
            flight.grading += event.result.grader_usage

    def _fill(self, event: SlotFilled) -> None:
        self.reused[event.verdict] += 1
        known = self.reused_cost_usd is not None and event.cost_usd is not None
        self.reused_cost_usd = (self.reused_cost_usd or 0.0) + (event.cost_usd or 0.0) if known else None
        self._take_score(event.task, event.verdict, event.score)

    def _take_score(self, task: str, verdict: Verdict, score: float | None) -> None:
        if self.early_exit:
            self._count_task(task, verdict)
        if score is not None:
            self.scored += 1
            self.score_sum += score

    def _count_task(self, task: str, verdict: Verdict) -> None:
        if verdict is Verdict.PASSED:
            self.solved.add(task)
        elif verdict in (Verdict.FAILED, Verdict.SKIPPED):
            self.failures[task] += 1
        elif verdict is Verdict.CANCELLED and task in self.solved:
            self.needless += 1

    @property
    def unsolved(self) -> int:
        """With early exit: tasks of which every attempt was made and none passed."""
        attempts = self.total // self.tasks if self.tasks else 0
        return sum(task not in self.solved and count >= attempts for task, count in self.failures.items())

    def cut_off(self, reason: StopReason) -> None:
        """End a run that did not end by itself: what is in flight is cancelled, what is queued not dispatched."""
        self.verdicts[Verdict.CANCELLED] += len(self.in_flight)
        self.in_flight.clear()
        self.waiting_for_grading.clear()
        self.not_dispatched[reason] += self.counts.queued
        self.completion = self.completion or Completion.STOPPED

    @property
    def backing_off(self) -> int:
        """How many of those in flight wait inside a try, holding no global permit."""
        return sum(flight.backing_off is not None for flight in self.in_flight.values())

    @property
    def between_tries(self) -> int:
        """How many of those in flight wait to be tried again."""
        return sum(flight.ended for flight in self.in_flight.values())

    @property
    def sealed(self) -> int:
        """How many attempts that were made here are final."""
        return self.verdicts.total()

    @property
    def counts(self) -> Counts:
        """The parts of the total; they always add up to it."""
        return self._counts(self.verdicts)

    @property
    def counts_without_retried(self) -> Counts:
        """The same without the attempts that are final and took more than one try."""
        return self._counts(self.verdicts - self.retried)

    def _counts(self, verdicts: Counter[Verdict]) -> Counts:
        running = len(self.in_flight)
        stopped = self.not_dispatched.total()
        return Counts(
            total=self.total - self.sealed + verdicts.total(),
            running=running,
            queued=self.total - running - self.sealed - stopped - self.reused.total(),
            passed=verdicts[Verdict.PASSED],
            failed=verdicts[Verdict.FAILED],
            errored=verdicts[Verdict.ERRORED],
            skipped=verdicts[Verdict.SKIPPED],
            cancelled=verdicts[Verdict.CANCELLED],
            not_dispatched={reason.value: n for reason, n in self.not_dispatched.items()},
            reused_passed=self.reused[Verdict.PASSED],
            reused_failed=self.reused[Verdict.FAILED],
        )

    @property
    def seconds(self) -> float:
        """Wall time from the first event to the last."""
        if self.started_at is None or self.last_at is None:
            return 0.0
        return max(0.0, self.last_at - self.started_at)

    @property
    def mean_score(self) -> float | None:
        """Mean over the attempts that have a score; None where none has."""
        return self.score_sum / self.scored if self.scored else None
