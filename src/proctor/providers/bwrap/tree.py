"""What is to be seen of the file system in a sandbox, as options of bubblewrap; and the folder that holds its parts.

<temporary folder>/proctor-<uid>/<sandbox>/
    labels.json         what the sandbox was made for
    environment.json    what it is made of: enough to enter it again
    etc/                users and hosts as it is to see them
    work/ home/ tmp/ var-tmp/     what it can write, without an image
    places/             and directories that the environment names, by number
    upper/ overlay/ layers/       what it wrote, with an image
    mark/               copies for `reset`
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from proctor.providers._files import remove_tree
from proctor.providers._rooted import RootFiles
from proctor.providers.bwrap.etc import HOST_NAME, bound_in
from proctor.providers.bwrap.program import NAMESPACES
from proctor.providers.rootfs.places import make_places, secure_mount_points
from proctor.runtime.process import base_interpreter

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEFAULT_WORKDIR = "/work"
DEFAULT_HOME = f"/home/{HOST_NAME}"
SETTLED, FILTER = "environment.json", "filter"

WRITABLE = ("work", "home", "tmp", "var-tmp", "places")
"""The directories of a sandbox without an image."""
OVERLAY = ("upper", "overlay", "layers")
"""Those of one with an image: what it wrote, the kernel's own, what it had written by the time of each `mark`."""
PARTS = (*WRITABLE, *OVERLAY, "mark", "etc")

RESOLVER = "/etc/resolv.conf"
SHARED_MEMORY_BYTES = 1 << 30
RUN_BYTES = 64 << 20

TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
TAKEN = ("/usr", "/etc", "/proc", "/dev", "/run", "/tmp", "/var", *(f"/{name}" for name in TOP))  # noqa: S108
"""Where no work directory can be without an image."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What a sandbox is made of, as it is kept in its folder."""

    workdir: str = DEFAULT_WORKDIR
    home: str = DEFAULT_HOME
    root: str | None = None
    """The file system of the image, unpacked."""
    env: dict[str, str] = field(default_factory=dict[str, str])
    """All variables of its commands."""
    places: tuple[str, ...] = ()
    """Directories that commands can write beside the work directory."""
    network: str = "none"
    """The mode of the network that it had when it was kept."""


def settle(folder: str, settled: Settled) -> None:
    """Make the parts of a sandbox's folder; those that are there stay."""
    for name in WRITABLE if settled.root is None else ("upper", "overlay"):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    if settled.root is None:
        for number in range(len(settled.places)):
            os.makedirs(f"{folder}/places/{number}", exist_ok=True)
        for name in ("tmp", "var-tmp"):
            os.chmod(f"{folder}/{name}", 0o1777)  # noqa: S103 - so are they everywhere; nobody else comes near them
    Path(folder, SETTLED).write_text(json.dumps({name: getattr(settled, name) for name in Settled.__slots__}))


def settled_of(folder: str) -> Settled:
    """Return what a sandbox is made of; raises `FileNotFoundError` for one in which nothing was ever done."""
    return Settled(**json.loads(Path(folder, SETTLED).read_bytes()))


def options(folder: str, settled: Settled, etc: str, *, resolves: bool = False, interactive: bool = False) -> list[str]:
    """Return the options of bubblewrap that make the sandbox of a folder; `etc` is what it sees as its /etc.

    With `resolves` it finds hosts as this machine does. What is `interactive` has a terminal, and its variables set.
    """
    found = [*NAMESPACES, "--hostname", HOST_NAME, "--cap-drop", "ALL", "--clearenv"]
    if interactive and resolves:
        found.remove("--unshare-net")  # commands do not enter it either
    for name, value in settled.env.items() if interactive else ():
        found += ["--setenv", name, value]
    if not interactive:
        found.append("--new-session")
    found += _host_tree(folder, settled, etc) if settled.root is None else _image_tree(folder, settled)
    if settled.root is not None:
        return [*found, "--chdir", "/"]  # the work directory is made later
    if resolves and os.path.exists(RESOLVER):
        found += ["--ro-bind", RESOLVER, RESOLVER]
    return [*found, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", settled.workdir]


def _host_tree(folder: str, settled: Settled, etc: str) -> list[str]:
    """Show the programs of the host, read-only, and a few directories that can be written."""
    found = ["--ro-bind", "/usr", "/usr", "--ro-bind", etc, "/etc", "--dir", "/home", "--dir", "/var"]
    for place in bound_in(etc):
        found += ["--ro-bind", place, place]
    for name in TOP:
        if os.path.islink(f"/{name}"):
            found += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        elif os.path.isdir(f"/{name}"):
            found += ["--ro-bind", f"/{name}", f"/{name}"]
    if interpreter := interpreter_folder():
        found += ["--ro-bind", interpreter, interpreter]
    found += _kernel_tree()
    found += ["--perms", "0755", "--size", str(RUN_BYTES), "--tmpfs", "/run"]
    places = {"tmp": "/tmp", "var-tmp": "/var/tmp", "home": settled.home, "work": settled.workdir}  # noqa: S108
    places |= {f"places/{number}": place for number, place in enumerate(settled.places)}
    for name, place in places.items():
        found += ["--bind", f"{folder}/{name}", place]
    return found


def _image_tree(folder: str, settled: Settled) -> list[str]:
    """Show the file system of the image, and put what is written into the sandbox's own folder.

    Here bubblewrap would follow a link of the image to files of this machine: what can be made from inside is made
    later, by `finish_image`.
    """
    root = settled.root or "/"
    secure_mount_points(f"{folder}/upper", [*reversed(layers_of(folder)), root])
    found = ["--uid", "0", "--gid", "0", "--overlay-src", root]
    for layer in layers_of(folder):
        found += ["--overlay-src", layer]
    return [*found, "--overlay", f"{folder}/upper", f"{folder}/overlay", "/", *_kernel_tree()]


def finish_image(root: int, settled: Settled, etc: str, *, resolves: bool) -> None:
    """Make what every sandbox has where the image has it not, inside of the started sandbox's own `root`.

    Raises `OSError` where a directory cannot be made, because something else is in its place. Blocks.
    """
    own = dict.fromkeys((settled.workdir, *settled.places), 0o755)
    make_places(root, {"/tmp": 0o1777, settled.home: 0o700, **own})  # noqa: S108
    files = RootFiles(root, "/")
    for path, source in {"/etc/hosts": f"{etc}/hosts", **({RESOLVER: RESOLVER} if resolves else {})}.items():
        with suppress(OSError):  # the image has something of its own there
            files.write(path, Path(source).read_bytes(), 0o644)


def _kernel_tree() -> list[str]:
    """Show /proc and /dev. What belongs to root in /proc is this machine's: root inside could change its modes, too."""
    kept = ("--remount-ro", "/proc") if os.getuid() == 0 else ("--ro-bind", "/proc/sys", "/proc/sys")
    return [
        "--proc", "/proc", *kept,
        "--dev", "/dev", "--perms", "1777", "--size", str(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm",  # noqa: S108
    ]  # fmt: skip


@cache
def interpreter_folder() -> str | None:
    """Return where the interpreter that runs proctor is, if that is not among the programs of the host."""
    base = os.path.realpath(sys.base_prefix)
    return None if base in {"/", "/usr"} or base.startswith("/usr/") else base


@cache
def host_path() -> str:
    """Return the PATH of a sandbox without an image: the interpreter of proctor comes first."""
    return f"{os.path.dirname(os.path.realpath(base_interpreter()))}:{STANDARD_PATH}"


def layers_of(folder: str) -> list[str]:
    """Return what was set aside by `freeze_layer`, the lowest first."""
    place = f"{folder}/layers"
    return [f"{place}/{number}" for number in sorted(map(int, os.listdir(place)))] if os.path.isdir(place) else []


def freeze_layer(folder: str) -> None:
    """Make what was written so far a layer of its own below what is written from now on. Blocks; nothing may run."""
    os.makedirs(f"{folder}/layers", exist_ok=True)
    os.rename(f"{folder}/upper", f"{folder}/layers/{len(layers_of(folder))}")
    drop_upper(folder)


def drop_upper(folder: str) -> None:
    """Forget what was written above the image and the layer. Blocks; nothing may run."""
    for name in ("upper", "overlay"):
        remove_tree(f"{folder}/{name}")
        os.mkdir(f"{folder}/{name}")
