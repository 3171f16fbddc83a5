"""Provider `local`: a fresh work directory of this machine, and nothing between it and the rest.

    <temporary folder>/proctor-<uid>/<sandbox>/
        labels.json    what the sandbox was made for
        work/          the work directory, made when somebody first uses it
        home/  tmp/    HOME and TMPDIR of its commands, made for the first of them
        mark/          a copy of the work directory, where it is to be reset

Commands run as the user of proctor and can reach whatever that user can. They are given few variables, none of
proctor's own, and limits on what they use.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from proctor.errors import Fault, describe
from proctor.model.environment import EnvironmentSpec, Network
from proctor.plugins.api import OUTPUT_LIMIT_BYTES, Capabilities, ExecLimits, ExecResult, LeftOut, OnOutput, Say
from proctor.providers import _copy_out, _files, _reset
from proctor.providers._folders import Folders, mark_kept, remove_folder
from proctor.runtime.process import GRACE_SECONDS, Processes, base_interpreter, kill_processes, remove_stale_groups

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PARTS = ("work", "mark", "home", "tmp")


class LocalSandbox:
    """A work directory, to which relative paths are relative, and the processes that were started in it.

    `exec` may start anywhere on this machine. Files are read, written and copied in the work directory only, after
    links are resolved: a path that leads out of it raises `PermissionError`.
    """

    def __init__(self, folder: str, env: Mapping[str, str], *, grace_seconds: float = GRACE_SECONDS) -> None:
        self.id = os.path.basename(folder)
        self._folder = folder
        self._processes = Processes(self.id, grace_seconds=grace_seconds)
        self._disposing = asyncio.Lock()
        self._disposed = False
        self._made = set[str]()
        path, tmp = f"{os.path.dirname(base_interpreter())}:{STANDARD_PATH}", os.path.join(folder, "tmp")
        self._env = {"PATH": path, "HOME": f"{folder}/home", "TMPDIR": tmp, "LANG": "C.UTF-8", **env}

    @property
    def workdir(self) -> str:
        """The work directory."""
        if not self._disposed:
            with suppress(FileNotFoundError):  # somebody removed the sandbox, which every use of it will say
                self._make("work")
        return f"{self._folder}/work"

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
        """Run a command, as the user of proctor; raises `ValueError` if `user` is another."""
        self._require()
        _require_user(user)
        self._make("home")
        self._make("tmp")
        return await self._processes.run(
            ("sh", "-c", command) if isinstance(command, str) else command,
            cwd=self.workdir if cwd is None else os.path.join(self.workdir, cwd),
            env={**self._env, **(env or {})},
            timeout_seconds=timeout_seconds,
            stdin=stdin,
            on_output=on_output,
            limits=limits,
            keep_bytes=keep_bytes,
        )

    async def write(self, path: str, content: bytes | str) -> None:
        """Write a file; text as UTF-8, lone surrogates as the three bytes that stand for them."""
        self._require()
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        await asyncio.to_thread(lambda: _files.write_file(_files.resolve(self.workdir, path), data))

    async def read(self, path: str) -> bytes:
        """Return the bytes of a file; raises `OSError` for what is no regular file."""
        self._require()
        return await asyncio.to_thread(lambda: _files.read_file(_files.resolve(self.workdir, path)))

    async def upload(self, source: Path, target: str) -> None:
        """Copy a file or directory of this machine to `target`; links stay links, devices are left out."""
        self._require()
        await asyncio.to_thread(_files.copy_in, source, self.workdir, target)

    async def download(
        self, source: str, target: Path, *, max_bytes: int | None = None, max_files: int | None = None
    ) -> LeftOut:
        """Copy a file or directory to `target`; links and device files are left out."""
        self._require()
        return await asyncio.to_thread(_copy_out.copy_out, self.workdir, source, target, max_bytes, max_files)

    async def mark(self, *, keep_outside: bool = False) -> None:
        """Keep a copy of the work directory beside it; what is outside of it always stays."""
        self._require()
        await asyncio.to_thread(_reset.copy_exactly, self.workdir, f"{self._folder}/mark")

    async def reset(self) -> None:
        """Kill what runs, and put the copy in the place of the work directory."""
        self._require()
        await self._processes.kill()
        await asyncio.to_thread(_reset.restore_exactly, f"{self._folder}/mark", self.workdir)

    async def set_network(self, network: Network) -> None:
        """Refuse: commands reach what their user reaches."""
        raise NotImplementedError("provider local cannot limit the network")

    async def snapshot(self) -> str:
        """Refuse: there are no images."""
        raise NotImplementedError("provider local has no images")

    async def keep(self) -> None:
        """Kill what runs, and leave the directory."""
        self._require()
        self._disposed = True
        async with self._disposing:
            await self._processes.kill()
            await asyncio.to_thread(mark_kept, self._folder)

    async def dispose(self) -> None:
        """Kill what runs and remove the directory."""
        self._disposed = True
        async with self._disposing:
            await self._processes.kill()
            if not _files.remove_unused(self._folder, _PARTS if self._made else ()):
                await remove_folder(self._folder, _PARTS)

    def _make(self, name: str) -> None:
        """Make a directory, once: what somebody removed stays removed."""
        if name not in self._made:
            os.mkdir(f"{self._folder}/{name}")
            self._made.add(name)

    def _require(self) -> None:
        if self._disposed:
            raise Fault("provider.lost", f"sandbox {self.id} was disposed of")
        if not os.path.isdir(self.workdir):
            raise Fault("provider.lost", f"sandbox {self.id} is gone: somebody removed its directory")


class LocalProvider:
    """Makes work directories below `base`, by default a folder of the user's own among the temporary files."""

    name = "local"
    remote = False
    recommended_concurrency: int | None = None
    default_limit: int | None = 128
    default_open_per_second = 0.0
    exclusive = False
    capabilities = Capabilities(reuse=True, keep=True)
    lifetime_seconds: float | None = None
    warning: str | None = "provider local isolates nothing: commands run as you, and can change whatever you can"

    def __init__(self, base: Path | None = None, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._folders = Folders(self.name, base)
        self._grace_seconds = grace_seconds

    def refuse(self, environment: EnvironmentSpec) -> str | None:
        """Return None: what it cannot do, its capabilities say."""
        return None

    async def unavailable(self) -> str | None:
        """Return None: it works everywhere."""
        return None

    async def resolve(self, environment: EnvironmentSpec) -> EnvironmentSpec:
        """Return the environment as it is: there is no image."""
        return environment

    async def prepare(self, environment: EnvironmentSpec, say: Say) -> None:
        """Do nothing: there is no image."""

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> LocalSandbox:
        """Make a work directory."""
        try:
            return LocalSandbox(self._folders.make(labels), environment.env, grace_seconds=self._grace_seconds)
        except OSError as error:
            raise Fault("provider.open_failed", f"no work directory could be made: {describe(error)}") from error

    async def list(self, labels: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        """Return the labels of the sandboxes of this user, whichever process opened them."""
        return self._folders.list(labels)

    async def remove(self, sandbox: str) -> None:
        """Dispose of a sandbox by its id, whichever process opened it; raises `Fault` if that fails."""
        folder = self._folders.of(sandbox)
        await kill_processes(sandbox)
        await remove_folder(folder, _PARTS)

    async def enter(self, sandbox: str) -> Sequence[str]:
        """Return the command that starts a shell in the work directory."""
        folder = self._folders.there(sandbox)
        os.makedirs(f"{folder}/work", exist_ok=True)
        variables = (f"HOME={folder}/home", f"TMPDIR={os.path.join(folder, 'tmp')}")
        return ("env", *variables, "sh", "-c", f"cd {shlex.quote(folder)}/work && exec sh")

    async def finalize(self) -> None:
        """Remove the folder of all sandboxes if none is left."""
        await asyncio.to_thread(remove_stale_groups)
        self._folders.remove_empty()


def _require_user(user: str | None) -> None:
    own = str(os.getuid())
    if user not in (None, own):
        with suppress(KeyError):  # a user without an entry
            own = pwd.getpwuid(os.getuid()).pw_name
    if user not in (None, own):
        raise ValueError(f"provider local runs every command as `{own}`: it cannot run one as `{user}`")
