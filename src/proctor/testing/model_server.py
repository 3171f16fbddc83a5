"""A scripted model server: real HTTP on this machine that speaks as OpenAI's and Anthropic's APIs do.

    async with ModelServer(["first answer", Failure(429, retry_after="2"), "second"]) as server:
        ...                                # server.base_url, server.requests

    with serve(answering(humaneval("0.5"))) as server:       # in a thread, for code that is not async
        ...

It answers chat completions, responses and messages (whole or as a stream of events), and keeps every request.
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
from functools import partial
from typing import TYPE_CHECKING, Any

from proctor.errors import MissingPackage
from proctor.plugins.api import ChatMessage, Tool
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
    WireName,
)
from proctor.testing.wire_chat import CHAT
from proctor.testing.wire_common import Wire, json_or_none, models_body
from proctor.testing.wire_messages import MESSAGES, count_of
from proctor.testing.wire_responses import RESPONSES
from proctor.testing.wire_sending import WireSender

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

    With `api_key`, a request that brings another is refused. Raises `MissingPackage` without aiohttp.
    """

    def __init__(
        self,
        script: ServerScript,
        *,
        host: str = HOST,
        port: int = 0,
        models: Sequence[str] = ("scripted",),
        api_key: str | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.open_requests = 0
        self.peak_open_requests = 0
        self._script = script
        self._taken = 0
        self._answers = 0
        self._api_key = api_key
        self._host = host
        self._port = port
        self._models = tuple(models)
        self._web = _aiohttp_web()
        self._runner: Any = None
        self._stopping = asyncio.Event()

    @property
    def base_url(self) -> str:
        """The address for OpenAI's clients, `/v1` included; raises `RuntimeError` before the server is started."""
        return f"{self.root_url}/v1"

    @property
    def root_url(self) -> str:
        """The address for Anthropic's clients, which add `/v1`; raises `RuntimeError` like `base_url`."""
        if self._runner is None:
            raise RuntimeError("the model server is not started")
        port = self._runner.addresses[0][1]
        return f"http://{self._host}:{port}"

    async def start(self) -> None:
        """Listen; raises `OSError` when the port is taken."""
        app = self._web.Application(client_max_size=LARGEST_BODY_BYTES)
        for wire in (CHAT, RESPONSES, MESSAGES):
            app.router.add_post(wire.path, partial(self._take, wire=wire))
        app.router.add_post(f"{MESSAGES.path}/count_tokens", self._count)
        app.router.add_get("/", self._greet)  # and HEAD
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

    async def _take(self, http: web.Request, wire: Wire) -> web.StreamResponse:
        self.open_requests += 1
        self.peak_open_requests = max(self.peak_open_requests, self.open_requests)
        try:
            request = await self._read(http, wire)
            sender = WireSender(self._web, wire, self._stopping)
            refusal = self._wrong_key(request) or wire.refuse(request)
            if refusal is not None:
                return sender.failure(request, refusal)
            return await self._reply(http, request, await self._next_reply(request), sender)
        finally:
            self.open_requests -= 1

    async def _read(self, http: web.Request, wire: Wire) -> Request:
        """Keep the request; raises the response of status 400 for one that cannot be read."""
        raw = await http.read()
        try:
            body = json.loads(raw)
            messages, tools = wire.read(body)
        except (ValueError, RecursionError) as error:
            self._keep(http, json_or_none(raw))
            said = json.dumps(wire.error(f"the request cannot be read: {error}", None, 400))
            raise self._web.HTTPBadRequest(text=said, content_type="application/json") from error
        return self._keep(http, body, messages, tools, wire.name)

    def _wrong_key(self, request: Request) -> Failure | None:
        if self._api_key is None or request.api_key == self._api_key:
            return None
        return Failure(401, "the key is missing" if request.api_key is None else "the key is not the right one")

    def _keep(
        self,
        http: web.Request,
        body: Any,
        messages: Sequence[ChatMessage] = (),
        tools: Sequence[Tool] = (),
        wire: WireName | None = None,
    ) -> Request:
        headers = {name.lower(): value for name, value in http.headers.items()}
        request = Request(http.method, http.path, headers, body, tuple(messages), tuple(tools), wire)
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

    async def _reply(self, http: web.Request, request: Request, reply: Reply, sender: WireSender) -> web.StreamResponse:
        if isinstance(reply, Delay):
            await asyncio.sleep(reply.seconds)
            reply = reply.reply
        if isinstance(reply, Failure):
            return sender.failure(request, reply)
        if isinstance(reply, Garbage):
            return self._web.Response(body=reply.body, content_type=reply.content_type)
        if isinstance(reply, Hang):
            await self._stopping.wait()
        if isinstance(reply, Hang) or (isinstance(reply, Cut) and reply.where == "start"):
            if http.transport is not None:
                http.transport.abort()
            return self._web.Response()
        self._answers += 1
        answer = Answer(reply) if isinstance(reply, str) else reply
        return await sender.answer(http, request, answer, self._answers)

    async def _count(self, http: web.Request) -> web.StreamResponse:
        request = await self._read(http, MESSAGES)
        return self._web.json_response({"input_tokens": count_of(request.messages, request.tools)})

    async def _list_models(self, http: web.Request) -> web.StreamResponse:
        self._keep(http, None)
        return self._web.json_response(models_body(self._models))

    async def _greet(self, http: web.Request) -> web.StreamResponse:
        """Say that somebody is there: programs ask before they send anything."""
        self._keep(http, None)
        return self._web.json_response({"status": "ok"})

    async def _unknown(self, http: web.Request) -> web.StreamResponse:
        self._keep(http, json_or_none(await http.read()))
        wire = MESSAGES if "anthropic-version" in http.headers else CHAT
        return WireSender(self._web, wire, self._stopping).error(404, f"there is no {http.method} {http.path}")


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
