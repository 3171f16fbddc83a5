"""Answers with a file as a download, whole or a range of it; a browser never shows what is in it.

A journal may grow while it is sent: what is sent is what was there when it was asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import StreamingResponse

from proctor.viewer.threads import in_thread

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

CHUNK_BYTES = 1024 * 1024

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


class Download(StreamingResponse):
    """The file behind a descriptor, which is closed when the answer is over, however it ends."""

    def __init__(self, descriptor: int, name: str, request: Request) -> None:
        self._descriptor = descriptor
        size = os.fstat(descriptor).st_size
        asked = request.headers.get("range", "") if "if-range" not in request.headers else ""
        status, begin, end = _part(asked, size)
        headers = {
            "accept-ranges": "bytes",
            "content-length": str(end - begin),
            "content-disposition": f"attachment; filename*=utf-8''{quote(name, safe='')}",
        }
        if status != 200:
            headers["content-range"] = f"bytes {begin}-{end - 1}/{size}" if status == 206 else f"bytes */{size}"
        if request.method == "HEAD":
            begin = end
        super().__init__(_content(descriptor, begin, end), status, headers, media_type="application/octet-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._descriptor)


def _part(asked: str, size: int) -> tuple[int, int, int]:
    """Return the status of an answer and the bytes that it has; a range that is not understood is all of them."""
    found = _RANGE.fullmatch(asked.strip())
    if found is None or not (found[1] or found[2]):
        return 200, 0, size
    first, last = (int(text) if text else None for text in found.groups())
    if first is None:
        begin, end = max(0, size - (last or 0)), size
    else:
        begin, end = first, size if last is None else min(size, last + 1)
    if first is not None and last is not None and last < first:
        return 200, 0, size
    return (206, begin, end) if begin < end else (416, 0, 0)


async def _content(descriptor: int, begin: int, end: int) -> AsyncIterator[bytes]:
    while begin < end:
        chunk = await in_thread(os.pread, descriptor, min(CHUNK_BYTES, end - begin), begin)
        if not chunk:
            raise OSError(f"a file became shorter while it was sent: {end - begin} bytes are missing")
        begin += len(chunk)
        yield chunk
