"""What goes into an image that is built: the files of its context, and one digest of them all.

What `.dockerignore` leaves out does not count, so that a change there builds nothing anew.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from proctor.data.ignore_patterns import IgnorePatterns, parse_ignore
from proctor.errors import UsageError

IGNORE_FILE = ".dockerignore"
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """A directory, regular file or link of a context, by its path in it. Sockets and devices do not come along."""

    name: str
    path: str
    status: os.stat_result
    link: str | None = None

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.status.st_mode)


def context_digest(context: Path, dockerfile: str = "Dockerfile") -> str:
    """Return the SHA-256 of a build context, in hexadecimal.

    Names, contents, targets of links and whether a file can be executed count; owners, times and other modes do not.
    Raises `UsageError` where `context` is no directory, `dockerfile` is not a file in it, or something cannot be read.
    """
    return _digest(context_entries(context, dockerfile))


def compose_digest(file: Path) -> str:
    """Return the SHA-256 of a compose file and of all that stands in its folder, as `context_digest` does.

    The `.dockerignore` of the folder holds. Raises `UsageError` where the file is none, or something cannot be read.
    """
    return _digest(context_entries(file.parent, file.name, kind="compose file"))


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 of all that is in a directory, as `context_digest` does, with nothing left out."""
    return _digest(_below(os.fspath(folder), "", IgnorePatterns(), set()))


def context_entries(context: Path, dockerfile: str, *, kind: str = "dockerfile") -> Iterator[Entry]:
    """Yield what goes into a build, in a fixed order, a directory before what is in it.

    `dockerfile` and the `.dockerignore` always come along. `<dockerfile>.dockerignore` stands in for `.dockerignore`.
    Raises `UsageError` as `context_digest` does.
    """
    if not context.is_dir():
        raise UsageError(f"cannot build from `{context}`: no such directory", hint="mend the path of the context")
    inside = os.path.normpath(dockerfile)
    if os.path.isabs(inside) or inside.split("/")[0] == ".." or not (context / inside).is_file():
        raise UsageError(
            f"cannot build from `{context}`: it has no {kind} `{dockerfile}`", hint="give a path inside of the context"
        )
    always = {inside, IGNORE_FILE, f"{inside}{IGNORE_FILE}"}
    yield from _below(os.fspath(context), "", _ignored(context, inside), always)


def _ignored(context: Path, dockerfile: str) -> IgnorePatterns:
    for name in (f"{dockerfile}{IGNORE_FILE}", IGNORE_FILE):
        path = context / name
        if path.is_file():
            try:
                return parse_ignore(path.read_text("utf-8", "surrogateescape"))
            except OSError as error:
                raise _unreadable(os.fspath(path), error) from error
            except ValueError as error:
                raise UsageError(f"cannot read `{path}`: {error}", hint="mend the pattern") from error
    return IgnorePatterns()


def _below(folder: str, prefix: str, ignored: IgnorePatterns, always: set[str]) -> Iterator[Entry]:
    try:
        with os.scandir(folder) as scan:
            found = sorted(scan, key=lambda one: one.name)
    except OSError as error:
        raise _unreadable(folder, error) from error
    for one in found:
        name = f"{prefix}{one.name}"
        left_out = ignored.leaves_out(name) and name not in always
        try:
            status = one.stat(follow_symlinks=False)
            link = os.readlink(one.path) if stat.S_ISLNK(status.st_mode) else None
        except OSError as error:
            raise _unreadable(one.path, error) from error
        if stat.S_ISDIR(status.st_mode):
            if not left_out:
                yield Entry(name, one.path, status)
            if not left_out or ignored.takes_in_again or any(path.startswith(f"{name}/") for path in always):
                yield from _below(one.path, f"{name}/", ignored, always)
        elif not left_out and (link is not None or stat.S_ISREG(status.st_mode)):
            yield Entry(name, one.path, status, link)


def _digest(entries: Iterator[Entry]) -> str:
    total = hashlib.sha256()
    for entry in entries:
        if entry.link is not None:
            kind, content = b"link", hashlib.sha256(os.fsencode(entry.link)).digest()
        elif entry.is_file:
            kind = b"program" if entry.status.st_mode & stat.S_IXUSR else b"file"
            content = _content(entry.path)
        else:
            kind, content = b"directory", b""
        name = os.fsencode(entry.name)
        total.update(b"%s %d %s %s\n" % (kind, len(name), name, content.hex().encode()))
    return total.hexdigest()


def _content(path: str) -> bytes:
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise _unreadable(path, error) from error
    return digest.digest()


def _unreadable(path: str, error: OSError) -> UsageError:
    return UsageError(
        f"cannot read `{path}` of a build context: {error.strerror or error}",
        hint=f"make it readable, or name it in `{IGNORE_FILE}`",
    )


__all__ = ["IGNORE_FILE", "Entry", "compose_digest", "context_digest", "context_entries", "folder_digest"]
