"""What a harness meets in tests of its own: a context that keeps what is reported, a scripted model, a sandbox."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

from proctor.errors import Fault
from proctor.model.attempt import NO_USAGE, Usage
from proctor.model.spec import Component, ModelSpec, Reference, Task
from proctor.plugins.api import (
    NO_TOOLS,
    ChatMessage,
    Collected,
    Completion,
    ExecResult,
    Harness,
    Message,
    Tool,
    ToolCall,
    Tools,
)
from support.atif_rules import checked

A_CALL_USED = Usage(calls=1, input_tokens=10, output_tokens=5)


def bash(command: Any, call_id: str = "", **arguments: Any) -> ToolCall:
    return ToolCall(call_id, "bash", json.dumps({"command": command, **arguments}))


def submit(answer: Any, call_id: str = "") -> ToolCall:
    return ToolCall(call_id, "submit", json.dumps({"answer": answer}))


def says(text: str = "", *calls: ToolCall, usage: Usage | None = A_CALL_USED, **more: Any) -> Completion:
    return Completion(text, usage, tool_calls=calls, **more)


class ScriptedModel:
    """Answers from a list, of which the last item is answered for ever; an exception among them is raised."""

    def __init__(self, *answers: Completion | BaseException) -> None:
        self.spec = ModelSpec(id="vendor/m")
        self.asked: list[list[ChatMessage]] = []
        self.offered: list[tuple[Tool, ...]] = []
        self._answers = answers

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()) -> Completion:
        self.asked.append(list(messages))
        self.offered.append(tuple(tools))
        answer = self._answers[min(len(self.asked), len(self._answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def close(self) -> None:
        pass

    def results(self) -> list[str]:
        """The results of tools that the model saw with its last call."""
        return [message.text for message in self.asked[-1] if message.role == "tool"]


class ScriptedSandbox:
    """Keeps the commands of the shell tool, and answers them by a function."""

    workdir = "/work"

    def __init__(self, answer: Callable[[str], ExecResult] | None = None) -> None:
        self.commands: list[str] = []
        self.timeouts: list[float | None] = []
        self._answer = answer or (lambda command: ExecResult(0, stdout=f"ran {command}\n".encode()))

    async def exec(self, command: Any, *, timeout_seconds: float | None = None, **more: Any) -> ExecResult:
        said = command[-1]
        self.commands.append(said)
        self.timeouts.append(timeout_seconds)
        return self._answer(said)


class World:
    """The context of one try."""

    def __init__(self, model: Any = None, sandbox: Any = None) -> None:
        self.task = Task("t", Component("text", {"expected": "secret"}), "Do it.", reference=Reference("secret"))
        self.attempt = "abcdefgh2345"
        self.flags: dict[str, Any] = {}
        self.log = logging.getLogger("test")
        self.issues: list[tuple[str, str]] = []
        self.used = NO_USAGE
        self.said: list[str] = []
        self.tools: Tools = NO_TOOLS
        self._model, self._sandbox = model, sandbox

    @property
    def model(self) -> Any:
        if self._model is None:
            raise RuntimeError("no model")
        return self._model

    @property
    def sandbox(self) -> Any:
        if self._sandbox is None:
            raise RuntimeError("no sandbox")
        return self._sandbox

    def progress(self, text: str) -> None:
        self.said.append(text)

    def issue(self, code: str, message: str) -> None:
        self.issues.append((code, message))

    def usage(self, usage: Usage) -> None:
        self.used += usage

    @property
    def codes(self) -> list[str]:
        return [code for code, _ in self.issues]


class Told:
    """What came of turns: answers and steps of those that ended, the fault of the one that did not, the trajectory."""

    def __init__(self) -> None:
        self.answers: list[str | None] = []
        self.steps: list[int | None] = []
        self.fault: Fault | None = None
        self.trajectory: Any = None


def tell(harness: Harness, world: World, *texts: str) -> Told:
    """Send the texts, one turn each; the trajectory is checked against the published rules."""
    told = Told()

    async def run() -> Collected:
        session = await harness.start(world)  # pyright: ignore[reportArgumentType] - as much of one as is used
        try:
            for text in texts:
                turn = await session.send(Message(text))
                told.answers.append(turn.answer)
                told.steps.append(turn.steps)
        except Fault as fault:
            told.fault = fault
        found = await session.collect()
        await session.close()
        return found

    trajectory = asyncio.run(run()).trajectory
    told.trajectory = None if trajectory is None else checked(trajectory)
    return told
