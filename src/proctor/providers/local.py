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
import json
import os
import pwd
import re
import shlex
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from proctor.errors import Fault, describe
from proctor.model.spec import EnvironmentSpec, Resources
from proctor.plugins.api import OUTPUT_LIMIT_BYTES, ExecLimits, ExecResult, LeftOut, OnOutput
from proctor.providers import _copy_out, _files, _reset
from proctor.runtime.process import GRACE_SECONDS, Processes, base_interpreter, kill_processes, remove_stale_groups

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ID_BYTES = 6
_ID = re.compile(f"local-[0-9a-f]{{{2 * ID_BYTES}}}")


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

    async def mark(self) -> None:
        """Keep a copy of the work directory beside it."""
        self._require()
        await asyncio.to_thread(_reset.copy_exactly, self.workdir, f"{self._folder}/mark")

    async def reset(self) -> None:
        """Kill what runs, and put the copy in the place of the work directory."""
        self._require()
        await self._processes.kill()
        await asyncio.to_thread(_reset.restore_exactly, f"{self._folder}/mark", self.workdir)

    async def dispose(self) -> None:
        """Kill what runs and remove the directory."""
        self._disposed = True
        async with self._disposing:
            await self._processes.kill()
            if self._made or not _files.remove_unused(self._folder):
                await _remove(self._folder)

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
    supports_reuse = True
    lifetime_seconds: float | None = None
    warning: str | None = "provider local isolates nothing: commands run as you, and can change whatever you can"

    def __init__(self, base: Path | None = None, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._base = os.path.realpath(base or os.path.join(tempfile.gettempdir(), f"proctor-{os.getuid()}"))
        self.removal_command = f"rm -rf {shlex.quote(self._base)}/{{}}"  # for a person, with the id of a sandbox
        self._grace_seconds = grace_seconds
        self._base_is_fine = False

    def refuse(self, environment: EnvironmentSpec) -> str | None:
        """Return what it cannot make, and why."""
        if environment.image is not None:
            return f"provider local has no images: cannot use `{environment.image}`"
        if environment.network != "full":
            return f"provider local cannot limit the network: cannot enforce `{environment.network}`"
        if environment.resources != Resources():
            return "provider local cannot enforce cpus or memory of a sandbox"
        return None

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> LocalSandbox:
        """Make a work directory."""
        if (reason := self.refuse(environment)) is not None:
            raise Fault("provider.open_failed", reason)
        try:
            return LocalSandbox(self._make(labels), environment.env, grace_seconds=self._grace_seconds)
        except OSError as error:
            raise Fault("provider.open_failed", f"no work directory could be made: {describe(error)}") from error

    async def list(self, labels: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        """Return the labels of the sandboxes of this user, whichever process opened them."""
        found: list[Mapping[str, str]] = []
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self._base)):
                if (own := _read_labels(f"{self._base}/{name}")) is not None and labels.items() <= own.items():
                    found.append({**own, "sandbox": name})
        return found

    async def remove(self, sandbox: str) -> None:
        """Dispose of a sandbox by its id, whichever process opened it; raises `Fault` if that fails."""
        if not _ID.fullmatch(sandbox):
            raise ValueError(f"{sandbox!r} is no sandbox of provider local")
        await kill_processes(sandbox)
        await _remove(os.path.join(self._base, sandbox))

    async def finalize(self) -> None:
        """Remove the folder of all sandboxes if none is left."""
        self._base_is_fine = False
        await asyncio.to_thread(remove_stale_groups)
        with suppress(OSError):  # others have sandboxes there
            os.rmdir(self._base)

    def _make(self, labels: Mapping[str, str]) -> str:
        """Make the directories of a sandbox and return the folder."""
        if not self._base_is_fine:
            _make_base(self._base)
            self._base_is_fine = True
        folder = f"{self._base}/local-{os.urandom(ID_BYTES).hex()}"
        try:
            os.mkdir(folder, 0o700)
        except FileNotFoundError:  # another process found the base empty, and removed it
            _make_base(self._base)
            os.mkdir(folder, 0o700)
        try:
            Path(folder, "labels.json").write_text(json.dumps(dict(labels)))  # no part of it can be read as a whole
        except OSError:
            _files.remove_tree(folder)
            raise
        return folder


def _make_base(base: str) -> None:
    """Make the folder of all sandboxes; raises `Fault` if it is there and somebody else could change it."""
    os.makedirs(base, mode=0o700, exist_ok=True)
    found = os.lstat(base)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise Fault("provider.unavailable", f"{base} is not a directory that only this user can change: remove it")


def _read_labels(folder: str) -> dict[str, str] | None:
    """Return the labels of a sandbox; None for what is no sandbox, or is not yet or no longer one."""
    try:
        with open(f"{folder}/labels.json", "rb") as file:
            found: Any = json.loads(file.read())
    except (OSError, ValueError):
        return None
    return cast("dict[str, str]", found) if isinstance(found, dict) else None


async def _remove(folder: str) -> None:
    """Remove a sandbox, its labels last, so that it is listed while anything is left of it."""

    def remove() -> None:
        for name in ("work", "mark", "home", "tmp"):
            _files.remove_tree(f"{folder}/{name}")
        _files.remove_tree(folder)

    try:
        await asyncio.to_thread(remove)
    except OSError as error:
        raise Fault("dispose.failed", f"the sandbox's directory could not be removed: {describe(error)}") from error


def _require_user(user: str | None) -> None:
    own = str(os.getuid())
    if user not in (None, own):
        with suppress(KeyError):  # a user without an entry
            own = pwd.getpwuid(os.getuid()).pw_name
    if user not in (None, own):
        raise ValueError(f"provider local runs every command as `{own}`: it cannot run one as `{user}`")
