"""What plugins see of one try: the contexts of `plugins.api`, made by the runner."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, cast

from proctor.core.schedule import RetryPolicy
from proctor.core.waits import backoff_seconds
from proctor.errors import Fault
from proctor.model.attempt import Usage
from proctor.model.codes import code_row
from proctor.model.spec import Json, Task
from proctor.plugins.api import NO_TOOLS, AgentSandbox, ChatMessage, Completion, Model, Sandbox, Tool, Tools
from proctor.runtime.backoff import Backoff, retry_after_seconds
from proctor.runtime.calls import noted_call
from proctor.runtime.clock import Clock
from proctor.runtime.countdown import Activity
from proctor.runtime.counted_model import CountedModel
from proctor.runtime.notes import Notes, TryLog
from proctor.runtime.watched_sandbox import WatchedSandbox

T = TypeVar("T")

REPEATS = 4
"""How often something that was refused is asked for again, whatever the retries of the attempt."""


class Patience:
    """How what was refused is repeated (spec 05 T5): after which waits, and how often at most."""

    def __init__(self, backoff: Backoff, policy: RetryPolicy, unit: Callable[[], float], clock: Clock) -> None:
        self._backoff = backoff
        self._policy = policy
        self._unit = unit
        self._clock = clock

    @property
    def clock(self) -> Clock:
        """The clock of the try."""
        return self._clock

    @property
    def activity(self) -> Activity:
        """The signs of life of the try."""
        return self._backoff.activity

    @property
    def executed_seconds(self) -> float:
        """The time of the clock without what was waited so far."""
        return self._clock.monotonic() - self._backoff.waited_seconds

    async def wait(self, seconds: float, code: str) -> None:
        """Wait as `AttemptContext.backoff` does."""
        await self._backoff.wait(seconds, code)

    async def repeat(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, and make it again after a wait while it is refused, at most `REPEATS` times.

        What may have been accepted is never repeated in silence.
        """
        for number in range(1, REPEATS + 1):
            try:
                return await call()
            except Fault as fault:
                if not fault.refused:
                    raise
                asked = retry_after_seconds(fault.retry_after, self._clock.wall())
                await self.wait(backoff_seconds(self._policy, number, self._unit(), asked), fault.code)
        return await call()


class PatientModel:
    """A model whose refused calls are repeated."""

    def __init__(self, model: Model, patience: Patience) -> None:
        self.spec = model.spec
        self._model = model
        self._patience = patience

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()) -> Completion:
        """Make one call that is taken on."""
        return await self._patience.repeat(lambda: self._call(messages, tools))

    async def _call(self, messages: Sequence[ChatMessage], tools: Sequence[Tool]) -> Completion:
        activity = self._patience.activity
        activity.sign()
        with noted_call(self._patience.clock):
            try:
                # One that knows of no tools, as long as it is asked for none, does not have to.
                return await (self._model.complete(messages, tools) if tools else self._model.complete(messages))
            finally:
                activity.sign()

    async def close(self) -> None:
        """Do nothing: the model belongs to all attempts of the run."""


def _heard(log: TryLog, activity: Activity) -> logging.Logger:
    """Return the logger of a try, of which every line is a sign of life."""
    logger = log.logger
    if not logger.filters:
        logger.addFilter(lambda _: activity.sign() is None)
    return logger


class TryContext:
    """`AttemptContext` for benchmarks and harnesses."""

    def __init__(
        self,
        *,
        task: Task,
        attempt: str,
        flags: Mapping[str, Json],
        model: Model | None,
        notes: Notes,
        log: TryLog,
        patience: Patience,
        time_factor: float = 1.0,
    ) -> None:
        self.task = task
        self.attempt = attempt
        self.flags = flags
        self.time_factor = time_factor
        self.tools: Tools = NO_TOOLS
        self._spec = None if model is None else model.spec
        self._model = None if model is None else CountedModel(PatientModel(model, patience), notes)
        self._patience = patience
        self._activity = patience.activity
        self._notes = notes
        self._log = log
        self._sandbox: AgentSandbox | None = None

    @property
    def log(self) -> logging.Logger:
        """The log of the try; every line is a sign of life."""
        return _heard(self._log, self._activity)

    @property
    def sandbox(self) -> AgentSandbox:
        """The agent's sandbox."""
        if self._sandbox is None:
            raise RuntimeError(
                f"task {self.task.id} has no sandbox: neither the harness (`needs_sandbox`) nor the task asked for one"
            )
        return self._sandbox

    def attach(self, sandbox: AgentSandbox) -> None:
        """Give the try its sandbox."""
        self._sandbox = cast("AgentSandbox", WatchedSandbox(sandbox, self._activity, self._log))

    @property
    def model(self) -> Model:
        """The model of the experiment."""
        if self._model is None:
            raise RuntimeError("the experiment names no model; the harness should declare `needs_model`")
        return self._model

    @property
    def executed_seconds(self) -> float:
        """A clock that stands still while the try waits for what refused."""
        return self._patience.executed_seconds

    def sign_of_life(self) -> None:
        """Say that the try goes on; nothing is logged."""
        self._activity.sign()

    @property
    def used(self) -> Usage:
        """What model calls used so far."""
        return self._notes.usage

    async def backoff(self, seconds: float, code: str) -> None:
        """Wait, holding no global permit; raises `KeyError` for a code that is not in the table."""
        code_row(code)
        await self._patience.wait(seconds, code)

    def progress(self, text: str) -> None:
        """Log what is going on."""
        self._activity.sign()
        self._log.logger.info("%s", text)

    def issue(self, code: str, message: str) -> None:
        """Record a problem that does not end the try."""
        self._activity.sign()
        self._notes.raise_issue(code, message)

    def usage(self, usage: Usage) -> None:
        """Add what model calls used."""
        if type(usage) is not Usage:
            raise TypeError(f"usage must be a Usage, not {type(usage).__name__}")
        self._activity.sign()
        self._notes.report(self._notes.priced(self._spec, usage))


class GradingContext:
    """`GradeContext` for graders."""

    def __init__(
        self,
        *,
        task: Task,
        answer: str | None,
        files: Mapping[str, bytes],
        artifacts: Mapping[str, Path],
        sandbox: Sandbox | None,
        judge: Model | None = None,
        notes: Notes,
        log: TryLog,
        activity: Activity,
        time_factor: float = 1.0,
    ) -> None:
        self.task = task
        self.time_factor = time_factor
        self.answer = answer
        self.files = files
        self.artifacts = artifacts
        self._sandbox = None if sandbox is None else cast("Sandbox", WatchedSandbox(sandbox, activity, log))
        self._judge = judge
        self._notes = notes
        self._log = log
        self._activity = activity

    @property
    def log(self) -> logging.Logger:
        """The log of the try; every line is a sign of life."""
        return _heard(self._log, self._activity)

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of grading."""
        if self._sandbox is None:
            raise RuntimeError(f"task {self.task.id} is graded in mode none, which has no sandbox")
        return self._sandbox

    @property
    def judge(self) -> Model:
        """The model that judges."""
        if self._judge is None:
            raise RuntimeError("there is no judge: the grader should declare `needs_judge`")
        return self._judge

    def issue(self, code: str, message: str) -> None:
        """Record a problem of the graded work."""
        self._notes.raise_issue(code, message)
