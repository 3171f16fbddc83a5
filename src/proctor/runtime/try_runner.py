"""One try: walk the phases, report events, end with exactly one `TryEnded`.

open -> setup -> agent -> collect -> grade -> dispose. With grading none and fresh the agent's sandbox is disposed of
after `collect`; fresh then asks for permits of its own and opens a sandbox for grading. A try whose work needs no
sandbox opens none. It decides nothing: what a failure means is the scheduler's to say.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from proctor.errors import Fault, SkipTask, boundary, describe, fault_of
from proctor.model.attempt import Grade, GradingMode, InvalidGrade, Outcome, Phase, TryResult
from proctor.model.events import (
    GradingQueued,
    IssueRaised,
    PhaseEnded,
    PhaseStarted,
    Purpose,
    SandboxDisposed,
    SandboxOpened,
    TryEnded,
    TryEvent,
    WorkCheckpointed,
)
from proctor.model.spec import EnvironmentSpec, Json, Task, TimeLimits
from proctor.plugins.api import Benchmark, Collected, Grader, Harness, Message, Model, Provider, Sandbox, Session
from proctor.runtime.clock import Clock
from proctor.runtime.contexts import GradingContext, Notes, TryContext, TryLog
from proctor.runtime.redact import Redactor
from proctor.runtime.shield import end_task, shielded

T = TypeVar("T")

Emit = Callable[[TryEvent], None]
Save = Callable[[str, bytes | Json], None]
"""Keeps evidence of a try under a name: bytes as they are, anything else as JSON."""

CANCEL_GRACE_SECONDS = 5.0
"""How long an opening of a sandbox may take to end when it is cancelled."""

PHASE_GRACE_SECONDS = 6.0
"""How long a cancelled phase may take to end, an opening inside it included."""

IGNORES_CANCELLATION = "; it ignores its cancellation and was abandoned"

_TIME_CODES = {
    Phase.OPEN: "provider.open_timeout",
    Phase.SETUP: "time.setup",
    Phase.AGENT: "time.agent",
    Phase.COLLECT: "time.collect",
    Phase.GRADE: "time.grade",
    Phase.DISPOSE: "dispose.failed",
}


@dataclass(frozen=True, slots=True)
class TryJob:
    """Everything that one try needs; plugins are made and validated, nothing is looked up by name any more."""

    attempt: str
    try_number: int
    task: Task
    benchmark: Benchmark
    harness: Harness
    grader: Grader
    grading: GradingMode
    provider: Provider
    environment: EnvironmentSpec
    agent_sandbox: bool
    limits: TimeLimits
    model: Model | None = None
    flags: Mapping[str, Json] = field(default_factory=dict[str, Json])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    log_level: int = logging.DEBUG


class TryRunner:
    """Runs one job. `await run()` never raises and ends with `TryEnded`."""

    def __init__(self, job: TryJob, *, emit: Emit, save: Save, clock: Clock, redactor: Redactor) -> None:
        self._job = job
        self._emit = emit
        self._save = save
        self._clock = clock
        self._redactor = redactor
        self._notes = Notes(redactor, lambda issue: emit(IssueRaised(job.attempt, issue)))
        self._log = TryLog(redactor, job.log_level)
        self._granted = asyncio.Event()
        self._sandboxes: list[Sandbox] = []
        self._over = False
        self._session: Session | None = None
        self._answer: str | None = None
        self._collected = Collected()

    def grant(self) -> None:
        """Let grading go on: its permits are held."""
        self._granted.set()

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
        self._emit(TryEnded(self._job.attempt, self._job.try_number, result))

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
            task=job.task, attempt=job.attempt, flags=job.flags, model=job.model, notes=self._notes, log=self._log
        )
        if job.agent_sandbox:
            context.attach(await self._open(Purpose.AGENT))
        await self._phase(Phase.SETUP, job.limits.setup_seconds, lambda: self._set_up(context))
        fault = await self._attempt(Phase.AGENT, job.limits.agent_seconds, self._send)
        also = await self._attempt(Phase.COLLECT, job.limits.collect_seconds, self._collect)
        if fault is not None and also is not None:
            self._fail(fault)
        if (last := also or fault) is not None:
            raise last
        if job.grading is not GradingMode.REUSE:
            self._checkpoint()
            await self._release()

    async def _set_up(self, context: TryContext) -> None:
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
        sandbox = self._sandboxes[-1] if self._sandboxes else None
        if job.grading is GradingMode.FRESH:
            self._emit(GradingQueued(job.attempt))
            await self._granted.wait()
            sandbox = await self._open(Purpose.GRADE)
        context = GradingContext(
            task=job.task,
            answer=self._answer,
            files=self._collected.files,
            sandbox=sandbox,
            notes=self._notes,
            log=self._log,
        )
        return await self._phase(Phase.GRADE, job.limits.grade_seconds, lambda: self._ask_grader(context))

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
            return await self._phase(Phase.OPEN, job.limits.open_seconds, lambda: self._open_sandbox(labels))
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
        session, self._session = self._session, None
        if session is not None:
            await self._let_go(session.close, "the harness session")
        while self._sandboxes:
            sandbox = self._sandboxes.pop()
            started = self._phase_started(Phase.DISPOSE)
            gone = await self._let_go(sandbox.dispose, f"sandbox {sandbox.id}")
            self._phase_ended(Phase.DISPOSE, started)
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
            await self._phase(phase, limit, work)
        except Fault as fault:
            if fault.issue.fatal:
                return fault
            self._notes.add(fault.issue)
        return None

    async def _phase(self, phase: Phase, limit: float | None, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run one phase within its limit. Raises `Fault`, `SkipTask` or `CancelledError`, nothing else.

        The work is a task of its own: what ignores its cancellation is abandoned after a grace, and holds nobody.
        """

        async def guarded() -> T:
            with boundary(phase):
                return await work()

        started = self._phase_started(phase)
        task = asyncio.get_running_loop().create_task(guarded())
        try:
            async with asyncio.timeout(limit):
                await asyncio.wait({task})
        except TimeoutError as error:
            ended = await end_task(task, PHASE_GRACE_SECONDS)
            message = f"{phase} reached its limit of {limit:g} s" + ("" if ended else IGNORES_CANCELLATION)
            raise Fault(_TIME_CODES[phase], message, phase=phase) from error
        except asyncio.CancelledError:
            if not await end_task(task, PHASE_GRACE_SECONDS):
                self._log.logger.warning("%s%s", phase, IGNORES_CANCELLATION)
            raise
        finally:
            self._phase_ended(phase, started)
        return task.result()

    def _phase_started(self, phase: Phase) -> float:
        self._notes.phase = phase
        self._emit(PhaseStarted(self._job.attempt, phase))
        return self._clock.monotonic()

    def _phase_ended(self, phase: Phase, started: float) -> None:
        self._emit(PhaseEnded(self._job.attempt, phase, round(self._clock.monotonic() - started, 6)))

    def _fail(self, fault: Fault, error: BaseException | None = None) -> None:
        self._notes.add(fault.issue)
        cause = error or fault.__cause__
        if cause is not None:
            with suppress(Exception):  # a traceback is a courtesy: an exception whose text raises must not cost the try
                self._log.logger.error("%s", "".join(traceback.format_exception(cause)))
