"""Files in and out of containers, by the archives of the engine."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import posixpath
import stat
import tarfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import IO, Any

from proctor.errors import Fault
from proctor.plugins.api import LeftOut
from proctor.providers._tar_out import opened, take_files, write_file
from proctor.providers.docker.archive import Container, put_archive, take_archive
from proctor.providers.docker.inside import run_plainly
from proctor.providers.docker.listing import (
    LIST,
    MISSING,
    NO_FILE,
    Listing,
    ListingChanged,
    choose,
    parse,
    requests,
)

MOST_LINKS = 40
LISTINGS = 3
"""How often a directory that changes all the time is listed before that is given up."""
GENEROUS_BYTES = 64 * 1024 * 1024
"""So much that is not wanted may come along with a directory, before its files are asked for one by one."""


async def write(container: Container, path: str, data: bytes, owner: tuple[int, int]) -> None:
    """Write a file, making its parents; a link in its place is replaced."""

    def produce(writer: IO[bytes]) -> None:
        with tarfile.open(fileobj=writer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(data), 0o644
            member.uid, member.gid = owner
            archive.addfile(member, io.BytesIO(data))

    await _put(container, path, produce)


async def upload(container: Container, source: Path, path: str, owner: tuple[int, int]) -> None:
    """Copy a file or directory of this machine in; links stay links, devices, pipes and sockets are left out."""
    source = await asyncio.to_thread(source.resolve, strict=True)

    def admit(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if not (member.isreg() or member.isdir() or member.issym()):
            return None
        member.uid, member.gid = owner
        member.uname = member.gname = ""
        return member

    def produce(writer: IO[bytes]) -> None:
        with tarfile.open(
            fileobj=writer, mode="w|", format=tarfile.PAX_FORMAT, errors="surrogateescape", dereference=False
        ) as archive:
            archive.inodes = _NoInodes()  # type: ignore[attr-defined]
            archive.add(source, path.lstrip("/"), filter=admit)

    await _put(container, path, produce)


class _NoInodes(dict[Any, Any]):
    """What tarfile remembers of files, to write the second name of one as a link: nothing, so that all come whole."""

    def __setitem__(self, key: object, value: object) -> None:
        pass


async def _put(container: Container, path: str, produce: Callable[[IO[bytes]], None]) -> None:
    try:
        await put_archive(container, produce)
    except Fault as fault:
        # A file where a directory should be, or the reverse: that is said of the path, and the sandbox is fine.
        said = str(fault).lower()
        if any(words in said for words in ("not a directory", "is a directory", "file exists", "cannot overwrite")):
            raise NotADirectoryError(errno.ENOTDIR, str(fault), path) from fault
        raise


async def read(container: Container, path: str) -> bytes:
    """Return the bytes of a regular file, links followed inside the container; raises `OSError` for anything else."""
    for _ in range(MOST_LINKS):
        try:
            found = await take_archive(container, path, _first_file)
        except tarfile.ReadError as error:  # it became shorter meanwhile
            raise OSError(errno.EIO, f"cannot be read whole: {error}", path) from error
        if isinstance(found, bytes):
            return found
        if stat.S_ISDIR(found[0]):
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        if not stat.S_ISLNK(found[0]):
            raise OSError(errno.EINVAL, "not a regular file", path)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[1]))
    raise OSError(errno.ELOOP, "too many links", path)


def _first_file(reader: IO[bytes]) -> bytes | tuple[int, str]:
    """Return the content of the one file in an archive, or what else is there: its kind, and where a link leads."""
    with opened(reader) as archive:
        member = archive.next()
        content = archive.extractfile(member) if member is not None and member.isreg() else None
        if content is not None:
            return content.read()
        if member is None:
            return (0, "")
        kind = stat.S_IFDIR if member.isdir() else stat.S_IFLNK if member.issym() else 0
        return (kind, member.linkname)


async def download(
    container: Container, path: str, target: Path, max_bytes: int | None, max_files: int | None
) -> LeftOut:
    """Copy a file or directory out of a container to `target`; what does not fit the limits is counted."""
    listing = await _list(container, path)
    chosen, left_out = choose(listing.files, max_bytes, max_files)
    if listing.single:
        if chosen:
            write_one = partial(_take_single, str(target), *chosen.values())
            left_out = await _follow(container, path, write_one)
        return left_out
    await asyncio.to_thread(_make_folders, str(target), listing.folders)
    waiting = dict(chosen)
    for asked in requests(listing, chosen, GENEROUS_BYTES):
        await _take(container, listing.root, asked, target, waiting)
    for linked in list(waiting):  # the other name of a file that came by its first name alone
        await _take(container, listing.root, linked, target, waiting)
    return LeftOut(left_out.files + len(waiting), left_out.size_bytes + sum(waiting.values()))


async def _take(container: Container, root: str, asked: str, target: Path, waiting: dict[str, int]) -> None:
    """Ask for a directory or file below the root and write what is waited for of it; what came is not waited for."""
    is_file = asked in waiting
    prefix = posixpath.dirname(asked) if is_file else asked
    prefix = f"{prefix}/" if prefix else ""
    try:
        if is_file:
            use: Callable[[IO[bytes]], set[str]] = partial(_take_one, str(target), asked, waiting[asked])
        else:
            use = partial(_take_many, str(target), dict(waiting), prefix)
        came = await take_archive(container, posixpath.join(root, asked), use)
    except FileNotFoundError:  # it was removed meanwhile
        return
    for one in came:
        del waiting[one]


def _take_many(target: str, wanted: dict[str, int], prefix: str, reader: IO[bytes]) -> set[str]:
    return take_files(reader, target, wanted, prefix=prefix).files


def _take_one(target: str, name: str, most_bytes: int, reader: IO[bytes]) -> set[str]:
    """Write the only file of an archive; say which came."""
    came = _take_single(os.path.join(target, name), most_bytes, reader)
    return {name} if came is not None and not came else set()


def _take_single(place: str, most_bytes: int, reader: IO[bytes]) -> LeftOut | None:
    """Write the only file of an archive to a place; None where it is no file."""
    with opened(reader) as archive:
        member = archive.next()
        content = archive.extractfile(member) if member is not None and member.isreg() else None
        if member is None or content is None:
            return None
        if member.size > most_bytes:
            return LeftOut(1, member.size)
        try:
            write_file(place, content, member.mode)
        except (tarfile.ReadError, OSError) as error:  # it became shorter while the engine sent it, or has no name here
            if isinstance(error, OSError) and error.errno != errno.ENAMETOOLONG:
                raise
            return LeftOut(1, member.size)
        return LeftOut()


async def _follow(container: Container, path: str, use: Callable[[IO[bytes]], LeftOut | None]) -> LeftOut:
    """Use the archive of a file that may be behind links."""
    _, printed = await run_plainly(
        container.docker, container.name, ["/bin/sh", "-c", 'readlink -f -- "$1" || echo "$1"', "proctor", path]
    )
    real = printed.decode("utf-8", "surrogateescape").removesuffix("\n") or path
    left_out = await take_archive(container, real, use)
    if left_out is None:
        raise FileNotFoundError(errno.ENOENT, "neither a file nor a directory", path)
    return left_out


def _make_folders(target: str, names: Iterable[str]) -> None:
    for path in (target, *(os.path.join(target, name) for name in names)):
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise


async def _list(container: Container, path: str) -> Listing:
    """List a path by programs of the container, as root. Raises `FileNotFoundError`."""
    reason: ListingChanged | None = None
    for _ in range(LISTINGS):
        code, printed = await run_plainly(container.docker, container.name, ["/bin/sh", "-c", LIST, "proctor", path])
        if code == MISSING:
            raise FileNotFoundError(errno.ENOENT, "there is nothing", path)
        if code == NO_FILE:
            raise FileNotFoundError(errno.ENOENT, "neither a file nor a directory", path)
        try:
            return parse(path, printed)
        except ListingChanged as error:  # it is listed anew, a few times
            reason = error
    why = f"cannot be listed ({reason}): it changes all the time, or has no usable `find` and `stat`"
    raise OSError(errno.EAGAIN, why, path)
