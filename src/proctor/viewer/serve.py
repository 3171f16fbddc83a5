"""Serves the viewer until it is interrupted."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import socket
from collections.abc import Iterable

import uvicorn

from proctor.errors import UsageError
from proctor.viewer.app import make_app
from proctor.viewer.clients import Client, clients_of
from proctor.viewer.results import Results

DEFAULT_PORT = 8377
"""Where nothing else is said, so that an address that was kept leads somewhere; a free one where it is taken."""

LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")

COLLECTED_EVERY = 100_000
"""So many new objects make Python look for cycles: what is remembered of runs has none, and is large."""

CLOSING_SECONDS = 2
"""So long connections may take that were cut off when the viewer is ended."""


def listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens; port 0 is any that is free, None the usual one, or any where that is taken.

    Raises `UsageError` where it cannot.
    """
    try:
        return _listening(host, DEFAULT_PORT if port is None else port)
    except OverflowError as error:
        raise UsageError(f"`{port}` is no port", hint="a port is a number up to 65535") from error
    except (socket.gaierror, ValueError) as error:  # ValueError: text that can be no name
        raise UsageError(
            f"the viewer cannot listen on `{host}`: there is no such host", hint="give --host an address"
        ) from error
    except OSError as error:
        if port is None:
            return listen(host, 0)
        raise UsageError(
            f"the viewer cannot listen on `{host}`, port {port}: {(error.strerror or str(error)).lower()}",
            hint="give --host an address of this machine"
            if error.errno == errno.EADDRNOTAVAIL
            else "choose another port with --port, or leave it out for a free one",
        ) from error


def _listening(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address[:2], family=family)  # pyright: ignore[reportArgumentType] - of both families


def address_of(listening: socket.socket, host: str) -> str:
    """Return the address under which a browser on this machine finds the viewer."""
    where, port = listening.getsockname()[:2]
    name = "localhost" if _ip(where).is_unspecified else host
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"


def is_reachable(listening: socket.socket) -> bool:
    """Say whether other machines may reach a socket."""
    return not _ip(listening.getsockname()[0]).is_loopback


def names_of(host: str, more: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names under which the viewer answers: those of this machine, its own, and `more` without ports.

    An address that stands for all of a machine is no name: no browser has a reason to ask for it. Raises `UsageError`
    for what is no name.
    """
    found = [name.strip().removeprefix("[").removesuffix("]") for name in more]
    for name in found:
        if not name or "/" in name or (":" in name and not _is_address(name)):
            raise UsageError(f"`{name}` is no name of a host", hint="give --allow-host a name or address, without port")
    own = () if _is_address(host) and _ip(host).is_unspecified else (host,)
    return tuple(dict.fromkeys((*LOCAL_NAMES, *own, *found)))


def _ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(address.partition("%")[0])


def _is_address(name: str) -> bool:
    try:
        _ip(name)
    except ValueError:
        return False
    return True


def serve(results: Results, listening: socket.socket, names: tuple[str, ...] | None = LOCAL_NAMES) -> None:
    """Serve until a signal ends it."""
    gc.set_threshold(COLLECTED_EVERY)
    server_of(results, names).run(sockets=[listening])


def server_of(results: Results, names: tuple[str, ...] | None = LOCAL_NAMES) -> Server:
    """Return a server of `results`, asked for under one of `names` (None is any)."""
    config = uvicorn.Config(
        make_app(results, names),
        http=Client,
        log_level="error",  # what clients do wrong is not for the eyes of who runs the viewer
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=CLOSING_SECONDS,
    )
    return Server(config)


class Server(uvicorn.Server):
    """Ends at once: whoever is connected is cut off, and what is being made for them is given up."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        for server in self.servers:
            server.close()  # before anybody takes the place of those who are cut off
        for client in clients_of(self.server_state.connections):
            client.cut_off()
        await asyncio.sleep(0)  # they know by now that they are
        for task in list(self.server_state.tasks):
            task.cancel()
        await super().shutdown(sockets)
