"""How long queued slots waited for which gate: looked at from time to time, and added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proctor.model.waiting import Gate, Waiting

LEAST_SECONDS = 0.001
"""What is shorter is not noted."""


class WaitMeter:
    """Adds up the slot-seconds that slots wait. `look` returns what they wait for at a moment."""

    def __init__(self, look: Callable[[float], Sequence[Waiting]]) -> None:
        self._look = look
        self._last: tuple[float, Sequence[Waiting]] | None = None
        self._waited: dict[str, dict[str, float]] = {}

    def look(self, now: float) -> Sequence[Waiting]:
        """Return what every queued slot waits for now, and count the time since the last look."""
        self._count(now)
        found = self._look(now)
        self._last = now, found
        return found

    def waited(self, experiment: str, now: float) -> dict[str, float]:
        """Return the slot-seconds of an experiment by gate, up to now, rounded; the account is closed with that.

        Where no slot was seen to wait, what time they were queued went into deciding.
        """
        self.look(now)
        found = {gate: round(seconds, 3) for gate, seconds in self._waited.pop(experiment, {}).items()}
        return {gate: seconds for gate, seconds in found.items() if seconds > 0} or {Gate.DECIDED.value: LEAST_SECONDS}

    def _count(self, now: float) -> None:
        if self._last is None:
            return
        before, waiting = self._last
        for each in waiting:
            gate, waited = each.key, self._waited.setdefault(each.experiment, {})
            waited[gate] = waited.get(gate, 0.0) + max(0.0, now - before) * each.slots
