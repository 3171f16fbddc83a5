"""What begins and is worth a line of text: a gate that starts to block, and what is prepared before any work begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from proctor.model.attempt import Phase
from proctor.model.waiting import Gate, Waiting
from proctor.report.in_flight import InFlight
from proctor.report.view import RunView
from proctor.report.waiting_text import gate_text, together, waits_since
from proctor.report.wording import SEPARATOR, duration, printable

QUIET_SECONDS = 30.0
"""A gate that blocks again is named again after so long."""

_PREPARING = (Phase.OPEN, Phase.SETUP)


class Beginnings:
    """Remembers what was said."""

    def __init__(self) -> None:
        self._blocking: set[tuple[Gate, str]] = set()
        self._said: dict[tuple[Gate, str], float] = {}
        self._prepared: set[tuple[str, str]] = set()

    def lines(
        self, waiting: Sequence[Waiting], views: Mapping[str, RunView], now: float, holders: Mapping[str, str]
    ) -> Iterator[str]:
        """Yield one line about the gates that have started to block since the last call, and one for each preparation.

        Ages are in them: what takes long before the first attempt works is said within the second, not at its end.
        """
        since = waits_since(views)
        begun: list[str] = []
        blocking: set[tuple[Gate, str]] = set()
        for each in together(waiting):
            if each.gate is Gate.DECIDED:
                continue
            key = each.gate, each.name
            blocking.add(key)
            if key not in self._blocking and now - self._said.get(key, float("-inf")) >= QUIET_SECONDS:
                self._said[key] = now
                begun.append(f"{each.slots:,} {gate_text(each, since=since, holders=holders, now=now)}")
        self._blocking = blocking
        if begun:
            yield "waiting: " + SEPARATOR.join(begun)
        yield from self._preparations(views, now)

    def _preparations(self, views: Mapping[str, RunView], now: float) -> Iterator[str]:
        for name, view in views.items():
            if view.worked:
                continue
            who = f"{printable(name)} " if len(views) > 1 else ""
            awaiting = [flight for flight in view.in_flight.values() if flight.image is not None]
            if awaiting and (name, "image") not in self._prepared:
                self._prepared.add((name, "image"))
                first = min(awaiting, key=lambda flight: flight.waits_since)
                what = f"image {printable(first.image or '')} for {duration(now - first.waits_since)}"
                yield f"preparing: {what}: {who}{_slots(first, len(awaiting))}"
            for phase in _PREPARING:
                flights = [flight for flight in view.in_flight.values() if flight.phase is phase and not flight.ended]
                if not flights or (name, phase) in self._prepared:
                    continue
                self._prepared.add((name, phase))
                first = min(flights, key=lambda flight: flight.phase_at)
                yield f"preparing: {phase} for {duration(now - first.phase_at)}: {who}{_slots(first, len(flights))}"


def _slots(first: InFlight, number: int) -> str:
    more = f" and {number - 1:,} more" if number > 1 else ""
    return f"{printable(first.task)} #{first.ordinal}{more}"
