"""One command under its supervisor, as seen from proctor's event loop."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from proctor.errors import Fault, describe
from proctor.plugins.api import ExecResult, OnOutput
from proctor.runtime import _killing, lineage, spawn
from proctor.runtime._descriptors import file_with
from proctor.runtime.command_end import CommandEnd, Stop, result_of
from proctor.runtime.command_request import Request
from proctor.runtime.execution_time import TimeLimit
from proctor.runtime.output import HeadTail, InputPipe, OutputPipe
from proctor.runtime.spawn_direct import Child, Ends, Spawned, start_directly

KILL_SECONDS = 20.0
"""How long a supervisor may take to kill everything before it counts as lost itself."""
REAP_SECONDS = 0.05
"""How often the end of a supervisor is looked for where the kernel has no file descriptors for processes."""

NOT_JOINED = 75
"""How a supervisor ends where the namespaces were gone before the command could enter them; see `_joining.py`."""

NOT_STARTED = 1
"""What stands for the end of a supervisor that could not be started at all."""


@dataclass(slots=True)
class _Stream:
    """One output stream of a command."""

    name: str
    kept: HeadTail
    pipe: OutputPipe | None = None


class Command:
    """A command under its supervisor. Whoever started it awaits `result`, and `kill` if that did not return."""

    def __init__(self, request: Request, *, keep_bytes: int, on_output: OnOutput | None) -> None:
        self._request = request
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self._streams = [_Stream(name, HeadTail(keep_bytes)) for name in ("stdout", "stderr")]
        self._stdin: InputPipe | None = None
        self._heard = b""
        self._process: Child | None = None
        """The supervisor, once it is known."""
        self._spawner: spawn.Spawner | None = None
        self._namespaces = b""
        self._begun: asyncio.Future[None] = self._loop.create_future()
        """Done when the supervisor is known, or could not be started."""
        self._released = False
        self._stop: asyncio.Future[Stop] = self._loop.create_future()
        self._failure: BaseException | None = None
        self.gone: asyncio.Future[int] = self._loop.create_future()
        """The exit status of the supervisor."""
        self.end: CommandEnd | None = None

    # ------------------------------------------------------------------------------------------------- beginning

    def start(self, stdin: bytes | None, environment: Mapping[str, str]) -> None:
        """Start the supervisor, with this environment where it is a program of its own; the command has `stdin`.

        Raises `Fault` when no process can be made. One that a spawner makes is known some time later.
        """
        self._how = stdin, environment
        self._encoded = self._request.encode()
        lineage.adopt_orphans()
        self._start(directly=False)

    def _start(self, *, directly: bool) -> None:
        try:
            with ExitStack() as undo, ExitStack() as theirs:
                self._connect(undo, theirs, directly)
                undo.pop_all()
        except OSError as error:
            raise Fault("provider.lost", f"no process could be started: {describe(error)}") from error

    def _connect(self, undo: ExitStack, theirs: ExitStack, directly: bool) -> None:
        """Start; what is put into `theirs` is closed afterwards in any case, what is in `undo` if this fails."""
        stdin, environment = self._how

        def pipe(*, we_write: bool = False) -> tuple[int, int]:
            reading, writing = os.pipe()
            undo.callback(os.close, writing if we_write else reading)
            theirs.callback(os.close, reading if we_write else writing)
            return reading, writing

        request_file = file_with(self._encoded, theirs)
        self._socket, far_end = socket.socketpair()
        undo.callback(self._socket.close)
        theirs.callback(far_end.close)
        self._socket.setblocking(False)
        outputs = [pipe() for _ in self._streams]
        if stdin is None:
            stdin_end, feed = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC), None
            theirs.callback(os.close, stdin_end)
        else:
            stdin_end, feed = pipe(we_write=True)
        ends = Ends(request_file, far_end.fileno(), stdin_end, outputs[0][1], outputs[1][1])
        inside = self._request.inside is not None
        self._spawner = None if directly else spawn.ask(ends, self._loop, sealed=inside)
        if self._spawner is None:
            process = start_directly(ends, environment, sealed=inside)
            undo.callback(_abandon, process)
            self._begin(process)
        else:
            self._patience = self._loop.call_later(spawn.ANSWER_SECONDS, self._give_up, self._spawner)
        self._loop.add_reader(self._socket.fileno(), self._hear)
        for stream, (reading, _) in zip(self._streams, outputs, strict=True):
            stream.pipe = OutputPipe(reading, self._taker(stream))
        if feed is not None and stdin is not None:
            self._stdin = InputPipe(feed, stdin)

    def _begin(self, process: Child) -> None:
        """Take notice of the supervisor."""
        self._process = process
        if self._spawner is not None:
            self._patience.cancel()
        self._watch_exit(process)
        self._begun.set_result(None)

    def _start_again(self) -> None:
        """Start without a spawner what a spawner did not start, and never will: nothing of it has run."""
        if self._spawner is not None:
            self._patience.cancel()
            self._spawner.miss()
        for end in (self._stdin, *(stream.pipe for stream in self._streams)):
            if end is not None:
                end.close()
        self._socket.close()
        self._heard = b""
        try:
            self._start(directly=True)
        except Fault as error:
            self._failure = error
            self._begun.set_result(None)
            self.gone.set_result(NOT_STARTED)
            self.stop_for(Stop.LOST)
        else:
            self._order(self._namespaces)

    def _give_up(self, spawner: spawn.Spawner) -> None:
        """Wait no more for a spawner to answer: what it may yet start cannot tell us of it, and so does nothing."""
        spawner.fail()
        self._hear()  # what was told by now
        if self._spawner is spawner and self._process is None:
            self._socket.shutdown(socket.SHUT_RDWR)  # its end is heard, also where a fork of ours holds the other one

    def enter(self, namespaces: bytes) -> None:
        """Tell the supervisor in which namespaces the command is to run; it waits for that."""
        self._namespaces = namespaces
        self._order(namespaces)

    def _taker(self, stream: _Stream) -> Callable[[bytes], None]:
        """Return what takes the data of a stream."""
        limit = self._request.limits.output_bytes

        def take(data: bytes) -> None:
            stream.kept.add(data)
            if limit is not None and stream.kept.total > limit:
                self.stop_for(Stop.OUTPUT_EXCEEDED)
            if self._on_output is not None and self._failure is None:
                try:
                    self._on_output(stream.name, data)
                except BaseException as error:  # it is raised from `result`
                    self._failure = error
                    self.stop_for(Stop.OBSERVER_FAILED)

        return take

    # -------------------------------------------------------------------------------------------------- watching

    def _watch_exit(self, process: Child) -> None:
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except (AttributeError, OSError):  # an old kernel
            self._pidfd = -1
            self._loop.call_later(REAP_SECONDS, self._look_for_exit, process)
        else:
            self._loop.add_reader(self._pidfd, self._exited, process)

    def _look_for_exit(self, process: Child) -> None:
        if process.poll() is None:
            self._loop.call_later(REAP_SECONDS, self._look_for_exit, process)
        else:
            self._exited(process)

    def _exited(self, process: Child) -> None:
        """Take notice of the end of the supervisor."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        status = process.wait()
        self._hear()  # a report may have come in the same moment
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self.gone.set_result(status)
        self.stop_for(Stop.LOST)

    def _hear(self) -> None:
        """Read which process the supervisor is, and its report."""
        try:
            heard = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:  # it ended before it read our last order
            heard = b""
        if not heard:
            self._loop.remove_reader(self._socket.fileno())
            if self._process is None:
                self._start_again()
            return
        *lines, self._heard = (self._heard + heard).split(b"\n")
        for line in lines:
            if line.startswith(b"{"):
                fields: dict[str, Any] = json.loads(line)
                self.end = CommandEnd(**fields)
                self.stop_for(Stop.ENDED)
            elif self._process is None:  # it is told twice
                self._begin(Spawned(int(line)))

    def stop_for(self, reason: Stop) -> None:
        """Stop waiting for the command; the first reason stands."""
        if not self._stop.done():
            self._stop.set_result(reason)

    # ---------------------------------------------------------------------------------------------------- ending

    async def result(self, timeout_seconds: float | None, grace_seconds: float) -> ExecResult:
        """Wait for the end of the command, or end it when its time of execution or another limit is over."""
        with ExitStack() as timer:
            if self._process is None:
                await asyncio.wait({self._begun, self._stop}, return_when=asyncio.FIRST_COMPLETED)
            if timeout_seconds is not None and self._process is not None:
                limit = TimeLimit(self._process.pid, timeout_seconds, lambda: self.stop_for(Stop.TIMED_OUT))
                timer.callback(limit.cancel)
            stop = await self._stop
        if stop is Stop.ENDED:
            if self.end is not None and not self.end.left:
                await asyncio.wait({self.gone}, timeout=grace_seconds)
        else:
            await self.kill(grace_seconds if stop is Stop.TIMED_OUT else 0.0)
        self.settle()
        if self._failure is not None:
            raise self._failure
        out, err = (stream.kept for stream in self._streams)
        return result_of(stop, self.end, self.gone, out=out, err=err, output_bytes=self._request.limits.output_bytes)

    async def kill(self, grace_seconds: float = 0.0) -> None:
        """Kill every process, after asking it to end where there is a grace; raises `Fault` when some cannot be."""
        if not self._begun.done():
            await asyncio.wait({self._begun})
        if grace_seconds and not self.gone.done():
            self._order(b"T")
            await asyncio.wait({self.gone}, timeout=grace_seconds)
        if not self.gone.done() and self._process is not None:
            self._process.send_signal(_killing.SIGCONT)  # the command may have stopped its supervisor
            self._order(b"K")
            await asyncio.wait({self.gone}, timeout=KILL_SECONDS)
        if not self.gone.done() and self._process is not None:
            self._process.kill()
        await asyncio.wait({self.gone})
        if self.lost:
            await self._kill_remains()
        self.settle()

    @property
    def lost(self) -> bool:
        """Whether the supervisor is gone without having seen the last of its processes."""
        return self.gone.done() and (self.end is None or self.gone.result() != 0)

    @property
    def shut_out(self) -> bool:
        """Whether it never ran, since the namespaces ended by themselves that it was to enter."""
        lost = self._stop.done() and self._stop.result() is Stop.LOST
        return lost and self._request.inside is not None and self.gone.result() == NOT_JOINED

    async def _kill_remains(self) -> None:
        groups, marker = [directory for directory, _ in self._request.groups], self._request.marker.encode()
        await lineage.kill_remains(groups, lambda: lineage.of_command(marker, self._request.trace))

    def _order(self, order: bytes) -> None:
        with suppress(OSError):  # the supervisor has just ended, which is what the order is for
            self._socket.send(order)

    def settle(self) -> None:
        """Take what there is of the output, and close what nobody can write to any more."""
        if self._stdin is not None:
            self._stdin.close()
        for stream in self._streams:
            if stream.pipe is not None:
                stream.pipe.drain()
                stream.pipe.discard()
                if self.gone.done() and not (self._request.inside and self.is_heard):
                    stream.pipe.close()

    @property
    def is_heard(self) -> bool:
        """Whether something may still write to it: what was left in the background, until `release`."""
        return not self._released and any(stream.pipe and not stream.pipe.closed for stream in self._streams)

    def release(self) -> None:
        """Close what nobody writes to any more, now that its namespaces are gone."""
        self._released = True
        self.settle()


def _abandon(process: Child) -> None:
    process.kill()
    process.wait()
