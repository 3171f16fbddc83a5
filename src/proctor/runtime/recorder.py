"""Writes down what happens, each event in the run that it is of."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from proctor.model.events import (
    AttemptSealed,
    Completion,
    Event,
    Interrupted,
    Notice,
    RunEnded,
    TryStarted,
)
from proctor.runtime.log_scope import SHOWN
from proctor.runtime.publisher import Publisher
from proctor.runtime.sandbox_ledger import SandboxLedger

log = logging.getLogger(__name__)


class Recorder:
    """Gives events to the publisher, and knows which attempts, runs and sandboxes have not ended."""

    def __init__(self, publisher: Publisher, experiments: Iterable[str]) -> None:
        self._publisher = publisher
        self._unended = dict.fromkeys(experiments)
        self._experiment_of: dict[str, str] = {}
        self.sandboxes = SandboxLedger()

    def experiment(self, event: Event) -> str | None:
        """Return the experiment that an event is of, or None for that of an attempt that is over."""
        named: str | None = getattr(event, "experiment", None)
        return named or self._experiment_of.get(getattr(event, "attempt", ""))

    def of_attempt(self, attempt: str) -> str:
        """Return the experiment of an attempt that is not over."""
        return self._experiment_of[attempt]

    def record(self, experiment: str, event: Event) -> None:
        """Write down an event of an experiment."""
        if isinstance(event, TryStarted):
            self._experiment_of[event.attempt] = experiment
        elif isinstance(event, AttemptSealed):
            self._experiment_of.pop(event.attempt, None)  # one that had no try was never here
        self.sandboxes.note(event, experiment)
        self._publisher.record(experiment, event)

    def interruption(self, event: Interrupted) -> None:
        """Write down in every run that has not ended why it is going to."""
        self.sandboxes.note(event)
        log.warning("stopping: %s", event.cause or f"signal {event.signal}", extra=SHOWN)
        for experiment in self._unended:
            self._publisher.record(experiment, event)

    def run_ended(self, experiment: str, completion: Completion, waited: Mapping[str, float]) -> None:
        """Write down the end of a run, with the slot-seconds that its slots waited by what held them back."""
        del self._unended[experiment]
        self._publisher.record(experiment, RunEnded(experiment, completion, waited))

    def note(self, events: Iterable[Event | Notice]) -> None:
        """Write down, at once, events by which nobody decides any more; what has failed before may fail here again."""
        try:
            for event in events:
                if isinstance(event, Interrupted):
                    self.interruption(event)
                elif not isinstance(event, Notice) and (experiment := self.experiment(event)) is not None:
                    self.record(experiment, event)
            self._publisher.end_step()
        except Exception:
            log.exception("what happened at the end could not be noted")
