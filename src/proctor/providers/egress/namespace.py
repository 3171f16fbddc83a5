"""Gets listening sockets out of the network namespace of a sandbox, from a thread or from a short-lived child."""

from __future__ import annotations

import array
import asyncio
import errno
import json
import os
import socket
import threading
from collections.abc import Sequence
from typing import Any

from proctor.errors import Fault, describe
from proctor.providers.egress import listen as egress_listen
from proctor.runtime.process import base_interpreter

CHILD_SECONDS = 60.0
"""A guard against a child that hangs; it needs a few milliseconds."""

Wanted = Sequence[tuple[str, Sequence[int]]]
"""Addresses to listen on, each with the ports that will do, best first; port 0 is any."""


async def sockets_in(namespace_fd: int, wanted: Wanted) -> list[socket.socket]:
    """Return a listening socket in the namespace for each that is wanted; raises `Fault`. Cancelled, it leaves none.

    A thread of root can join it. A plain user has to join the user namespace first, which takes another process.
    """
    asked = [(address, list(ports)) for address, ports in wanted]
    if not asked:
        return []
    try:
        try:
            return await _in_thread(namespace_fd, asked)
        except egress_listen.CannotEnter as error:
            if error.errno != errno.EPERM:
                raise
        return await _in_child(namespace_fd, asked)
    except OSError as error:
        message = f"the network of a sandbox could not be limited: {error.strerror or describe(error)}"
        raise Fault("provider.open_failed", message) from error


async def _in_thread(namespace_fd: int, wanted: list[tuple[str, list[int]]]) -> list[socket.socket]:
    """Make them in a thread of its own, which ends with it: only that thread was ever in the namespace."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[list[socket.socket]] = loop.create_future()
    own_fd = os.dup(namespace_fd)  # the caller may be cancelled, and close its own, while the thread is at work

    def deliver(made: list[socket.socket], error: OSError | None) -> None:
        if result.done():
            _close_all(made)
        elif error is not None:
            result.set_exception(error)
        else:
            result.set_result(made)

    def work() -> None:
        made: list[socket.socket] = []
        failure: OSError | None = None
        try:
            made = egress_listen.listen_in(own_fd, wanted)
        except OSError as error:
            failure = error
        finally:
            os.close(own_fd)
        try:
            loop.call_soon_threadsafe(deliver, made, failure)
        except RuntimeError:  # the loop was closed: nobody waits for it
            _close_all(made)

    threading.Thread(target=work, name="proctor-egress", daemon=True).start()
    try:
        return await result
    except asyncio.CancelledError:
        if result.done() and not result.cancelled() and result.exception() is None:
            _close_all(result.result())  # it came at the same moment
        raise


async def _in_child(namespace_fd: int, wanted: list[tuple[str, list[int]]]) -> list[socket.socket]:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, its:
        ours.setblocking(False)
        numbers = (str(namespace_fd), str(its.fileno()))
        command = (base_interpreter(), "-I", "-S", egress_listen.__file__, *numbers, json.dumps(wanted))
        child = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(namespace_fd, its.fileno()),
            env={},
        )
        try:
            async with asyncio.timeout(CHILD_SECONDS):
                said = (await child.communicate())[1]
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        return _received(ours, len(wanted), said.decode("utf-8", "replace"))


def _received(ours: socket.socket, count: int, said: str) -> list[socket.socket]:
    try:
        data, made = _receive(ours, count)
    except BlockingIOError:
        lines = said.strip().splitlines() or ["it said nothing"]
        raise OSError(errno.EIO, f"the child that listens there failed: {lines[-1]}") from None
    error: list[Any] = json.loads(data)
    if error:
        raise OSError(error[0], error[1])
    return made


def _receive(ours: socket.socket, count: int) -> tuple[bytes, list[socket.socket]]:
    size = array.array("i").itemsize
    data, parts, _, _ = ours.recvmsg(65536, socket.CMSG_SPACE(count * size), socket.MSG_CMSG_CLOEXEC)
    numbers = array.array("i")
    for level, kind, content in parts:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(content[: len(content) - len(content) % size])
    made = [socket.socket(fileno=one) for one in numbers]
    for one in made:
        one.setblocking(False)
    return data, made


def _close_all(made: list[socket.socket]) -> None:
    for one in made:
        one.close()


__all__ = ["Wanted", "sockets_in"]
