"""The namespaces of one sandbox: started when somebody needs them, entered by its commands, ended at one stroke.

A program (bubblewrap) makes them and sets up what is to be seen of the file system; then a small program of ours inside
waits for the end of its standard input, which we hold. The first process inside reaps what loses its parent. When it is
killed, the kernel kills all others: nothing outlives it. It ends when proctor does, by kill -9 too, since the program
asks the kernel for that, and since the pipe that we hold is closed then.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from proctor.errors import Fault, describe
from proctor.runtime import _killing, lineage
from proctor.runtime._descriptors import file_with, readable
from proctor.runtime._holder import holder
from proctor.runtime._live import END_SECONDS, Live, reap, reap_orphan
from proctor.runtime._sealed import sealed
from proctor.runtime.cgroup import GroupPlan
from proctor.runtime.group_files import put_in_groups
from proctor.runtime.shield import shielded
from proctor.runtime.spawn_direct import Child
from proctor.runtime.spawn_program import FIRST_NUMBER, Birth, Program, start_in_groups

VANISH_SECONDS = 2.0
"""How long a first process that cannot be looked at any more is given to be gone."""
INFO_BYTES = 65536
MARKER = "PROCTOR_SANDBOX"
"""The variable in the program's environment that names the sandbox."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How namespaces are started."""

    program: str
    """The path of bubblewrap."""
    options: Sequence[str]
    filter: bytes
    """The filter of system calls for what it starts itself."""
    groups: GroupPlan
    """The control groups for what runs inside without being a command: programs there can make it do what they want."""
    finish: Callable[[int], None] | None = None
    """What is to be done, in a thread, with the root of the started file system before anybody uses it."""


class Namespaces:
    """The namespaces of a sandbox. `launch` says how to start them, each time that they have to be started.

    `environment` is what the program is given; nothing inside inherits it, and the program is found by it.
    """

    def __init__(self, launch: Callable[[], Launch], environment: Mapping[str, str]) -> None:
        self._launch = launch
        self._environment = dict(environment)
        self._live: Live | None = None
        self._starting: asyncio.Task[Live] | None = None
        self._ending = asyncio.Lock()
        self._closed = False
        self.were_there = False
        """Whether they could be started at least once."""

    async def begin(self) -> None:
        """Begin the first start, as far as to make the control groups of the sandbox; raises `Fault`."""
        if self._live is None and not (self._closed or self._ending.locked()):
            starting = self._being_started()
            await asyncio.sleep(0)
            if starting.done():
                starting.result()

    async def line(self) -> bytes:
        """Return what tells a supervisor which namespaces to enter; starts them where they are not alive.

        Raises `Fault` (provider.open_failed) when they cannot be started.
        """
        return (await self._started()).line

    async def open(self, name: str, flags: int) -> int:
        """Open `root` (the file system) or `ns/net` of the namespaces; the caller closes it. Raises `Fault`."""
        for _ in range(5):
            live = await self._started()
            try:
                return live.open(name, flags)
            except OSError:  # ended this moment by something inside: they are started anew once they are gone
                await asyncio.wait({live.ended}, timeout=VANISH_SECONDS)
        raise Fault("provider.lost", "the namespaces of the sandbox vanish as soon as they are started")

    async def end(self) -> None:
        """Kill everything inside; harmless where nothing runs. Raises `Fault` when something resists."""
        async with self._ending:
            if self._starting is not None:  # a start that is cut off is harder to clean up after than one that is not
                if not (await asyncio.wait({self._starting}, timeout=END_SECONDS))[0]:
                    self._starting.cancel()
                    await asyncio.wait({self._starting})
                self._starting = None
            if self._live is not None:
                await shielded(self._live.end(), None)
                self._live = None

    def close(self) -> None:
        """Never start them again: a command that is just beginning must not bring back what is disposed of."""
        self._closed = True

    async def _started(self) -> Live:
        async with self._ending:
            pass  # what is being ended is not to be entered
        if self._closed:
            raise Fault("provider.lost", "the sandbox was disposed of")
        if self._live is not None and self._live.alive():
            return self._live
        return await asyncio.shield(self._being_started())

    def _being_started(self) -> asyncio.Task[Live]:
        if self._starting is None or self._starting.done():
            self._starting = asyncio.get_running_loop().create_task(self._start())
            self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())  # the waiting raise it
        return self._starting

    async def _start(self) -> Live:
        try:
            if self._live is not None:
                await self._live.end()
                self._live = None
            launch = self._launch()
            live = await self._start_once(launch, directly=False)
            if live is None:  # it may have been stopped by what bounds the sandbox
                live = await self._start_once(launch, directly=True)
            assert live is not None
        except OSError as error:
            raise Fault("provider.open_failed", f"no namespaces could be made: {describe(error)}") from error
        self._live = live
        self.were_there = True
        return live

    async def _start_once(self, launch: Launch, *, directly: bool) -> Live | None:
        with ExitStack() as theirs, ExitStack() as undo:
            live = await self._start_program(launch, directly, theirs, undo)
            undo.pop_all()
        return live

    async def _start_program(self, launch: Launch, directly: bool, theirs: ExitStack, undo: ExitStack) -> Live | None:
        """Start; what is put into `theirs` is closed in any case, what is in `undo` if this fails.

        Returns None where a spawner started the program and it failed: then it has to be started `directly`.
        """
        options = file_with(os.fsencode("\0".join((*launch.options, ""))), theirs)
        filtered, errors = file_with(launch.filter, theirs), file_with(b"", theirs)
        held = file_with(holder(), theirs)
        (info, info_end), (ready, ready_end), (holding, hold) = os.pipe(), os.pipe(), os.pipe()
        for descriptor in (info, ready):
            theirs.callback(os.close, descriptor)
        undo.callback(os.close, hold)
        start = _Start(launch, self._environment, (holding, ready_end, errors), (options, filtered, info_end, held))
        try:
            try:
                program = await start.program(directly)
            finally:
                for descriptor in (info_end, ready_end, holding):
                    os.close(descriptor)
            if await readable(ready, None) and os.read(ready, 1):
                live = Live(program, json.loads(os.read(info, INFO_BYTES)), hold)
                try:
                    if start.birth is None:
                        put_in_groups(launch.groups, {live.init, *live.inside()})
                    if launch.finish is not None:
                        await live.finish(launch.finish)
                except BaseException:
                    live.close()
                    raise
                return live
        except BaseException:
            await shielded(self._kill_remains(start, info), None)
            raise
        await reap(program)
        if start.birth is not None:
            undo.close()
            return None
        said = os.pread(errors, 2000, 0).decode("utf-8", "replace").strip()
        raise Fault("provider.open_failed", f"bubblewrap cannot make the sandbox: {said or 'it gave no reason'}")

    async def _kill_remains(self, start: _Start, info: int) -> None:
        """Kill what a start left that was cut off: the first process inside may not yet end with the program."""
        if (program := await start.started()) is not None:
            program.kill()
            await reap(program)
        marker = f"{MARKER}={self._environment[MARKER]}".encode()
        await lineage.kill_remains([], lambda: _killing.living(_killing.marked(marker)))
        os.set_blocking(info, False)
        with suppress(BlockingIOError):
            if found := os.read(info, INFO_BYTES):
                reap_orphan(json.loads(found)["child-pid"])


class _Start:
    """One start of bubblewrap."""

    def __init__(
        self,
        launch: Launch,
        environment: Mapping[str, str],
        streams: tuple[int, int, int],
        passed: tuple[int, int, int, int],
    ) -> None:
        executable, libraries = sealed(launch.program)
        self._launch = launch
        self._program = Program(executable, [], {**environment, **libraries}, streams, passed)
        self._process: Child | None = None
        self.birth: Birth | None = None
        """Where a spawner was asked."""

    async def program(self, directly: bool) -> Child:
        """Start it, by a spawner where that can be, and return it; raises `OSError`."""
        if not directly:
            numbers = range(FIRST_NUMBER, FIRST_NUMBER + len(self._program.passed))
            born = replace(self._program, argv=self._argv(*numbers))
            self.birth = start_in_groups(born, self._launch.groups)
            if self.birth is not None and (child := await self.birth.child()) is not None:
                return child
            self.birth = None
        given, streams = self._program, self._program.streams
        self._process = subprocess.Popen(  # noqa: ASYNC220 - to start it takes a moment; what comes then is waited for
            self._argv(*given.passed),
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            pass_fds=given.passed,
            executable=given.path,
            env=given.environment,
            cwd="/",
            start_new_session=True,
        )
        return self._process

    async def started(self) -> Child | None:
        """Return what was started, if anything was."""
        return self._process if self.birth is None else await self.birth.child()

    def _argv(self, options: int, filtered: int, info_end: int, held: int) -> list[str]:
        return [
            self._launch.program, "--args", str(options), "--seccomp", str(filtered), "--info-fd", str(info_end),
            "--die-with-parent", "--", f"/proc/self/fd/{held}",
        ]  # fmt: skip
