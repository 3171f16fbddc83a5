"""Plugins that do not listen until a test lets them go: `deaf:Deaf` and so on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from plugins import Gradeable, GradeableOptions, Sleeper, SleeperSession

from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Task
from proctor.plugins.api import AttemptContext, Message, Turn
from proctor.providers.local import LocalProvider, LocalSandbox


class Deaf(Sleeper):
    """Ignores every cancellation until `over` is set; `over` is made anew for each test by `reset`."""

    over = asyncio.Event()

    async def start(self, ctx: AttemptContext) -> DeafSession:
        return DeafSession(self, ctx)


class DeafSession(SleeperSession):
    async def send(self, message: Message) -> Turn:
        while not Deaf.over.is_set():
            try:
                await Deaf.over.wait()
            except asyncio.CancelledError:
                continue
        return Turn("ok")


def reset() -> asyncio.Event:
    """Make a new event; call it in the event loop."""
    Deaf.over = asyncio.Event()
    return Deaf.over


class SlowBenchmark(Gradeable):
    """Never says what its tasks are."""

    options = GradeableOptions

    async def tasks(self) -> list[Task]:
        await asyncio.Event().wait()
        return []


class StuckSandboxes(LocalProvider):
    """Sandboxes that never go: their processes end, their directories stay."""

    name = "stuck"

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> LocalSandbox:
        sandbox = await super().open(environment, labels)
        sandbox.dispose = _never  # type: ignore[method-assign]
        return sandbox


async def _never() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


class Blocking(Sleeper):
    """Holds the event loop itself."""

    async def start(self, ctx: AttemptContext) -> BlockingSession:
        return BlockingSession(self, ctx)


class BlockingSession(SleeperSession):
    async def send(self, message: Message) -> Turn:
        self._note("start")
        while True:
            time.sleep(0.05)


class Hardened(Sleeper):
    """Runs a command whose processes ignore SIGTERM, in a session of their own too, and ignores cancellation."""

    async def start(self, ctx: AttemptContext) -> HardenedSession:
        return HardenedSession(self, ctx)


class HardenedSession(SleeperSession):
    async def send(self, message: Message) -> Turn:
        hard = "trap '' TERM HUP INT; while :; do sleep 1; done"
        command = f'(setsid sh -c "{hard}" &) ; sh -c "{hard}" & {hard}'
        while True:
            try:
                await self._ctx.sandbox.exec(command)
            except asyncio.CancelledError:
                await _never()
