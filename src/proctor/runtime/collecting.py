"""Takes artifacts out of the agent's sandbox into the directory of the try: contained, bounded, with their digests.

Every name that came out of a sandbox is hostile until it was looked at. What has one that cannot stay is kept beside
the artifact that it was in, under a name of ours, as something of its own.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from posixpath import join, normpath
from typing import Any

from proctor.errors import Fault, boundary, describe, go_on
from proctor.model.attempt import Phase, issue_of
from proctor.model.codes import Severity
from proctor.model.events import SavedFile
from proctor.model.spec import Artifact
from proctor.plugins.api import LeftOut, Sandbox
from proctor.runtime.job import TryFolder
from proctor.runtime.notes import Notes

FOLDER = "artifacts"
FILES_AT_MOST = 10_000
"""Files that are kept of one artifact."""
OUR_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""What a transfer fails with where it is the place of the results that has no room."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A file or directory that was taken out: its path in the sandbox, and the name of the copy in the try's directory.

    `place` is the same path, absolute and without detours. `files` are all files of the copy.
    """

    path: str
    place: str
    name: str
    files: tuple[SavedFile, ...]


def place_of(path: str, workdir: str = "/") -> str:
    """Return a path in the sandbox as an absolute one without detours."""
    return "/" + normpath(join("/", workdir, path)).lstrip("/")


def is_inside(place: str, other: str) -> bool:
    """Say whether one place is the other one or below it."""
    return place == other or place.startswith(f"{other.rstrip('/')}/")


def merged(artifacts: Sequence[Artifact]) -> list[Artifact]:
    """Return each path once: as it was declared first, and required if any declaration says so."""
    found: dict[str, Artifact] = {}
    for one in artifacts:
        key = normpath(one.path)
        known = found.setdefault(key, one)
        if one.required and not known.required:
            found[key] = replace(known, required=True)
    return list(found.values())


class Collecting:
    """Takes out the artifacts of one try. `apart` are places whose content is never kept as a part of something."""

    def __init__(self, sandbox: Sandbox, folder: TryFolder, notes: Notes, apart: Collection[str] = ()) -> None:
        self._sandbox = sandbox
        self._folder = folder
        self._notes = notes
        self._workdir = sandbox.workdir
        self._apart = {place_of(path, self._workdir) for path in apart}

    async def take(self, artifacts: Sequence[Artifact], needed: Collection[str]) -> list[Kept]:
        """Take all that is there, whatever happens to one of them, then raise the first `Fault` if there was one.

        An artifact that is not `required`, and whose path is not `needed` to grade, costs no result: what goes wrong
        with it is an ERROR issue.
        """
        kept: list[Kept] = []
        failed: Fault | None = None
        for one in merged(artifacts):
            try:
                kept += await self._take_one(one)
            except Fault as fault:
                failed = failed or self._weighed(fault, one, needed)
                if fault.code == "provider.lost":
                    break
        if failed is not None:
            raise failed
        return kept

    def _weighed(self, fault: Fault, one: Artifact, needed: Collection[str]) -> Fault | None:
        """Return a fault that costs the result; record any other."""
        if one.required or one.path in needed or fault.code != "collect.failed":
            return fault
        self._notes.add(replace(fault.issue, severity=Severity.ERROR))
        return None

    async def _take_one(self, one: Artifact) -> list[Kept]:
        name = f"{FOLDER}/{self._folder.name_of(one.path)}"
        target = self._folder.path(name)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with boundary(Phase.COLLECT):
                left_out = await self._download(one, target)
            go_on()
            if left_out is None:
                if one.required:
                    message = f"the agent did not produce `{one.path}`"
                    self._notes.add(issue_of("collect.required_missing", message, Phase.COLLECT))
                return []
            if left_out:
                self._say_cut(one, left_out)
            return await asyncio.to_thread(lambda: list(self._settled(one.path, name)))
        except Fault as fault:
            cause = fault.__cause__
            if isinstance(cause, OSError) and cause.errno in OUR_DISK:
                raise Fault("store.full", f"artifact `{one.path}` cannot be kept: {describe(cause)}") from cause
            if fault.code == "collect.failed":
                raise Fault("collect.failed", f"artifact `{one.path}`: {fault}", phase=Phase.COLLECT) from cause
            raise
        except OSError as error:
            raise Fault("store.full", f"artifact `{one.path}` cannot be kept: {describe(error)}") from error

    async def _download(self, one: Artifact, target: Path) -> LeftOut | None:
        """Return what was left out; None where there is nothing to be had."""
        if "\0" in one.path:  # nothing can be called so
            return None
        try:
            sandbox: Any = self._sandbox
            left_out = await sandbox.download(one.path, target, max_bytes=one.max_bytes, max_files=FILES_AT_MOST)
        except FileNotFoundError:
            return None
        except PermissionError as error:
            # The agent put a link in its place; a path that leads out by itself is the fault of who declared it.
            place = place_of(one.path, self._workdir)
            if error.errno == errno.EPERM and is_inside(place, self._workdir):
                return None
            raise
        if not isinstance(left_out, LeftOut):  # nobody knows what came, and whether all of it did
            raise Fault("collect.failed", f"the provider returned {type(left_out).__name__}, not a LeftOut")
        return left_out

    def _say_cut(self, one: Artifact, left_out: LeftOut) -> None:
        what = f"artifact `{one.path}` is kept in part: {left_out.files:,} files ({left_out.size_bytes:,} bytes)"
        limit = f"at most {FILES_AT_MOST:,} files and {one.max_bytes:,} bytes are kept"
        self._notes.add(issue_of("artifact.too_large", f"{what} are left out; {limit}", Phase.COLLECT))

    # ------------------------------------------------------------------------------------------------ in a thread

    def _settled(self, path: str, name: str) -> Iterator[Kept]:
        """Give what came names that can stay, and hash it."""
        waiting = [(path, name)]
        while waiting:
            path, name = waiting.pop()
            place = place_of(path, self._workdir)
            target = self._folder.path(name)
            if target.is_dir():
                files, others = self._settled_tree(path, name)
                waiting += reversed(others)
                yield Kept(path, place, name, tuple(files))
            elif target.exists():
                yield Kept(path, place, name, (saved_file(target, name),))

    def _settled_tree(self, path: str, name: str) -> tuple[list[SavedFile], list[tuple[str, str]]]:
        """Return the files of a directory, and what was moved out of it: paths in the sandbox, and new names."""
        files: list[SavedFile] = []
        others: list[tuple[str, str]] = []
        waiting = [(path, name)]
        while waiting:
            folder, below = waiting.pop()
            directory = self._folder.path(below)
            for entry in sorted(os.listdir(directory)):
                inner, here = join(folder, entry), directory / entry
                kind = os.lstat(here).st_mode
                if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
                    here.unlink()  # a provider that keeps its promise lets none through
                elif not self._folder.is_plain(entry) or place_of(inner, self._workdir) in self._apart:
                    others.append((inner, self._moved(here, inner)))
                elif stat.S_ISDIR(kind):
                    waiting.append((inner, f"{below}/{entry}"))
                else:
                    files.append(saved_file(here, f"{below}/{entry}"))
        return files, others

    def _moved(self, here: Path, path: str) -> str:
        """Move something to a place of its own."""
        first = name = f"{FOLDER}/{self._folder.name_of(path)}"
        number = 1
        while os.path.lexists(self._folder.path(name)):  # somebody declared that very path
            number += 1
            name = f"{first}+{number}"
        here.rename(self._folder.path(name))
        return name


def saved_file(path: Path, name: str) -> SavedFile:
    """Return name, digest and size of a regular file; raises `OSError` for what is none."""
    with open_file(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return SavedFile(name, digest, file.tell())


def open_file(path: Path) -> BufferedReader:
    """Open a regular file for reading; raises `OSError` for what is none, a link included, and waits for nobody."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")
