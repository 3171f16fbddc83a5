"""An HTTP endpoint that answers with fixed bodies, and keeps what it was sent: for formats that no script makes."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def endpoint(*answers, status=200, headers=None):
    """Serve the answers one after another; gives the address and the list of (path, headers, body) that came.

    An answer is bytes, or a value that is sent as JSON.
    """
    left = list(answers)
    came = []

    async def handle(request):
        sent = {name.lower(): value for name, value in request.headers.items()}
        came.append((request.path, sent, await request.json()))
        body = left.pop(0)
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(status=status, body=body, headers={"Content-Type": "application/json", **(headers or {})})

    app = web.Application()
    app.router.add_route("*", "/{anything:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", came
    finally:
        await runner.cleanup()
