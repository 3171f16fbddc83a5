"""How what attempts use is doing: whether more at a time would do any good (docs/find-your-concurrency.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from proctor.report.tallies import Tallies
from proctor.report.wording import SEPARATOR, duration, plural


@dataclass(frozen=True, slots=True)
class CallStats:
    """The model calls that ended last: how many, the median of those that were answered, and what became of the rest.

    A call that was refused for now counts in `limited` where it was by a rate limit (429), else in `failed`, as does
    every other call that brought no answer.
    """

    calls: int
    median_seconds: float | None
    limited: int
    failed: int


@dataclass(frozen=True, slots=True)
class HostLoad:
    """What this machine is doing: shares from 0 to 1."""

    cpu: float | None = None
    memory: float | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of it now; what is not known is None and left out."""

    open_seconds: float | None = None
    calls: CallStats | None = None
    host: HostLoad | None = None


def health_of(views: Iterable[Tallies], calls: CallStats | None, host: HostLoad | None) -> Health:
    """Put together what the runs of an invocation and the machine say."""
    opens = [seconds for view in views for seconds in view.opens]
    return Health(median(opens) if opens else None, calls if calls is not None and calls.calls else None, host)


def health_items(health: Health) -> list[str]:
    """Return what is known, in words; nothing where nothing is."""
    items: list[str] = []
    if health.open_seconds is not None:
        items.append(f"open {duration(health.open_seconds)}")
    calls = health.calls
    if calls is not None:
        if calls.median_seconds is not None:
            items.append(f"model call {duration(calls.median_seconds)}")
        items.append(f"429s {calls.limited / calls.calls:.0%}")
        items.append(f"errors {calls.failed / calls.calls:.0%} of the last {plural(calls.calls, 'call')}")
    host = health.host
    if host is not None and host.cpu is not None:
        items.append(f"cpu {host.cpu:.0%}")
    if host is not None and host.memory is not None:
        items.append(f"memory {host.memory:.0%}")
    return items


def health_line(health: Health) -> str | None:
    """Return it as one line of text; None where nothing is known."""
    items = health_items(health)
    return "health: " + SEPARATOR.join(items) if items else None
