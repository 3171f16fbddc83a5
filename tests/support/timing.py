"""A harness that takes its time, in the ways in which agents and their authors do: `timing:Timed`."""

from __future__ import annotations

import asyncio
import time

from pydantic import BaseModel

from proctor.plugins.api import AttemptContext, Collected, Message, Turn


class TimedOptions(BaseModel):
    deed: str = ""
    """What the task `t0000` does: spin, sleep, thread, late. All others answer after a few turns of the event loop."""
    command: str = ""
    """What every task runs in its sandbox."""
    timeout_seconds: str = ""
    """Limit that the harness gives to its command."""


class Timed:
    name = "timed"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    options = TimedOptions

    def __init__(self, options: TimedOptions) -> None:
        self.settings = options
        self.needs_sandbox = bool(options.command)

    async def start(self, ctx: AttemptContext) -> TimedSession:
        return TimedSession(self.settings, ctx)


class TimedSession:
    def __init__(self, settings: TimedOptions, ctx: AttemptContext) -> None:
        self._settings = settings
        self._ctx = ctx

    async def send(self, message: Message) -> Turn:
        settings = self._settings
        if settings.command:
            limit = float(settings.timeout_seconds) if settings.timeout_seconds else None
            await self._ctx.sandbox.exec(settings.command, timeout_seconds=limit)
        if self._ctx.task.id == "t0000":
            if settings.deed == "spin":
                while True:
                    pass
            if settings.deed == "sleep":
                time.sleep(3600)
            if settings.deed == "thread":
                await asyncio.to_thread(time.sleep, 3600)
        for _ in range(5):
            await asyncio.sleep(0.01)
        return Turn("ok")

    async def collect(self) -> Collected:
        return Collected()

    async def close(self) -> None:
        if self._settings.deed == "late" and self._ctx.task.id == "t0000":
            time.sleep(3600)
