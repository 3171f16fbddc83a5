"""A sandbox as the plugins of a try use it: its use is a sign of life, and what is cut off is logged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from proctor.model.bounds import with_gap
from proctor.plugins.api import ExecResult, OnOutput, Sandbox
from proctor.runtime.countdown import Activity
from proctor.runtime.notes import TryLog
from proctor.runtime.output import HeadTail

CUT_OFF_BYTES = 64 * 1024
"""Of each output stream of a command that is cut off so much is logged, head and tail."""


class WatchedSandbox:
    """A sandbox whose use is a sign of life: the start and the end of a command, and its output.

    What a command had printed is logged where the call is cut off, by a limit or an interrupt: nobody else has it then.
    """

    def __init__(self, sandbox: Sandbox, activity: Activity, log: TryLog) -> None:
        self._sandbox = sandbox
        self._activity = activity
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    async def exec(
        self, command: str | Sequence[str], *, on_output: OnOutput | None = None, **options: Any
    ) -> ExecResult:
        """Run a command as the sandbox does."""
        streams: dict[str, HeadTail] = {}

        def heard(stream: str, data: bytes) -> None:
            self._activity.sign()
            streams.setdefault(stream, HeadTail(CUT_OFF_BYTES)).add(data)
            if on_output is not None:
                on_output(stream, data)

        self._activity.sign()
        try:
            return await self._sandbox.exec(command, on_output=heard, **options)
        except asyncio.CancelledError:
            self._log.logger.warning("a command was cut off: %.1000s", command)
            for stream, kept in streams.items():
                text = with_gap(kept.kept, kept.dropped).decode("utf-8", "replace")
                self._log.logger.warning("its %s so far, %d bytes:\n%s", stream, kept.total, text)
            raise
        finally:
            self._activity.sign()
