"""Runs one command in a container: streams, time, limits, and the end of all its processes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from proctor.errors import Fault
from proctor.plugins.api import ExecLimits, ExecResult, OnOutput
from proctor.providers.docker.engine import Docker
from proctor.providers.docker.inside import (
    NO_USER,
    engine_faults_of_container,
    is_gone,
    next_piece,
    restart,
    run_plainly,
)
from proctor.providers.docker.output import End, Output
from proctor.providers.docker.scripts import KILL, TERMINATE, command_words
from proctor.runtime.process import SystemClock, shielded

_NOT_STARTED = re.compile(r"^(Error: )?(OCI runtime|runc|crun|cannot exec)", re.IGNORECASE)
COMMAND_MARKER = "PROCTOR_COMMAND"
KILL_SECONDS = 60.0
"""How long the engine may take to end a command before the container is restarted instead."""
CLOSE_SECONDS = 5.0
"""How long the connection of a command may stay open after its processes were killed."""
_STDIN_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """What runs, and as whom."""

    words: list[str]
    directory: str
    env: Mapping[str, str]
    user: str
    stdin: bytes | None
    limits: ExecLimits


class Running:
    """One command in the container `name`. `seconds` are by the clock, from the asking to the answer."""

    def __init__(self, docker: Docker, name: str, call: Call, *, keep_bytes: int, on_output: OnOutput | None) -> None:
        self._docker = docker
        self._name = name
        self._call = call
        self._token = os.urandom(8).hex()
        self._output = Output(self._token, keep_bytes, call.limits.output_bytes, on_output)
        self._exec: Any = None
        self._begun = asyncio.Event()
        self.restarted = False
        """Whether the container had to be restarted to end it."""

    async def result(self, timeout_seconds: float | None, grace_seconds: float) -> ExecResult:
        """Run it and wait for its end. Cancelled, it ends all its processes first. Raises `Fault` (provider.lost)."""
        clock = SystemClock()
        started = clock.monotonic()
        attending = asyncio.create_task(self._attend())
        timed_out = False
        try:
            await asyncio.wait({attending}, timeout=timeout_seconds)
            if attending.done():
                attending.result()
            else:
                timed_out = True
                await self._end(attending, grace_seconds)
            killed = timed_out or self._output.exceeded
            if self._output.exceeded:
                await self._end(attending, 0.0)
            end, lost = (None, None) if killed else await self._find_end()
        except BaseException as error:
            grace = grace_seconds if isinstance(error, asyncio.CancelledError) else 0.0
            await shielded(self._end(attending, grace), None)
            raise
        out, err = self._output.stdout, self._output.stderr
        return ExecResult(
            exit_code=end.exit_code if end else None,
            stdout=out.kept,
            stderr=err.kept,
            stdout_dropped=out.dropped,
            stderr_dropped=err.dropped,
            signal=end.signal if end else None,
            timed_out=timed_out,
            output_exceeded=self._output.exceeded and not timed_out,
            lost=lost,
            seconds=round(clock.monotonic() - started, 6),
        )

    async def _attend(self) -> None:
        """Start it and take its output until it has ended, or has printed too much."""
        call = self._call
        words = command_words(self._token, call.directory, call.words, call.limits)
        environment = {**call.env, COMMAND_MARKER: self._token}
        try:
            with engine_faults_of_container(self._name):
                self._exec = await self._docker.containers.container(self._name).exec(
                    words, stdin=call.stdin is not None, user=call.user, environment=environment, workdir="/"
                )
                stream = self._exec.start()
                async with stream:
                    self._begun.set()
                    await self._converse(stream)
        finally:
            self._begun.set()

    async def _converse(self, stream: Any) -> None:
        feeding = None if self._call.stdin is None else asyncio.ensure_future(_feed(stream, self._call.stdin))
        try:
            while (message := await next_piece(stream)) is not None:
                self._output.feed(message[0], message[1])
                if self._output.end is not None or self._output.exceeded:
                    return
            self._output.finish()
        finally:
            if feeding is not None:
                feeding.cancel()
                await asyncio.wait({feeding})
                if (transport := _transport_of(stream)) is not None:
                    transport.abort()  # closed, it would wait until what nobody reads was sent

    async def _find_end(self) -> tuple[End | None, str | None]:
        """Return how it ended, or how it was lost, where its shell could not say."""
        if (told := self._output.end) is not None:
            if told.signal == signal.SIGKILL:  # whoever removes the container kills what runs in it first
                await self._raise_if_gone()
            return told, None
        assert self._exec is not None  # it has begun, or we would not be here
        with engine_faults_of_container(self._name):
            seen: dict[str, Any] = await self._exec.inspect()
            state = (await self._docker.containers.container(self._name).show())["State"]
        if not state["Running"]:
            raise Fault("provider.lost", f"sandbox {self._name} ended while a command ran in it")
        if seen["Running"]:
            await shielded(self._kill(), None)
            return None, "the connection to the container engine broke"
        await self._raise_if_gone()
        status = int(seen["ExitCode"])
        self._raise_what_kept_it(status)
        return End(status, by_signal=status > 128), None

    async def _raise_if_gone(self) -> None:
        """Raise where what ended the command is ending the container, of which the engine knows last."""
        code: int | None = None
        with suppress(Fault):
            code, _ = await run_plainly(self._docker, self._name, ["/bin/sh", "-c", ":"])  # a live one can start it
        if code != 0 and await is_gone(self._docker, self._name):
            raise Fault("provider.lost", f"sandbox {self._name} ended while a command ran in it")

    def _raise_what_kept_it(self, status: int) -> None:
        """Raise where it was not even started: the engine says so in the place of its output."""
        said = (self._output.stdout.kept + self._output.stderr.kept)[:1000].decode("utf-8", "replace").strip()
        if NO_USER.search(said):
            raise ValueError(f"sandbox {self._name}: {said}")
        if status in (125, 126, 127, 255) and _NOT_STARTED.search(said):
            raise Fault("provider.lost", f"sandbox {self._name} cannot start a command: {said}")

    async def _end(self, attending: asyncio.Task[None], grace_seconds: float) -> None:
        """End all its processes: SIGTERM and the grace where there is one, then SIGKILL until none is left."""
        with suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await self._begun.wait()  # what the engine is about to start would outlive us
        if grace_seconds > 0 and not attending.done():
            with suppress(Fault):  # what does not hear is killed
                await self._run_script(TERMINATE)
            await asyncio.wait({attending}, timeout=grace_seconds)
        await self._kill()
        await asyncio.wait({attending}, timeout=CLOSE_SECONDS)
        attending.cancel()
        await asyncio.wait({attending})
        if not attending.cancelled():
            attending.exception()  # what matters of it was raised already

    async def _kill(self) -> None:
        """Kill all its processes; where no script can do that any more, by a restart of the container."""
        try:
            async with asyncio.timeout(KILL_SECONDS):
                if self._exec is None or await self._run_script(KILL) == 0:
                    return
        except (TimeoutError, Fault):  # nothing more can be started in it, or not soon enough; or it is gone
            if await is_gone(self._docker, self._name):
                return
        self.restarted = True
        await restart(self._docker, self._name)

    async def _run_script(self, script: str) -> int | None:
        words = ["/bin/sh", "-c", script, "proctor", self._token]
        return (await run_plainly(self._docker, self._name, words, user=self._call.user))[0]


async def _feed(stream: Any, data: bytes) -> None:
    """Write standard input and end it; what the command does not read does no harm."""
    with suppress(ConnectionError, RuntimeError, AssertionError):  # it has ended meanwhile
        for begin in range(0, len(data), _STDIN_CHUNK_BYTES):
            await stream.write_in(data[begin : begin + _STDIN_CHUNK_BYTES])
        transport = _transport_of(stream)
        if transport is not None and transport.can_write_eof():
            transport.write_eof()


def _transport_of(stream: Any) -> asyncio.Transport | None:
    """Return what a stream writes to: aiodocker can end it both ways only."""
    response = stream._resp
    return None if response is None or response.connection is None else response.connection.transport


__all__ = ["Call", "Running"]
