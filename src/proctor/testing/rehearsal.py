"""Tries a Python task without a model and without a run: its function is called once, and an agent answers by script.

    rehearsal = await rehearse(fixes_the_button, ["done"])
    assert rehearsal.grade.solved
    assert rehearsal.sent == ["Fix the keyboard focus of the button."]

The sandbox, for a task that has one, is a new directory of this machine (provider `local`).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proctor.authoring.driven_task import DrivenTask
from proctor.authoring.recorded_checks import GRADER_NAME, RECORD_NAME, decoded
from proctor.authoring.task_files import read_files
from proctor.authoring.tasks import PythonTask
from proctor.errors import Fault, SkipTask
from proctor.graders.checks import grade_of
from proctor.model.attempt import NO_USAGE, Grade, InvalidGrade, Usage
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Component, Json, Task
from proctor.plugins.api import NO_TOOLS, AgentSandbox, Collected, Message, Model, Sandbox, Tools, Turn
from proctor.providers.local import LocalProvider
from proctor.runtime.agent_box import AgentBox

Agent = Callable[[str, Sandbox], "str | Awaitable[str | None] | None"]
"""Answers what is sent to it, and may do something in the sandbox."""


@dataclass(frozen=True)
class Rehearsal:
    """What came of it."""

    grade: Grade | None
    """None where the function checked nothing, or was not graded for another reason: `error` says which."""
    sent: Sequence[str] = ()
    """What the agent was sent, by all sessions."""
    answer: str | None = None
    error: Exception | None = None
    """What ended the function before its time: `Fault`, `SkipTask`, or what is wrong with its checks."""
    collected: Collected = field(default_factory=Collected)


async def rehearse(
    task: PythonTask,
    agent: Agent | Sequence[str | None],
    *,
    flags: Mapping[str, Json] | None = None,
    project: Path | None = None,
) -> Rehearsal:
    """Call the function of a task, and grade it; `agent` is a function, or the answers that are given one by one.

    `project` is the directory from which places in the code are named, by default the current one. Raises nothing of
    what the function does: that is in what is returned.
    """
    files = read_files(task)
    needs = task.options.get("sandbox", True)
    provider = LocalProvider()
    sandbox = await provider.open(EnvironmentSpec(), {}) if needs else None
    try:
        for path, content in files.items():
            if sandbox is not None:
                await sandbox.write(path, content)
        return await _rehearse(task, _Stage(task, agent, sandbox, flags or {}), (project or Path.cwd()).resolve())
    finally:
        if sandbox is not None:
            await sandbox.dispose()
        await provider.finalize()


async def _rehearse(task: PythonTask, stage: _Stage, project: Path) -> Rehearsal:
    session = DrivenTask(task, project, stage, stage.start, mentioned=("diff", "patch"))
    await session.begin()
    answer: str | None = None
    error: Exception | None = None
    try:
        answer = (await session.send(Message(""))).answer
    except (Fault, SkipTask) as ended:
        error = ended
    collected = await session.collect()
    await session.close()
    grade: Grade | None = None
    if not isinstance(error, SkipTask) and not (isinstance(error, Fault) and error.issue.fatal):
        try:
            grade = grade_of(decoded(collected.files[RECORD_NAME]))
        except InvalidGrade as invalid:
            error = error or invalid
    return Rehearsal(grade, tuple(stage.sent), answer, error, collected)


class _Stage:
    """The context of a rehearsal, and its harness."""

    def __init__(
        self,
        task: PythonTask,
        agent: Agent | Sequence[str | None],
        sandbox: Sandbox | None,
        flags: Mapping[str, Json],
    ) -> None:
        self.task = Task(id=task.name, grader=Component(GRADER_NAME), tags=tuple(task.options.get("tags", ())))
        self.attempt = "rehearsal"
        self.flags = flags
        self.log = logging.getLogger("proctor.rehearsal")
        self.used = NO_USAGE
        self.sent: list[str] = []
        self.tools: Tools = NO_TOOLS
        self._agent = agent
        self._sandbox = sandbox
        self._seen = None if sandbox is None else AgentBox(sandbox, str(sandbox.id)).seen

    @property
    def sandbox(self) -> AgentSandbox:
        """The sandbox."""
        if self._seen is None:
            raise RuntimeError(f"task {self.task.id} has no sandbox: it says `sandbox=False`")
        return self._seen

    @property
    def model(self) -> Model:
        """There is none."""
        raise RuntimeError("a rehearsal has no model")

    async def start(self) -> _Actor:
        """Start a session of the agent."""
        return _Actor(self)

    async def answer(self, text: str) -> str | None:
        """Return the answer of the agent."""
        self.sent.append(text)
        self.used += Usage(calls=1)
        if not callable(self._agent):
            if len(self.sent) > len(self._agent):
                raise LookupError(f"{len(self._agent)} answers were given, and turn {len(self.sent)} was asked for")
            return self._agent[len(self.sent) - 1]
        given = self._agent(text, self._sandbox)  # type: ignore[arg-type]
        return await given if inspect.isawaitable(given) else given

    async def backoff(self, seconds: float, code: str) -> None:
        """Do not wait."""

    def progress(self, text: str) -> None:
        """Log it."""
        self.log.info("%s", text)

    def issue(self, code: str, message: str) -> None:
        """Log it."""
        self.log.warning("%s: %s", code, message)

    def usage(self, usage: Usage) -> None:
        """Add it."""
        self.used += usage


class _Actor:
    """A session of the agent of a rehearsal."""

    def __init__(self, stage: _Stage) -> None:
        self._stage = stage

    async def send(self, message: Message) -> Turn:
        """Answer."""
        return Turn(await self._stage.answer(message.text))

    async def collect(self) -> Collected:
        """Return nothing."""
        return Collected()

    async def close(self) -> None:
        """Free nothing."""


__all__ = ["Agent", "Rehearsal", "rehearse"]
