"""What plugins see of one try: the contexts of `plugins.api`, made by the runner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from proctor.core.schedule import RetryPolicy
from proctor.core.waits import backoff_seconds
from proctor.errors import Fault
from proctor.model.attempt import Usage
from proctor.model.bounds import with_gap
from proctor.model.codes import code_row
from proctor.model.spec import Json, Task
from proctor.plugins.api import ChatMessage, Completion, ExecResult, Model, OnOutput, Sandbox
from proctor.runtime.backoff import Backoff, retry_after_seconds
from proctor.runtime.clock import Clock
from proctor.runtime.countdown import Activity
from proctor.runtime.notes import Notes, TryLog
from proctor.runtime.output import HeadTail

T = TypeVar("T")

CUT_OFF_BYTES = 64 * 1024
"""Of each output stream of a command that is cut off so much is logged, head and tail."""

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
    def activity(self) -> Activity:
        """The signs of life of the try."""
        return self._backoff.activity

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

    async def complete(self, messages: Sequence[ChatMessage]) -> Completion:
        """Make one call that is taken on."""
        return await self._patience.repeat(lambda: self._call(messages))

    async def _call(self, messages: Sequence[ChatMessage]) -> Completion:
        activity = self._patience.activity
        activity.sign()
        try:
            return await self._model.complete(messages)
        finally:
            activity.sign()

    async def close(self) -> None:
        """Do nothing: the model belongs to all attempts of the run."""


class WatchedSandbox:
    """A sandbox whose use is a sign of life: the start and the end of a command, and its output.

    What a command had printed is logged where the call is cut off, by a limit or an interrupt: nobody else has it then.
    """

    def __init__(self, sandbox: Sandbox, activity: Activity, log: TryLog) -> None:
        self._sandbox = sandbox
        self._activity = activity
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    async def exec(
        self, command: str | Sequence[str], *, on_output: OnOutput | None = None, **options: Any
    ) -> ExecResult:
        """Run a command as the sandbox does."""
        streams: dict[str, HeadTail] = {}

        def heard(stream: str, data: bytes) -> None:
            self._activity.sign()
            streams.setdefault(stream, HeadTail(CUT_OFF_BYTES)).add(data)
            if on_output is not None:
                on_output(stream, data)

        self._activity.sign()
        try:
            return await self._sandbox.exec(command, on_output=heard, **options)
        except asyncio.CancelledError:
            self._log.logger.warning("a command was cut off: %.1000s", command)
            for stream, kept in streams.items():
                text = with_gap(kept.kept, kept.dropped).decode("utf-8", "replace")
                self._log.logger.warning("its %s so far, %d bytes:\n%s", stream, kept.total, text)
            raise
        finally:
            self._activity.sign()


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
    ) -> None:
        self.task = task
        self.attempt = attempt
        self.flags = flags
        self._model = None if model is None else PatientModel(model, patience)
        self._patience = patience
        self._activity = patience.activity
        self._notes = notes
        self._log = log
        self._sandbox: Sandbox | None = None

    @property
    def log(self) -> logging.Logger:
        """The log of the try; every line is a sign of life."""
        logger = self._log.logger
        if not logger.filters:
            logger.addFilter(self._hear)
        return logger

    def _hear(self, record: logging.LogRecord) -> bool:
        self._activity.sign()
        return True

    @property
    def sandbox(self) -> Sandbox:
        """The agent's sandbox."""
        if self._sandbox is None:
            raise RuntimeError(
                f"task {self.task.id} has no sandbox: neither the harness (`needs_sandbox`) nor the task asked for one"
            )
        return self._sandbox

    def attach(self, sandbox: Sandbox) -> None:
        """Give the try its sandbox."""
        self._sandbox = cast("Sandbox", WatchedSandbox(sandbox, self._activity, self._log))

    @property
    def model(self) -> Model:
        """The model of the experiment."""
        if self._model is None:
            raise RuntimeError("the experiment names no model; the harness should declare `needs_model`")
        return self._model

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
        self._notes.usage += usage


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
        notes: Notes,
        log: TryLog,
    ) -> None:
        self.task = task
        self.answer = answer
        self.files = files
        self.artifacts = artifacts
        self._sandbox = sandbox
        self._notes = notes
        self._log = log

    @property
    def log(self) -> logging.Logger:
        """The log of the try."""
        return self._log.logger

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of grading."""
        if self._sandbox is None:
            raise RuntimeError(f"task {self.task.id} is graded in mode none, which has no sandbox")
        return self._sandbox

    def issue(self, code: str, message: str) -> None:
        """Record a problem of the graded work."""
        self._notes.raise_issue(code, message)
