"""What happens inside a try and at its end: permits that come and go, retries, lanes (spec 03 B1 to B4, L2; 05)."""

from __future__ import annotations

from collections.abc import Callable

from proctor.core import failure
from proctor.core.books import Books
from proctor.core.commands import CloseLane, Command
from proctor.core.flight import Attempt
from proctor.core.held import Moment
from proctor.core.lanes import Lane
from proctor.core.lifecycle import State, Step
from proctor.core.schedule import OnUnavailable
from proctor.core.stops import Stops
from proctor.core.waits import backoff_seconds
from proctor.errors import InternalError
from proctor.model.attempt import GradingMode, TryResult, Verdict, issue_of, verdict_of
from proctor.model.events import (
    BackoffEnded,
    BackoffStarted,
    ImageWaitEnded,
    ImageWaitStarted,
    LaneClosed,
    SandboxOpened,
    StopReason,
    TryEnded,
    TryEvent,
)


class Tries:
    """Takes what tries report into the books."""

    def __init__(self, books: Books, stops: Stops, jitter: Callable[[], float]) -> None:
        self._books = books
        self._stops = stops
        self._jitter = jitter

    def check_opened(self, attempt: Attempt, event: SandboxOpened, step: Step) -> None:
        """Refuse a sandbox of another try, or under no permit, and note one of a lane; raises `InternalError`."""
        if event.try_number != attempt.try_number:
            what = f"try {event.try_number} opened a sandbox during try {attempt.try_number}"
            raise self._books.impossible(what, attempt)
        if step is Step.AGENT_SANDBOX_OPENED and not attempt.run.plan.agent_sandbox[attempt.task]:
            what = "a sandbox was opened for a task that was planned without, so under no permit"
            raise self._books.impossible(what, attempt)
        if attempt.lane is not None and step is Step.AGENT_SANDBOX_OPENED:
            attempt.lane.has_sandbox = True

    def lane_closed(self, event: LaneClosed) -> None:
        """Give back what a lane held, or keep it for the try that opens the next one; raises `InternalError`."""
        lane = self._books.lanes.get(event.lane)
        if lane is None or not lane.closing or lane.gone:
            raise InternalError(f"{event} came in, and nobody was to close it")
        run = lane.pool.part.run
        self._stops.touched[run.index] = run
        attempt = lane.attempt
        if attempt is None:
            self._books.end_lane(lane)
            return
        lane.gone = True
        if attempt.awaits_lane:
            attempt.awaits_lane = False
            self._books.retries.put(attempt.id, attempt.part.retry)

    # ------------------------------------------------------------------------------------------- inside of a try

    def reported(self, attempt: Attempt, event: TryEvent, step: Step, now: float) -> bool:
        """Give back what the table says at a step inside a try; say whether anything changed for others."""
        books = self._books
        if attempt.state is State.CANCELLING:
            return False
        if step in (Step.CHECKPOINTED, Step.IMAGE_WAIT):
            self._notes(attempt, event, now)
            return False
        if isinstance(event, BackoffStarted):
            return self._back_off(attempt, event, now)
        if isinstance(event, BackoffEnded):
            if attempt.id in books.resumes:
                raise books.impossible("a backoff ended twice", attempt)
            books.resumes.put(attempt.id, attempt.resume)
            return True
        moment = self._moment_after(attempt, step)
        if moment is None:
            return False
        if moment is Moment.AWAITING_GRADING:
            assert attempt.part.grading is not None
            books.gradings.put(attempt.id, attempt.part.grading)
            attempt.pauses(now)
        return books.give(attempt, moment) or moment is Moment.AWAITING_GRADING

    def _notes(self, attempt: Attempt, event: TryEvent, now: float) -> None:
        """Remember what changes no permits; how long an image is waited for says nothing of other attempts."""
        if isinstance(event, ImageWaitStarted):
            attempt.pauses(now)
        elif isinstance(event, ImageWaitEnded):
            attempt.executing_since = now
        else:
            attempt.checkpointed = True

    def _moment_after(self, attempt: Attempt, step: Step) -> Moment | None:
        """Return the moment, in the words of the table, to which a step leads; None where it leads to no other."""
        queued = attempt.state is State.GRADING_QUEUED and step is not Step.QUEUE_GRADING
        if attempt.backing_off is not None or queued:
            return None  # it died while it waited: its end returns everything
        if step is Step.QUEUE_GRADING:
            return Moment.AWAITING_GRADING
        if step is Step.DISPOSE_STARTED:
            return Moment.DISPOSING
        grading, apart = attempt.run.plan.grading, attempt.state is State.GRADING
        gone = step is Step.DISPOSE_ENDED and grading is not GradingMode.REUSE
        graded = step is Step.GRADE_STARTED and grading is GradingMode.NONE
        return Moment.GRADING_NONE if (gone or graded) and not apart else None

    def _back_off(self, attempt: Attempt, event: BackoffStarted, now: float) -> bool:
        books, plan = self._books, attempt.run.plan
        provider = books.opens_at(attempt)
        graded = attempt.state is State.BACKING_OFF_GRADING
        if graded:
            provider = plan.graded_at
        model = (plan.judge or plan.model) if graded else plan.model
        opening = failure.names_provider(event.code)
        endpoints = books.built.endpoints
        named = not opening and model is not None
        endpoint = endpoints["model", model or ""] if named else endpoints["provider", provider]
        attempt.resume = books.built.resume_opening(provider) if opening else attempt.part.resume
        attempt.backing_off = endpoint
        endpoint.backing_off += 1
        books.backing_off += 1
        attempt.pauses(now)
        return books.give(attempt, Moment.BACKING_OFF)

    # ------------------------------------------------------------------------------------------ the end of a try

    def ended(self, attempt: Attempt, event: TryEnded, now: float, commands: list[Command], *, cut: bool) -> None:
        """Take the end of a try into account: another one, or the end of the attempt, and all that it stops."""
        run, books, result = attempt.run, self._books, event.result
        if event.try_number != attempt.try_number:
            raise books.impossible(f"try {event.try_number} ended during try {attempt.try_number}", attempt)
        self._stops.leave_waits(attempt)
        attempt.pauses(now)
        attempt.spent = run.budget.ended(result, attempt.spent)
        graded = result.grade is not None and (not result.issues or verdict_of(result) is not Verdict.ERRORED)
        lane, usable = attempt.lane, event.sandbox_reusable
        stops_group = (
            lane is not None
            and not usable
            and (lane.has_sandbox or not attempt.part.kind.only)
            and lane.pool.group is not None
            and lane.pool.group.on_unavailable is OnUnavailable.STOP_GROUP
        )
        ended_part = attempt.part
        again = attempt.cancelled is None and not cut and not stops_group and self._retries(attempt, result)
        if again and run.budget.hopeless():
            again = False
            attempt.state = State.BETWEEN_TRIES
            attempt.last = result
            issue = issue_of("budget.no_retry", "the budget leaves no room for another try")
            commands.append(self._stops.seal(attempt, result, issue=issue))
        elif again:
            self._wait_for_retry(attempt, event, now)
        else:
            commands.append(self._stops.seal(attempt, result))
        if lane is not None:
            self._leave_lane(attempt, lane, usable=usable, bound=again, commands=commands)
        if graded and not ended_part.kind.only:  # how long grading alone took tells nothing of an attempt
            self._learn(attempt)
        self._stops.touched[run.index] = run
        self._stops.after(attempt, ended_part, result, commands)
        if stops_group and lane is not None and lane.pool.group is not None:
            self._stops.stop_tasks(run, lane.pool.group.members, StopReason.SCOPE_STOPPED, commands)

    def _retries(self, attempt: Attempt, result: TryResult) -> bool:
        """Say whether another try follows; then the attempt has the part by which that one goes."""
        policy, part = attempt.run.plan.retry, attempt.part
        if attempt.try_number > policy.max_retries:
            return False
        work = failure.Work.MISSING
        if part.kind.only:
            work = failure.Work.KEPT
        elif attempt.checkpointed and part.kind.mode is not GradingMode.REUSE:
            work = failure.Work.SAVED
        decision = failure.after_try(
            result, attempt.try_number, max_retries=policy.max_retries, patterns=policy.patterns, work=work
        )
        if not isinstance(decision, failure.Retry):
            return False
        attempt.checkpointed = decision.grading_only
        attempt.part = part.regrading if decision.grading_only else part.whole
        return True

    def _wait_for_retry(self, attempt: Attempt, event: TryEnded, now: float) -> None:
        policy = attempt.run.plan.retry
        seconds = backoff_seconds(policy, attempt.try_number, self._jitter(), event.retry_after_seconds)
        self._books.give(attempt, Moment.BETWEEN_TRIES)
        attempt.advance(Step.RETRY)
        attempt.last = event.result
        self._books.dues.put(attempt.id, now + seconds)

    def _leave_lane(self, attempt: Attempt, lane: Lane, *, usable: bool, bound: bool, commands: list[Command]) -> None:
        """Retire a lane whose sandbox is of no use any more; else it is idle, or kept for another try."""
        if not usable:
            lane.pool.leave(lane)
            commands.append(CloseLane(lane.id))
            if not bound:
                lane.attempt = None
                attempt.lane = None
        elif not bound:
            self._stops.release_lane(attempt)

    def _learn(self, attempt: Attempt) -> None:
        duration = max(1, round(attempt.seconds * 1e6))
        self._books.durations.add(duration)
        attempt.run.learn(attempt.task, duration)

    def wake(self, now: float, commands: list[Command]) -> None:
        """Let those ask for permits whose wait between two tries is over."""
        books = self._books
        while books.dues and (found := books.dues.pop(now)) is not None:
            attempt = books.in_flight[found]
            if not attempt.run.budget.allows():
                self._stops.refuse_retry(attempt, commands)
                continue
            attempt.run.budget.reserving += 1
            attempt.let_through = True
            lane = attempt.lane
            if lane is not None and lane.closing and not lane.gone:
                attempt.awaits_lane = True
            else:
                in_lane = lane is not None and not lane.gone
                books.retries.put(found, attempt.part.start if in_lane else attempt.part.retry)
