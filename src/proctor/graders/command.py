"""Grader `command`: runs a command in the sandbox of grading; its exit status decides, or a reward file that it writes.

What it needs (tests that the agent never saw) is put there only now: texts of the parameters, and folders that the task
keeps hidden. See docs/harbor.md.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from posixpath import dirname
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from proctor.data import env_templates
from proctor.errors import Fault
from proctor.graders._reward import NAME, read_reward, reward_of
from proctor.model.attempt import Check, Grade
from proctor.model.bounds import with_gap
from proctor.plugins.api import MEBIBYTE, ExecResult, GradeContext, Sandbox

KEPT_BYTES = MEBIBYTE
"""What is kept of what the command prints, for try.log."""
NOT_RUN = (126, 127)
"""What a shell returns for a command that cannot be run, or is not there."""
OPEN_MODE = 0o777

EMPTY = """\
for place do
    if [ -d "$place" ] && [ ! -L "$place" ]; then
        chmod -R u+rwX -- "$place"
        rm -rf -- "$place"/* "$place"/.[!.]* "$place"/..?*
    else
        rm -f -- "$place"
    fi
done
"""
"""Takes away what is in each folder; the folder itself may be a place that cannot be removed."""

Place = Annotated[str, Field(min_length=1)]


class CommandOptions(BaseModel):
    """The command, what is put into the sandbox for it, and what decides.

    `folders` says where each hidden folder of the task goes, by its name; `files` has texts by their paths. Whatever
    the agent left at these places is removed first, and so are `reward_files`. The first of these that is there
    afterwards decides; without any, exit status 0 is success. Of several numbers `reward` is the score; `solved_at` is
    how much it must be. A value of `env` may be `${NAME}`, or `${NAME:-default}`: a variable of this machine.
    """

    model_config = ConfigDict(extra="forbid")

    command: str = Field(min_length=1)
    folders: dict[Place, str] = Field(default_factory=dict)
    files: dict[Place, str] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    user: str | None = None
    cwd: str | None = None
    timeout_seconds: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    reward_files: tuple[Place, ...] = ()
    reward: str = NAME
    solved_at: float = Field(default=1.0, gt=0, le=1)


class CommandGrader:
    """Grades by running a command; needs a sandbox with a shell."""

    name = "command"
    version = "1"
    options: type[BaseModel] = CommandOptions

    def __init__(self, options: CommandOptions) -> None:
        self._options = options
        self.reward_files: tuple[str, ...] = (*options.reward_files, *options.files)

    async def grade(self, ctx: GradeContext) -> Grade:
        """Run the command and read what decides. Raises `Fault`, or `InvalidGrade` for a reward that is none."""
        options = self._options
        try:
            env = env_templates.resolved(options.env, os.environ)
        except LookupError as error:
            raise Fault("grader.crashed", f"the command cannot be run: {error.args[0]}") from error
        try:
            await self._put(ctx)
            result = await ctx.sandbox.exec(
                options.command,
                cwd=options.cwd,
                env=env,
                user=options.user,
                timeout_seconds=options.timeout_seconds,
                keep_bytes=KEPT_BYTES,
            )
        finally:
            await self._empty(ctx)  # where sandboxes are used again, the next agent is not to see it
        for name, text, dropped in (
            ("stdout", result.stdout, result.stdout_dropped),
            ("stderr", result.stderr, result.stderr_dropped),
        ):
            if text:
                ctx.log.info("%s of the command:\n%s", name, with_gap(text, dropped).decode("utf-8", "replace"))
        ctx.log.info("the command ended: %s", _end(result))
        if result.lost:
            raise Fault("provider.lost", f"the command could not be watched to its end: {result.lost}")
        if result.timed_out:
            raise Fault("time.grade", f"the command did not end within {options.timeout_seconds:g} s")
        return await self._by_reward(ctx, result) if options.reward_files else _by_status(result)

    async def _put(self, ctx: GradeContext) -> None:
        """Put hidden folders and files where the command looks for them, and make room for what it is to write."""
        await self._empty(ctx)
        for place, name in self._options.folders.items():
            if name not in ctx.task.hidden:
                raise Fault("grader.crashed", f"task {ctx.task.id} has no hidden folder `{name}`")
            await _require_empty(ctx.sandbox, place)
            await ctx.sandbox.upload(Path(ctx.task.hidden[name].path), place)
        for path, content in self._options.files.items():
            await ctx.sandbox.write(path, content)
        parents = {dirname(path) for path in self._options.reward_files} - {"", "/"}
        with tempfile.TemporaryDirectory(prefix="proctor-") as empty:
            await asyncio.to_thread(os.chmod, empty, OPEN_MODE)  # the command may run as another user
            for parent in sorted(parents):
                await ctx.sandbox.upload(Path(empty), parent)

    async def _empty(self, ctx: GradeContext) -> None:
        if self._options.folders:
            await ctx.sandbox.exec(["sh", "-c", EMPTY, "sh", *self._options.folders], user=self._options.user)

    async def _by_reward(self, ctx: GradeContext, result: ExecResult) -> Grade:
        options = self._options
        for path in options.reward_files:
            content = await read_reward(ctx.sandbox, path)
            if content is None:
                continue
            reward = reward_of(path, content, options.reward)
            solved = reward.score >= options.solved_at
            check = Check(options.reward, solved, f"at least {options.solved_at:g}", f"{reward.score:g}", path)
            return Grade(solved=solved, score=reward.score, sub_scores=reward.others, checks=(check,))
        wanted = ", ".join(options.reward_files)
        raise Fault("grader.no_reward", f"the command ended ({_end(result)}) and left no reward file ({wanted})")


async def _require_empty(sandbox: Sandbox, place: str) -> None:
    """Raise `Fault` where files are left: what removed them ran inside, and could have been made to leave them."""
    with tempfile.TemporaryDirectory(prefix="proctor-") as folder:
        try:
            left = await sandbox.download(place, Path(folder, "left"), max_bytes=0, max_files=0)
        except FileNotFoundError:
            return
    if left:
        raise Fault("grader.crashed", f"what the agent left in `{place}` could not be removed: {left.files} files")


def _by_status(result: ExecResult) -> Grade:
    if result.exit_code is None or result.exit_code in NOT_RUN:
        last = result.err.strip().splitlines()[-1:] or ["it printed nothing"]
        raise Fault("grader.crashed", f"the command did not run to its end ({_end(result)}): {last[0]}")
    check = Check("the command succeeds", result.ok, "status 0", f"status {result.exit_code}")
    return Grade(solved=result.ok, score=1.0 if result.ok else 0.0, checks=(check,))


def _end(result: ExecResult) -> str:
    """Say how a command ended."""
    if result.timed_out:
        return "its time was over"
    if result.exit_code is not None:
        return f"status {result.exit_code}"
    return f"signal {result.signal}, out of memory" if result.out_of_memory else f"signal {result.signal}"


__all__ = ["CommandGrader", "CommandOptions"]
