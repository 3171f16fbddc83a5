"""The /etc of sandboxes without an image: what programs need of the host's, and nothing that is a secret.

It is made once for a process and shared by its sandboxes, read-only: a few mounts instead of twenty, each of which
costs up to half a millisecond. Everything here blocks.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from proctor.providers._files import remove_tree

PREFIX = "etc-"
HOST_NAME = "sandbox"

TAKEN = (
    "ca-certificates/extracted", "crypto-policies", "gai.conf", "host.conf", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "localtime", "mime.types", "pki/ca-trust/extracted", "pki/tls/cert.pem", "pki/tls/certs",
    "pki/tls/openssl.cnf", "protocols", "services", "ssl/cert.pem", "ssl/openssl.cnf", "terminfo", "timezone",
)  # fmt: skip
"""Files and directories of the host's /etc that are copied; no private key is in any of them."""

BOUND = ("alternatives", "fonts", "ssl/certs")
"""Directories of it that are shown as they are, read-only: some hundred files are more to copy than all else is."""


class SharedEtc:
    """The directory of one process, among its sandboxes' folders in `base`."""

    def __init__(self, base: str, home: str) -> None:
        self._base = base
        self._home = home
        self._made: str | None = None

    def folder(self) -> str:
        """Return the directory, made where it is missing; raises `OSError`."""
        if self._made is None or not self.is_made():
            folder = f"{self._base}/{PREFIX}{os.getpid()}-{os.urandom(4).hex()}"
            make_etc(folder, self._home)
            self._made = folder
        return self._made

    def is_made(self) -> bool:
        """Say whether it is there."""
        return self._made is not None and os.path.isdir(self._made)

    def remove(self) -> None:
        """Remove it, and those of processes that are dead; no sandbox of ours may be left."""
        if self._made is not None:
            remove_tree(self._made)
            self._made = None
        with suppress(FileNotFoundError):
            for name in os.listdir(self._base):
                owner = name.removeprefix(PREFIX).partition("-")[0]
                if name.startswith(PREFIX) and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                    remove_tree(f"{self._base}/{name}")


def make_etc(folder: str, home: str) -> None:
    """Make such a directory for the only user of a sandbox, whose home is `home`; raises `OSError`.

    What is there stays: somebody needed it before.
    """
    try:
        os.mkdir(folder, 0o755)
    except FileExistsError:
        return
    try:
        for name in TAKEN:
            _copy(f"/etc/{name}", f"{folder}/{name}")
        for name in BOUND:
            if os.path.isdir(f"/etc/{name}"):
                os.makedirs(f"{folder}/{name}", exist_ok=True)
        for name, text in _written(home).items():
            Path(folder, name).write_text(text)
    except OSError:
        remove_tree(folder)
        raise


def bound_in(folder: str) -> list[str]:
    """Return which directories of the host are to be shown in such a directory: those that it has a place for."""
    return [f"/etc/{name}" for name in BOUND if os.path.isdir(f"{folder}/{name}") and os.path.isdir(f"/etc/{name}")]


def _copy(source: str, target: str) -> None:
    """Copy what is there. Links stay links where what they lead to is seen in a sandbox too."""
    if not os.path.exists(source):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.isdir(source):
        shutil.copytree(source, target, symlinks=True, ignore=_unreadable)
    elif os.path.islink(source) and os.path.realpath(source).startswith("/usr/"):
        os.symlink(os.path.realpath(source), target)
    elif os.access(source, os.R_OK):
        shutil.copyfile(source, target)


def _unreadable(place: str, names: list[str]) -> list[str]:
    paths = {name: f"{place}/{name}" for name in names}
    return [name for name, path in paths.items() if not os.path.islink(path) and not os.access(path, os.R_OK)]


def _written(home: str) -> dict[str, str]:
    """Return what a sandbox is told of users and hosts, by file."""
    uid, gid = os.getuid(), os.getgid()
    own = f"sandbox:x:{uid}:{gid}:sandbox:{home}:/bin/sh\n" if uid else ""
    nobody = "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"
    return {
        "passwd": f"root:x:0:0:root:{home}:/bin/sh\n{own}{nobody}",
        "group": "root:x:0:\n" + (f"sandbox:x:{gid}:\n" if gid else "") + "nogroup:x:65534:\n",
        "hosts": f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        "resolv.conf": "",
    }


__all__ = ["HOST_NAME", "SharedEtc", "bound_in", "make_etc"]
