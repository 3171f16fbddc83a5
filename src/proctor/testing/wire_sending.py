"""How the scripted model server sends a reply on a wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from proctor.testing.replies import Answer, Cut, Failure, Mangled, Request
from proctor.testing.wire_common import Wire

if TYPE_CHECKING:
    from aiohttp import web


class WireSender:
    """Sends answers and failures on one wire; `web` is `aiohttp.web`, which is imported on use.

    What stalls does so until `stopping` is set.
    """

    def __init__(self, web: Any, wire: Wire, stopping: asyncio.Event) -> None:
        self._web = web
        self._wire = wire
        self._stopping = stopping

    async def answer(
        self, http: web.Request, request: Request, reply: Answer | Cut | Mangled, number: int
    ) -> web.StreamResponse:
        """Send an answer, or what is to be seen of it."""
        cut = reply if isinstance(reply, Cut) else None
        answer = reply if isinstance(reply, Answer) else reply.answer or Answer(getattr(reply, "text", ""))
        change = reply.change if isinstance(reply, Mangled) else bytes
        response = self._web.StreamResponse()
        if request.stream:
            response.content_type = "text/event-stream"
            response.headers["Cache-Control"] = "no-cache"
            pieces = self._events(answer, request, number, cut, change)
        else:
            response.content_type = "application/json"
            whole = change(json.dumps(self._wire.whole(answer, request, number)).encode())
            response.content_length = len(whole)
            pieces = [whole if cut is None else whole[: len(whole) // 2]]
        broken = cut is not None and not (request.stream and cut.error is not None)
        try:
            await response.prepare(http)
            for piece in pieces:
                await response.write(piece)
            if cut is not None and cut.stall:
                await self._stopping.wait()
            if not broken:
                await response.write_eof()
        except ConnectionResetError:
            return response  # the client gave up in the middle, as it may
        if broken and http.transport is not None:
            http.transport.close()  # no abort: what was sent so far is to arrive
        return response

    def _events(
        self, answer: Answer, request: Request, number: int, cut: Cut | None, change: Callable[[bytes], bytes]
    ) -> list[bytes]:
        events = self._wire.events(answer, request, number)
        if cut is not None:
            begun = next((index for index, event in enumerate(events) if event.in_tool_call), None)
            in_call = cut.where == "tool_call" and begun is not None
            events = events[: begun + 1 if in_call and begun is not None else len(events) // 2]
            if cut.error is not None:
                events.append(self._wire.error_event(cut.error.message, cut.error.code, cut.error.status))
        return [change(event.encode()) for event in events]

    def failure(self, request: Request, failure: Failure) -> web.StreamResponse:
        """Return the response of an error status."""
        headers = {} if failure.retry_after is None else {"Retry-After": failure.retry_after}
        if failure.body is not None:
            return self._web.Response(status=failure.status, body=failure.body, headers=headers)
        message = failure.message
        if failure.echo_authorization:
            sent = request.headers.get("authorization") or request.headers.get("x-api-key", "none")
            message = f"{message} (authorization: {sent})"
        return self.error(failure.status, message, failure.code, headers)

    def error(
        self, status: int, message: str, code: str | None = None, headers: dict[str, str] | None = None
    ) -> web.StreamResponse:
        """Return the response of an error status with the error object of the wire."""
        return self._web.json_response(self._wire.error(message, code, status), status=status, headers=headers)
