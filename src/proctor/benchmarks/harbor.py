"""Benchmark `harbor`: a directory of tasks in the Harbor task format, or one task; docs/harbor.md says what is done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from proctor.benchmarks._harbor_reading import CONFIG_FILE, INSTRUCTION_FILE, ROOT
from proctor.benchmarks._harbor_setup import make_logs, require_health, require_storage
from proctor.benchmarks._harbor_steps import StepsSession
from proctor.benchmarks._harbor_task import HarborTask, NotATask, Scoring, read_task
from proctor.errors import NothingToRun, UsageError
from proctor.model.attempt import GradingMode
from proctor.model.spec import Task
from proctor.plugins.api import AttemptContext, Session, StartSession

HINT = "mend the tasks, or point `path` at those that are right; docs/harbor.md lists what is done"


class HarborOptions(BaseModel):
    """`path`: a directory of tasks, or one task. `reward` names the number that counts where the tests write several,
    `solved_at` is how much it must be for a task to be solved. `end_processes` ends what
    an agent left running before the tests begin. With `resume` all steps of a task are turns of one session; without it
    each begins with a new one, which knows what is in the sandbox and nothing else."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(min_length=1)
    reward: str = Field(default="reward", min_length=1)
    solved_at: float = Field(default=1.0, gt=0, le=1)
    end_processes: bool = False
    resume: bool = False


class Harbor:
    """Tasks with instruction, environment, hidden tests and perhaps a solution.

    Raises `UsageError`, with all that is wrong with any task, and `NothingToRun` for a directory without tasks.
    """

    name = "harbor"
    version = "1"
    isolated_attempts = True
    options: type[BaseModel] = HarborOptions

    def __init__(self, options: HarborOptions) -> None:
        scoring = Scoring(options.reward, options.solved_at, options.end_processes, options.resume)
        self._tasks = _read(Path(options.path).expanduser(), scoring)
        self.grading = GradingMode.FRESH if next(iter(self._tasks.values())).separate else GradingMode.REUSE
        self.gradings = (self.grading,)
        self._resume = options.resume
        self.turns = max(len(one.toml.steps) for one in self._tasks.values()) or 1 if options.resume else 1
        """How many turns a session takes at most."""

    async def tasks(self) -> Iterable[Task]:
        """Return the tasks in the order of their names."""
        return [one.task for one in self._tasks.values()]

    async def setup(self, ctx: AttemptContext) -> None:
        """Make the places for logs, and see whether there is room and all is well. Raises `Fault`."""
        toml = self._tasks[ctx.task.id].toml
        declared = toml.environment
        user = None if toml.agent.user is None else ROOT
        await make_logs(ctx.sandbox, user)
        if declared.storage_mb is not None:
            await require_storage(ctx, declared.storage_mb)
        if declared.healthcheck is not None:
            await require_health(ctx, declared.healthcheck, user)

    async def drive(self, ctx: AttemptContext, start: StartSession) -> Session:
        """Return the session of a try: that of the harness, or one that takes the steps of the task, if it has any."""
        steps = self._tasks[ctx.task.id].stepped
        if steps is None:
            return await start()
        session = StepsSession(steps.steps, steps.options, ctx, start, resume=self._resume)
        await session.begin()
        return session


def _read(path: Path, scoring: Scoring) -> dict[str, HarborTask]:
    if not path.is_dir():
        raise UsageError(f"`benchmark.params.path`: there is no directory `{path}`", hint=HINT)
    path = path.resolve()
    found: dict[str, HarborTask] = {}
    wrong: list[str] = []
    for folder in _folders(path):
        try:
            found[folder.name] = read_task(folder, scoring)
        except NotATask as error:
            wrong += [f"task `{folder.name}`: {reason}" for reason in error.reasons]
    modes = {one.separate: name for name, one in reversed(found.items())}
    if len(modes) > 1:
        wrong.append(
            f"task `{modes[True]}`: `verifier.environment_mode` is separate, that of `{modes[False]}` is not: "
            "run them apart, by a `path` each"
        )
    if len(wrong) == 1:
        raise UsageError(wrong[0], hint=HINT)
    if wrong:
        lines = "".join(f"\n  {line}" for line in wrong)
        raise UsageError(f"{len(wrong)} things are wrong with the tasks in {path}:{lines}", hint=HINT)
    if not found:
        raise NothingToRun(
            f"there are no tasks in {path}: no directory in it has a {CONFIG_FILE}",
            hint="point `path` at a directory of tasks, or at one task",
        )
    return found


def _folders(path: Path) -> list[Path]:
    """Return the directories that are to be tasks: `path` itself, or those in it."""
    if (path / CONFIG_FILE).exists():
        return [path]
    inside = sorted((one for one in path.iterdir() if one.is_dir()), key=lambda one: one.name)
    return [one for one in inside if (one / CONFIG_FILE).exists() or (one / INSTRUCTION_FILE).exists()]


__all__ = ["Harbor", "HarborOptions"]
