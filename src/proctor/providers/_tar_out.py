"""Takes files out of a tar archive that comes from a place nobody trusts: contained, bounded, and streaming.

Only names that were asked for are written, each below the target and no longer than was said. Links, devices and sparse
members are not: a hard link to a file that was written before is copied from there. Everything here blocks, for a
thread.
"""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

CHUNK_BYTES = 1024 * 1024
MOST_HEADER_BYTES = 1024 * 1024
"""How long the name and the attributes of a member may be: they are read into memory."""
_LONG_HEADERS = (
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
)  # fmt: skip
_UNWRITABLE = (errno.ENAMETOOLONG, errno.EILSEQ)


@dataclass(slots=True)
class Taken:
    """What came of an archive: `files` were written, `left` were asked for and did not come as they should."""

    files: set[str] = field(default_factory=set[str])
    left: dict[str, int] = field(default_factory=dict[str, int])


class _Member(tarfile.TarInfo):
    def _proc_member(self, archive: Any) -> Any:
        """Read what belongs to a header; tarfile would take any size for true."""
        if self.type == tarfile.GNUTYPE_SPARSE or (self.type in _LONG_HEADERS and self.size > MOST_HEADER_BYTES):
            raise tarfile.ReadError(f"a header of {self.size:,} bytes is longer than it may be")
        return super()._proc_member(archive)  # type: ignore[misc] # not in the stubs


def opened(archive: IO[bytes]) -> tarfile.TarFile:
    """Return an archive that is read as it comes. Raises `tarfile.ReadError` for what is no archive."""
    return tarfile.open(fileobj=archive, mode="r|", errors="surrogateescape", bufsize=CHUNK_BYTES, tarinfo=_Member)


def take_files(archive: IO[bytes], target: str, wanted: Mapping[str, int], *, prefix: str = "") -> Taken:
    """Write the members that are in `wanted` (relative name: the most bytes that it may have) below `target`.

    The first part of each member's name is left out, as engines put the name of what was asked for there; `prefix`
    comes in its place. A file that has more bytes than it may is not written, and counted as left. So is what comes
    after the place where the archive breaks off: engines end it where a file becomes shorter while they send it.
    Raises `OSError` for what cannot be written.
    """
    taken = Taken()
    with suppress(tarfile.ReadError), opened(archive) as members:
        for member in members:
            members.members.clear()  # type: ignore[attr-defined] # it would remember every one of them
            name = _relative(member.name, prefix)
            if name is None or name not in wanted or name in taken.files:
                continue
            if member.islnk():
                _copy_link(member, name, target, taken, prefix)
            elif member.isreg() and not member.issparse():
                source = members.extractfile(member)
                if source is None or member.size > wanted[name]:
                    taken.left[name] = member.size
                else:
                    _take(source, member, os.path.join(target, name), name, taken)
    taken.left |= {name: size for name, size in wanted.items() if name not in taken.files and name not in taken.left}
    return taken


def _relative(name: str, prefix: str) -> str | None:
    """Return the name below the target; None for one that is not below it."""
    if name.startswith("/"):
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")][1:]
    if not parts or ".." in parts or "\0" in name:
        return None
    return prefix + "/".join(parts)


def _take(source: IO[bytes], member: tarfile.TarInfo, place: str, name: str, taken: Taken) -> None:
    try:
        write_file(place, source, member.mode)
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        taken.left[name] = member.size
    else:
        taken.files.add(name)


def _copy_link(member: tarfile.TarInfo, name: str, target: str, taken: Taken, prefix: str) -> None:
    """Copy what a hard link leads to, if that came; else it is left, to be asked for by itself."""
    original = _relative(member.linkname, prefix)
    if original is not None and original in taken.files:
        with open(os.path.join(target, original), "rb") as source:
            write_file(os.path.join(target, name), source, os.fstat(source.fileno()).st_mode)
        taken.files.add(name)


def write_file(path: str, source: IO[bytes], mode: int) -> None:
    """Write a file, making its parents; what is all zeros becomes a hole. Half of a file is removed again."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666)
    try:
        size = 0
        while data := source.read(CHUNK_BYTES):
            if data.count(0) == len(data):
                os.lseek(descriptor, len(data), os.SEEK_CUR)
            else:
                _write_all(descriptor, data)
            size += len(data)
        os.ftruncate(descriptor, size)
        os.fchmod(descriptor, stat.S_IMODE(mode) & 0o777 | 0o600)
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
