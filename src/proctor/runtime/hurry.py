"""Hurry: somebody does not want to wait for clean-up any longer (spec 10 I1, the second signal)."""

from __future__ import annotations

import asyncio
from typing import Any

FORCED_SECONDS = 3.5
"""How long everything may take to end once there is a hurry; closing what was written comes on top, within 5 s."""

COURTESY_SECONDS = 0.5
"""How long then whatever was only asked to end may take: a phase that was cancelled, a session that is closed."""


class Hurry:
    """Cuts short every wait that is made through it, those under way included, once it has begun; it never ends."""

    def __init__(self) -> None:
        self._began_at: float | None = None
        self._beginning: asyncio.Future[None] | None = None

    @property
    def begun(self) -> bool:
        """Whether there is a hurry."""
        return self._began_at is not None

    def begin(self) -> None:
        """Begin; a second call changes nothing."""
        if self._began_at is None:
            self._began_at = asyncio.get_running_loop().time()
            if self._beginning is not None:
                self._beginning.set_result(None)

    def left(self, hurried_seconds: float | None = None) -> float | None:
        """Return the seconds that are left of `hurried_seconds` (`FORCED_SECONDS`) after its beginning, at least 0.

        None where there is no hurry.
        """
        if self._began_at is None:
            return None
        allowed = FORCED_SECONDS if hurried_seconds is None else min(hurried_seconds, FORCED_SECONDS)
        return max(0.0, self._began_at + allowed - asyncio.get_running_loop().time())

    async def wait(
        self, work: asyncio.Future[Any], seconds: float | None, hurried_seconds: float | None = None
    ) -> bool:
        """Wait for the end of `work`: for `seconds` (None: any time), and in a hurry for what is `left` at most.

        Returns whether it has ended.
        """
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        while not work.done():
            hurried = self.left(hurried_seconds)
            left = None if end is None else max(0.0, end - loop.time())
            if hurried is not None and (left is None or hurried < left):
                left = hurried
            if left == 0.0:
                return False
            waited: set[asyncio.Future[Any]] = {work}
            if hurried is None:
                waited.add(self._begins(loop))
            await asyncio.wait(waited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return True

    def _begins(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        if self._beginning is None:
            self._beginning = loop.create_future()
        return self._beginning
