"""Namespaces that are there: the program that made them, and the first process inside."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress

from proctor.errors import Fault
from proctor.runtime import _killing, lineage
from proctor.runtime._descriptors import readable
from proctor.runtime.shield import shielded
from proctor.runtime.spawn_direct import Child

END_SECONDS = 20.0
"""How long the kernel may take to end everything."""
ORPHAN_SECONDS = 0.5
"""How often commands are looked for that lost their supervisor, and so became children of this process."""

FLAGS, PENDING = 6, 28
"""Where in /proc/PID/stat, after the name, the flags of a process are and the signals that it has not taken yet."""
EXITING, KILL_BIT = 0x4, 1 << (signal.SIGKILL - 1)


class Live:
    """Namespaces that were started: the program outside, and the first process inside."""

    def __init__(self, program: Child, info: Mapping[str, int], hold: int) -> None:
        self.program = program
        self.hold = hold
        """Our end of the pipe that keeps them alive."""
        self.init = info["child-pid"]
        self.pidfd = os.pidfd_open(self.init)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the first process inside has ended; any number of tasks can wait for it."""
        numbers = [f"{kind.removesuffix('-namespace')}={info[kind]}" for kind in info if kind.endswith("-namespace")]
        self.line = f"{self.init} {' '.join(numbers)}\n".encode()
        self._kept = self.inside()
        """What keeps the first process: it ends with that."""
        self.ended.get_loop().add_reader(self.pidfd, self._note_end)

    def _note_end(self) -> None:
        self.ended.get_loop().remove_reader(self.pidfd)
        self.ended.set_result(None)

    def alive(self) -> bool:
        """Say whether the first process inside has not ended, nor is about to, since what it waits for was killed."""
        poller = select.poll()
        poller.register(self.pidfd, select.POLLIN)
        return not poller.poll(0) and not any(self._is_doomed(pid) for pid in self._kept)

    def _is_doomed(self, pid: int) -> bool:
        """Whether a child of the first process ends: from the moment at which SIGKILL is sent to it."""
        fields = _killing.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if len(fields) <= PENDING or int(fields[1]) != self.init:
            return True
        return fields[0] in "ZX" or bool(int(fields[FLAGS]) & EXITING or int(fields[PENDING]) & KILL_BIT)

    def inside(self) -> set[int]:
        """Return the processes that the first process started; children are found at less cost than descendants."""
        return _killing.children(self.init) or _killing.descendants(self.init)

    def open(self, name: str, flags: int) -> int:
        """Open what is below the first process's directory in /proc; raises `OSError`."""
        opened = os.open(f"/proc/{self.init}/{name}", flags | os.O_CLOEXEC)
        if not self.alive():  # its number may be another's by now
            os.close(opened)
            raise ProcessLookupError(3, "the namespaces are gone")
        return opened

    async def finish(self, work: Callable[[int], None]) -> None:
        """Do what is to be done, in a thread, with the root of the file system inside."""
        root = self.open("root", os.O_PATH | os.O_DIRECTORY)
        try:
            await shielded(asyncio.to_thread(work, root), None)  # it has the descriptor until it ends
        finally:
            os.close(root)

    async def end(self) -> None:
        """Kill everything inside and wait until it is gone; raises `Fault` when it stays."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        for _ in range(round(END_SECONDS / ORPHAN_SECONDS)):
            if (await asyncio.wait({self.ended}, timeout=ORPHAN_SECONDS))[0]:
                break
            await asyncio.to_thread(lineage.orphans)  # the first process ends when all are reaped, these by us
        else:
            raise Fault("provider.lost", f"process {self.init} and what is in its namespaces could not be killed")
        await reap(self.program)
        reap_orphan(self.init)
        self.close()
        os.close(self.hold)

    def close(self) -> None:
        """Look at the first process no more."""
        self.ended.get_loop().remove_reader(self.pidfd)
        os.close(self.pidfd)


async def reap(program: Child) -> None:
    """Wait for the program, which ends when what is inside has ended; one that does not is killed."""
    if program.poll() is None:
        pidfd = os.pidfd_open(program.pid)
        try:
            if not await readable(pidfd, END_SECONDS):
                program.kill()
                await readable(pidfd, END_SECONDS)
        finally:
            os.close(pidfd)
    program.wait()


def reap_orphan(pid: int) -> None:
    """Reap the first process inside where it became our child, because the program ended first."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
