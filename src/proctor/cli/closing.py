"""Closes what the runs of an invocation share: models and providers, each within a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from proctor.cli.interrupts import Interrupts
from proctor.cli.resolve import Resolved
from proctor.errors import boundary, describe
from proctor.model.attempt import Phase
from proctor.runtime.hurry import COURTESY_SECONDS
from proctor.runtime.shield import shielded

CLOSE_SECONDS = 60.0
"""How long a model or a provider may take to close what it shares between attempts."""


class ClosingOnce:
    """Closes the models and providers of experiments, each once however many experiments share it."""

    def __init__(self, resolved: Sequence[Resolved], interrupts: Interrupts, grace_seconds: float) -> None:
        self._interrupts = interrupts
        self._grace_seconds = grace_seconds
        self._resolved = resolved

    def _take(self) -> list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Return what is open now, which is closed by whoever took it; a judge is opened after this was made."""
        taken: dict[int, tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = {}
        for one in self._resolved:
            for model in filter(None, (one.model, one.judge)):
                taken[id(model)] = f"model {model.spec.id}", model.close
            taken[id(one.provider)] = f"provider {one.provider.name}", one.provider.finalize
        self._resolved = ()
        return list(taken.values())

    async def close(self, note: Callable[[str], None]) -> None:
        """Close what is open still; whatever it does, it holds the end no longer than the limit.

        Once an interrupt was asked for, that is at most the grace. `note` is told what could not be closed.
        """
        limit = min(CLOSE_SECONDS, self._grace_seconds) if self._interrupts.asked else CLOSE_SECONDS
        closing = self._take()

        async def close(what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
            try:
                await shielded(_guarded(work), limit, self._interrupts.hurry, COURTESY_SECONDS)
            except Exception as error:
                note(f"{what} could not be closed: {describe(error)}")

        if closing:
            await asyncio.gather(*(close(what, work) for what, work in closing))


async def _guarded(close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with boundary(Phase.DISPOSE):
        await close()
