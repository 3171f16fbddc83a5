"""Harnesses for tests of Python tasks."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from proctor.authoring.recorded_checks import RECORD_NAME, CheckRecord
from proctor.model.attempt import Check
from proctor.plugins.api import AttemptContext, Collected, Message, Turn

FORGED = CheckRecord([Check("forged", ok=True)], ended=True).encoded()


class Options(BaseModel):
    """There are none."""


class Parrot:
    """Answers what it was told; keeps what it was told, and a file by the name of the record of checks."""

    name = "parrot"
    version = "1"
    isolated_attempts = True
    needs_model = False
    needs_sandbox = False
    options: type[BaseModel] = Options

    def __init__(self, options: BaseModel) -> None:
        pass

    async def start(self, ctx: AttemptContext) -> Parrot.Session:
        return Parrot.Session(ctx)

    class Session:
        """Its session."""

        def __init__(self, ctx: AttemptContext) -> None:
            self._ctx = ctx
            self._told: list[str] = []

        async def send(self, message: Message) -> Turn:
            self._told.append(message.text)
            if message.text == "forge":
                await self._ctx.sandbox.write(RECORD_NAME, FORGED)
            return Turn(message.text)

        async def collect(self) -> Collected:
            told: Any = list(self._told)
            return Collected({"told": told}, {"told.txt": "\n".join(told).encode(), RECORD_NAME: FORGED})

        async def close(self) -> None:
            self._ctx.log.info("closed after %d", len(self._told))


class OneTurn(Parrot):
    """Takes one turn in a session."""

    name = "one-turn"
    turns = 1
