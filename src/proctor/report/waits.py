"""Why attempts wait: one sentence at the beginning of each wait, with its cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from proctor.model.events import AttemptSealed, BackoffStarted, Event, TryEnded, TryStarted
from proctor.model.ids import AttemptId
from proctor.report.in_flight import cause_of
from proctor.report.view import RunView
from proctor.report.wording import duration, printable

QUIET_SECONDS = 30.0
"""A display says a cause once in so long; the log has every wait."""


_ENDS = (BackoffStarted, TryEnded)


class Waits:
    """Finds the waits that begin; what is to be shown as well as logged is `loud`."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], float] = {}

    def begun(
        self, batch: Sequence[tuple[str, Event, float]], views: Mapping[str, RunView]
    ) -> Iterator[tuple[str, bool]]:
        """Yield (sentence, loud) of each wait that begins with (experiment, event, moment), as the views know them.

        An attempt waits to be tried again where a try of it has ended and the attempt is not final.
        """
        ends = [each for each in batch if type(each[1]) in _ENDS]  # few are, and of most attempts there is no more
        if not ends:
            return
        sealed = {(event.attempt, event.tries) for _, event, _ in batch if isinstance(event, AttemptSealed)}
        for experiment, event, at in ends:
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
            whose = f"{printable(experiment)} " if len(views) > 1 else ""
            yield f"wait: {whose}{_slot(views[experiment], event.attempt, batch)}  {words}", loud

    @staticmethod
    def _waits(view: RunView, event: TryEnded, sealed: Set[tuple[AttemptId, int]]) -> bool:
        """Say whether what follows is another try; what ends an attempt comes in the same batch as its last try."""
        if (event.attempt, event.try_number) in sealed:
            return False
        flight = view.in_flight.get(event.attempt)
        return flight is None or flight.ended or flight.try_number > event.try_number


def _asked_for(event: TryEnded) -> str:
    seconds = event.retry_after_seconds
    return f"; the server asks for {duration(seconds)}" if seconds else ""


def _slot(view: RunView, attempt: AttemptId, batch: Sequence[tuple[str, Event, float]]) -> str:
    """Return the slot of an attempt. A view may be past it: then the batch itself says which it was."""
    flight = view.in_flight.get(attempt)
    if flight is not None:
        return f"{printable(flight.task)} #{flight.ordinal}"
    for _, event, _ in batch:
        if isinstance(event, TryStarted | AttemptSealed) and event.attempt == attempt:
            return f"{printable(event.task)} #{event.ordinal}"
    return f"@{attempt}"
