"""Allow-lists of hosts: a forward proxy that listens inside a sandbox and dials from outside of it.

The sandbox has a network namespace of its own with nothing but `lo`. Sockets stay in the namespace where they were
made: one is made in there and listened to out here. Nothing else leads out, names are not resolved inside, and nothing
is left of it when this process ends. `docs/design/network.md` says why it is done so.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from collections import Counter
from functools import partial
from weakref import WeakSet

from proctor.errors import Fault
from proctor.model.environment import Network
from proctor.providers.egress.accept import Listener
from proctor.providers.egress.connection import Connection
from proctor.providers.egress.dial import Dialer
from proctor.providers.egress.namespace import sockets_in
from proctor.providers.egress.rules import Policy, Target, refusal

PROXY_PORTS = range(3128, 3138)
"""Where the proxy listens inside: at the first that is free there, and not listed as one of the host's."""
MOST_CONNECTIONS = 256
LEAST_CONNECTIONS = 4
FILES_PER_CONNECTION = 16
"""Of the files that this process may open, so many count for one connection: it takes two, the rest is for others."""
MOST_NAMES = 1000
MOST_LINES = 30

log = logging.getLogger(__name__)
_open = WeakSet["Egress"]()


class Egress:
    """What one sandbox reaches of the network. `start` makes one; whoever has it must `close` it.

    `refused` counts what was refused by `host:port`, and under `others` what came after the first 1000 of them.
    """

    def __init__(self, namespace_fd: int) -> None:
        self.refused: Counter[str] = Counter()
        self._namespace_fd = namespace_fd
        self._policy = Policy(Network("none"))
        self._dialer = Dialer(lambda: self._policy)
        self._port = 0
        self._listeners: dict[tuple[str, int] | None, Listener] = {}
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._changing = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, namespace_fd: int, network: Network) -> Egress:
        """Listen in a network namespace, by a descriptor that stays the caller's. Cancelled, it leaves nothing.

        Raises `Fault` where the namespace cannot be joined (this takes root, or whoever owns its user namespace), or a
        port of a listed loopback host is taken in there; `ValueError` for a policy that cannot be understood.
        """
        policy = Policy(network)
        duplicate = os.dup(namespace_fd)
        try:
            egress = cls(duplicate)
        except BaseException:
            os.close(duplicate)
            raise
        try:
            ports = [port for port in (*PROXY_PORTS, 0) if ("127.0.0.1", port) not in policy.forwards()]
            (listener,) = await sockets_in(duplicate, [("127.0.0.1", ports)])
            egress._port = listener.getsockname()[1]
            egress._listen(None, listener, None)
            await egress.set_policy(network)
        except BaseException:
            await egress.close()
            raise
        _open.add(egress)
        return egress

    @property
    def variables(self) -> dict[str, str]:
        """What tells programs in the sandbox of the proxy; the same as long as it lives."""
        proxy, direct = f"http://127.0.0.1:{self._port}", "localhost,127.0.0.1,::1"
        found = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), proxy) | {"NO_PROXY": direct}
        return found | {name.lower(): value for name, value in found.items()} | {"NODE_USE_ENV_PROXY": "1"}

    def is_in(self, namespace_fd: int) -> bool:
        """Whether this is the namespace that it listens in."""
        return os.path.sameopenfile(self._namespace_fd, namespace_fd)

    async def set_policy(self, network: Network) -> None:
        """Let through what another policy allows from now on, and end the connections that it does not allow.

        Mode full is everything that goes by the proxy. Raises as `start` does; the policy then holds, and only listed
        loopback hosts cannot be reached.
        """
        policy = Policy(network)
        async with self._changing:
            if self._closing is not None:
                raise Fault("provider.lost", "the network of the sandbox was closed")
            self._policy = policy  # from here on nothing new is let through by the old one
            forwards = policy.forwards()
            for key in [one for one in self._listeners if one is not None and one not in forwards]:
                self._listeners.pop(key).close()
            await _end([task for task, one in self._connections.items() if self._forbids(one)])
            new = [(key, target) for key, target in forwards.items() if key not in self._listeners]
            listeners = await sockets_in(self._namespace_fd, [(address, [port]) for (address, port), _ in new])
            for (key, target), listener in zip(new, listeners, strict=True):
                self._listen(key, listener, target)

    async def close(self) -> None:
        """End all connections and stop listening; a second call waits for the first. Cancelled, it goes on."""
        if self._closing is None:
            _open.discard(self)
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        async with self._changing:
            for one in self._listeners.values():
                one.close()
            self._listeners.clear()
            await _end(list(self._connections))
            os.close(self._namespace_fd)

    def _forbids(self, connection: Connection) -> bool:
        target, address = connection.target, connection.address
        if target is None or self._policy.refusal(target) is not None:
            return target is not None
        return address is not None and self._policy.address_refusal(target, address, own=connection.own) is not None

    def _listen(self, key: tuple[str, int] | None, made: socket.socket, target: Target | None) -> None:
        self._listeners[key] = Listener(
            made, lambda: len(self._connections) < _share(), lambda accepted: self._serve(accepted, target)
        )

    def _serve(self, accepted: socket.socket, target: Target | None) -> None:
        connection = Connection(self._dialer, lambda: self._policy, self._count, target)
        task = asyncio.create_task(connection.serve(accepted))
        self._connections[task] = connection
        task.add_done_callback(partial(self._forget, accepted))

    def _forget(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        accepted.close()  # a task that was cancelled before its first step has not done it
        del self._connections[task]
        for one in self._listeners.values():
            one.resume()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a connection of a sandbox failed: %s", error, exc_info=error)

    def _count(self, target: Target, why: str) -> None:
        name = str(target) if str(target) in self.refused or len(self.refused) < MOST_NAMES else "others"
        self.refused[name] += 1
        if self.refused[name] == 1 and len(self.refused) <= MOST_LINES:
            more = "; what else is refused is not logged" if len(self.refused) == MOST_LINES else ""
            log.info("network of a sandbox: %s%s", why, more)


def _share() -> int:
    """Return how many connections one sandbox may have, so that all together leave files for the rest of us."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(LEAST_CONNECTIONS, min(MOST_CONNECTIONS, files // FILES_PER_CONNECTION // max(1, len(_open))))


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


__all__ = ["Egress", "refusal"]
