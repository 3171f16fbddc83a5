"""What the viewer answers at all: reading, asked for under its own name, and nothing that a page could misuse."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

METHODS = ("GET", "HEAD")

POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""Everything that a page loads is the viewer's own; nothing that stands in a page is ever run."""

HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

_HOST = re.compile(r"(?:\[([^\[\]]+)\]|([^:/@\[\]]+))(?::[0-9]*)?")
"""A name or an address, and maybe a port; an address with colons stands in brackets."""


class Guard:
    """Refuses what is not reading, and what was asked for under a name that is not the viewer's.

    A page elsewhere may make its own name stand for this machine (DNS rebinding): the browser then asks under that
    name, and would show the answer to that page. `names` are host names and addresses without ports; None is any.
    """

    def __init__(self, app: App, names: Iterable[str] | None) -> None:
        self._app = app
        self._names = None if names is None else frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["method"] not in METHODS:
            await _refuse(send, 405, b"only reading is possible here\n", [(b"allow", b"GET, HEAD")])
        elif not self._is_own(scope):
            await _refuse(send, 421, b"this is not the name of the viewer\n", [])
        else:
            with suppress(asyncio.CancelledError):  # the viewer ends, and the connection was cut off
                await self._app(scope, receive, _with_headers(send))

    def _is_own(self, scope: Scope) -> bool:
        if self._names is None:
            return True
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1:
            return False
        found = _HOST.fullmatch(hosts[0])
        return found is not None and (found[1] or found[2]).lower() in self._names


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in HEADERS}
            kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in own]
            message = {**message, "headers": [*kept, *HEADERS]}
        await send(message)

    return sending


async def _refuse(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    sending = _with_headers(send)
    described = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await sending({"type": "http.response.start", "status": status, "headers": [*described, *headers]})
    await sending({"type": "http.response.body", "body": body})
