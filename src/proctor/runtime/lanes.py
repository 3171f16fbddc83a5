"""Lanes: sandboxes that several attempts use one after another (spec 03 L0-L5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proctor.errors import boundary, describe
from proctor.model.attempt import Issue, Outcome, Phase, issue_of
from proctor.model.events import LaneClosed
from proctor.plugins.api import Sandbox
from proctor.runtime.agent_box import AgentBox
from proctor.runtime.hurry import Hurry
from proctor.runtime.shield import shielded

RETIRING_CODES = frozenset({
    "provider.lost", "provider.open_failed", "provider.open_timeout", "sandbox.setup_failed", "task.setup_failed",
    "harness.crashed", "harness.out_of_memory", "task.crashed", "tool.crashed", "collect.failed", "internal",
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
        self.box: AgentBox | None = None
        self.marked = False
        """Whether the state to which the sandbox is reset was noted."""
        self._dispose_seconds = dispose_seconds
        self._hurry = hurry

    @property
    def sandbox(self) -> Sandbox | None:
        """Its sandbox, where it was opened."""
        return None if self.box is None else self.box.sandbox

    async def close(self, emit: Callable[[LaneClosed], None], trouble: Callable[[str], None]) -> None:
        """Undo what hooks did to the sandbox, and dispose of it, if there is one, each within the limit.

        `trouble` is told what went wrong. To be called where no cancellation arrives.
        """
        box, self.box = self.box, None
        gone: str | None = None
        issue: Issue | None = None

        def failed(code: str, message: str) -> None:
            nonlocal issue
            issue = issue or issue_of(code, f"{message} of lane {self.name}")
            trouble(f"{message} of lane {self.name}")

        try:
            if box is not None:
                await box.tear_down(self._dispose_seconds, self._hurry or Hurry(), failed)
                await shielded(_dispose(box.sandbox), self._dispose_seconds, self._hurry)
                gone = box.name
        except Exception as error:
            trouble(f"sandbox {box.name if box else ''} of lane {self.name}: {describe(error)}")
        finally:
            emit(LaneClosed(self.name, self.experiment, gone, issue))


async def _dispose(sandbox: Sandbox) -> None:
    with boundary(Phase.DISPOSE):
        await sandbox.dispose()
