"""Opens files inside a foreign root directory, so that no link and no `..` leads out of it, whatever changes meanwhile.

The kernel resolves the whole path at one stroke (`openat2`, Linux 5.6), which no sequence of checks could.
Everything here blocks, for a thread.
"""

from __future__ import annotations

import errno
import os
from functools import cache
from typing import Any

_OPENAT2 = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH, _IN_ROOT = 0x02, 0x04, 0x08, 0x10
_TRIES = 1000
"""How often a path may change while it is resolved."""

_MADE_BY_THE_KERNEL = {
    0x9FA0: "proc", 0x62656572: "sysfs", 0x27E0EB: "cgroup", 0x63677270: "cgroup2", 0x64626720: "debugfs",
    0x74726163: "tracefs", 0x73636673: "securityfs", 0xCAFE4A11: "bpf", 0x42494E4D: "binfmt_misc", 0x6165676C: "pstore",
    0xF97CFF8C: "selinux", 0xDE5E81E4: "efivarfs", 0x19800202: "mqueue", 0x65735543: "fusectl", 0x62656570: "configfs",
    0x67596969: "rpc_pipefs", 0x6E736673: "nsfs",
}  # fmt: skip
"""File systems whose files are doors to the kernel, by the number that `statfs` tells.

They do not look at the sandbox but at who opens them, who may be root: whoever leads us there would borrow our powers.
"""


@cache
def _libc() -> Any:
    import ctypes  # noqa: PLC0415 - few commands need it

    return ctypes.CDLL(None, use_errno=True)


def _openat2(directory: int, path: str, flags: int, mode: int, resolve: int) -> int:
    import ctypes  # noqa: PLC0415 - as above

    if "\0" in path:
        raise ValueError("embedded null byte")
    how = (ctypes.c_uint64 * 3)(flags | os.O_CLOEXEC, mode, resolve)
    number = errno.EAGAIN
    for _ in range(_TRIES):
        opened: int = _libc().syscall(_OPENAT2, directory, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if opened >= 0:
            return opened
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), path)


@cache
def openat2_works() -> bool:
    """Say whether this machine can open files inside a foreign root."""
    top = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        os.close(_openat2(top, ".", os.O_PATH, 0, _IN_ROOT))
    except OSError:  # the kernel is too old, or a filter of system calls is in the way
        return False
    finally:
        os.close(top)
    return True


def open_in_root(root: int, path: str, flags: int, mode: int = 0) -> int:
    """Open `path` with the directory `root` as the root: links and `..` lead nowhere else.

    Magic links, such as those of `/proc/1/fd`, raise `OSError`.
    """
    return _openat2(root, path, flags, mode, _IN_ROOT | _NO_MAGICLINKS)


def open_below(top: int, path: str) -> int:
    """Return the place (`O_PATH`) of the directory `path` below the directory `top`; no link is followed on the way.

    Raises `OSError`: ELOOP or ENOTDIR where something on the way is a link or no directory.
    """
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    if not path:
        return os.open(".", flags, dir_fd=top)
    if openat2_works():
        return _openat2(top, path, flags, 0, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS)
    opened = os.open(".", flags, dir_fd=top)
    for name in path.split("/"):
        try:
            below = os.open(name, flags, dir_fd=opened)
        finally:
            os.close(opened)
        opened = below
    return opened


def make_in_root(root: int, path: str, mode: int = 0o777) -> int:
    """Return the place (`O_PATH`) of the directory `path` inside `root`, made with its parents where it is missing."""
    flags = os.O_PATH | os.O_DIRECTORY
    names = [name for name in path.split("/") if name not in ("", ".")]
    missing: list[str] = []
    while True:
        try:
            place = open_in_root(root, "/".join(names) or ".", flags)
            break
        except FileNotFoundError:
            if not names:
                raise
            missing.insert(0, names.pop())
    if ".." in missing:  # what is not there is no link: what leads back from it can be read off
        os.close(place)
        return make_in_root(root, "/".join((*names, os.path.normpath("/".join(missing)))), mode)
    for name in missing:
        try:
            place = _make_below(place, name, mode)
        except FileExistsError as error:
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path) from error
    return place


def _make_below(place: int, name: str, mode: int) -> int:
    """Make a directory unless it is there; return its place and close that of its parent."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            os.mkdir(name, mode, dir_fd=place)
        except FileExistsError:  # somebody else made it just now, or something else: then opening it fails
            return os.open(name, flags, dir_fd=place)
        return os.open(name, flags, dir_fd=place)
    finally:
        os.close(place)


def made_by_the_kernel(descriptor: int) -> str | None:
    """Return the name of the kernel's own file system (proc and its like) that a file is of; None for a usual one."""
    import ctypes  # noqa: PLC0415 - as above

    found = (ctypes.c_long * 64)()  # more than a `struct statfs`, which begins with the kind
    if _libc().fstatfs(descriptor, ctypes.byref(found)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return _MADE_BY_THE_KERNEL.get(found[0] & 0xFFFFFFFF)


def path_of(descriptor: int) -> str:
    """Return a path that leads to what is open, however it is called by now, for calls that take only paths."""
    return f"/proc/self/fd/{descriptor}"
