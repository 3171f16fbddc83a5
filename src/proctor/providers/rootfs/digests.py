"""What an image of files is known by: digests of tars, remembered while the file is the same, and of directories.

Everything here blocks, for a thread.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable
from typing import Any

_RACY_NS = 2 * 10**9
"""A file that changed so short a time before it was looked at may change again and keep its time."""


def remembered(folder: str, path: str, make: Callable[[], str]) -> str:
    """Return what `make` says of a file, or what it said when the file was the same; `folder` keeps that."""
    record = os.path.join(folder, hashlib.sha256(os.fsencode(path)).hexdigest()[:32] + ".json")
    before = identity(path)
    try:
        with open(record, "rb") as file:
            found: Any = json.load(file)
            written_ns = os.fstat(file.fileno()).st_mtime_ns
        if found["file"] == before and written_ns >= before[2] + _RACY_NS and isinstance(found["digest"], str):
            return found["digest"]
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or it is no record: it is made anew
        pass
    digest = make()
    if identity(path) == before:
        _write(folder, record, json.dumps({"file": before, "digest": digest}))
    return digest


def identity(path: str) -> list[int]:
    """Return what changes whenever a file does: size, inode, modification time and change time in nanoseconds."""
    found = os.stat(path)
    return [found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns]


def _write(folder: str, record: str, content: str) -> None:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    written = f"{record}.{os.urandom(6).hex()}"
    with open(written, "x", encoding="utf-8") as file:
        file.write(content)
    os.replace(written, record)


def digest_of_folder(top: str) -> str:
    """Return a digest of the names, kinds, modes, sizes, times and link targets in a directory; no content is read."""
    digest = hashlib.sha256()
    waiting = [""]
    while waiting:
        path = waiting.pop()
        try:
            with os.scandir(os.path.join(top, path)) as entries:
                found = sorted((os.fsencode(entry.name), entry) for entry in entries)
        except PermissionError:  # another user's: what cannot be read cannot be used either
            digest.update(b"closed\0")
            continue
        except (FileNotFoundError, NotADirectoryError):  # it was removed just now
            continue
        for name, entry in found:
            digest.update(name + b"\0" + _line(entry) + b"\0")
        digest.update(b"\0\0")
        waiting += [
            os.path.join(path, entry.name) for _, entry in reversed(found) if entry.is_dir(follow_symlinks=False)
        ]
    return f"sha256:{digest.hexdigest()}"


def _line(entry: os.DirEntry[str]) -> bytes:
    try:
        found = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            return b"%o" % found.st_mode
        if stat.S_ISLNK(found.st_mode):
            return b"%o " % found.st_mode + os.fsencode(os.readlink(entry.path))
        return b"%o %d %d" % (found.st_mode, found.st_size, found.st_mtime_ns)
    except FileNotFoundError:  # it was removed just now
        return b"gone"
