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
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from proctor.errors import Fault, SkipTask, boundary, describe, fault_of
from proctor.model.attempt import Grade, GradingMode, InvalidGrade, Outcome, Phase, TryResult
from proctor.model.events import (
    GradingQueued,
    IssueRaised,
    Purpose,
    TryEnded,
    TryEvent,
    WorkCheckpointed,
)
from proctor.plugins.api import Collected, Message, Sandbox, Session
from proctor.runtime.backoff import Backoff, Sleep, retry_after_seconds
from proctor.runtime.clock import Clock
from proctor.runtime.contexts import GradingContext, Patience, TryContext
from proctor.runtime.job import Save, TryJob
from proctor.runtime.lanes import retires
from proctor.runtime.notes import Notes, TryLog
from proctor.runtime.phases import Phases
from proctor.runtime.redact import Redactor
from proctor.runtime.try_sandboxes import TrySandboxes

T = TypeVar("T")

log = logging.getLogger(__name__)

Emit = Callable[[TryEvent], None]


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
        self._boxes = TrySandboxes(
            job, emit=emit, notes=self._notes, phases=self._phases, backoff=self._backoff, patience=self._patience
        )
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
        return await self._boxes.let_go(lane.sandbox.reset, f"resetting sandbox {lane.sandbox.id}")

    async def _outcome(self) -> tuple[Outcome, Grade | None]:
        try:
            try:
                await self._work()
                grade = await self._grade()
            finally:
                await self._boxes.end(self._give_session())
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
            await self._boxes.release(self._give_session())

    async def _agent_sandbox(self) -> Sandbox:
        """Open the sandbox of the try, or take that of its lane, which the first try in it opens."""
        lane = self._job.lane
        if lane is not None and lane.sandbox is not None:
            return lane.sandbox
        sandbox = await self._boxes.open(Purpose.AGENT)
        if lane is not None:
            lane.sandbox = sandbox
            self._boxes.hand_over(sandbox)  # the lane disposes of it
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

    def _give_session(self) -> Session | None:
        session, self._session = self._session, None
        return session

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
        sandbox = (self._boxes.last or lane) if job.grading is GradingMode.REUSE else None
        if job.grading is GradingMode.FRESH:
            self._emit(GradingQueued(job.attempt))
            await self._granted.wait()
            self._backoff.reopen()
            sandbox = await self._boxes.open(Purpose.GRADE)
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
