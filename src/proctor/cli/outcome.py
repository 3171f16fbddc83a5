"""How an invocation ended, and the exit code that says so (spec 02)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from proctor.cli.exits import Exit, exit_of_signal, strongest
from proctor.cli.run_writer import RunWriter
from proctor.errors import StoreError
from proctor.model.events import StopReason
from proctor.report.summary import run_rate
from proctor.report.view import RunView


@dataclass(slots=True)
class Outcome:
    """How an invocation ended: the final view of each run by experiment name, and the exit code."""

    views: dict[str, RunView]
    writers: dict[str, RunWriter]
    exit: Exit
    store_error: StoreError | None = None
    bug: Exception | None = None

    @contextmanager
    def writing(self) -> Generator[None]:
        """Note that something could not be written, and go on: the journal has it all."""
        try:
            yield
        except StoreError as error:
            self.store_error = self.store_error or error
            self.exit = strongest(self.exit, Exit.INCOMPLETE)


def exit_code(outcome: Outcome, fail_under: float | None) -> Exit:
    """Return the exit code of an invocation: 70, then a signal, then 3, then 1 (spec 02)."""
    found = [Exit.OK]
    if outcome.store_error is not None:
        found.append(Exit.INCOMPLETE)
    for view in outcome.views.values():
        counts = view.counts
        if outcome.bug is not None or any(code == "internal" for _, code in view.issues):
            found.append(Exit.INTERNAL)
        if view.signal:
            found.append(exit_of_signal(view.signal))
        cut = {reason: n for reason, n in counts.not_dispatched.items() if reason != StopReason.EARLY_EXIT}
        if (
            view.teardown_failed
            or counts.errored
            or sum(cut.values())
            or counts.cancelled > view.needless
            or not view.scored
        ):
            found.append(Exit.INCOMPLETE)
        elif fail_under is not None and (run_rate(view).rate or 0.0) < fail_under:
            found.append(Exit.GATE_NOT_MET)
    return strongest(*found)
