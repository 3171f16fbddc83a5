"""The harness `python`: any `async def solve(task, sandbox, model)` of the project, or of an installed package."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from proctor.authoring.hooks import declared_identity
from proctor.authoring.left_running import end_left, noting_tasks, of_others
from proctor.authoring.places import is_own_file, place_of_traceback
from proctor.authoring.project_files import import_file, make_importable
from proctor.authoring.project_modules import Imports, ProjectModules, versions_of
from proctor.authoring.source_text import digest_of_text
from proctor.errors import Fault, ProctorError, SkipTask, UsageError, describe
from proctor.model.attempt import NO_USAGE
from proctor.model.project import project_directory
from proctor.model.spec import Component
from proctor.plugins.api import (
    AttemptContext,
    ChatMessage,
    Collected,
    Completion,
    Message,
    Tool,
    Trajectory,
    Turn,
    ask,
    collected,
)

VERSION = "1"
GIVEN = ("task", "sandbox", "model")
"""What a function may ask for, by the names of its parameters."""


class PythonOptions(BaseModel):
    """`path`: the function, as `agents/mine.py:solve` below the directory of the project, or `package.module:solve`."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(min_length=1)


class PythonHarness:
    """Calls the function once in each try. What it returns is the answer; it may change what is in the sandbox.

    Its version stands for the source: another one is another harness, whose results are not compared with the others.
    """

    name = "python"
    isolated_attempts = True
    needs_model = True
    needs_sandbox = True
    turns = 1
    options: type[BaseModel] = PythonOptions

    def __init__(self, options: PythonOptions) -> None:
        self._project = project_directory(Path.cwd())
        self._solve, file = _found(options.path, self._project)
        self._wanted = _parameters(self._solve, options.path)
        self.needs_model = "model" in self._wanted
        self.needs_sandbox = "sandbox" in self._wanted
        self.version = f"{VERSION}+{_code_of(self._solve, file, self._project)}"

    async def start(self, ctx: AttemptContext) -> PythonSession:
        """Begin a session; calls nothing yet."""
        return PythonSession(ctx, self._solve, self._wanted, self._project, self.version)


class PythonSession:
    """One call of the function."""

    def __init__(
        self, ctx: AttemptContext, solve: Callable[..., Any], wanted: Sequence[str], project: Path, version: str
    ) -> None:
        self._ctx = ctx
        self._solve = solve
        self._wanted = wanted
        self._project = project
        model = ctx.model.spec.id if "model" in wanted else None
        self._trajectory = Trajectory(session=ctx.attempt, agent=PythonHarness.name, version=version, model=model)

    async def send(self, message: Message) -> Turn:
        """Call the function. Raises `Fault` (harness.crashed, with file and line) for what it raises itself."""
        ctx = self._ctx
        # What the task is graded by is nothing for whoever solves it.
        task = replace(ctx.task, prompt=message.text, grader=Component(ctx.task.grader.id), reference=None)
        given: dict[str, Any] = {"task": task}
        if "sandbox" in self._wanted:
            given["sandbox"] = ctx.sandbox
        asking = _AskingModel(ctx, self._trajectory) if "model" in self._wanted else None
        given["model"] = asking
        left: str | None = None
        try:
            with noting_tasks() as started:
                try:
                    answer: Any = await self._solve(**{name: given[name] for name in self._wanted})
                finally:
                    left = end_left(started, self._project)
        except (Fault, ProctorError, SkipTask, asyncio.CancelledError):
            raise
        except Exception as error:
            place = place_of_traceback(error.__traceback__, self._project)
            raise Fault("harness.crashed", f"{place}: {describe(error)}" if place else describe(error)) from error
        if left is not None:
            raise Fault("harness.crashed", left)
        if answer is not None and not isinstance(answer, str):
            name = getattr(self._solve, "__qualname__", "solve")
            raise Fault("harness.crashed", f"`{name}` returned {type(answer).__name__}: return the answer, or None")
        return Turn(answer, steps=None if asking is None else asking.calls)

    async def collect(self) -> Collected:
        """Return the trajectory of what the model was asked; none where it was not."""
        return collected(self._ctx, self._trajectory)

    async def close(self) -> None:
        """Do nothing: model and sandbox belong to others."""


class _AskingModel:
    """The model as the function sees it: calls are reported, and what is new in each is added to the trajectory."""

    def __init__(self, ctx: AttemptContext, trajectory: Trajectory) -> None:
        self.spec = ctx.model.spec
        self.calls = 0
        self._ctx = ctx
        self._trajectory = trajectory
        self._told: list[ChatMessage] = []

    async def complete(self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()) -> Completion:
        """Make one call. Raises `Fault` (model.*)."""
        new = list(messages)
        for known in self._told:
            if not new or new[0] != known:
                break
            new.pop(0)
        for message in new:
            self._tell(message)
        if tools:
            self._trajectory.offer(tools)
        self.calls += 1
        with of_others():  # what a model starts may go on, for the attempts after this one
            completion = await ask(self._ctx, messages, tools, trajectory=self._trajectory)
        self._trajectory.complete(completion)
        self._told = [*messages, ChatMessage("assistant", completion.text, completion.tool_calls)]
        return completion

    async def close(self) -> None:
        """Do nothing: the model belongs to all attempts of the run."""

    def _tell(self, message: ChatMessage) -> None:
        if message.role == "tool":
            self._trajectory.observe(message.text, message.tool_call_id)
        elif message.role == "assistant":  # the function puts words into its mouth
            self._trajectory.act(message.text, usage=NO_USAGE, calls=message.tool_calls)
        else:
            self._trajectory.say("system" if message.role == "system" else "user", message.text)


def _found(path: str, project: Path) -> tuple[Callable[..., Any], Path | None]:
    """Return the function that a path names, and the file that it is in. Raises `UsageError`."""
    module, colon, attribute = path.rpartition(":")
    if not (module and colon and attribute):
        raise UsageError(
            f"path `{path}` does not name a function",
            hint="write `path/to/file.py:function` or `package.module:function`",
        )
    if module.endswith(".py"):
        found: Any = import_file(project / module, project).module
    else:
        make_importable(project)
        try:
            found = importlib.import_module(module)
        except ProctorError:
            raise
        except (Exception, SystemExit) as error:
            place = place_of_traceback(error.__traceback__, project)
            said = f"{place}: {describe(error)}" if place else describe(error)
            raise UsageError(
                f"path `{path}` cannot be imported: {said}", hint=f"it is looked for from {project}"
            ) from error
    file = getattr(found, "__file__", None)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageError(f"there is no `{attribute}` in `{module}`", hint="name a function that is there")
        found = getattr(found, part)
    return found, None if file is None else Path(file)


def _parameters(solve: Callable[..., Any], path: str) -> list[str]:
    """Return what the function asks for. Raises `UsageError` for what is no `async def`, or asks for something else."""
    called: Any = getattr(type(solve), "__call__", None)  # noqa: B004 - it is asked how it is called, not whether
    if not inspect.iscoroutinefunction(solve) and not inspect.iscoroutinefunction(called):
        raise UsageError(f"`{path}` is no `async def`", hint="write `async def solve(task, sandbox, model): ...`")
    parameters = inspect.signature(solve).parameters.values()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    needed = [
        one for one in parameters if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    wrong = [one.name for one in needed if one.kind not in named or one.name not in GIVEN]
    if wrong:
        raise UsageError(
            f"`{path}` has parameters that nobody can give it: {', '.join(wrong)}",
            hint=f"it can have {', '.join(f'`{name}`' for name in GIVEN)}, or fewer",
        )
    return [one.name for one in parameters if one.kind in named and one.name in GIVEN]


def _code_of(solve: Callable[..., Any], file: Path | None, project: Path) -> str:
    """Return a digest of what the function consists of: the identity that it declares with `@hook(identity=...)`, else
    its file and all of the project that is imported from there, and the versions of packages."""
    identity = declared_identity(solve)
    if identity is not None:
        return digest_of_text(identity)
    modules = ProjectModules(project)
    start = Imports() if file is None else Imports(files=frozenset({file}))
    if file is not None and not is_own_file(str(file), project):
        start = Imports(packages=frozenset({solve.__module__.partition(".")[0]}))
    followed = modules.followed(start)
    parts = [f"{path.relative_to(project).as_posix()} {modules.source(path).digest}" for path in followed.files]
    for package in followed.packages:
        parts += [f"{name} {version}" for name, version in versions_of(package)]
    return digest_of_text("\n".join(sorted(parts)))
