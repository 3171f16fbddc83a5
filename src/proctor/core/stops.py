"""What is not dispatched any more, and why: early exit, stopped scopes, interrupts, a full disk (spec 03, 05, 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from proctor.core import failure
from proctor.core.books import Books
from proctor.core.commands import CancelTry, Command, Seal, StopDispatch
from proctor.core.failure import Reach
from proctor.core.flight import Attempt
from proctor.core.held import Moment
from proctor.core.lifecycle import Step
from proctor.core.parts import Part
from proctor.core.run import Run
from proctor.core.waits import Endpoint
from proctor.model.attempt import Issue, Outcome, TryResult, Verdict, issue_of, verdict_of
from proctor.model.events import StopReason

_Concerned = Callable[[Attempt], bool]

_WAITING = frozenset({Moment.AWAITING_GRADING, Moment.BETWEEN_TRIES})
"""Where an attempt stands in a queue, or waits for its turn in one."""


def _final(result: TryResult) -> tuple[Verdict, float | None]:
    """Return the verdict, and the score of an attempt that has one."""
    grade = result.grade
    if grade is not None and not result.issues:
        return Verdict.PASSED if grade.solved else Verdict.FAILED, grade.score
    verdict = verdict_of(result)
    scored = verdict is Verdict.PASSED or verdict is Verdict.FAILED
    return verdict, grade.score if scored and grade is not None else None


class Stops:
    """Gives up slots and cancels attempts. What it touched is in `touched` until somebody takes it."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self.touched: dict[int, Run] = {}
        self.passed: list[tuple[Run, int]] = []
        """Tasks of experiments with early exit of which an attempt has passed."""

    # ------------------------------------------------------------------------------------------------- attempts

    def seal(self, attempt: Attempt, result: TryResult, *, issue: Issue | None = None) -> Seal:
        """Take an attempt out of flight with its verdict; everything that it held goes back."""
        books, run = self._books, attempt.run
        if attempt.moment in _WAITING or attempt.backing_off is not None:
            self._leave_queues(attempt)
        books.give_all(attempt)
        del books.in_flight[attempt.id]
        books.ended.append(attempt)
        run.in_flight -= 1
        run.sealed += 1
        attempt.slots.freed(attempt.row)
        self.touched[run.index] = run
        verdict, score = _final(result)
        if verdict is Verdict.PASSED and run.plan.early_exit:
            self.passed.append((run, attempt.task))
        return Seal(attempt.id, attempt.slot, verdict, score, attempt.try_number, issue)

    def _leave_queues(self, attempt: Attempt) -> None:
        books = self._books
        if attempt.moment is Moment.AWAITING_GRADING:
            books.gradings.discard(attempt.id)
        if attempt.backing_off is not None:
            books.resumes.discard(attempt.id)
            attempt.backing_off.backing_off -= 1
            books.backing_off -= 1
            attempt.backing_off = None
        if attempt.moment is Moment.BETWEEN_TRIES:
            books.dues.discard(attempt.id)
            books.retries.discard(attempt.id)
            attempt.awaits_lane = False
            if attempt.let_through:
                attempt.let_through = False
                attempt.run.budget.reserving -= 1

    def leave_waits(self, attempt: Attempt) -> None:
        """Let an attempt whose try has ended, or is to end, wait for nothing any more."""
        if attempt.moment in _WAITING or attempt.backing_off is not None:
            self._leave_queues(attempt)

    def cancel(self, attempt: Attempt, reason: StopReason, now: float, commands: list[Command]) -> None:
        """Cancel an attempt in flight: at once where no try of it is running, and at most once."""
        if attempt.cancelled is not None:
            attempt.cancelled = max(attempt.cancelled, reason, key=list(StopReason).index)
            return
        attempt.cancelled = reason
        attempt.tells(now, f"cancel: {reason}")
        if attempt.moment is Moment.BETWEEN_TRIES:
            attempt.advance(Step.CANCEL)
            commands.append(self.seal(attempt, TryResult(Outcome.CANCELLED)))
            self.release_lane(attempt)
            return
        self._leave_queues(attempt)
        attempt.advance(Step.CANCEL)
        attempt.pauses(now)
        commands.append(CancelTry(attempt.id, reason))

    def seal_with_last(self, attempt: Attempt, commands: list[Command], *, issue: Issue | None = None) -> None:
        """Seal an attempt that waits for another try with the one before."""
        assert attempt.last is not None
        attempt.advance(Step.CANCEL)
        commands.append(self.seal(attempt, attempt.last, issue=issue))
        self.release_lane(attempt)

    def release_lane(self, attempt: Attempt) -> None:
        """Let the lane of an attempt that has ended be idle, unless it is closing; one that is gone gives all back."""
        lane = attempt.lane
        if lane is not None:
            lane.attempt = None
            attempt.lane = None
            if lane.gone:
                self._books.end_lane(lane)
            elif not lane.closing:
                lane.pool.idle.append(lane)

    # ---------------------------------------------------------------------------------------------------- slots

    def stop(self, parts: Iterable[Part], reason: StopReason, commands: list[Command]) -> None:
        """Give up the undispatched slots of parts."""
        dropped: dict[int, int] = {}
        for part in parts:
            index = part.run.index
            dropped.setdefault(index, 0)
            dropped[index] += part.slots.clear()
        for index, number in dropped.items():
            self._stopped(self._books.runs[index], reason, number, commands)

    def _stopped(self, run: Run, reason: StopReason, number: int, commands: list[Command]) -> None:
        self.touched[run.index] = run
        if number:
            run.stopped[reason] = run.stopped.get(reason, 0) + number
            run.rerank()
            commands.append(StopDispatch(run.plan.name, reason, number))

    def stop_tasks(self, run: Run, tasks: Iterable[int], reason: StopReason, commands: list[Command]) -> None:
        """Give up the undispatched slots of tasks."""
        number = sum(len(part.slots.drop(row)) for part, row in run.rows_of(tasks))
        self._stopped(run, reason, number, commands)

    def give_up(self, run: Run, rows: Iterable[tuple[Part, int]], issue: Issue, commands: list[Command]) -> None:
        """Seal the undispatched slots of rows as errored, with an issue that is of none of their tries."""
        self.touched[run.index] = run
        for part, row in rows:
            for place in part.slots.drop(row):
                run.sealed += 1
                task, ordinal = (row, place) if part.names is None else part.names.slot(row, place)
                slot = run.plan.slot(task, ordinal)
                commands.append(Seal(self._books.mint(), slot, Verdict.ERRORED, None, 0, issue))
        run.rerank()

    # --------------------------------------------------------------------------------------------------- scopes

    def after(self, attempt: Attempt, part: Part, result: TryResult, commands: list[Command]) -> None:
        """Take the end of a try, which went by `part`, into account: what it stops beyond its attempt."""
        if not result.issues:
            if result.outcome is Outcome.GRADED:
                for endpoint in part.endpoints:
                    if endpoint.row:
                        endpoint.code, endpoint.row = None, 0
                return
            self._count_in_row(part, result, commands)
            return
        self._count_in_row(part, result, commands)
        found = failure.furthest(result, endpoint=False)
        if found is None:
            return
        rule, issue = found
        run, plan = attempt.run, attempt.run.plan
        everything = range(len(plan.task_ids))
        if rule.reach is Reach.INVOCATION:
            reason = failure.STOP_REASONS.get(issue.code, StopReason.SCOPE_STOPPED)
            self.stop((part for each in self._books.runs for part in each.parts), reason, commands)
            self._no_more_tries(lambda _: True, commands)
            return
        if rule.reach is Reach.TASK:
            tasks: Sequence[int] = (attempt.task,)
        elif rule.reach is Reach.IMAGE:
            image = plan.environment_of(attempt.task)
            tasks = [task for task in everything if plan.environment_of(task) == image]
        else:
            tasks = everything
        self.give_up(run, run.rows_of(tasks), issue, commands)
        chosen = set(tasks)
        self._no_more_tries(lambda other: other.run is run and other.task in chosen, commands)

    def _no_more_tries(self, concerned: _Concerned, commands: list[Command]) -> None:
        """Seal those that wait for another try with the one before."""
        waiting = [each for each in self._books.in_flight.values() if each.moment is Moment.BETWEEN_TRIES]
        for attempt in waiting:
            if concerned(attempt):
                self.seal_with_last(attempt, commands)

    def _count_in_row(self, part: Part, result: TryResult, commands: list[Command]) -> None:
        """Count permanent failures in a row of each endpoint that the try used; stop what uses it after so many.

        A try that was cancelled or skipped says nothing about provider or model: it neither counts nor ends a row.
        """
        found = failure.furthest(result, endpoint=True) if result.issues else None
        blamed = None if found is None else self._endpoint(part, found[1])
        telling = result.outcome not in (Outcome.CANCELLED, Outcome.SKIPPED)
        for endpoint in part.endpoints if telling else ():
            if endpoint is not blamed and endpoint.row:
                endpoint.code, endpoint.row = None, 0
        if found is None or blamed is None:
            return
        code = found[1].code
        blamed.row = blamed.row + 1 if blamed.code == code else 1
        blamed.code = code
        limit = part.run.plan.stop_on_repeated
        if limit and blamed.row >= limit:
            runs = self._books.runs
            parts = [each for run in runs for each in run.parts if blamed in each.endpoints]
            self.stop(parts, StopReason.SCOPE_STOPPED, commands)
            self._no_more_tries(lambda other: blamed in other.part.endpoints, commands)

    def _endpoint(self, part: Part, issue: Issue) -> Endpoint | None:
        plan, endpoints = part.run.plan, self._books.built.endpoints
        graded = part.kind.only or failure.in_grading(issue)
        if failure.concerns_model(issue):
            name = (plan.judge or plan.model) if graded else plan.model
            return part.run.unnamed_model if name is None else endpoints["model", name]
        return endpoints["provider", plan.graded_at if graded else plan.provider]

    def exit_early(self, now: float, commands: list[Command]) -> None:
        """Give up the rest of tasks that are decided: what was not dispatched, and what is in flight (E2)."""
        while self.passed:
            run, task = self.passed.pop()
            self.stop_tasks(run, (task,), StopReason.EARLY_EXIT, commands)
            siblings = [each for each in self._books.in_flight.values() if each.run is run and each.task == task]
            for sibling in siblings:
                self.cancel(sibling, StopReason.EARLY_EXIT, now, commands)

    def refuse_retry(self, attempt: Attempt, commands: list[Command]) -> None:
        """Seal an attempt whose retry the budget does not allow (E4)."""
        issue = issue_of("budget.no_retry", "the budget leaves no room for another try")
        self.seal_with_last(attempt, commands, issue=issue)
