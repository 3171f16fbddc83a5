"""The one fold from events to what is known of a run; every display renders this and keeps no count of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from proctor.model.attempt import Phase, TryResult, Verdict
from proctor.model.events import (
    AttemptSealed,
    BackoffEnded,
    BackoffStarted,
    DispatchStopped,
    Event,
    GradingQueued,
    GradingStarted,
    ImageWaitEnded,
    ImageWaitStarted,
    Interrupted,
    IssueRaised,
    LaneClosed,
    LeaseGranted,
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    RunStarted,
    SandboxOpened,
    SlotFilled,
    TeardownEnded,
    TryEnded,
    TryResumed,
    TryStarted,
    WorkCheckpointed,
)
from proctor.report.in_flight import InFlight, cause_of
from proctor.report.tallies import Tallies
from proctor.report.time_spent import BACKOFF, GRADING_PERMITS, IMAGES


@dataclass(slots=True)
class RunView(Tallies):
    """What is known of one run after the events so far."""

    def add(self, event: Event, at: float) -> None:
        """Take one event, in order. Every attempt has a dozen of them: this is what a run costs that shows nothing."""
        last = self.last_at
        if last is None:
            self.started_at = at
        elif at > last:
            self.time.passes(at - last, queued=self.queued, in_flight=len(self.in_flight))
        self.last_at = at
        take = self._TAKES.get(type(event))
        if take is not None:
            take(self, event, at)

    # ------------------------------------------------------------------------------------------- inside of a try

    def _start_phase(self, event: PhaseStarted, at: float) -> None:
        flight = self.in_flight[event.attempt]
        flight.phase, flight.phase_at = event.phase, at
        if event.phase is not Phase.DISPOSE:  # a try that is cancelled while it waits holds no permits to its end
            flight.backing_off = None
            self.worked = self.worked or event.phase is Phase.AGENT

    def _end_phase(self, event: PhaseEnded, at: float) -> None:
        self.time.worked(event.phase, event.seconds)
        if event.phase is Phase.OPEN:
            self.in_flight[event.attempt].opened_in = event.seconds
        elif event.phase is Phase.AGENT:
            self.in_flight[event.attempt].agent_seconds = event.seconds

    def _save(self, event: WorkCheckpointed, at: float) -> None:
        self.in_flight[event.attempt].saved = event.usage

    def _open(self, event: SandboxOpened, at: float) -> None:
        flight = self.in_flight.get(event.attempt)
        if flight is not None and flight.opened_in is not None:
            self.opens.append(flight.opened_in)
            flight.opened_in = None

    def _wait_for_image(self, event: ImageWaitStarted, at: float) -> None:
        flight = self.in_flight[event.attempt]
        flight.image, flight.waits_since, flight.waits_seconds = event.image, at, None
        self.time.wait(event.attempt, IMAGES, at)

    def _end_image_wait(self, event: ImageWaitEnded, at: float) -> None:
        self.in_flight[event.attempt].image = None
        self.time.goes_on(event.attempt, at)

    def _back_off(self, event: BackoffStarted, at: float) -> None:
        flight = self.in_flight[event.attempt]
        flight.backing_off, flight.waits_since, flight.waits_seconds = event.code, at, event.seconds
        self.backoffs[event.code] += 1
        self.time.wait(event.attempt, BACKOFF, at)

    def _end_backoff(self, event: BackoffEnded, at: float) -> None:
        self.backoff_seconds += event.seconds
        self.time.asks(event.attempt, at)

    def _resume(self, event: TryResumed, at: float) -> None:
        self.in_flight[event.attempt].backing_off = None
        self.time.resumes(event.attempt, at)

    def _queue_grading(self, event: GradingQueued, at: float) -> None:
        self.waiting_for_grading.add(event.attempt)
        self.time.wait(event.attempt, GRADING_PERMITS, at)

    def _start_grading(self, event: GradingStarted, at: float) -> None:
        self.waiting_for_grading.discard(event.attempt)
        self.time.goes_on(event.attempt, at)

    # ---------------------------------------------------------------------------------------- tries and attempts

    def _start_try(self, event: TryStarted, at: float) -> None:
        self.tries += 1
        self.retries += event.try_number > 1
        self.grading_only_tries += event.grading_only
        self.only_graded += event.grading_only and event.try_number == 1
        known = self.in_flight.get(event.attempt)
        flight = InFlight(event.task, event.ordinal, event.try_number, known.started_at if known else at)
        if known is not None:
            flight.spent = known.spent
            self.retried_issues.update(known.fatal)
            self.retried_usage += known.grading
            if event.grading_only:
                flight.work, flight.agent_seconds = known.work, known.agent_seconds
            else:
                self.retried_usage += known.work
            self.time.goes_on(event.attempt, at)
        self.in_flight[event.attempt] = flight

    def _end_try(self, event: TryEnded, at: float) -> None:
        result = event.result
        self.waiting_for_grading.discard(event.attempt)
        self.time.end_try(event.attempt, at)
        flight = self.in_flight.get(event.attempt)
        if result.usage.calls or result.grader_usage.calls:
            self._use(result, flight)
        if flight is not None:
            flight.ended, flight.backing_off = True, None
            flight.sub_scores = result.grade.sub_scores if result.grade is not None else None
            flight.waits_since, flight.waits_seconds = at, None
            flight.cause = cause_of(result) if result.issues else result.outcome.value
            flight.fatal = tuple((issue.severity, issue.code) for issue in result.issues if issue.fatal)

    def _use(self, result: TryResult, flight: InFlight | None) -> None:
        self.usage += result.usage
        self.grader_usage += result.grader_usage
        if flight is not None:
            flight.work += result.usage
            flight.grading += result.grader_usage
            flight.spent += result.usage + result.grader_usage

    def _seal(self, event: AttemptSealed, at: float) -> None:
        self.waiting_for_grading.discard(event.attempt)
        self.time.end(event.attempt, at)
        if event.tries > 1:
            self.retried[event.verdict] += 1
        flight = self.in_flight.pop(event.attempt, None)  # none where the slot was given up before any try
        flight = flight or InFlight(event.task, event.ordinal, 0, at)
        self.sealed_seconds, self.sealed_usage = at - flight.started_at, flight.spent
        if self.sealed_seconds > self.longest_seconds:
            self.longest_seconds, self.longest = self.sealed_seconds, (event.task, event.ordinal)
        self.samples.add(
            event.task, event.verdict, event.score,
            seconds=flight.agent_seconds, usage=flight.spent, sub_scores=flight.sub_scores,
        )  # fmt: skip
        self.verdicts[event.verdict] += 1
        self.final += 1
        self._take_score(event.task, event.verdict, event.score)

    # ------------------------------------------------------------------------------------------------- the run

    def _start(self, event: RunStarted, at: float) -> None:
        self.total, self.tasks, self.early_exit = event.slots, event.tasks, event.early_exit

    def _raise(self, event: IssueRaised, at: float) -> None:
        self.issues[event.issue.severity, event.issue.code] += 1

    def _lease(self, event: LeaseGranted, at: float) -> None:
        self.leased_at = at

    def _tear_down(self, event: TeardownEnded, at: float) -> None:
        if event.issue is not None:
            self.issues[event.issue.severity, event.issue.code] += 1
            self.teardown_failed = True

    def _close_lane(self, event: LaneClosed, at: float) -> None:
        if event.issue is not None:
            self.issues[event.issue.severity, event.issue.code] += 1

    def _stop(self, event: DispatchStopped, at: float) -> None:
        self.not_dispatched[event.reason] += event.slots
        self.final += event.slots

    def _interrupt(self, event: Interrupted, at: float) -> None:
        self.signal = event.signal

    def _end(self, event: RunEnded, at: float) -> None:
        self.completion = event.completion
        self.time.measured = event.waited

    def _fill(self, event: SlotFilled, at: float) -> None:
        self.reused[event.verdict] += 1
        self.samples.add_reused(event.task, event.verdict, event.score, event.cost_usd, event.sub_scores)
        self.final += 1
        known = self.reused_known_usd + (event.cost_usd or 0.0)
        if event.cost_usd is None or known == math.inf:
            self.reused_unpriced += 1
        else:
            self.reused_known_usd = known
        self.reused_cost_usd = None if self.reused_unpriced else self.reused_known_usd
        self._take_score(event.task, event.verdict, event.score)

    def _take_score(self, task: str, verdict: Verdict, score: float | None) -> None:
        if self.early_exit:
            self.count_task(task, verdict)
        if score is not None:
            self.scored += 1
            self.score_sum += score

    _TAKES: ClassVar[Mapping[type[Event], Callable[..., None]]] = {
        PhaseStarted: _start_phase,
        PhaseEnded: _end_phase,
        SandboxOpened: _open,
        ImageWaitStarted: _wait_for_image,
        ImageWaitEnded: _end_image_wait,
        BackoffStarted: _back_off,
        BackoffEnded: _end_backoff,
        TryResumed: _resume,
        GradingQueued: _queue_grading,
        GradingStarted: _start_grading,
        TryStarted: _start_try,
        TryEnded: _end_try,
        WorkCheckpointed: _save,
        AttemptSealed: _seal,
        SlotFilled: _fill,
        IssueRaised: _raise,
        LeaseGranted: _lease,
        TeardownEnded: _tear_down,
        LaneClosed: _close_lane,
        DispatchStopped: _stop,
        Interrupted: _interrupt,
        RunStarted: _start,
        RunEnded: _end,
    }
    """What is done with an event, by what it is; the others change nothing that is shown."""
