"""A scripted model server: real HTTP on this machine that speaks OpenAI's chat completions.

    async with ModelServer(["first answer", Failure(429, retry_after="2"), "second"]) as server:
        ...                                # server.base_url, server.requests

    with serve(answering(humaneval("0.5"))) as server:       # in a thread, for code that is not async
        ...

It answers `POST /v1/chat/completions` (whole or as a stream of events) and `GET /v1/models`, and keeps every request.
From a shell: `python -m proctor.testing.model_server --script humaneval --share 0.5`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from proctor.errors import MissingPackage
from proctor.plugins.api import ChatMessage
from proctor.testing.replies import (
    Answer,
    Cut,
    Delay,
    Failure,
    Garbage,
    Hang,
    Reply,
    Request,
    ServerScript,
    completion_body,
    completion_chunks,
    error_body,
    messages_of,
)

if TYPE_CHECKING:
    from aiohttp import web

LARGEST_BODY_BYTES = 256 * 1024 * 1024
HOST = "127.0.0.1"


def _aiohttp_web() -> Any:
    try:
        from aiohttp import web  # noqa: PLC0415 - an optional package, and slow to import
    except ModuleNotFoundError as error:
        raise MissingPackage("the model server", "aiohttp", install="pip install aiohttp") from error
    return web


class ModelServer:
    """The server; `requests` are all that came, in order. Use it as an async context manager, or start and stop it.

    Raises `MissingPackage` without aiohttp.
    """

    def __init__(
        self, script: ServerScript, *, host: str = HOST, port: int = 0, models: Sequence[str] = ("scripted",)
    ) -> None:
        self.requests: list[Request] = []
        self.open_requests = 0
        self.peak_open_requests = 0
        self._script = script
        self._taken = 0
        self._host = host
        self._port = port
        self._models = tuple(models)
        self._web = _aiohttp_web()
        self._runner: Any = None
        self._stopping = asyncio.Event()

    @property
    def base_url(self) -> str:
        """The address to give to a client, `/v1` included; raises `RuntimeError` before the server is started."""
        if self._runner is None:
            raise RuntimeError("the model server is not started")
        port = self._runner.addresses[0][1]
        return f"http://{self._host}:{port}/v1"

    async def start(self) -> None:
        """Listen; raises `OSError` when the port is taken."""
        app = self._web.Application(client_max_size=LARGEST_BODY_BYTES)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_route("*", "/{anything:.*}", self._unknown)
        # A client that gives up ends its handler, so that a hung request does not count as open for ever.
        self._stopping.clear()
        runner = self._web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await self._web.TCPSite(runner, self._host, self._port).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner

    async def stop(self) -> None:
        """Break what is still open and stop listening; a second call does nothing."""
        self._stopping.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> ModelServer:
        await self.start()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.stop()

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        self.open_requests += 1
        self.peak_open_requests = max(self.peak_open_requests, self.open_requests)
        try:
            raw = await http.read()
            try:
                body = json.loads(raw)
                messages = messages_of(body)
            except ValueError as error:
                self._keep(http, _json_or_none(raw))
                return self._error(400, f"the request cannot be read: {error}")
            request = self._keep(http, body, messages)
            return await self._reply(http, request, await self._next_reply(request))
        finally:
            self.open_requests -= 1

    def _keep(self, http: web.Request, body: Any, messages: tuple[ChatMessage, ...] = ()) -> Request:
        headers = {name.lower(): value for name, value in http.headers.items()}
        request = Request(http.method, http.path, headers, body, messages)
        self.requests.append(request)
        return request

    async def _next_reply(self, request: Request) -> Reply:
        if callable(self._script):
            reply = self._script(request)
            return await reply if inspect.isawaitable(reply) else reply
        if self._taken == len(self._script):
            return Failure(500, f"the script has no reply left after {self._taken}", code="script_exhausted")
        self._taken += 1
        return self._script[self._taken - 1]

    async def _reply(self, http: web.Request, request: Request, reply: Reply) -> web.StreamResponse:
        if isinstance(reply, Delay):
            await asyncio.sleep(reply.seconds)
            reply = reply.reply
        if isinstance(reply, Failure):
            return self._fail(request, reply)
        if isinstance(reply, Garbage):
            return self._web.Response(body=reply.body, content_type=reply.content_type)
        if isinstance(reply, Hang):
            await self._stopping.wait()
        if isinstance(reply, Hang) or (isinstance(reply, Cut) and reply.where == "start"):
            if http.transport is not None:
                http.transport.abort()
            return self._web.Response()
        answer = reply if isinstance(reply, Answer) else Answer(reply if isinstance(reply, str) else reply.text)
        return await self._answer(http, request, answer, len(self.requests), half=isinstance(reply, Cut))

    async def _answer(
        self, http: web.Request, request: Request, answer: Answer, number: int, *, half: bool = False
    ) -> web.StreamResponse:
        response = self._web.StreamResponse()
        if request.stream:
            response.content_type = "text/event-stream"
            response.headers["Cache-Control"] = "no-cache"
            pieces = completion_chunks(answer, request, number)
        else:
            response.content_type = "application/json"
            whole = json.dumps(completion_body(answer, request, number)).encode()
            response.content_length = len(whole)
            pieces = [whole[: len(whole) // 2], whole[len(whole) // 2 :]]
        try:
            await response.prepare(http)
            for piece in pieces[: len(pieces) // 2] if half else pieces:
                await response.write(piece)
            if not half:
                await response.write_eof()
        except ConnectionResetError:
            return response  # the client gave up in the middle, as it may
        if half and http.transport is not None:
            http.transport.close()  # no abort: what was sent so far is to arrive
        return response

    def _fail(self, request: Request, failure: Failure) -> web.StreamResponse:
        headers = {} if failure.retry_after is None else {"Retry-After": failure.retry_after}
        if failure.body is not None:
            return self._web.Response(status=failure.status, body=failure.body, headers=headers)
        message = failure.message
        if failure.echo_authorization:
            message = f"{message} (authorization: {request.headers.get('authorization', 'none')})"
        return self._error(failure.status, message, failure.code, headers)

    def _error(
        self, status: int, message: str, code: str | None = None, headers: dict[str, str] | None = None
    ) -> web.StreamResponse:
        return self._web.json_response(error_body(message, code, status), status=status, headers=headers)

    async def _list_models(self, http: web.Request) -> web.StreamResponse:
        self._keep(http, None)
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "proctor"} for name in self._models]
        return self._web.json_response({"object": "list", "data": listed})

    async def _unknown(self, http: web.Request) -> web.StreamResponse:
        self._keep(http, _json_or_none(await http.read()))
        return self._error(404, f"there is no {http.method} {http.path}", "unknown_url")


def _json_or_none(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


@contextmanager
def serve(script: ServerScript, **options: Any) -> Generator[ModelServer]:
    """Run a server in a thread of its own while the block runs; takes the options of `ModelServer`."""
    loop = asyncio.new_event_loop()
    server = ModelServer(script, **options)
    thread = threading.Thread(target=loop.run_forever, name="model-server", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result()
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


if __name__ == "__main__":
    from proctor.testing._model_command import main

    sys.exit(main())
