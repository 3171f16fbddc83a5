"""One sandbox of provider `bwrap`: a folder, and namespaces that are there as long as they are needed."""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from proctor.errors import Fault
from proctor.model.attempt import Phase
from proctor.model.environment import EnvironmentSpec, Network
from proctor.plugins.api import OUTPUT_LIMIT_BYTES, ExecLimits, ExecResult, LeftOut, OnOutput
from proctor.providers import _files
from proctor.providers._folders import mark_kept, remove_folder
from proctor.providers._rooted import RootFiles, in_thread
from proctor.providers.bwrap import marks, program, seccomp, tree
from proctor.providers.bwrap.etc import SharedEtc
from proctor.providers.bwrap.tree import Settled
from proctor.providers.egress.sandbox import ProxiedNamespaces
from proctor.runtime.process import (
    CgroupRoots,
    GroupPlan,
    Inside,
    Launch,
    Processes,
    make_groups,
    remove_all,
)

T = TypeVar("T")

DEFAULT_PROCESSES = 4096
"""How many processes and threads a sandbox may have where nobody says, and where they can be limited."""


class BwrapSandbox:
    """A file tree of its own, and processes that see nothing but each other.

    The namespaces are started for the first command or file, and again where something inside ended them. Paths of
    files are those that commands see, and links are followed as they follow them.
    """

    def __init__(
        self,
        folder: str,
        environment: EnvironmentSpec,
        settled: Settled,
        etc: SharedEtc,
        *,
        cgroups: CgroupRoots,
        grace_seconds: float,
    ) -> None:
        self.id = os.path.basename(folder)
        self._folder = folder
        self._settled = settled
        self._etc = etc
        self._network = environment.network_of(Phase.SETUP)
        self._groups, inner = _groups_of(self.id, environment, cgroups)
        self._holder_groups = inner.plan(f"{os.getpid()}-{self.id}-0", memory_bytes=None, processes=None)
        self._groups_made = False
        self._filter = seccomp.program() or b""
        self._namespaces = ProxiedNamespaces(self._launch, {"PROCTOR_SANDBOX": self.id}, self._network)
        self._egress = self._namespaces.egress
        self._processes = Processes(self.id, grace_seconds=grace_seconds, cgroups=inner, namespaces=self._namespaces)
        self._disposing, self._keeps_outside = asyncio.Lock(), False
        self._disposed = False
        self._is_settled = False

    @property
    def workdir(self) -> str:
        """The work directory, as commands see it."""
        return self._settled.workdir

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
        """Run a command; raises `ValueError` if `user` is another than the only one that there is."""
        self._require()
        _require_user(user, self._settled)
        try:
            return await self._processes.run(
                ("sh", "-c", command) if isinstance(command, str) else command,
                cwd=posixpath.join(self.workdir, cwd or ""),
                env={**self._settled.env, **await self._egress.variables(), **(env or {})},
                timeout_seconds=timeout_seconds,
                stdin=stdin,
                on_output=on_output,
                limits=limits,
                keep_bytes=keep_bytes,
                inside=Inside(self._filter, network=self._network.mode != "full"),
            )
        except Fault as fault:
            if not self._is_ruined(fault):
                raise
            return ExecResult(exit_code=126, stderr=f"proctor: {fault}\n".encode())

    async def write(self, path: str, content: bytes | str) -> None:
        """Write a file; text as UTF-8, lone surrogates as the three bytes that stand for them."""
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        await self._with_files(lambda files: files.write(path, data))

    async def read(self, path: str) -> bytes:
        """Return the bytes of a file; raises `OSError` for what is no regular file."""
        return await self._with_files(lambda files: files.read(path))

    async def upload(self, source: Path, target: str) -> None:
        """Copy a file or directory of this machine to `target`; links stay links, devices are left out."""
        await self._with_files(lambda files: files.copy_in(source, target))

    async def download(
        self, source: str, target: Path, *, max_bytes: int | None = None, max_files: int | None = None
    ) -> LeftOut:
        """Copy a file or directory to `target`; links and device files are left out."""
        return await self._with_files(lambda files: files.copy_out(source, target, max_bytes, max_files))

    async def network_namespace(self) -> int:
        """Open the network namespace that all commands but those with the network of the host are in.

        The caller closes the descriptor. The namespace ends with the others: open it again after a `reset`.
        """
        self._require()
        return await self._namespaces.open("ns/net", os.O_RDONLY)

    async def set_network(self, network: Network) -> None:
        """Change what commands may reach. What runs is ended where it has the host's network, or is to have it."""
        self._require()
        before, self._network = self._network, network
        if "full" in (network.mode, before.mode) and network.mode != before.mode:
            await self._processes.kill()
        await self._egress.set_policy(network)

    async def mark(self, *, keep_outside: bool = False) -> None:
        """End what runs, and note what the sandbox has written, for `reset`."""
        self._require()
        await self._processes.kill()
        self._settle()
        self._keeps_outside = keep_outside
        await asyncio.to_thread(marks.mark, self._folder, self._settled, keep_outside)

    async def reset(self) -> None:
        """End what runs, and bring back what was noted: all that can be written, or the work directory alone."""
        self._require()
        await self._processes.kill()
        await asyncio.to_thread(marks.reset, self._folder, self._settled, self._keeps_outside)

    async def snapshot(self) -> str:
        """Refuse: images are not made here."""
        raise NotImplementedError("provider bwrap makes no images")

    async def keep(self) -> None:
        """End what runs, and leave the files."""
        self._require()
        self._disposed = True
        self._namespaces.close()
        async with self._disposing:
            await self._egress.close()
            await self._processes.kill()
            await remove_all([directory for directory, _ in self._groups] if self._groups_made else [])
            self._settled = replace(self._settled, network=self._network.mode)
            tree.settle(self._folder, self._settled)
            await asyncio.to_thread(mark_kept, self._folder)

    async def dispose(self) -> None:
        """End what runs and remove the files."""
        self._disposed = True
        self._namespaces.close()
        async with self._disposing:
            await self._egress.close()
            await self._processes.kill()
            if self._groups_made:
                await remove_all([directory for directory, _ in self._groups])
                self._groups_made = False
            if not _files.remove_unused(self._folder, tree.WRITABLE, (tree.SETTLED,)):
                await remove_folder(self._folder, tree.PARTS)

    async def _with_files(self, work: Callable[[RootFiles], T]) -> T:
        """Work with the files of the sandbox, as its processes see them, in a thread."""
        self._require()
        try:
            root = await self._namespaces.open("root", os.O_PATH | os.O_DIRECTORY)
        except Fault as fault:
            if not self._is_ruined(fault):
                raise
            raise OSError(errno.EIO, str(fault)) from fault
        return await in_thread(root, lambda root: work(RootFiles(root, self.workdir)))

    def _is_ruined(self, fault: Fault) -> bool:
        """Whether a sandbox cannot be started any more that could be: in an image, what runs can bring that about.

        That is a failure of what ran. It must not become one of the sandbox, which would be tried again.
        """
        return fault.code == "provider.open_failed" and self._settled.root is not None and self._namespaces.were_there

    def _launch(self) -> Launch:
        """Make what the namespaces need, and say how to start them; raises `OSError`."""
        self._settle()
        if not self._groups_made:
            make_groups(self._groups)
            self._groups_made = True
        resolves = self._network.mode == "full"
        settled, etc = self._settled, self._etc.folder()
        options = tree.options(self._folder, settled, etc, resolves=resolves)
        finish = partial(tree.finish_image, settled=settled, etc=etc, resolves=resolves)
        return Launch(program.best(), options, self._filter, self._holder_groups, finish if settled.root else None)

    def _settle(self) -> None:
        if not self._is_settled:
            tree.settle(self._folder, self._settled)
            self._is_settled = True

    def _require(self) -> None:
        if self._disposed:
            raise Fault("provider.lost", f"sandbox {self.id} was disposed of")
        if not os.path.isdir(self._folder):
            raise Fault("provider.lost", f"sandbox {self.id} is gone: somebody removed its directory")


def _groups_of(sandbox: str, environment: EnvironmentSpec, cgroups: CgroupRoots) -> tuple[GroupPlan, CgroupRoots]:
    """Return the control groups to make for a sandbox, and where those of its commands are made."""
    wanted = environment.resources
    default = DEFAULT_PROCESSES if cgroups.limits("pids") else None
    return cgroups.enclose(
        f"{os.getpid()}-{sandbox}",
        cpus=wanted.cpus,
        memory_bytes=wanted.memory_bytes,
        processes=wanted.processes or default,
    )


def _require_user(user: str | None, settled: Settled) -> None:
    own = "0" if settled.root is not None else str(os.getuid())
    names = (own, "root" if own == "0" else "sandbox")
    if user is not None and user not in names:
        raise ValueError(f"provider bwrap runs every command as `{names[1]}`: it cannot run one as `{user}`")
