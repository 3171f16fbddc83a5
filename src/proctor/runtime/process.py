"""Runs commands: each under a supervisor that answers for every process that comes of it.

`Processes` holds what runs for one sandbox. A command gets a session of its own, standard input at its end unless some
is given, limits, and no way to outlive proctor. Output is read as it comes and bounded. What a command leaves in the
background lives until `kill`, and holds nobody.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from proctor.errors import Fault
from proctor.plugins.api import OUTPUT_LIMIT_BYTES, ExecLimits, ExecResult, OnOutput
from proctor.runtime import lineage
from proctor.runtime.cgroup import (
    NO_CGROUPS,
    CgroupRoots,
    GroupPlan,
    find_roots,
    find_sandbox_roots,
)
from proctor.runtime.clock import Clock, SystemClock
from proctor.runtime.command import Command, Stop
from proctor.runtime.command_request import Inside, Request
from proctor.runtime.group_files import make_groups, remove_all
from proctor.runtime.namespaces import Launch, Namespaces
from proctor.runtime.output import HeadTail
from proctor.runtime.shield import shielded
from proctor.runtime.spawn_direct import base_interpreter

GRACE_SECONDS = 5.0
"""How long processes may take to end after SIGTERM."""

SANDBOX_MARKER = "PROCTOR_SANDBOX"
"""The variable that names the sandbox, in the environment of everything that runs for it."""
COMMAND_MARKER = "PROCTOR_COMMAND"
"""The variable that names the command, likewise."""

NO_LIMITS = ExecLimits()
JOIN_ATTEMPTS = 5
"""How often namespaces may vanish before a command could enter them."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


def find_processes(name: str) -> set[int]:
    """Return the living processes of the sandbox `name`, supervisors included, whoever started them."""
    return lineage.of_sandbox(f"{SANDBOX_MARKER}={name}".encode(), name)


async def kill_processes(name: str) -> None:
    """Kill all that runs for the sandbox `name`, whoever started it.

    Raises `Fault` when something cannot be killed.
    """
    await lineage.kill_remains([], lambda: find_processes(name))


async def remove_groups(name: str) -> None:
    """Remove the control groups of the sandbox `name`, whoever made them."""
    await remove_all(find_sandbox_roots().groups_of(name))


def remove_stale_groups() -> None:
    """Remove the empty control groups that dead processes left."""
    for roots in (find_roots(), find_sandbox_roots()):
        roots.remove_stale()


class Processes:
    """Everything that runs for one sandbox, by the name of the sandbox.

    `grace_seconds` is how long a command may take to end after SIGTERM, when its time is over. With `namespaces` its
    commands run inside of these, which are started for the first of them and again where something ended them.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock | None = None,
        grace_seconds: float = GRACE_SECONDS,
        cgroups: CgroupRoots | None = None,
        namespaces: Namespaces | None = None,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot name processes: letters, digits and ._- only, at most 100")
        self.name = name
        self._clock = clock or SystemClock()
        self._grace_seconds = grace_seconds
        self._cgroups = find_roots() if cgroups is None else cgroups
        self._namespaces = namespaces
        self._commands: set[Command] = set()
        self._heard: set[Command] = set()
        """Those that are over, and left something in the namespaces that may still write."""
        self._count = 0
        self.cpu_seconds = 0.0
        """What the commands that ended had used, as far as their supervisors told."""
        self.peak_rss_bytes = 0
        """The largest memory of any one of their processes."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        timeout_seconds: float | None = None,
        stdin: bytes | None = None,
        on_output: OnOutput | None = None,
        limits: ExecLimits | None = None,
        keep_bytes: int = OUTPUT_LIMIT_BYTES,
        inside: Inside | None = None,
    ) -> ExecResult:
        """Run a command and wait for it, as `plugins.api.Sandbox.exec` says; `env` is all that it gets of variables.

        `timeout_seconds` is of execution: what the command waited for a processor is not counted.

        A cancellation ends all its processes before it goes on, as the end of its time does: SIGTERM, the grace,
        SIGKILL. What `on_output` raises kills them, and is raised from here. Raises `Fault` when no process can be
        made, `ValueError` for a command or limits that are none.
        """
        limits = limits or NO_LIMITS
        check_numbers(timeout_seconds, keep_bytes, limits)
        started = self._clock.monotonic()
        if inside is not None and self._namespaces is not None:
            await self._namespaces.begin()  # they take longer than the supervisor, which makes its groups meanwhile
        for _ in range(JOIN_ATTEMPTS):
            request = self._request(argv, cwd, env, limits, inside)
            command = Command(request, keep_bytes=keep_bytes, on_output=on_output)
            command.start(stdin, self.environment())
            self._commands.add(command)
            command.gone.add_done_callback(partial(self._forget, command))
            try:
                if inside is not None and self._namespaces is not None:
                    command.enter(await self._namespaces.line())
                result = await command.result(timeout_seconds, self._grace_seconds)
            except BaseException as error:
                grace = self._grace_seconds if isinstance(error, asyncio.CancelledError) else 0.0
                with suppress(Fault):  # what resists is tried again, and reported, by `kill`
                    await shielded(command.kill(grace), None)
                raise
            if not command.shut_out:
                return dataclasses.replace(result, seconds=round(self._clock.monotonic() - started, 6))
        raise Fault("provider.lost", f"the namespaces of sandbox {self.name} vanish before a command can enter them")

    async def kill(self) -> None:
        """Kill all that runs for the sandbox; harmless when nothing does. Raises `Fault` when something resists."""
        commands = list(self._commands)
        for command in commands:
            command.stop_for(Stop.DISPOSED)
        if self._namespaces is not None:
            await self._namespaces.end()
        ends = await asyncio.gather(*(command.kill() for command in commands), return_exceptions=True)
        for end in ends:
            if end is not None:
                raise end
        if any(command.lost for command in commands):
            await kill_processes(self.name)
        self._commands.difference_update(commands)
        while self._heard:
            self._heard.pop().release()

    def _request(
        self, argv: Sequence[str], cwd: str, env: Mapping[str, str], limits: ExecLimits, inside: Inside | None
    ) -> Request:
        self._count += 1
        name = f"{self.name}/{self._count}"
        group = f"{os.getpid()}-{self.name}-{self._count}"
        return Request(
            argv=argv,
            cwd=cwd,
            env={**env, SANDBOX_MARKER: self.name, COMMAND_MARKER: name},
            marker=f"{COMMAND_MARKER}={name}",
            trace=lineage.trace_of(self.name, self._count),
            limits=limits,
            groups=self._cgroups.plan(group, memory_bytes=limits.memory_bytes, processes=limits.processes),
            inside=inside,
        )

    def environment(self) -> dict[str, str]:
        """Return what a process of ours needs that works for the sandbox, and by which it is found."""
        environment = {SANDBOX_MARKER: self.name}
        if "LD_LIBRARY_PATH" in os.environ:  # some interpreters do not start without
            environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
        return environment

    def _forget(self, command: Command, _: object = None) -> None:
        """Take leave of a command whose supervisor is gone; if it was lost, `kill` has to look after it again."""
        command.settle()
        self._heard = {one for one in (*self._heard, command) if one.is_heard}
        if command.end is not None:
            self.cpu_seconds += command.end.cpu_seconds
            self.peak_rss_bytes = max(self.peak_rss_bytes, command.end.peak_rss_bytes)
        if not command.lost:
            self._commands.discard(command)


def check_numbers(timeout_seconds: float | None, keep_bytes: int, limits: ExecLimits) -> None:
    """Raise `ValueError` for numbers that are no limits: a mistake must not switch a limit off."""
    numbers: dict[str, float | None] = {"timeout_seconds": timeout_seconds, **dataclasses.asdict(limits)}
    for name, value in numbers.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a finite number above 0, not {value!r}")
    if keep_bytes < 0:
        raise ValueError(f"keep_bytes must be 0 or more, not {keep_bytes!r}")


__all__ = [
    "COMMAND_MARKER", "GRACE_SECONDS", "NO_CGROUPS", "NO_LIMITS", "SANDBOX_MARKER", "CgroupRoots", "GroupPlan",
    "HeadTail", "Inside", "Launch", "Namespaces", "Processes", "SystemClock", "base_interpreter", "check_numbers",
    "find_processes", "find_sandbox_roots", "kill_processes", "make_groups", "remove_all", "remove_groups",
    "remove_stale_groups", "shielded",
]  # fmt: skip
