"""Requests to a Docker engine that take long and tell of their progress, line by line."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from proctor.errors import Fault

UNREACHABLE = 900
"""The status by which aiodocker says that it could not connect."""

_LINE_BYTES = 4 * 1024 * 1024
"""No engine sends longer ones; a broken one must not fill the memory."""


class EngineFailed(Exception):
    """What the engine said of a request that it took on and that failed."""


async def progress(
    docker: Any,
    path: str,
    *,
    params: Mapping[str, str],
    headers: Mapping[str, str] | None = None,
    data: AsyncIterator[bytes] | None = None,
) -> AsyncGenerator[dict[str, Any]]:
    """Yield what an engine says while it works on a request. Raises `EngineFailed` with its words where it fails.

    aiodocker's own calls know no `target` of a build, break at long lines, and take a broken connection for success.
    """
    from aiodocker.exceptions import DockerError  # noqa: PLC0415 - heavy: only where it is used
    from aiohttp import ClientError  # noqa: PLC0415 - likewise

    request = docker._query(path, "POST", params=params, headers=headers, data=data, timeout=None)
    try:
        async with request as response, _closed(response), aclosing(_lines(response.content)) as lines:
            async for line in lines:
                said = cast("dict[str, Any]", json.loads(line))
                if "error" in said or "errorDetail" in said:
                    raise EngineFailed(_words(said))
                yield said
    except DockerError as error:
        raise failed(error) from error
    except ClientError as error:
        raise EngineFailed(f"the connection to the engine broke: {error}") from error


@asynccontextmanager
async def _closed(response: Any) -> AsyncGenerator[None]:
    """Close a response, which is how an engine learns that nobody waits: to release it would wait for its end."""
    try:
        yield
    finally:
        response.close()


def failed(error: Any) -> Exception:
    """Return the error of aiodocker as one of ours: `Fault` where the engine cannot be reached."""
    if error.status == UNREACHABLE:
        return Fault("provider.unavailable", str(error.message))
    return EngineFailed(str(error.message).strip())


async def _lines(content: Any) -> AsyncGenerator[bytes]:
    rest = b""
    async for piece in content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
        if len(rest) > _LINE_BYTES:
            raise EngineFailed("the engine sent a line without end")
    if rest.strip():
        yield rest


def _words(said: Mapping[str, Any]) -> str:
    detail = said.get("errorDetail")
    message = cast("Mapping[str, Any]", detail).get("message") if isinstance(detail, Mapping) else None
    return str(message or said.get("error") or "it gave no reason").strip()


__all__ = ["UNREACHABLE", "EngineFailed", "failed", "progress"]
