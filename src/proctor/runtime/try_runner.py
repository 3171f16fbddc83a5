"""One try: walk the phases, report events, end with exactly one `TryEnded`.

open -> setup -> agent -> collect -> grade -> dispose. With grading none and fresh the agent's sandbox is disposed of
after `collect`; fresh then asks for permits of its own and opens a sandbox for grading. A try whose work needs no
sandbox opens none. It decides nothing: what a failure means is the scheduler's to say.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from proctor.errors import Fault, SkipTask, boundary, describe, fault_of
from proctor.model.attempt import Grade, GradingMode, InvalidGrade, Outcome, Phase, TryResult
from proctor.model.events import (
    GradingQueued,
    IssueRaised,
    Purpose,
    SandboxDisposed,
    SandboxOpened,
    TryEnded,
    TryEvent,
    WorkCheckpointed,
)
from proctor.plugins.api import Collected, Message, Sandbox, Session
from proctor.runtime.backoff import Backoff, Sleep, retry_after_seconds
from proctor.runtime.clock import Clock
from proctor.runtime.contexts import GradingContext, Notes, Patience, TryContext, TryLog
from proctor.runtime.job import Save, TryJob
from proctor.runtime.lanes import retires
from proctor.runtime.phases import Phases
from proctor.runtime.redact import Redactor
from proctor.runtime.shield import end_task, shielded

T = TypeVar("T")

log = logging.getLogger(__name__)

Emit = Callable[[TryEvent], None]

CANCEL_GRACE_SECONDS = 5.0
"""How long an opening of a sandbox may take to end when it is cancelled."""


class TryRunner:
    """Runs one job. `await run()` never raises and ends with `TryEnded`."""

    def __init__(
        self,
        job: TryJob,
        *,
        emit: Emit,
        save: Save,
        clock: Clock,
        redactor: Redactor,
        sleep: Sleep = asyncio.sleep,
        unit: Callable[[], float] = random.random,
    ) -> None:
        self._job = job
        self._tell = emit
        self._ended = False
        emit = self._emit
        self._save = save
        self._clock = clock
        self._redactor = redactor
        self._notes = Notes(redactor, lambda issue: emit(IssueRaised(job.attempt, issue)))
        self._log = TryLog(redactor, job.log_level)
        self._backoff = Backoff(job.attempt, emit, clock, sleep)
        self._phases = Phases(
            job.attempt, emit=emit, clock=clock, notes=self._notes, log=self._log, backoff=self._backoff
        )
        self._patience = Patience(self._backoff, job.retry, unit, clock)
        self._retry_after: str | None = None
        self._granted = asyncio.Event()
        self._sandboxes: list[Sandbox] = []
        self._over = False
        self._session: Session | None = None
        self._answer: str | None = None
        self._collected = Collected()

    def _emit(self, event: TryEvent) -> None:
        """Report an event, unless the try has ended: what something left behind still says is of no attempt."""
        if self._ended:
            log.warning("attempt @%s: %s came after its try had ended", self._job.attempt, type(event).__name__)
            return
        self._ended = isinstance(event, TryEnded)
        self._tell(event)

    @property
    def ended(self) -> bool:
        """Whether the end of the try was reported."""
        return self._ended

    def grant(self) -> None:
        """Let grading go on: its permits are held."""
        self._granted.set()

    def resume(self) -> None:
        """Let the try go on after a backoff: its permits are held again."""
        self._backoff.resume()

    def cancel(self) -> None:
        """Say that the try is being cancelled; whoever says so cancels the task as well."""
        self._backoff.cancel()

    async def run(self) -> None:
        """Run the try to its end."""
        outcome, grade = await self._outcome()
        if self._log.content:
            try:
                self._save("try.log", self._log.content.encode("utf-8", "backslashreplace"))
            except Fault as fault:
                self._notes.add(fault.issue)
        notes = self._notes
        result = TryResult(outcome, grade, notes.usage, notes.grader_usage, tuple(notes.issues))
        reusable = await self._reset_lane(outcome)
        result = replace(result, issues=tuple(notes.issues))
        asked = retry_after_seconds(self._retry_after, self._clock.wall())
        self._emit(TryEnded(self._job.attempt, self._job.try_number, result, reusable, asked))

    async def _reset_lane(self, outcome: Outcome) -> bool:
        """Make the sandbox of the lane ready for the next try; say whether it is."""
        lane = self._job.lane
        if lane is None:
            return True
        if lane.sandbox is None or not lane.marked or retires(outcome, self._notes.issues):
            return False
        return await self._let_go(lane.sandbox.reset, f"resetting sandbox {lane.sandbox.id}")

    async def _outcome(self) -> tuple[Outcome, Grade | None]:
        try:
            try:
                await self._work()
                grade = await self._grade()
            finally:
                self._over = True
                await self._release()
        except SkipTask as skip:
            self._log.logger.info("skipped: %s", skip)
            return Outcome.SKIPPED, None
        except asyncio.CancelledError:
            return Outcome.CANCELLED, None
        except Fault as fault:
            self._fail(fault)
            return Outcome.BROKEN, None
        except BaseException as error:  # a bug of this file, or of what it calls without a boundary
            self._fail(Fault("internal", describe(error), phase=self._notes.phase), error)
            return Outcome.BROKEN, None
        return Outcome.GRADED, self._redactor.grade(grade)

    # ------------------------------------------------------------------------------------------ the agent's part

    async def _work(self) -> None:
        job = self._job
        context = TryContext(
            task=job.task, attempt=job.attempt, flags=job.flags, model=job.model,
            notes=self._notes, log=self._log, patience=self._patience,
        )  # fmt: skip
        if job.agent_sandbox:
            context.attach(await self._agent_sandbox())
        await self._phases.run(Phase.SETUP, job.limits.setup_seconds, lambda: self._set_up(context))
        fault = await self._attempt(Phase.AGENT, job.limits.agent_seconds, self._send)
        also = await self._attempt(Phase.COLLECT, job.limits.collect_seconds, self._collect)
        await self._backoff.close()
        if fault is not None and also is not None:
            self._fail(fault)
        if (last := also or fault) is not None:
            raise last
        if job.grading is not GradingMode.REUSE:
            self._checkpoint()
            await self._release()

    async def _agent_sandbox(self) -> Sandbox:
        """Open the sandbox of the try, or take that of its lane, which the first try in it opens."""
        lane = self._job.lane
        if lane is not None and lane.sandbox is not None:
            return lane.sandbox
        sandbox = await self._open(Purpose.AGENT)
        if lane is not None:
            lane.sandbox = sandbox
            self._sandboxes.remove(sandbox)  # the lane disposes of it
        return sandbox

    async def _set_up(self, context: TryContext) -> None:
        lane = self._job.lane
        if lane is not None and lane.sandbox is not None and not lane.marked:
            with boundary(Phase.SETUP):
                await lane.sandbox.mark()
            lane.marked = True
        if self._job.agent_sandbox:
            with boundary(Phase.SETUP):
                await self._job.benchmark.setup(context)
        with boundary(Phase.SETUP, "harness.crashed"):
            self._session = await self._job.harness.start(context)

    async def _send(self) -> None:
        assert self._session is not None
        answer: Any = (await self._session.send(Message(self._job.task.prompt))).answer
        if answer is not None and not isinstance(answer, str):
            raise Fault("harness.crashed", f"the harness returned an answer of type {type(answer).__name__}, not text")
        self._answer = answer

    async def _collect(self) -> None:
        assert self._session is not None
        self._collected = await self._session.collect()
        if self._collected.trajectory is not None:
            self._save("trajectory.json", self._redactor.tree(self._collected.trajectory))

    def _checkpoint(self) -> None:
        digest = None
        if self._answer is not None:
            content = self._redactor.text(self._answer).encode("utf-8", "surrogatepass")
            self._save("checkpoint/answer.txt", content)
            digest = hashlib.sha256(content).hexdigest()
        elif not self._notes.usage.calls:
            return  # nothing was answered and nothing was paid for: there is nothing to lose
        self._emit(WorkCheckpointed(self._job.attempt, self._job.try_number, digest, self._notes.usage))

    # --------------------------------------------------------------------------------------------------- grading

    async def _grade(self) -> Grade:
        job = self._job
        lane = job.lane.sandbox if job.lane is not None else None
        sandbox = (self._sandboxes[-1] if self._sandboxes else lane) if job.grading is GradingMode.REUSE else None
        if job.grading is GradingMode.FRESH:
            self._emit(GradingQueued(job.attempt))
            await self._granted.wait()
            self._backoff.reopen()
            sandbox = await self._open(Purpose.GRADE)
            await self._backoff.close()
        context = GradingContext(
            task=job.task,
            answer=self._answer,
            files=self._collected.files,
            sandbox=sandbox,
            notes=self._notes,
            log=self._log,
        )
        return await self._phases.run(Phase.GRADE, job.limits.grade_seconds, lambda: self._ask_grader(context))

    async def _ask_grader(self, context: GradingContext) -> Grade:
        try:
            grade: Any = await self._job.grader.grade(context)
        except ValueError as error:
            # Grade itself refuses what is not a score; any other ValueError is a crash like the rest.
            code = "grader.invalid_score" if isinstance(error, InvalidGrade) else "grader.crashed"
            raise fault_of(error, Phase.GRADE, code) from error
        if not isinstance(grade, Grade):
            raise Fault("grader.invalid_score", f"the grader returned {type(grade).__name__}, not a Grade")
        return grade

    # ------------------------------------------------------------------------------------------ sandboxes, clean-up

    async def _open(self, purpose: Purpose) -> Sandbox:
        job = self._job
        labels = {**job.labels, "attempt": job.attempt, "try": str(job.try_number), "purpose": purpose.value}
        before = len(self._sandboxes)
        try:
            asking = lambda: self._patience.repeat(lambda: self._open_sandbox(labels))  # noqa: E731
            return await self._phases.run(Phase.OPEN, job.limits.open_seconds, asking)
        finally:
            if len(self._sandboxes) > before:  # also when it was made in the moment the try was cancelled
                self._emit(SandboxOpened(job.attempt, job.try_number, str(self._sandboxes[-1].id), purpose))

    async def _open_sandbox(self, labels: Mapping[str, str]) -> Sandbox:
        """Ask the provider; a cancelled opening is waited for, so that what it made after all becomes known."""

        async def opened() -> Sandbox:
            with boundary(Phase.OPEN):
                sandbox = await self._job.provider.open(self._job.environment, labels)
            self._sandboxes.append(sandbox)
            if self._over:  # it came after everybody had stopped waiting for it
                await self._release_all()
            return sandbox

        opening = asyncio.get_running_loop().create_task(opened())
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            await end_task(opening, CANCEL_GRACE_SECONDS)
            raise

    async def _release(self) -> None:
        """Close the session and dispose of every sandbox, whatever happens to the try meanwhile."""
        if self._session is not None or self._sandboxes:
            await shielded(self._release_all(), None)

    async def _release_all(self) -> None:
        await self._backoff.close()
        session, self._session = self._session, None
        if session is not None:
            await self._let_go(session.close, "the harness session")
        while self._sandboxes:
            sandbox = self._sandboxes.pop()
            started = self._phases.started(Phase.DISPOSE)
            gone = await self._let_go(sandbox.dispose, f"sandbox {sandbox.id}")
            self._phases.ended(Phase.DISPOSE, started)
            if gone:
                self._emit(SandboxDisposed(self._job.attempt, str(sandbox.id)))

    async def _let_go(self, release: Callable[[], Awaitable[None]], what: str) -> bool:
        """Release something within the limit of dispose; trouble is a warning beside the outcome, never instead."""
        limit = self._job.limits.dispose_seconds

        async def guarded() -> None:
            with boundary(Phase.DISPOSE):
                await release()

        try:
            await shielded(guarded(), limit)
        except (TimeoutError, asyncio.CancelledError, Fault) as error:
            why = f"not gone within {limit:g} s" if limit and isinstance(error, TimeoutError) else describe(error)
            self._notes.raise_issue("dispose.failed", f"{what}: {why}")
            return False
        return True

    # ------------------------------------------------------------------------------------------------- mechanics

    async def _attempt(
        self, phase: Phase, limit: float | None, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> Fault | None:
        """Run a phase whose failure does not stop the next: return a fatal fault, record any other."""
        try:
            await self._phases.run(phase, limit, work)
        except Fault as fault:
            if fault.issue.fatal:
                return fault
            self._notes.add(fault.issue)
        return None

    def _fail(self, fault: Fault, error: BaseException | None = None) -> None:
        self._notes.add(fault.issue)
        self._retry_after = self._retry_after or fault.retry_after
        cause = error or fault.__cause__
        if cause is not None:
            with suppress(Exception):  # a traceback is a courtesy: an exception whose text raises must not cost the try
                self._log.logger.error("%s", "".join(traceback.format_exception(cause)))
