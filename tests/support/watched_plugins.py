"""Harnesses to be looked at while they work: one that is held by a file, one that says everything everywhere."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
import warnings
from pathlib import Path

from plugins import Sleeper, SleeperSession
from pydantic import BaseModel

from proctor.plugins.api import AttemptContext, Message, Turn


class HeldOptions(BaseModel):
    until: str = ""
    """A file: each attempt goes on until it is there."""
    loud: str = ""
    """The task of which the attempts log a line all the time."""
    backoff: str = ""
    """The task of which the attempts wait inside themselves."""
    blocks: str = ""
    """The task of which the attempts hold the event loop."""
    seconds: float = 0.0
    trace: str | None = None
    every: int = 0
    failure: str = ""
    command: str = ""


class Held(Sleeper):
    """Is held until a file is there."""

    options = HeldOptions

    async def start(self, ctx: AttemptContext) -> HeldSession:
        return HeldSession(self, ctx)


class HeldSession(SleeperSession):
    async def send(self, message: Message) -> Turn:
        until, task = Path(self._settings.until), self._ctx.task.id
        if task == self._settings.backoff:
            await self._ctx.backoff(3600.0, "model.rate_limited")
        while not until.exists():
            if task == self._settings.loud:
                self._ctx.log.info("at work")
            if task == self._settings.blocks:
                time.sleep(0.05)
            else:
                await asyncio.sleep(0.05)
        return Turn("ok")


class Chatty(Sleeper):
    """Logs at all levels by its own log, by loggers of other names, by print and as a warning."""

    async def start(self, ctx: AttemptContext) -> ChattySession:
        return ChattySession(self, ctx)


LEVELS = ("debug", "info", "warning", "error", "critical")


class ChattySession(SleeperSession):
    async def send(self, message: Message) -> Turn:
        secret = os.environ.get("CHATTY_API_KEY", "no secret")
        task = self._ctx.task.id
        for level in LEVELS:
            getattr(self._ctx.log, level)("own %s of %s", level, task)
            getattr(logging.getLogger("x"), level)("foreign %s of %s", level, task, extra={"number": 7})
            logging.getLogger("x.secret").log(getattr(logging, level.upper()), "key %s", secret)
        print(f"printed by {task}, {secret}")
        print("in ", end="")
        print("parts", file=sys.stdout)
        print(f"to stderr by {task}", file=sys.stderr)
        await asyncio.to_thread(print, f"by a thread of {task}")
        warnings.warn(f"warned by {task}", RuntimeWarning, stacklevel=1)
        try:
            raise ValueError(f"an error with {secret}")
        except ValueError:
            logging.getLogger("x").exception("caught in %s", task)
        return Turn("ok")
