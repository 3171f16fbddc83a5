"""Benchmark `evals`: the project's own tasks, written in Python below `evals/`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from proctor.authoring.discover_tasks import FoundTasks, found_tasks
from proctor.authoring.driven_task import DrivenTask
from proctor.authoring.project_files import joined
from proctor.errors import NothingToRun, nearest
from proctor.model.attempt import GradingMode
from proctor.model.project import project_directory
from proctor.model.spec import Task
from proctor.plugins.api import AttemptContext, StartSession
from proctor.plugins.groups import Group


class EvalsOptions(BaseModel):
    """`path`: only tasks whose ids begin so. `project`: the directory that `evals/` is in, else that of `proctor.yaml`,
    looked for upward from the current directory, else that one."""

    model_config = ConfigDict(extra="forbid")

    path: str | None = Field(default=None, min_length=1)
    project: str | None = Field(default=None, min_length=1)


class Evals:
    """Tasks whose function is called once in each try, and talks to the agent itself."""

    name = "evals"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.REUSE
    gradings = (GradingMode.REUSE, GradingMode.NONE)
    options: type[BaseModel] = EvalsOptions

    def __init__(self, options: EvalsOptions) -> None:
        self._path = options.path
        self._project = project_directory(Path(options.project) if options.project else Path.cwd())
        self._found: FoundTasks | None = None

    async def tasks(self) -> Iterable[Task]:
        """Return the tasks in the order of files and lines. Raises `UsageError` for files that cannot be imported."""
        self._found = found = found_tasks(self._project)
        if found.errors:
            raise joined(list(found.errors))
        tasks = [one.task for one in found.tasks if self._path is None or one.id.startswith(self._path)]
        if not tasks:
            raise self._nothing(found)
        return tasks

    def groups(self) -> list[Group]:
        """Return the task groups of the project; after `tasks`."""
        return [] if self._found is None else [one.group for one in self._found.groups]

    def _nothing(self, found: FoundTasks) -> NothingToRun:
        where = self._project / "evals"
        if not found.tasks:
            return NothingToRun(
                f"there are no tasks in {where}",
                hint="write an `async def` below `@task` (`from proctor import task`) in a file such as evals/first.py",
            )
        near = nearest(self._path or "", [one.id for one in found.tasks])
        return NothingToRun(
            f"no task in {where} has an id that begins with `{self._path}`",
            hint=f"did you mean `{near}`?" if near else "`proctor list tasks` lists all",
        )

    async def setup(self, ctx: AttemptContext) -> None:
        """Put the files of the task into the sandbox."""
        for path, content in ctx.task.files.items():
            await ctx.sandbox.write(path, content)

    async def drive(self, ctx: AttemptContext, start: StartSession) -> DrivenTask:
        """Return the session that runs the function of the task, with the first session of the harness started."""
        if self._found is None:
            await self.tasks()
        assert self._found is not None, "the tasks are known"
        found = self._found.by_id[ctx.task.id]
        session = DrivenTask(found.declared, self._project, ctx, start, mentioned=found.mentioned)
        await session.begin()
        return session


__all__ = ["Evals", "EvalsOptions"]
