"""What one client may take of the viewer: others are served, and memory is bounded, whatever it sends or does not read.

A client that sends a request byte by byte, or does not read its answer, holds a connection and the bytes of the answer.
It is looked at now and then, and cut off where nothing has moved since. Where too many are connected, the one that has
been there without a request for longest makes room; where too much waits to be read, the one that has most of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import count

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

LOOK_SECONDS = 10.0
"""A client in which nothing moves between two looks is cut off."""
MOST_CLIENTS = 256
MOST_UNREAD_BYTES = 128 * 1024 * 1024
"""So much of answers may wait to be read, by all clients together."""

_NUMBERS = count()


class Client(H11Protocol):
    """A connection, with bounds for what it may take."""

    _look: asyncio.TimerHandle | None = None
    _number = 0
    is_gone = False
    """Whether it was cut off."""
    _seen: tuple[int, int] | None = None
    _answers = 0
    """How often an answer went on to be written, or a request came."""

    @property
    def unread_bytes(self) -> int:
        """How much was written that the client has not taken."""
        return self.transport.get_write_buffer_size()

    @property
    def is_served(self) -> bool:
        """Whether an answer is made or sent; else the client is to send a request."""
        return (self.cycle is not None and not self.cycle.response_complete) or self.unread_bytes > 0  # pyright: ignore[reportUnnecessaryComparison] - it is None before the first request

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn does
        """Take a connection, and give up another for it where there are too many."""
        super().connection_made(transport)
        self._number = next(_NUMBERS)
        self._look = self.loop.call_later(LOOK_SECONDS, self._look_at_it)
        if len(self._clients()) > MOST_CLIENTS:
            waiting = [each for each in self._clients() if not each.is_served] or self._clients()
            min(waiting, key=lambda each: each._number).cut_off()

    def cut_off(self) -> None:
        """End the connection at once; what was not sent yet is lost."""
        self.is_gone = True
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what a client sends."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._answers += 1
            self._make_room()

    def resume_writing(self) -> None:
        """Go on with an answer that the client reads."""
        self._answers += 1
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request; where it comes within a request that is being answered there is nothing to say."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.cut_off()

    def _clients(self) -> list[Client]:
        return clients_of(self.connections)

    def _make_room(self) -> None:
        clients = sorted(self._clients(), key=lambda each: each.unread_bytes)
        unread = sum(each.unread_bytes for each in clients)
        while clients and unread > MOST_UNREAD_BYTES:
            most = clients.pop()
            unread -= most.unread_bytes
            most.cut_off()

    def _look_at_it(self) -> None:
        """Cut the client off where nothing has moved since it was looked at; an answer that is being made moves."""
        self._look = self.loop.call_later(LOOK_SECONDS, self._look_at_it)
        unread, seen = self.unread_bytes, self._seen
        self._seen = self._answers, unread
        if self.is_served and not unread:
            self._seen = None
        elif seen is not None and seen[0] == self._answers and (not unread or unread >= seen[1]):
            self.cut_off()


def clients_of(connections: Iterable[object]) -> list[Client]:
    """Return those of a server's connections that were not cut off."""
    return [each for each in connections if isinstance(each, Client) and not each.is_gone]
