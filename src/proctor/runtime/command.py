"""One command under its supervisor, as seen from proctor's event loop."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from proctor.errors import Fault, describe
from proctor.plugins.api import ExecResult, OnOutput
from proctor.runtime import _killing, lineage
from proctor.runtime._descriptors import file_with
from proctor.runtime._sealed import sealed
from proctor.runtime.command_request import Request
from proctor.runtime.execution_time import TimeLimit
from proctor.runtime.output import HeadTail, InputPipe, OutputPipe

KILL_SECONDS = 20.0
"""How long a supervisor may take to kill everything before it counts as lost itself."""
REAP_SECONDS = 0.05
"""How often the end of a supervisor is looked for where the kernel has no file descriptors for processes."""

NOT_JOINED = 75
"""How a supervisor ends where the namespaces were gone before the command could enter them; see `_joining.py`."""

_FOLDER = os.path.dirname(os.path.abspath(_killing.__file__))
_START = "import sys; sys.path.append(sys.argv[1]); import _supervisor; _supervisor.main(*map(int, sys.argv[2:]))"
"""Imported, not run as a script: a module is compiled once and for all, which halves the time of a start."""


class Stop(Enum):
    """Why a command is no longer waited for."""

    ENDED = "ended"
    TIMED_OUT = "timed out"
    OUTPUT_EXCEEDED = "output exceeded"
    OBSERVER_FAILED = "observer failed"
    DISPOSED = "disposed"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """What a supervisor reports: how the command ended, and what its processes had used by then."""

    exit_code: int | None
    signal: int | None
    left: bool
    out_of_memory: bool
    cpu_seconds: float
    peak_rss_bytes: int


@dataclass(slots=True)
class _Stream:
    """One output stream of a command."""

    name: str
    kept: HeadTail
    pipe: OutputPipe | None = None


def base_interpreter() -> str:
    """Return the interpreter below any virtual environment: without proctor and its packages."""
    base: str | None = getattr(sys, "_base_executable", None)
    return base or sys.executable


class Command:
    """A command under its supervisor. Whoever started it awaits `result`, and `kill` if that did not return."""

    def __init__(self, request: Request, *, keep_bytes: int, on_output: OnOutput | None) -> None:
        self._request = request
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self._streams = [_Stream(name, HeadTail(keep_bytes)) for name in ("stdout", "stderr")]
        self._stdin: InputPipe | None = None
        self._heard = b""
        self._released = False
        self._stop: asyncio.Future[Stop] = self._loop.create_future()
        self._failure: BaseException | None = None
        self.gone: asyncio.Future[int] = self._loop.create_future()
        """The exit status of the supervisor."""
        self.end: CommandEnd | None = None

    # ------------------------------------------------------------------------------------------------- beginning

    def start(self, stdin: bytes | None, environment: Mapping[str, str]) -> None:
        """Start the supervisor with an `environment` of its own; raises `Fault` when no process can be made."""
        encoded = self._request.encode()
        lineage.adopt_orphans()
        try:
            with ExitStack() as undo, ExitStack() as theirs:
                self._start(encoded, stdin, environment, undo, theirs)
                undo.pop_all()
        except OSError as error:
            raise Fault("provider.lost", f"no process could be started: {describe(error)}") from error

    def _start(
        self, encoded: bytes, stdin: bytes | None, environment: Mapping[str, str], undo: ExitStack, theirs: ExitStack
    ) -> None:
        """Start; what is put into `theirs` is closed afterwards in any case, what is in `undo` if this fails."""

        def pipe(*, we_write: bool = False) -> tuple[int, int]:
            reading, writing = os.pipe()
            undo.callback(os.close, writing if we_write else reading)
            theirs.callback(os.close, reading if we_write else writing)
            return reading, writing

        request_file = file_with(encoded, theirs)
        self._socket, far_end = socket.socketpair()
        undo.callback(self._socket.close)
        theirs.callback(far_end.close)
        self._socket.setblocking(False)
        outputs = [pipe() for _ in self._streams]
        stdin_end, feed = (subprocess.DEVNULL, None) if stdin is None else pipe(we_write=True)
        interpreter = base_interpreter()
        executable, libraries = sealed(interpreter) if self._request.inside else (interpreter, None)
        self._process = subprocess.Popen(
            [interpreter, "-I", "-S", "-c", _START, _FOLDER, str(request_file), str(far_end.fileno())],
            stdin=stdin_end,
            stdout=outputs[0][1],
            stderr=outputs[1][1],
            pass_fds=(request_file, far_end.fileno()),
            start_new_session=True,
            executable=executable,
            env={**environment, **(libraries or {})},
            cwd="/",
        )
        undo.callback(self._abandon)
        self._watch_exit()
        self._loop.add_reader(self._socket.fileno(), self._hear)
        for stream, (reading, _) in zip(self._streams, outputs, strict=True):
            stream.pipe = OutputPipe(reading, self._taker(stream))
        if feed is not None and stdin is not None:
            self._stdin = InputPipe(feed, stdin)

    def enter(self, namespaces: bytes) -> None:
        """Tell the supervisor in which namespaces the command is to run; it waits for that."""
        self._order(namespaces)

    def _abandon(self) -> None:
        self._process.kill()
        self._process.wait()

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

    def _watch_exit(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # an old kernel
            self._pidfd = -1
            self._loop.call_later(REAP_SECONDS, self._look_for_exit)
        else:
            self._loop.add_reader(self._pidfd, self._exited)

    def _look_for_exit(self) -> None:
        if self._process.poll() is None:
            self._loop.call_later(REAP_SECONDS, self._look_for_exit)
        else:
            self._exited()

    def _exited(self) -> None:
        """Take notice of the end of the supervisor."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        status = self._process.wait()
        self._hear()  # a report may have come in the same moment
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self.gone.set_result(status)
        self.stop_for(Stop.LOST)

    def _hear(self) -> None:
        """Read the report."""
        try:
            heard = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:  # it ended before it read our last order
            heard = b""
        if not heard:
            self._loop.remove_reader(self._socket.fileno())
            return
        self._heard += heard
        if self.end is None and b"\n" in self._heard:
            fields: dict[str, Any] = json.loads(self._heard)
            self.end = CommandEnd(**fields)
            self.stop_for(Stop.ENDED)

    def stop_for(self, reason: Stop) -> None:
        """Stop waiting for the command; the first reason stands."""
        if not self._stop.done():
            self._stop.set_result(reason)

    # ---------------------------------------------------------------------------------------------------- ending

    async def result(self, timeout_seconds: float | None, grace_seconds: float) -> ExecResult:
        """Wait for the end of the command, or end it when its time of execution or another limit is over."""
        with ExitStack() as timer:
            if timeout_seconds is not None:
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
        return self._describe(stop)

    async def kill(self, grace_seconds: float = 0.0) -> None:
        """Kill every process, after asking it to end where there is a grace; raises `Fault` when some cannot be."""
        if grace_seconds and not self.gone.done():
            self._order(b"T")
            await asyncio.wait({self.gone}, timeout=grace_seconds)
        if not self.gone.done():
            self._process.send_signal(_killing.SIGCONT)  # the command may have stopped its supervisor
            self._order(b"K")
            await asyncio.wait({self.gone}, timeout=KILL_SECONDS)
        if not self.gone.done():
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

    def _describe(self, stop: Stop) -> ExecResult:
        """Make the result: where there is no exit code, exactly one field says why."""
        out, err = (stream.kept for stream in self._streams)
        limit = self._request.limits.output_bytes
        if limit is not None and max(out.total, err.total) > limit:
            stop = Stop.OUTPUT_EXCEEDED  # also when it ended before it could be killed for it
        end = self.end if stop is Stop.ENDED else None
        return ExecResult(
            exit_code=end.exit_code if end else None,
            stdout=out.kept,
            stderr=err.kept,
            stdout_dropped=out.dropped,
            stderr_dropped=err.dropped,
            signal=end.signal if end else None,
            timed_out=stop is Stop.TIMED_OUT,
            output_exceeded=stop is Stop.OUTPUT_EXCEEDED,
            out_of_memory=self.end is not None and self.end.out_of_memory,
            lost=self._why_lost(stop),
        )

    def _why_lost(self, stop: Stop) -> str | None:
        if stop is Stop.DISPOSED:
            return "the sandbox was disposed of while the command ran"
        if stop is not Stop.LOST:
            return None
        status = self.gone.result()
        if status < 0:
            return f"supervisor was killed by signal {-status}"
        return f"supervisor ended with status {status} before the command did"
