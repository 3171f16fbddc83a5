"""The session of a try of a Harbor task of several steps: message and tests by turns, in one sandbox."""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from proctor.benchmarks._harbor_environment import LOGS
from proctor.benchmarks._harbor_setup import BASH_OR_SH, MOST_SAID, require_health
from proctor.benchmarks._harbor_toml import Healthcheck
from proctor.errors import Fault, boundary
from proctor.model.attempt import InvalidGrade, Phase
from proctor.model.codes import Severity, code_row
from proctor.plugins.api import MEBIBYTE, AttemptContext, Collected, Message, Session, StartSession, Turn
from proctor.plugins.atif_joined import is_joinable, joined
from proctor.plugins.hidden_tests import ROOT_NAMES, empty
from proctor.plugins.steps import RECORD_NAME, StepReward, StepsOptions, graded_step, record_of
from proctor.plugins.turn_limits import Timed, TurnTooLongError, between_turns, in_time

SETUP_SECONDS = 600.0
"""How long the setup script of a step may take."""
KEPT_BYTES, KEPT_FILES = 16 * MEBIBYTE, 1000
"""What is kept of each artifact of a step, as it was at the end of that step."""


@dataclass(frozen=True, slots=True)
class HarborStep:
    """What is done of a step before its tests; `workdir` is a folder of this machine."""

    name: str
    instruction: str
    workdir: str | None = None
    has_setup: bool = False
    healthcheck: Healthcheck | None = None
    agent_seconds: float | None = None
    artifacts: tuple[str, ...] = ()


class StepsSession:
    """Takes the steps of a task one by one: a new session of the harness for each, or one for all (`resume`).

    The tests of a step run when its turn is over, and what they say is kept here, where no sandbox reaches. Those of
    the last step that is worked on are left to the grader.
    """

    def __init__(
        self,
        steps: tuple[HarborStep, ...],
        options: StepsOptions,
        ctx: AttemptContext,
        start: StartSession,
        *,
        resume: bool,
    ) -> None:
        self._steps = steps
        self._options = options
        self._ctx = ctx
        self._start = start
        self._resume = resume
        self._session: Session | None = None
        self._done: list[StepReward] = []
        self._at = steps[0].name
        self._trajectories: list[tuple[str, Any]] = []
        self._files: dict[str, bytes] = {}

    async def begin(self) -> None:
        """Prepare the first step and start the first session, in phase setup. Raises `Fault`."""
        await self._prepare(0)
        self._session = await self._start()

    async def send(self, message: Message) -> Turn:
        """Take the steps until the last one, or one whose reward is too low. Raises `Fault`."""
        answer: str | None = None
        for number, step in enumerate(self._steps):
            if number:
                with between_turns(cast("Timed", self._ctx)):
                    self._done.append(earned := await self._graded(number - 1))
                if not earned.enough:
                    self._ctx.progress(f"step `{earned.name}` earned too little: the task is over")
                    break
                with boundary(Phase.SETUP), between_turns(cast("Timed", self._ctx)):
                    await self._prepare(number)
                await self._next_session(step.name)
            answer = await self._turn(number)
            await self._keep_artifacts(step)
        return Turn(answer)

    async def _prepare(self, number: int) -> None:
        """Put the files of a step into the work directory, run its setup, and see whether all is well."""
        step, sandbox = self._steps[number], self._ctx.sandbox
        self._ctx.progress(f"step {number + 1} of {len(self._steps)}: {step.name}")
        if number:  # what the tests of the step before left is not for the agent to see
            logs = (f"{LOGS}/verifier",) if self._resume else (f"{LOGS}/verifier", f"{LOGS}/agent")
            users = {one.user for one in self._options.steps}
            await empty(sandbox, logs, None if users == {None} else ROOT_NAMES[0])  # the tests may be several users'
        if step.workdir is not None:
            await sandbox.upload(Path(step.workdir), sandbox.workdir)
        if step.has_setup:
            script = f"{sandbox.workdir.rstrip('/')}/setup.sh"
            command = ["sh", "-c", BASH_OR_SH.replace('-c "$1"', '"$1"'), "sh", script]
            limit = SETUP_SECONDS * cast("Timed", self._ctx).time_factor
            result = await sandbox.exec(command, timeout_seconds=limit)
            if not result.ok:
                end = "its time was over" if result.timed_out else f"status {result.exit_code}"
                last = (result.err.strip() or result.out.strip())[-MOST_SAID:]
                raise Fault("task.setup_failed", f"setup.sh of step `{step.name}` failed: {end}: {last}")
        if step.healthcheck is not None:
            await require_health(self._ctx, step.healthcheck, None)

    async def _graded(self, number: int) -> StepReward:
        """Run the tests of a step. Raises `Fault`."""
        with boundary(Phase.GRADE):
            try:
                return await graded_step(self._options, number, self._ctx)
            except InvalidGrade as error:
                raise Fault("grader.invalid_score", str(error)) from error

    async def _next_session(self, name: str) -> None:
        """Start the session of the next step, unless one session is to take them all."""
        if self._resume:
            self._at = name
            return
        session, self._session = self._session, None
        assert session is not None, "the session of the step before"
        try:
            self._note(await session.collect())
        finally:
            await session.close()
        self._at = name
        self._session = await self._start()

    async def _turn(self, number: int) -> str | None:
        """Make the turn of a step; what the agent did wrong is an issue, and its tests say what it is worth."""
        step, session = self._steps[number], self._session
        assert session is not None, "a session was started"
        message = Message(step.instruction, step=step.name)
        try:
            turn = await in_time(cast("Timed", self._ctx), step.agent_seconds, lambda: session.send(message))
        except TurnTooLongError:
            limit = f"{step.agent_seconds:g} s (agent.timeout_sec)"
            self._ctx.issue("time.agent", f"step `{step.name}`: the agent reached the limit of {limit}")
            return None
        except Fault as fault:
            if code_row(fault.code).severity is Severity.FATAL:
                raise
            self._ctx.issue(fault.code, f"step `{step.name}`: {fault}")
            return None
        return turn.answer

    async def _keep_artifacts(self, step: HarborStep) -> None:
        """Keep the artifacts of a step as they are now: a later step may change them."""
        for path in step.artifacts:
            with tempfile.TemporaryDirectory(prefix="proctor-") as folder:
                copy = Path(folder, path.strip("/").replace("/", "_") or "root")
                try:
                    left = await self._ctx.sandbox.download(path, copy, max_bytes=KEPT_BYTES, max_files=KEPT_FILES)
                except FileNotFoundError:  # what an agent did not produce is not kept
                    continue
                except OSError as error:
                    self._ctx.issue("artifact.too_large", f"step `{step.name}`: `{path}` cannot be read: {error}")
                    continue
                found = await asyncio.to_thread(_read, copy)
            if left:
                why = f"step `{step.name}`: {left.files} files of `{path}` are left out"
                self._ctx.issue("artifact.too_large", why)
            place = f"steps/{step.name}/artifacts{path if path.startswith('/') else f'/{path}'}"
            self._files |= {f"{place}{inside}": content for inside, content in found.items()}

    def _note(self, found: Collected) -> None:
        """Keep what a session left: its files are those of its step."""
        place = "" if self._resume else f"steps/{self._at}/"
        if found.trajectory is not None and (self._resume or is_joinable(found.trajectory)):
            self._trajectories.append((self._at, found.trajectory))
        elif found.trajectory is not None:  # no document with steps: it is kept as it is
            content = json.dumps(found.trajectory, indent=1).encode("utf-8", "replace")
            self._files[f"{place}trajectory.json"] = content
        self._files |= {f"{place}{name}": content for name, content in found.files.items()}

    async def collect(self) -> Collected:
        """Return one trajectory and the files of all sessions, and what the steps earned."""
        if self._session is not None:
            self._note(await self._session.collect())
        whole = self._trajectories[0][1] if self._resume and self._trajectories else joined(self._trajectories)
        return Collected(whole, {**self._files, RECORD_NAME: record_of(self._done)})

    async def close(self) -> None:
        """Close the last session; those before are closed."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _read(copy: Path) -> dict[str, bytes]:
    """Return the files of a copy, by what comes after its own name."""
    if copy.is_file():
        return {"": copy.read_bytes()}
    return {f"/{one.relative_to(copy)}": one.read_bytes() for one in sorted(copy.rglob("*")) if one.is_file()}


__all__ = ["HarborStep", "StepsSession"]
