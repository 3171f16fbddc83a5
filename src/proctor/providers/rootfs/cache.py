"""The folder of unpacked images: an entry appears at one stroke, or not at all, however many processes want it.

Everything here blocks, for a thread.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from proctor.errors import Fault
from proctor.plugins.api import Say
from proctor.providers._files import remove_tree

_NEW = ".new-"
_POLL_SECONDS = 0.2
_SAY_EVERY_POLLS = 50


def images() -> str:
    """Return the folder of the images of this user, made if it is missing.

    Raises `Fault` where others could change it: what is in it becomes the programs of sandboxes.
    """
    base = os.environ.get("XDG_CACHE_HOME") or ""
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    own = os.path.join(os.path.realpath(base), "proctor")
    folder = os.path.join(own, "images")
    os.makedirs(own, mode=0o700, exist_ok=True)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for path in (own, folder):
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise Fault("image.build_failed", f"{path} is not a directory that only this user can change: remove it")
    return folder


def digests() -> str:
    """Return the folder of what is remembered of files."""
    return os.path.join(images(), "digests")


def made(name: str, make: Callable[[str], None], say: Say) -> str:
    """Return the entry `name`, which `make` fills if it is not there; where it raises, nothing is left.

    Another process that makes it is waited for; if that fails, `make` is tried here.
    """
    base = images()
    folder = os.path.join(base, name)
    if os.path.isdir(f"{folder}/rootfs"):
        return folder
    with _locked(base, name, say):
        if os.path.isdir(f"{folder}/rootfs"):
            return folder
        _remove_left_over(base, name)
        new = os.path.join(base, f"{_NEW}{name}-{os.urandom(6).hex()}")
        try:
            os.mkdir(new, 0o700)
            make(new)
            remove_tree(folder)  # what somebody left of it
            os.rename(new, folder)
        except BaseException:
            remove_tree(new)
            raise
    return folder


def _remove_left_over(base: str, own: str) -> None:
    """Remove what processes were making that ended before they had it: nobody holds the lock of it any more."""
    for entry in os.listdir(base):
        if not entry.startswith(_NEW):
            continue
        name = entry.removeprefix(_NEW).rpartition("-")[0]
        if name == own:
            remove_tree(os.path.join(base, entry))
        elif (lock := _try_lock(_lock_of(base, name))) is not None:
            try:
                remove_tree(os.path.join(base, entry))
                os.unlink(_lock_of(base, name))
            finally:
                os.close(lock)


@contextmanager
def _locked(base: str, name: str, say: Say) -> Generator[None]:
    """Hold the lock of an entry; it ends with the process, however that ends."""
    path = _lock_of(base, name)
    polls = 0
    while (lock := _try_lock(path)) is None:
        if polls % _SAY_EVERY_POLLS == 0:
            say(f"waiting for another process that unpacks {name[:12]}")
        polls += 1
        threading.Event().wait(_POLL_SECONDS)
    try:
        yield
    finally:
        os.unlink(path)
        os.close(lock)


def _lock_of(base: str, name: str) -> str:
    return os.path.join(base, f"{name}.lock")


def _try_lock(path: str) -> int | None:
    """Return the descriptor of a lock that we have now; None while another process has it."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.stat(path), os.fstat(lock)):
                return lock
        except BlockingIOError:
            os.close(lock)
            return None
        except FileNotFoundError:  # its last owner removed it just now
            pass
        os.close(lock)
