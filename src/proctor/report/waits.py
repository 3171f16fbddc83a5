"""Why attempts wait: one sentence at the beginning of each wait, with its cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

from proctor.model.attempt import TryResult
from proctor.model.codes import Severity
from proctor.model.events import AttemptSealed, BackoffStarted, Event, TryEnded, TryStarted
from proctor.model.ids import AttemptId
from proctor.report.view import RunView
from proctor.report.wording import duration, printable

QUIET_SECONDS = 30.0
"""A display says a cause once in so long; the log has every wait."""


class Waits:
    """Finds the waits that begin; what is to be shown as well as logged is `loud`."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], float] = {}

    def begun(
        self, batch: Iterable[tuple[str, Event, float]], views: Mapping[str, RunView]
    ) -> Iterator[tuple[str, bool]]:
        """Yield (sentence, loud) of each wait that begins with (experiment, event, moment), as the views know them.

        An attempt waits to be tried again where a try of it has ended and the attempt is not final.
        """
        batch = list(batch)
        slots = _slots_in(batch)
        sealed = {(event.attempt, event.tries) for _, event, _ in batch if isinstance(event, AttemptSealed)}
        for experiment, event, at in batch:
            if isinstance(event, BackoffStarted):
                cause, words = event.code, f"{duration(event.seconds)}, because of {event.code}"
            elif isinstance(event, TryEnded) and self._waits(views[experiment], event, sealed):
                cause = cause_of(event.result)
                words = f"before try {event.try_number + 1}, because of {cause}{_asked_for(event)}"
            else:
                continue
            loud = at - self._said.get((experiment, cause), float("-inf")) >= QUIET_SECONDS
            if loud:
                self._said[experiment, cause] = at
            yield f"wait: {_slot(views[experiment], event.attempt, slots)}  {words}", loud

    @staticmethod
    def _waits(view: RunView, event: TryEnded, sealed: Set[tuple[AttemptId, int]]) -> bool:
        """Say whether what follows is another try; what ends an attempt comes in the same batch as its last try."""
        if (event.attempt, event.try_number) in sealed:
            return False
        flight = view.in_flight.get(event.attempt)
        return flight is None or flight.ended or flight.try_number > event.try_number


def cause_of(result: TryResult) -> str:
    """Return the code that another try is made for; the outcome where there is none."""
    for severity in (Severity.FATAL, Severity.ERROR):
        for issue in result.issues:
            if issue.severity is severity:
                return issue.code
    return result.outcome.value


def _asked_for(event: TryEnded) -> str:
    seconds = event.retry_after_seconds
    return f"; the server asks for {duration(seconds)}" if seconds else ""


def _slots_in(batch: Iterable[tuple[str, Event, float]]) -> dict[AttemptId, str]:
    """Return the slots of attempts that the batch itself ties to one: a view may be past them."""
    return {
        event.attempt: f"{printable(event.task)} #{event.ordinal}"
        for _, event, _ in batch
        if isinstance(event, TryStarted | AttemptSealed)
    }


def _slot(view: RunView, attempt: AttemptId, slots: Mapping[AttemptId, str]) -> str:
    flight = view.in_flight.get(attempt)
    return f"{printable(flight.task)} #{flight.ordinal}" if flight is not None else slots.get(attempt, f"@{attempt}")
