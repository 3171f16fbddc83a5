"""Tests that an agent never sees: put into its sandbox when they run, taken away when they have run.

Graders, and benchmarks that grade between turns, run them. What the agent left is not trusted where that costs little:
the places are made anew by the shell of the system, and looked at from outside. An agent that is root in the sandbox
can have replaced that shell; docs/harbor.md says what that means.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from posixpath import dirname
from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field

from proctor.data import env_templates
from proctor.errors import Fault
from proctor.model.bounds import with_gap
from proctor.model.spec import Task
from proctor.plugins.api import MEBIBYTE, ExecResult, Sandbox
from proctor.plugins.own_tree import require_own_tree
from proctor.plugins.rewards import read_reward, rewards_of
from proctor.plugins.turn_limits import time_factor_of

KEPT_BYTES = MEBIBYTE
"""What is kept of what the command prints, for try.log."""
ROOT_NAMES = ("root", "0")

EMPTY = """\
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
for place do
    if [ -d "$place" ] && [ ! -L "$place" ]; then
        chmod -R u+rwX -- "$place"
        rm -rf -- "$place"/* "$place"/.[!.]* "$place"/..?*
    else
        rm -f -- "$place"
    fi
done
"""
"""Takes away what is in each folder; the folder itself may be a place that cannot be removed.

The programs of the system come before those that an agent put where it may write.
"""

STAGE = """\
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
stage=$(mktemp -d) && chmod 700 "$stage" && printf %s "$stage"
"""
SETTLE = """\
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
stage=$1; number=0; shift
chown -R 0:0 -- "$stage" || exit 1
for place do
    parent=$(dirname -- "$place")
    mkdir -p -- "$parent" && chown 0:0 -- "$parent" && chmod go-w -- "$parent" || exit 1
    mkdir -p -- "$place" && chmod -R go-w -- "$stage/$number" && cp -a -- "$stage/$number/." "$place/" || exit 1
    number=$((number + 1))
done
rm -rf -- "$stage"
"""
"""Takes folders out of a directory that only root gets into, to places that only root can change."""

Place = Annotated[str, Field(min_length=1)]


class TestsOptions(BaseModel):
    """A command, and what is put into the sandbox for it.

    `folders` says where each hidden folder of the task goes, by its name; of several for one place the later ones win.
    `files` has texts by their paths. Whatever the agent left at these places is removed first, and so are
    `reward_files`. A value of `env` may be `${NAME}`, or `${NAME:-default}`: a variable of this machine.
    """

    __test__ = False

    model_config = ConfigDict(extra="forbid")

    command: str = Field(min_length=1)
    folders: dict[Place, str | tuple[str, ...]] = Field(default_factory=dict)
    files: dict[Place, str] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    user: str | None = None
    cwd: str | None = None
    timeout_seconds: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    reward_files: tuple[Place, ...] = ()
    emptied: tuple[Place, ...] = ()
    """Directories for what it writes: emptied, and made anew with modes of their own, before it runs."""
    end_processes: bool = False
    """Whether what the agent left running is ended first; a task that asks for a server needs what it left."""


class TestsContext(Protocol):
    """What is needed to run tests: a try as benchmarks and graders see it."""

    @property
    def task(self) -> Task:
        """The task."""
        ...

    @property
    def sandbox(self) -> Sandbox:
        """Where the tests run."""
        ...

    @property
    def log(self) -> logging.Logger:
        """Where what they print goes."""
        ...


async def run_tests(options: TestsOptions, ctx: TestsContext) -> ExecResult:
    """Put everything there, run the command, and take the tests away. Raises `Fault` where it did not come to its end.

    Reward files of before are the caller's to remove.
    """
    try:
        env = env_templates.resolved(options.env, os.environ)
    except LookupError as error:
        raise Fault("grader.crashed", f"the command cannot be run: {error.args[0]}") from error
    limit_seconds = options.timeout_seconds * time_factor_of(ctx)
    await require_own_tree(ctx.sandbox, (*options.folders, *options.emptied), processes=options.end_processes)
    try:
        if options.end_processes:  # as the agent's own user; it may end the one that says so as well
            await ctx.sandbox.exec(["/bin/sh", "-c", "kill -9 -1"])
        await _put(options, ctx)
        result = await ctx.sandbox.exec(
            options.command,
            cwd=options.cwd,
            env=env,
            user=options.user,
            timeout_seconds=limit_seconds,
            keep_bytes=KEPT_BYTES,
        )
    finally:  # where sandboxes are used again, or there is one more turn, the next agent is not to see it
        await empty(ctx.sandbox, options.folders, options.user)
    for name, text, dropped in (
        ("stdout", result.stdout, result.stdout_dropped),
        ("stderr", result.stderr, result.stderr_dropped),
    ):
        if text:
            ctx.log.info("%s of the command:\n%s", name, with_gap(text, dropped).decode("utf-8", "replace"))
    ctx.log.info("the command ended: %s", how_ended(result))
    if result.lost:
        raise Fault("provider.lost", f"the command could not be watched to its end: {result.lost}")
    if result.timed_out:
        raise Fault("time.grade", f"the command did not end within {limit_seconds:g} s")
    return result


async def rewards_left(options: TestsOptions, sandbox: Sandbox, result: ExecResult) -> tuple[str, dict[str, float]]:
    """Return the first reward file that is there, and its numbers by name.

    Raises `InvalidGrade` for one that says nothing usable, and `Fault` (grader.no_reward) where there is none.
    """
    for path in options.reward_files:
        content = await read_reward(sandbox, path)
        if content is not None:
            return path, rewards_of(path, content)
    wanted = ", ".join(options.reward_files)
    raise Fault("grader.no_reward", f"the command ended ({how_ended(result)}) and left no reward file ({wanted})")


async def empty(sandbox: Sandbox, places: Iterable[str], user: str | None, *, whole: bool = False) -> None:
    """Take away what is in each folder, as that user; with `whole` the folder as well, where it can be removed."""
    if words := tuple(places):
        script = f'{EMPTY}rmdir -- "$@" 2> /dev/null' if whole else EMPTY
        await sandbox.exec(["/bin/sh", "-c", script, "sh", *words], user=user)


async def require_empty(sandbox: Sandbox, place: str) -> None:
    """Raise `Fault` where files are left: what removed them ran inside, and could have been made to leave them."""
    with tempfile.TemporaryDirectory(prefix="proctor-") as folder:
        try:
            left = await sandbox.download(place, Path(folder, "left"), max_bytes=0, max_files=0)
        except FileNotFoundError:
            return
    if left:
        raise Fault("grader.crashed", f"what the agent left in `{place}` could not be removed: {left.files} files")


async def _put(options: TestsOptions, ctx: TestsContext) -> None:
    """Put hidden folders and files where the command looks for them, and make room for what it is to write."""
    sandbox = ctx.sandbox
    places = (*options.folders, *options.emptied)
    await empty(sandbox, places, options.user, whole=True)
    for place in places:
        await require_empty(sandbox, place)
    sources: list[tuple[str, Path]] = []
    for place, names in options.folders.items():
        for name in (names,) if isinstance(names, str) else names:
            if name not in ctx.task.hidden:
                raise Fault("grader.crashed", f"task {ctx.task.id} has no hidden folder `{name}`")
            sources.append((place, Path(ctx.task.hidden[name].path)))
    parents = {dirname(path) for path in options.reward_files} - {"", "/"}
    with tempfile.TemporaryDirectory(prefix="proctor-") as nothing:
        await asyncio.to_thread(os.chmod, nothing, 0o777)  # the command may run as another user
        if options.user in ROOT_NAMES:
            await _put_as_root(sandbox, [*sources, *((place, Path(nothing)) for place in options.emptied)])
            parents -= set(options.emptied)
            sources = []
        for place, source in (*sources, *((parent, Path(nothing)) for parent in sorted(parents))):
            await sandbox.upload(source, place)
    for path, content in options.files.items():
        await sandbox.write(path, content)


async def _put_as_root(sandbox: Sandbox, sources: Sequence[tuple[str, Path]]) -> None:
    """Put folders there as root's: what is uploaded belongs to the agent, who may still have something running.

    They are made root's where nobody else gets in, and only then are where the agent does.
    """
    made = await sandbox.exec(["/bin/sh", "-c", STAGE], user=ROOT_NAMES[0])
    stage = made.out.strip()
    if not made.ok or not stage:
        raise Fault("grader.crashed", f"there is no directory for the tests: {made.err.strip() or how_ended(made)}")
    for number, (_, source) in enumerate(sources):
        await sandbox.upload(source, f"{stage}/{number}")
    settled = ["/bin/sh", "-c", SETTLE, "sh", stage, *(place for place, _ in sources)]
    result = await sandbox.exec(settled, user=ROOT_NAMES[0])
    if not result.ok:
        why = result.err.strip() or how_ended(result)
        raise Fault("grader.crashed", f"the tests could not be put into the sandbox: {why}")


def how_ended(result: ExecResult) -> str:
    """Say how a command ended."""
    if result.timed_out:
        return "its time was over"
    if result.exit_code is not None:
        return f"status {result.exit_code}"
    return f"signal {result.signal}, out of memory" if result.out_of_memory else f"signal {result.signal}"


__all__ = [
    "ROOT_NAMES", "TestsContext", "TestsOptions", "empty", "how_ended", "require_empty", "rewards_left", "run_tests",
]  # fmt: skip
