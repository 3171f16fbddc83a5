"""A container in use."""

from __future__ import annotations

import asyncio
import os
import posixpath
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from proctor.errors import Fault
from proctor.model.environment import Network
from proctor.plugins.api import OUTPUT_LIMIT_BYTES, ExecLimits, ExecResult, LeftOut, OnOutput
from proctor.providers.docker import files as docker_files
from proctor.providers.docker.archive import Container
from proctor.providers.docker.container import KEPT
from proctor.providers.docker.engine import Docker, Engine
from proctor.providers.docker.exec import Call, Running
from proctor.providers.docker.inside import engine_faults_of_container, run_plainly
from proctor.providers.docker.network import ContainerNetwork
from proctor.providers.docker.scripts import KILL_EVERYTHING, MARK, RESET
from proctor.runtime.process import GRACE_SECONDS, NO_LIMITS, check_numbers, shielded

SIGKILL = 9
RENEW_SECONDS = 60.0
"""How long the network of a container that had to be restarted may take to be as it was."""
_OUT_OF_MEMORY = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
"""Where the kernel counts what it ended for want of memory, in both versions of control groups."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a sandbox is: its container, and how commands run in it."""

    id: str
    workdir: str
    user: str
    owner: tuple[int, int]
    """The numbers of user and group that own what is uploaded."""
    env: Mapping[str, str]
    memory_is_limited: bool
    is_podman: bool


class DockerSandbox:
    """A container. Relative paths are relative to its work directory; links lead nowhere but in the container.

    A time limit of a command is by the clock. A command that SIGINT or SIGPIPE ends has the exit code 130 or 141, as in
    a shell: no shell tells these from commands that return such a number.
    """

    def __init__(
        self,
        engine: Engine,
        place: Place,
        network: ContainerNetwork | None,
        remove: Callable[[Docker], Awaitable[None]],
        *,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self.id = place.id
        self._engine = engine
        self._place = place
        self._network = network
        self._remove = remove
        self._grace_seconds = grace_seconds
        self._disposing = asyncio.Lock()
        self._disposed = False
        self._removed = False
        self._oom_kills = 0

    @property
    def workdir(self) -> str:
        """The work directory."""
        return self._place.workdir

    @asynccontextmanager
    async def _use(self) -> AsyncGenerator[Docker]:
        """Give the client; raises `Fault` where the sandbox was disposed of, also while it was in use."""
        if self._disposed:
            raise Fault("provider.lost", f"sandbox {self.id} was disposed of")
        async with self._engine.client() as docker:
            yield docker

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout_seconds: float | None = None,
        stdin: bytes | None = None,
        on_output: OnOutput | None = None,
        limits: ExecLimits | None = None,
        keep_bytes: int = OUTPUT_LIMIT_BYTES,
    ) -> ExecResult:
        """Run a command, as the user of the environment unless another is named."""
        limits = limits or NO_LIMITS
        check_numbers(timeout_seconds, keep_bytes, limits)
        call = Call(
            words=["/bin/sh", "-c", command] if isinstance(command, str) else list(command),
            directory=posixpath.join(self.workdir, cwd or ""),
            env={**(self._network.variables if self._network else {}), **self._place.env, **(env or {})},
            user=self._place.user if user is None else user,
            stdin=stdin,
            limits=limits,
        )
        if not call.words:
            raise ValueError("a command needs at least one word")
        _check_text(*call.words, call.directory, call.user, *call.env, *call.env.values())
        async with self._use() as docker:
            running = Running(docker, self.id, call, keep_bytes=keep_bytes, on_output=on_output)
            try:
                result = await running.result(timeout_seconds, self._grace_seconds)
            finally:  # also where the call was cancelled: others follow it
                if running.restarted and self._network is not None:
                    await shielded(self._network.renew(docker), RENEW_SECONDS)
            if self._place.memory_is_limited and SIGKILL in (result.signal, (result.exit_code or 0) - 128):
                result = replace(result, out_of_memory=await self._ran_out_of_memory(docker))
        return result

    async def _ran_out_of_memory(self, docker: Docker) -> bool:
        """Return whether the kernel has ended something in it for want of memory since we asked last."""
        _, printed = await run_plainly(docker, self.id, ["cat", *_OUT_OF_MEMORY])
        known, self._oom_kills = self._oom_kills, sum(map(int, re.findall(rb"^oom_kill (\d+)", printed, re.MULTILINE)))
        return self._oom_kills > known

    def _container(self, docker: Docker) -> Container:
        return Container(docker, self.id, reads_patterns=self._place.is_podman)

    def _path(self, path: str) -> str:
        if "\0" in path:
            raise ValueError("a path cannot have a null character in it")
        return posixpath.normpath(posixpath.join(self.workdir, path))

    async def write(self, path: str, content: bytes | str) -> None:
        """Write a file; text as UTF-8, lone surrogates as the three bytes that stand for them."""
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        async with self._use() as docker:
            await docker_files.write(self._container(docker), self._path(path), data, self._place.owner)

    async def read(self, path: str) -> bytes:
        """Return the bytes of a file, links followed; raises `OSError` for what is no regular file."""
        async with self._use() as docker:
            return await docker_files.read(self._container(docker), self._path(path))

    async def upload(self, source: Path, target: str) -> None:
        """Copy a file or directory of this machine to `target`; links stay links, devices are left out."""
        async with self._use() as docker:
            await docker_files.upload(self._container(docker), source, self._path(target), self._place.owner)

    async def download(
        self, source: str, target: Path, *, max_bytes: int | None = None, max_files: int | None = None
    ) -> LeftOut:
        """Copy a file or directory to `target`; links and device files are left out.

        So are files with more than a gibibyte of holes, which are counted: engines send holes as zeros.
        """
        async with self._use() as docker:
            return await docker_files.download(
                self._container(docker), self._path(source), target, max_bytes, max_files
            )

    async def set_network(self, network: Network) -> None:
        """Change what commands reach from now on."""
        if self._network is None:
            raise NotImplementedError("compose services with the network `full` have it in all phases")
        async with self._use() as docker:
            await self._network.apply(docker, network)

    async def snapshot(self) -> str:
        """Keep the file system of the container as an image, and return its name."""
        tag = os.urandom(6).hex()
        async with self._use() as docker:
            with engine_faults_of_container(self.id):
                await docker.containers.container(self.id).commit(repository="proctor-snapshot", tag=tag)
        return f"proctor-snapshot:{tag}"

    async def keep(self) -> None:
        """Give the container another name, by which it is known as kept; what runs in it goes on."""
        async with self._use() as docker, self._disposing:
            with engine_faults_of_container(self.id):
                await docker.containers.container(self.id).rename(KEPT + self.id.removeprefix("proctor-"))
            self._disposed = self._removed = True  # not before: what could not be kept is disposed of
            if self._network is not None:
                await self._network.close()

    async def mark(self, *, keep_outside: bool = False) -> None:
        """Copy the work directory to where only root gets in the container; what is outside of it always stays."""
        await self._run_as_root(MARK, "the work directory could not be copied")

    async def reset(self) -> None:
        """Kill everything but the first process, and put the copy in the place of the work directory."""
        await self._run_as_root(KILL_EVERYTHING, "its processes could not be ended")
        await self._run_as_root(RESET, "the work directory could not be brought back")

    async def _run_as_root(self, script: str, failure: str) -> None:
        async with self._use() as docker:
            words = ["/bin/sh", "-c", script, "proctor", self.workdir]
            code, printed = await run_plainly(docker, self.id, words)
        if code != 0:
            raise OSError(f"sandbox {self.id}: {failure}: {printed.decode('utf-8', 'replace')[-200:]}")

    async def dispose(self) -> None:
        """Kill and remove the container, with its volumes."""
        self._disposed = True
        async with self._disposing:
            if self._removed:
                return
            if self._network is not None:
                await self._network.close()
            async with self._engine.client() as docker:
                await self._remove(docker)
            self._removed = True


def _check_text(*texts: str) -> None:
    """Raise `ValueError` for what no engine passes on as it is: it would run something else, or nothing."""
    for text in texts:
        if "\0" in text:
            raise ValueError("a command cannot have a null character in it")
        if not text.isascii() and any("\ud800" <= one <= "\udfff" for one in text):
            raise ValueError("a command of a container can have no bytes in it that are not UTF-8")
