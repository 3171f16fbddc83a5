"""Lanes: sandboxes that several attempts use one after another (spec 03 L0-L5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proctor.errors import boundary, describe
from proctor.model.attempt import Issue, Outcome, Phase
from proctor.model.events import LaneClosed
from proctor.plugins.api import Sandbox
from proctor.runtime.hurry import Hurry
from proctor.runtime.made import name_of
from proctor.runtime.shield import shielded

RETIRING_CODES = frozenset({
    "provider.lost", "provider.open_failed", "provider.open_timeout", "sandbox.setup_failed", "task.setup_failed",
    "harness.crashed", "collect.failed", "internal",
    "time.setup", "time.agent", "time.attempt", "time.idle", "time.collect", "time.grade",
})  # fmt: skip
"""Issues after which nobody knows what a sandbox holds: no reset is trusted to mend it (spec 03 L2)."""


def retires(outcome: Outcome, issues: Sequence[Issue]) -> bool:
    """Say whether the sandbox of a lane is of no use after a try that ended so."""
    return outcome is Outcome.CANCELLED or any(issue.code in RETIRING_CODES for issue in issues)


class Lane:
    """One sandbox at most, opened by the first try in the lane."""

    def __init__(self, name: str, experiment: str, dispose_seconds: float | None, hurry: Hurry | None = None) -> None:
        self.name = name
        self.experiment = experiment
        self.sandbox: Sandbox | None = None
        self.marked = False
        """Whether the state to which the sandbox is reset was noted."""
        self._dispose_seconds = dispose_seconds
        self._hurry = hurry

    async def close(self, emit: Callable[[LaneClosed], None], trouble: Callable[[str], None]) -> None:
        """Dispose of the sandbox, if there is one, within its limit; `trouble` is told what went wrong."""
        sandbox, self.sandbox = self.sandbox, None
        name = None if sandbox is None else name_of(sandbox)
        gone: str | None = None
        try:
            if sandbox is not None:
                await shielded(_dispose(sandbox), self._dispose_seconds, self._hurry)
                gone = name
        except Exception as error:
            trouble(f"sandbox {name} of lane {self.name}: {describe(error)}")
        finally:
            emit(LaneClosed(self.name, self.experiment, gone))


async def _dispose(sandbox: Sandbox) -> None:
    with boundary(Phase.DISPOSE):
        await sandbox.dispose()
