"""Serves the viewer until it is interrupted."""

from __future__ import annotations

import socket

import uvicorn

from proctor.errors import UsageError
from proctor.viewer.app import make_app
from proctor.viewer.results import Results

LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any that is free. Raises `UsageError` where it cannot."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"the viewer cannot listen on {host}:{port}: {error.strerror or error}", hint="choose another with --port"
        ) from error


def serve(results: Results, listening: socket.socket, names: tuple[str, ...] | None = LOCAL_NAMES) -> None:
    """Serve until a signal ends it."""
    config = uvicorn.Config(
        make_app(results, names), log_level="warning", access_log=False, server_header=False, ws="none", lifespan="off"
    )
    uvicorn.Server(config).run(sockets=[listening])
