"""What is known of a run: the numbers that every display shows, each with one definition (docs/progress.md)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from proctor.core.aggregate import Counts, Missing
from proctor.model.attempt import NO_USAGE, Usage, Verdict
from proctor.model.events import Completion, StopReason
from proctor.model.ids import AttemptId
from proctor.report.in_flight import InFlight
from proctor.report.samples import Samples
from proctor.report.time_spent import TimeSpent

OPENS_REMEMBERED = 50
"""Of so many sandboxes that were opened last the median is told."""


@dataclass(slots=True)
class Tallies:
    """What is known of one run; times are wall clock seconds. Only `RunView.add` changes it."""

    experiment: str
    total: int = 0
    tags: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """The tags of tasks, by task."""
    missing: Missing | None = None
    """What its rate makes of slots without a score."""
    in_flight: dict[AttemptId, InFlight] = field(default_factory=dict[AttemptId, InFlight])
    waiting_for_grading: set[AttemptId] = field(default_factory=set[AttemptId])
    """Those of them that wait for the permits of grading, and hold none."""
    verdicts: Counter[Verdict] = field(default_factory=Counter[Verdict])
    """Of the attempts that were made here."""
    reused: Counter[Verdict] = field(default_factory=Counter[Verdict])
    """Of the slots that saved attempts fill."""
    reused_cost_usd: float | None = 0.0
    """What those cost in the runs that made them; None where a part is not known."""
    reused_known_usd: float = 0.0
    """The part of it that is known."""
    reused_unpriced: int = 0
    """How many of them have a cost of which nothing is known."""
    not_dispatched: Counter[StopReason] = field(default_factory=Counter[StopReason])
    final: int = 0
    """Slots that are final: made here, reused, or not dispatched."""
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
    skips: Counter[str] = field(default_factory=Counter[str])
    """With early exit: those of them that were skipped, by task."""
    needless: int = 0
    """With early exit: attempts that were cancelled because their task was solved."""
    samples: Samples = field(default_factory=Samples)
    """Each attempt that fills a slot, for metrics."""
    scored: int = 0
    score_sum: float = 0.0
    teardown_failed: bool = False
    signal: int | None = None
    completion: Completion | None = None
    started_at: float | None = None
    last_at: float | None = None
    sealed_seconds: float = 0.0
    """Wall time of the attempt that was sealed last, from its first try."""
    longest_seconds: float = 0.0
    longest: tuple[str, int] = "", 0
    """Task and ordinal of the attempt that took longest."""

    time: TimeSpent = field(default_factory=TimeSpent)
    """Where the time of its slots went."""
    opens: deque[float] = field(default_factory=lambda: deque(maxlen=OPENS_REMEMBERED))
    """How long it took to open the sandboxes that were opened last, in seconds."""
    retried_issues: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Those of `issues` that were FATAL to a try after which there was another."""
    sealed_usage: Usage = NO_USAGE
    """What all tries of the attempt used that was sealed last."""
    leased_at: float | None = None
    """When its lease was granted."""
    host_cpu: float | None = None
    """The share of this machine's CPUs that was in use while it ran; None where nobody looked."""
    worked: bool = False
    """Whether any attempt has come to its agent's part."""

    @property
    def all_usage(self) -> Usage:
        """What work and grading used, that of tries in flight as far as it was saved with their work."""
        saved = (flight.saved for flight in self.in_flight.values() if not flight.ended)
        return sum(saved, self.usage + self.grader_usage)

    @property
    def attempts(self) -> int:
        """How many slots a task has, all having as many; 1 while that is not known."""
        return max(1, self.total // self.tasks) if self.tasks else 1

    @property
    def unsolved(self) -> int:
        """With early exit: tasks of which every attempt was made, not all were skipped, and none passed."""
        attempts, skips = self.attempts, self.skips
        return sum(
            task not in self.solved and count >= attempts and skips[task] < attempts
            for task, count in self.failures.items()
        )

    @property
    def skipped_tasks(self) -> int:
        """With early exit: tasks of which every attempt was skipped; like skipped slots they are no part of a rate."""
        return sum(count >= self.attempts for count in self.skips.values())

    def count_task(self, task: str, verdict: Verdict) -> None:
        """With early exit: take what became of an attempt of a task."""
        if verdict is Verdict.PASSED:
            self.solved.add(task)
        elif verdict in (Verdict.FAILED, Verdict.SKIPPED):
            self.failures[task] += 1
            if verdict is Verdict.SKIPPED:
                self.skips[task] += 1
        elif verdict is Verdict.CANCELLED and task in self.solved:
            self.needless += 1

    def cut_off(self, reason: StopReason) -> None:
        """End a run that did not end by itself: what is in flight is cancelled, what is queued not dispatched."""
        self.usage = sum((flight.saved for flight in self.in_flight.values() if not flight.ended), self.usage)
        self.verdicts[Verdict.CANCELLED] += len(self.in_flight)
        self.final += len(self.in_flight)
        self.in_flight.clear()
        self.waiting_for_grading.clear()
        self.not_dispatched[reason] += self.total - self.final
        self.final = self.total
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
    def queued(self) -> int:
        """How many slots are neither in flight nor final."""
        return self.total - len(self.in_flight) - self.final

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
        return Counts(
            total=self.total - self.sealed + verdicts.total(),
            running=len(self.in_flight),
            queued=self.queued,
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
