"""Asks the viewer as a server does: with any bytes as a path, which no client would send."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from proctor.viewer.security import App

HOST = (b"host", b"127.0.0.1:8377")


@dataclass(frozen=True)
class Answer:
    """What the viewer answered."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")

    def header(self, name: str) -> str | None:
        """The one header of a name; None where there is none."""
        found = [value for key, value in self.headers if key == name]
        assert len(found) < 2, found
        return found[0] if found else None


def ask(
    app: App, path: str, method: str = "GET", headers: Sequence[tuple[bytes, bytes]] = (HOST,), kind: str = "http"
) -> Answer:
    """Ask for a path, in which what is escaped is decoded as servers do, and for its query."""
    target, _, query = path.partition("?")
    scope: dict[str, Any] = {
        "type": kind, "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": unquote(target), "raw_path": target.encode("utf-8", "replace"),
        "query_string": query.encode("utf-8", "replace"), "root_path": "", "headers": list(headers),
        "client": ("127.0.0.1", 50000), "server": ("127.0.0.1", 8377), "extensions": {},
    }  # fmt: skip
    sent: list[Any] = []
    asked = False

    async def receive() -> Any:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    if sent[0]["type"] == "websocket.close":
        return Answer(sent[0]["code"], [], b"")
    headers_sent = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in sent[0]["headers"]]
    return Answer(sent[0]["status"], headers_sent, b"".join(message.get("body", b"") for message in sent[1:]))
