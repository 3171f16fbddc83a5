"""Builds an image from a Dockerfile through the engine, and sends it the context as a stream."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import re
import tarfile
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from proctor.data.build_context import Entry, context_digest, context_entries
from proctor.errors import Fault, UsageError
from proctor.model.environment import Build
from proctor.plugins.api import Say
from proctor.providers.docker.images_auth import Credentials
from proctor.providers.docker.images_stream import EngineFailed, progress

REPOSITORY = "proctor-build"
"""What built images are called; the tag is the beginning of a digest of all that goes into one."""

LABEL = "proctor-build"
LAST_LINES = 20
_CHUNK_BYTES = 1024 * 1024
_BLOCK_BYTES = 512
_LINE_CHARACTERS = 4_000
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def tag_of(build: Build) -> str:
    """Return the name of the image that comes of a build: one for each context, Dockerfile, args and target."""
    what = json.dumps([build.digest, build.dockerfile, build.args, build.target])
    return f"{REPOSITORY}:{hashlib.sha256(what.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def check_context(build: Build) -> None:
    """Raise `Fault` ("image.build_failed") where a context is not what it was when its digest was taken."""
    try:
        digest = context_digest(Path(build.context), build.dockerfile)
    except UsageError as error:
        raise Fault("image.build_failed", str(error)) from error
    if digest != build.digest:
        raise Fault("image.build_failed", f"`{build.context}` changed since the run was planned: start it again")


async def build_image(docker: Any, build: Build, credentials: Credentials, say: Say) -> None:
    """Build an image under the name of `tag_of`; raises `Fault` ("image.build_failed") with the last lines."""
    params = {
        "t": tag_of(build),
        "dockerfile": build.dockerfile,
        "rm": "1",
        "forcerm": "1",
        "labels": json.dumps({LABEL: build.digest}),
    }
    if build.args:
        params["buildargs"] = json.dumps(dict(build.args))
    if build.target:
        params["target"] = build.target
    headers = {"Content-Type": "application/x-tar"}
    if (config := credentials.all()) is not None:
        headers["X-Registry-Config"] = config
    last: deque[str] = deque(maxlen=LAST_LINES)
    try:
        said = progress(docker, "build", params=params, headers=headers, data=_context(build))
        async with aclosing(said) as pieces, aclosing(_lines(pieces)) as lines:
            async for line in lines:
                last.append(line)
                say(line)
    except (EngineFailed, UsageError) as error:
        words = "\n".join(["; the last lines:", *last]) if last else ""
        raise Fault("image.build_failed", f"cannot build `{build.context}`: {error}{words}") from error


async def _lines(pieces: AsyncGenerator[dict[str, Any]]) -> AsyncGenerator[str]:
    """Yield whole lines of what a build prints, and what is told of the images that it fetches."""
    rest = ""
    async for piece in pieces:
        if "stream" in piece:
            *lines, rest = (rest + str(piece["stream"])).split("\n")
            if len(rest) > _LINE_CHARACTERS:
                lines, rest = [*lines, rest], ""
        elif "status" in piece and not piece.get("progressDetail"):
            lines = [f"{piece.get('id', '')} {piece['status']}"]
        else:
            continue
        for line in lines:
            if clean := _COLOURS.sub("", line.rpartition("\r")[2] or line).strip():
                yield clean[:_LINE_CHARACTERS]
    if rest.strip():
        yield rest.strip()


async def _context(build: Build) -> AsyncGenerator[bytes]:
    """Yield a tar of the context; files are read in a thread, piece by piece."""
    pieces = _gathered(_tar(context_entries(Path(build.context), build.dockerfile)))
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield large pieces made of small ones: each costs a change of threads."""
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        if len(gathered) >= _CHUNK_BYTES:
            yield bytes(gathered)
            gathered.clear()
    yield bytes(gathered)


def _tar(entries: Iterator[Entry]) -> Iterator[bytes]:
    for entry in entries:
        header = tarfile.TarInfo(entry.name)
        header.mode = entry.status.st_mode & 0o7777
        header.mtime = int(entry.status.st_mtime)
        if entry.link is not None:
            header.type, header.linkname = tarfile.SYMTYPE, entry.link
        elif not entry.is_file:
            header.type = tarfile.DIRTYPE
        else:
            header.size = entry.status.st_size
        yield header.tobuf(tarfile.PAX_FORMAT, errors="surrogateescape")
        if entry.is_file:
            yield from _content(entry, header.size)
    yield b"\0" * (2 * _BLOCK_BYTES)


def _content(entry: Entry, size: int) -> Iterator[bytes]:
    left = size
    try:
        with io.FileIO(entry.path) as file:
            while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
                left -= len(chunk)
                yield chunk
    except OSError as error:
        raise UsageError(f"cannot read `{entry.path}`: {error.strerror or error}") from error
    if left:
        raise UsageError(f"`{entry.path}` became shorter while it was read")
    yield b"\0" * (-size % _BLOCK_BYTES)


__all__ = ["LABEL", "LAST_LINES", "REPOSITORY", "build_image", "check_context", "tag_of"]
