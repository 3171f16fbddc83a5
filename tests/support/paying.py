"""A harness for tests of money, named by dotted path: `paying:Payer`."""

from __future__ import annotations

import os

from plugins import Sleeper

from proctor.plugins.api import AttemptContext, ChatMessage, Collected, Message, Turn
from proctor.plugins.asking import ask

BREAKS = "PAYER_BREAKS"
"""An environment variable: where it is set, each attempt breaks after its call was paid."""


class Payer(Sleeper):
    """Asks its model once."""

    name = "payer"
    needs_model = True

    async def start(self, ctx: AttemptContext) -> PayerSession:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return PayerSession(ctx)


class PayerSession:
    def __init__(self, ctx: AttemptContext) -> None:
        self._ctx = ctx

    async def send(self, message: Message) -> Turn:
        answer = await ask(self._ctx, [ChatMessage("user", message.text)])
        if os.environ.get(BREAKS):
            raise RuntimeError("broken after it was paid")
        return Turn(answer.text)

    async def collect(self) -> Collected:
        return Collected()

    async def close(self) -> None:
        pass
