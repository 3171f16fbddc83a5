"""One try: walk the phases, report events, end with exactly one `TryEnded`.

open -> setup -> agent -> collect -> grade -> dispose. With grading none and fresh the agent's sandbox is disposed of
after `collect`; fresh then asks for permits of its own and opens a sandbox for grading. A try whose work needs no
sandbox opens none. It decides nothing: what a failure means is the scheduler's to say.
"""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

from proctor.errors import Fault, SkipTask, boundary, describe
from proctor.model.attempt import Grade, GradingMode, Outcome, Phase, TryResult
from proctor.model.events import IssueRaised, TryEnded, TryEvent
from proctor.plugins.api import Message, Session
from proctor.runtime.agent_box import AgentBox
from proctor.runtime.backoff import Backoff, Sleep, retry_after_seconds
from proctor.runtime.checkpoint import Work, load_checkpoint
from proctor.runtime.clock import Clock
from proctor.runtime.contexts import Patience, TryContext
from proctor.runtime.grading import Grading
from proctor.runtime.harvest import Harvest
from proctor.runtime.hurry import Hurry
from proctor.runtime.job import Checkpoint, Save, TryJob
from proctor.runtime.notes import Notes, TryLog, enter_scope
from proctor.runtime.phases import Phases
from proctor.runtime.redact import Redactor
from proctor.runtime.session_start import started_session
from proctor.runtime.try_sandboxes import TrySandboxes

log = logging.getLogger(__name__)


class TryRunner:
    """Runs one job. `await run()` never raises and ends with `TryEnded`."""

    def __init__(
        self,
        job: TryJob,
        *,
        emit: Callable[[TryEvent], None],
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
        self._notes = Notes(redactor, lambda issue: emit(IssueRaised(job.attempt, issue)), job.price)
        self._log = TryLog(redactor, job.log_level)
        self._backoff = Backoff(job.attempt, emit, clock, sleep)
        self.sight = self._backoff.sight
        self._hurry = Hurry()
        self._phases = Phases(
            job.attempt, emit=emit, clock=clock, notes=self._notes, log=self._log, backoff=self._backoff,
            limits=job.limits, hurry=self._hurry,
        )  # fmt: skip
        self._patience = Patience(self._backoff, job.retry, unit, clock)
        self._retry_after: str | None = None
        self._boxes = TrySandboxes(
            job, emit=emit, notes=self._notes, phases=self._phases, backoff=self._backoff, patience=self._patience,
            hurry=self._hurry,
        )  # fmt: skip
        self._session: Session | None = None
        self._answer: str | None = None
        self._harvest = Harvest(job, save=save, notes=self._notes, log=self._log, redactor=redactor)
        self._grading = Grading(
            job, emit=emit, notes=self._notes, log=self._log, phases=self._phases, backoff=self._backoff,
            patience=self._patience, boxes=self._boxes,
        )  # fmt: skip

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
        self._grading.grant()

    def resume(self) -> None:
        """Let the try go on after a backoff: its permits are held again."""
        self._backoff.resume()

    def cancel(self) -> None:
        """Say that the try is being cancelled; whoever says so cancels the task as well."""
        self._backoff.cancel()
        self._boxes.cancel()

    def force(self) -> None:
        """Let nothing that still cleans up take longer than a hurry allows; the try was cancelled before."""
        self._hurry.begin()

    async def run(self) -> None:
        """Run the try to its end."""
        enter_scope(self._job, self._log)
        outcome, grade = await self._outcome()
        if self._log.content:
            try:
                self._save("try.log", self._log.content.encode("utf-8", "backslashreplace"))
            except Fault as fault:
                self._notes.add(fault.issue)
        notes = self._notes
        result = TryResult(outcome, grade, notes.usage, notes.grader_usage, tuple(notes.issues))
        reusable = await self._boxes.reset_lane(outcome)
        notes.close(self._log)
        result = replace(result, issues=tuple(notes.issues))
        asked = retry_after_seconds(self._retry_after, self._clock.wall())
        self._emit(TryEnded(self._job.attempt, self._job.try_number, result, reusable, asked))

    async def _outcome(self) -> tuple[Outcome, Grade | None]:
        try:
            return Outcome.GRADED, await self._graded()
        except SkipTask as skip:
            self._log.logger.info("skipped: %s", skip)
            return Outcome.SKIPPED, None
        except asyncio.CancelledError:
            return Outcome.CANCELLED, None
        except Fault as fault:
            self._fail(fault)
            self._notes.no_result(fault)
            return Outcome.BROKEN, None
        except BaseException as error:  # a bug of this file, or of what it calls without a boundary
            self._fail(Fault("internal", describe(error), phase=self._notes.phase), error)
            return Outcome.BROKEN, None

    async def _graded(self) -> Grade:
        """Walk the phases; however that ends, every sandbox is gone then, or kept."""
        job, keep = self._job, False
        try:
            work = await (self._work() if job.checkpoint is None else self._take_over(job.checkpoint))
            grade = self._notes.kept_grade(await self._grading.grade(work))
            keep = job.keeps(TryResult(Outcome.GRADED, grade, issues=tuple(self._notes.issues)))
        except BaseException as error:
            keep = job.keep is not None and not isinstance(error, asyncio.CancelledError)
            raise
        finally:
            await self._boxes.end(self._give_session(), keep=keep)
        return grade

    # ------------------------------------------------------------------------------------------ the agent's part

    async def _work(self) -> Work:
        job = self._job
        box = sandbox = None
        context = TryContext(
            task=job.task, attempt=job.attempt, flags=job.flags, model=job.model, time_factor=job.limits.task_factor,
            notes=self._notes, log=self._log, patience=self._patience,
        )  # fmt: skip
        if job.agent_sandbox:
            box = await self._boxes.for_agent()
            sandbox = box.sandbox
            context.attach(box.seen)
        await self._phases.run(Phase.SETUP, job.limits.setup_seconds, lambda: self._set_up(context, box))
        fault = await self._attempt(Phase.AGENT, job.limits.agent_seconds, self._send)
        answer = self._answer  # what an agent says that was abandoned comes too late
        collect = lambda: self._harvest.gather(self._require_session(), sandbox)  # noqa: E731
        also = await self._attempt(Phase.COLLECT, job.limits.collect_seconds, collect)
        await self._backoff.close()
        if fault is not None and also is not None:
            self._fail(fault)
        last = also or fault
        event = await self._harvest.saved(answer, failed=last is not None)
        if last is not None:
            raise last
        if event is not None:
            self._emit(event)
        if job.grading is not GradingMode.REUSE:
            await self._boxes.release(self._give_session())
        return self._harvest.work(answer)

    async def _set_up(self, context: TryContext, box: AgentBox | None) -> None:
        lane = self._job.lane
        environment = self._job.environment
        if box is not None:
            await box.use_network(environment.network_of(Phase.SETUP), Phase.SETUP)  # a lane was left with another
            await box.prepare()
        if lane is not None and lane.sandbox is not None and not lane.marked:
            with boundary(Phase.SETUP):
                await lane.sandbox.mark(keep_outside=self._job.task.group is not None)
            lane.marked = True
        if self._job.agent_sandbox:
            with boundary(Phase.SETUP):
                await self._job.benchmark.setup(context)
        session = await started_session(self._job, context, self._notes)
        self._session = await self._boxes.in_time(session)
        if box is not None:
            await box.use_network(environment.network_of(Phase.AGENT), Phase.SETUP)

    def _require_session(self) -> Session:
        assert self._session is not None, "the session was started in setup"
        return self._session

    async def _send(self) -> None:
        answer: Any = (await self._require_session().send(Message(self._job.task.prompt))).answer
        if answer is not None and not isinstance(answer, str):
            raise Fault("harness.crashed", f"the harness returned an answer of type {type(answer).__name__}, not text")
        self._answer = None if answer is None else self._notes.kept_answer(answer)

    def _give_session(self) -> Session | None:
        session, self._session = self._session, None
        return session

    async def _take_over(self, checkpoint: Checkpoint) -> Work:
        """Return the agent's part of an earlier try; what that part did wrong is the attempt's all the same."""
        self._notes.issues += checkpoint.issues
        return await asyncio.to_thread(load_checkpoint, checkpoint)

    # ------------------------------------------------------------------------------------------------- mechanics

    async def _attempt(
        self, phase: Phase, limit: float | None, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> Fault | None:
        """Run a phase whose failure does not stop the next: return a fatal fault, record any other."""
        try:
            await self._phases.run(phase, limit, work)
        except Fault as fault:
            if self._notes.weighed(fault.issue).fatal:
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
