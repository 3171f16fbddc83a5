"""A container engine that says what a test tells it to, at a socket of its own."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiodocker
from aiohttp import web

Answer = Callable[["FakeEngine", web.Request], Awaitable[web.StreamResponse]]


class FakeEngine:
    """Images by name; what comes of a pull is an `Answer`."""

    def __init__(self) -> None:
        self.images: dict[str, dict[str, Any]] = {}
        self.distribution: dict[str, Any] = {}
        self.index = "https://index.example.org/v1/"
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.auths: list[dict[str, Any]] = []
        self.answers: list[Answer] = []

    @asynccontextmanager
    async def served(self, folder: Path) -> AsyncIterator[aiodocker.Docker]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app)
        await runner.setup()
        path = folder / "engine.sock"
        await web.UnixSite(runner, str(path)).start()
        docker = aiodocker.Docker(url=f"unix://{path}")
        try:
            yield docker
        finally:
            await docker.close()
            await runner.cleanup()

    def paths(self, word: str) -> list[dict[str, str]]:
        return [query for path, query in self.requests if word in path]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"].partition("/")[2] or request.match_info["path"]
        self.requests.append((path, dict(request.query)))
        for header in ("X-Registry-Auth", "X-Registry-Config"):
            if header in request.headers:
                self.auths.append(json.loads(base64.urlsafe_b64decode(request.headers[header])))
        if path == "version":
            return web.json_response({"ApiVersion": "1.41"})
        if path == "info":
            return web.json_response({"IndexServerAddress": self.index})
        if path.startswith("distribution/"):
            found = self.distribution.get(path[len("distribution/") : -len("/json")])
        elif path.endswith("/tag"):
            name = f"{request.query['repo']}:{request.query['tag']}"
            self.images[name] = next(one for one in self.images.values() if one["Id"] in path)
            return web.Response(status=201)
        elif path in ("images/create", "build"):
            return await self.answers.pop(0)(self, request)
        else:
            found = self.images.get(path[len("images/") : -len("/json")])
        if found is None:
            return web.json_response({"message": "No such image"}, status=404)
        return web.json_response(found)


def streams(*pieces: bytes | dict[str, Any], breaks: bool = False, **images: dict[str, Any]) -> Answer:
    """Return an answer that sends these pieces, then has these images; `breaks` cuts the connection instead."""

    async def answer(engine: FakeEngine, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece if isinstance(piece, bytes) else json.dumps(piece).encode() + b"\r\n")
        if breaks:
            assert request.transport is not None
            request.transport.close()
            return response
        for name, image in images.items():
            engine.images[name] = image
        return response

    return answer
