"""Answers with a file as a download, whole or a range of it; a browser never shows what is in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from starlette.responses import FileResponse

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


class Download(FileResponse):
    """The file behind a descriptor, which is closed when the answer is over, however it ends."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        super().__init__(
            f"/proc/self/fd/{descriptor}",
            media_type="application/octet-stream",
            filename=name,
            stat_result=os.fstat(descriptor),
            content_disposition_type="attachment",
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._descriptor)
