"""Has a spawner start a program that begins in control groups; see `_bounding.py` for what that saves."""

from __future__ import annotations

import asyncio
import marshal
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from proctor.runtime import spawn
from proctor.runtime._descriptors import file_with
from proctor.runtime.cgroup import GroupPlan
from proctor.runtime.spawn_direct import Child, Spawned

FIRST_NUMBER = 40
"""The number of the first descriptor that a program is passed; it is beyond those that the spawner is sent."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to start."""

    path: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    streams: tuple[int, int, int]
    passed: Sequence[int]
    """Descriptors, which the program has under numbers from `FIRST_NUMBER` on."""


class Birth:
    """A program that a spawner was asked to start."""

    def __init__(self, far: socket.socket, spawner: spawn.Spawner) -> None:
        self._socket = far
        self._spawner = spawner
        self._loop = asyncio.get_running_loop()
        self._child: asyncio.Future[Child | None] = self._loop.create_future()
        self._patience = self._loop.call_later(spawn.ANSWER_SECONDS, self._give_up)
        self._loop.add_reader(far.fileno(), self._hear)

    def _give_up(self) -> None:
        """Wait no more for a spawner to answer; see `command.py`."""
        self._spawner.fail()
        self._hear()
        if not self._child.done():
            self._socket.shutdown(socket.SHUT_RDWR)

    def _hear(self) -> None:
        try:
            said = self._socket.recv(64).partition(b"\n")[0]  # a number with its end of line is never torn
        except BlockingIOError:
            return
        self._patience.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        if not said:
            self._spawner.miss()
        self._child.set_result(Spawned(int(said)) if said else None)

    async def child(self) -> Child | None:
        """Wait for the answer: the process, or None where it was not started and never will be.

        A cancellation changes nothing about that; ask again.
        """
        await asyncio.wait({self._child})
        return self._child.result()


def start_in_groups(program: Program, groups: GroupPlan) -> Birth | None:
    """Ask for a program in groups, made where they are missing; None where that has to be done without a spawner.

    Raises `OSError` where there are no such groups and none can be made.
    """
    directories = [directory for directory, _ in groups]
    for directory in directories:
        with suppress(FileExistsError):
            os.mkdir(directory)
    old = [directory for directory in directories if os.path.exists(f"{directory}/tasks")]
    with ExitStack() as closing:
        request = {
            "program": program.path,
            "argv": list(program.argv),
            "env": dict(program.environment),
            "groups": old,
            "passed": list(range(FIRST_NUMBER, FIRST_NUMBER + len(program.passed))),
        }
        extra = list(program.passed)
        for directory in directories:
            if directory not in old:
                extra.append(os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
                closing.callback(os.close, extra[-1])
        kind = b"g" if len(extra) > len(program.passed) else b"+"
        request_file = file_with(marshal.dumps(request), closing)
        ours, theirs = socket.socketpair()
        closing.callback(theirs.close)
        ends = [request_file, theirs.fileno(), *program.streams, *extra]
        spawner = spawn.ask(ends, asyncio.get_running_loop(), sealed=True, kind=kind)
        if spawner is None:
            ours.close()
            return None
        ours.setblocking(False)
        return Birth(ours, spawner)
