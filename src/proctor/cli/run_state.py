"""What became of a run whose journal has no end: it goes on, it was stopped, or it ended without a trace."""

from __future__ import annotations

from proctor.model.events import Interrupted
from proctor.report.wording import printable
from proctor.store.layout import RunLayout
from proctor.store.lock import is_being_written, read_writer
from proctor.store.reader import read_journal


def state_of_unended(layout: RunLayout) -> str:
    """Return one sentence. Raises `StoreError` where the journal or its lock cannot be read."""
    writer = read_writer(layout.journal) or "its process"
    alive = is_being_written(layout.journal)
    if alive:
        return f"the run is still running: {writer}"
    if alive is None:
        return f"the run has not ended, or ended without a trace: {writer} cannot be seen from here"
    causes = [event.cause or f"signal {event.signal}" for event, _ in read_journal(layout.journal)
              if isinstance(event, Interrupted)]  # fmt: skip
    if causes:
        return f"the run did not come to its end: {writer} is gone; it was stopping because of {printable(causes[0])}"
    return f"the run ended without a trace: {writer} is gone, and nothing says why (`kill -9`, or out of memory?)"
