"""Provider `bwrap`: sandboxes of the kernel's own namespaces, by bubblewrap. No daemon, no root, a few milliseconds.

A sandbox sees the programs of this machine read-only (or an image, of which it writes a copy), a few directories of its
own, its own processes, and no network unless it is to have one. See docs/bwrap.md.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from proctor.errors import Fault, describe
from proctor.model.environment import EnvironmentSpec
from proctor.plugins.api import Capabilities, Say
from proctor.providers._folders import Folders, remove_folder
from proctor.providers.bwrap import program as bwrap_program
from proctor.providers.bwrap import seccomp as bwrap_seccomp
from proctor.providers.bwrap import tree as bwrap_tree
from proctor.providers.bwrap.etc import SharedEtc, make_etc
from proctor.providers.bwrap.sandbox import BwrapSandbox
from proctor.providers.bwrap.tree import Settled
from proctor.providers.egress.sandbox import refusal_of_hosts
from proctor.runtime.process import (
    GRACE_SECONDS,
    CgroupRoots,
    find_sandbox_roots,
    kill_processes,
    remove_groups,
    remove_stale_groups,
    shielded,
)

TRIAL = EnvironmentSpec(provider="bwrap")


class BwrapProvider:
    """Makes sandboxes below `base`, by default a folder of the user's own among the temporary files."""

    name = "bwrap"
    remote = False
    recommended_concurrency: int | None = None
    default_limit: int | None = 128
    default_open_per_second = 0.0
    exclusive = False
    lifetime_seconds: float | None = None
    warning: str | None = None

    def __init__(
        self, base: Path | None = None, *, grace_seconds: float = GRACE_SECONDS, cgroups: CgroupRoots | None = None
    ) -> None:
        self._folders = Folders(self.name, base)
        self._making = asyncio.Lock()
        self._etc = SharedEtc(self._folders.base, bwrap_tree.DEFAULT_HOME)
        self._grace_seconds = grace_seconds
        self._cgroups = find_sandbox_roots() if cgroups is None else cgroups
        self._unavailable: str | None = None
        self._tried = False
        self.capabilities = Capabilities(
            image=True,
            networks=frozenset({"none", "allow", "full"}),
            switches_network=True,
            cpus=self._cgroups.limits("cpu"),
            memory=self._cgroups.limits("memory"),
            processes=self._cgroups.limits("pids"),
            workdir=True,
            places=True,
            reuse=True,
            keep=True,
        )

    def refuse(self, environment: EnvironmentSpec) -> str | None:
        """Return why a list of hosts means nothing, or a work directory cannot be where it is to be, or None."""
        refused = refusal_of_hosts(environment)
        if refused is not None:
            return refused
        wanted = [("place", place) for place in environment.places]
        if environment.workdir is not None:
            wanted.append(("work directory", environment.workdir))
        for what, place in wanted:
            if not place.startswith("/") or posixpath.normpath(place) != place or place == "/":
                return f"the {what} must be an absolute path below /, without dots: not `{place}`"
            if environment.image is None and any(place == one or place.startswith(f"{one}/") for one in _taken()):
                return f"provider bwrap has something else of this machine at `{place}`: choose another {what}"
        return None

    async def unavailable(self) -> str | None:
        """Return why no sandbox can be made on this machine; the namespaces of one are made, once."""
        if not self._tried:
            self._unavailable = await asyncio.to_thread(_unavailable)
            self._tried = True
        return self._unavailable

    async def resolve(self, environment: EnvironmentSpec) -> EnvironmentSpec:
        """Return the environment with the digest of its image, as far as that is known."""
        if environment.image is None:
            return environment
        from proctor.providers.rootfs import images as rootfs_images  # noqa: PLC0415 - only images need it

        digest = await asyncio.to_thread(rootfs_images.digest_of, environment.image)
        return replace(environment, image_digest=digest)

    async def prepare(self, environment: EnvironmentSpec, say: Say) -> None:
        """Unpack the image, where that was not yet done."""
        if environment.image is not None:
            from proctor.providers.rootfs import images as rootfs_images  # noqa: PLC0415 - only images need it

            await asyncio.to_thread(rootfs_images.prepare, environment.image, say)

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> BwrapSandbox:
        """Make the folder of a sandbox; its namespaces are started when it is first used."""
        settled = await self._settled(environment)
        try:
            folder = self._folders.make(labels)
            try:
                await self._make_etc()
            except BaseException:
                await shielded(remove_folder(folder, ()), None)
                raise
        except OSError as error:
            raise Fault("provider.open_failed", f"no directory could be made: {describe(error)}") from error
        return BwrapSandbox(
            folder, environment, settled, self._etc, cgroups=self._cgroups, grace_seconds=self._grace_seconds
        )

    async def _make_etc(self) -> None:
        async with self._making:
            if not self._etc.is_made():
                await asyncio.to_thread(self._etc.folder)

    async def _settled(self, environment: EnvironmentSpec) -> Settled:
        common = {"TMPDIR": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108
        if environment.image is None:
            home = bwrap_tree.DEFAULT_HOME
            env = {"PATH": bwrap_tree.host_path(), "HOME": home, **common, **environment.env}
            workdir = environment.workdir or bwrap_tree.DEFAULT_WORKDIR
            return Settled(workdir, home, None, env, environment.places)
        from proctor.providers.rootfs import images as rootfs_images  # noqa: PLC0415 - only images need it

        root = await asyncio.to_thread(rootfs_images.prepare, environment.image, lambda _: None)
        config = await asyncio.to_thread(rootfs_images.config_of, root)
        home = config.env.get("HOME", "/root")
        env = {"PATH": bwrap_tree.STANDARD_PATH, "HOME": home, **common, **config.env, **environment.env}
        workdir = environment.workdir or config.workdir or bwrap_tree.DEFAULT_WORKDIR
        workdir = workdir if workdir != "/" else bwrap_tree.DEFAULT_WORKDIR
        return Settled(workdir, home, root, env, environment.places)

    async def list(self, labels: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        """Return the labels of the sandboxes of this user, whichever process opened them."""
        return self._folders.list(labels)

    async def remove(self, sandbox: str) -> None:
        """Dispose of a sandbox by its id, whichever process opened it; raises `Fault` if that fails."""
        folder = self._folders.of(sandbox)
        await kill_processes(sandbox)
        await remove_groups(sandbox)
        await remove_folder(folder, bwrap_tree.PARTS)

    async def enter(self, sandbox: str) -> Sequence[str]:
        """Return the command that starts a shell in a sandbox over its files.

        It has the network of this machine where the sandbox had that when it was kept, else none.
        """
        folder = self._folders.there(sandbox)
        try:
            settled = bwrap_tree.settled_of(folder)
        except FileNotFoundError:
            settled = await self._settled(TRIAL)
            bwrap_tree.settle(folder, settled)
        etc = f"{folder}/etc"
        await asyncio.to_thread(make_etc, etc, settled.home)
        filtered = f"{folder}/{bwrap_tree.FILTER}"
        await asyncio.to_thread(Path(filtered).write_bytes, bwrap_seccomp.program() or b"")
        made = bwrap_tree.options(folder, settled, etc, resolves=settled.network == "full", interactive=True)
        options = [*made, "--die-with-parent", "--seccomp", "9"]
        shell = ("/bin/sh", "-c", 'mkdir -p "$1"; cd "$1"; exec /bin/sh', "sh", settled.workdir)
        words = shlex.join([bwrap_program.best(), *options, "--", *shell])
        # Without the variables of this machine: programs inside can read those that their first process began with.
        clean = f"env -i PROCTOR_SANDBOX={sandbox}"
        return ("sh", "-c", f"exec 9<{shlex.quote(filtered)}; exec {clean} {words}")

    async def finalize(self) -> None:
        """Remove the folder of all sandboxes if none is left."""
        await asyncio.to_thread(remove_stale_groups)
        await asyncio.to_thread(self._etc.remove)
        self._folders.remove_empty()


def _unavailable() -> str | None:
    """Say why none of the programs works here, and choose the first that does. Blocks for a few milliseconds."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return "bubblewrap needs Linux 5.11 or later"
    if bwrap_seccomp.program() is None:
        return f"system calls cannot be filtered on {os.uname().machine}, only on x86_64 and aarch64"
    why: str | None = bwrap_program.MISSING
    for program in bwrap_program.candidates():
        why = bwrap_program.why_not(program)
        if why is None:
            bwrap_program.chosen[:] = [program]
            break
    return why


def _taken() -> Sequence[str]:
    """Return where no work directory can be in a sandbox without an image."""
    interpreter = bwrap_tree.interpreter_folder()
    return (*bwrap_tree.TAKEN, bwrap_tree.DEFAULT_HOME, *((interpreter,) if interpreter else ()))
