"""Accepts the connections of a listening socket, as long as there is room for them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

AT_ONCE = 16
AGAIN_SECONDS = 1.0

log = logging.getLogger(__name__)


class Listener:
    """Hands each accepted connection to `take`. Without room, clients wait in the kernel until `resume`."""

    def __init__(
        self, listening: socket.socket, has_room: Callable[[], bool], take: Callable[[socket.socket], None]
    ) -> None:
        self._socket = listening
        self._has_room = has_room
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._reads = False
        self._closed = False
        self.resume()

    def resume(self) -> None:
        """Go on accepting; nothing happens where it does so already, or was closed."""
        if not self._reads and not self._closed:
            self._reads = True
            self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Stop listening."""
        self._pause()
        self._closed = True
        self._socket.close()

    def _pause(self) -> None:
        if self._reads:
            self._reads = False
            self._loop.remove_reader(self._socket)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            if not self._has_room():
                self._pause()
                return
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return  # nobody is there any more
            except OSError as error:  # such as too many open files: that passes
                log.warning("a connection of a sandbox could not be accepted: %s", error)
                self._pause()
                self._loop.call_later(AGAIN_SECONDS, self.resume)
                return
            self._take(accepted)


__all__ = ["Listener"]
