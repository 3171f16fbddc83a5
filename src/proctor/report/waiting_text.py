"""What queued attempts wait for, in words; the numbers add up to all that are queued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proctor.model.waiting import Gate, Waiting
from proctor.report.view import RunView
from proctor.report.wording import SEPARATOR, plural, printable, running_clock

ITEMS_SHOWN = 8

_FORMS: Mapping[Gate, str] = {
    Gate.CONCURRENCY: "concurrency {numbers}",
    Gate.EXPERIMENT: "{name} ≤{limit}",
    Gate.PROVIDER: "{name} {numbers}",
    Gate.OPEN_RATE: "open rate of {name}",
    Gate.EXCLUSIVE: "{name}, one at a time",
    Gate.SAME_TASK: "same task",
    Gate.LANE: "lane",
    Gate.SETUP: "setup of {name}{age}",
    Gate.LEASE: "lease {name}{holder}{age}",
    Gate.HOST: "host {name}",
    Gate.MODEL: "model {name} {numbers}",
    Gate.MODEL_RATE: "request rate of {name}",
    Gate.BUDGET: "budget of {name}",
    Gate.BACKOFF: "backoff of {name}",
    Gate.EARLY_EXIT: "early exit",
    Gate.RESERVED: "reserved for another",
    Gate.DECIDED: "just decided",
}


def settled(waiting: Sequence[Waiting], views: Mapping[str, RunView]) -> list[Waiting]:
    """Return what waits such that it adds up to what the views count as queued.

    The scheduler is ahead of what is shown: what it has started or given up meanwhile is `just decided`.
    """
    left = {name: view.queued for name, view in views.items()}
    found: list[Waiting] = []
    for each in waiting:
        slots = min(each.slots, left.get(each.experiment, 0))
        if slots:
            left[each.experiment] -= slots
            found.append(each if slots == each.slots else each._replace(slots=slots))
    return found + [Waiting(name, Gate.DECIDED, "", slots) for name, slots in left.items() if slots]


def together(waiting: Sequence[Waiting]) -> list[Waiting]:
    """Return one entry for each gate, whichever experiment it holds back, in order of numbers."""
    found: dict[tuple[Gate, str], Waiting] = {}
    for each in waiting:
        known = found.get((each.gate, each.name))
        found[each.gate, each.name] = each if known is None else each._replace(slots=known.slots + each.slots)
    return sorted(found.values(), key=lambda each: -each.slots)


def waiting_items(
    waiting: Sequence[Waiting],
    *,
    since: Mapping[str, float] | None = None,
    holders: Mapping[str, str] | None = None,
    now: float = 0.0,
) -> list[str]:
    """Return `9 docker 8/8` and the like, one for each gate; beyond `ITEMS_SHOWN` the rest are one.

    `since` says when each experiment began to wait for its lease or setup, `holders` who holds each lease.
    """
    items = together(waiting)
    shown = items if len(items) <= ITEMS_SHOWN else items[: ITEMS_SHOWN - 1]
    words = [f"{each.slots:,} {gate_text(each, since=since, holders=holders, now=now)}" for each in shown]
    rest = items[len(shown) :]
    if rest:
        words.append(f"{sum(each.slots for each in rest):,} {plural(len(rest), 'other gate')}")
    return words


def gate_text(
    each: Waiting,
    *,
    since: Mapping[str, float] | None = None,
    holders: Mapping[str, str] | None = None,
    now: float = 0.0,
) -> str:
    """Return what one gate is called, with how much of it is in use, and since when it is waited for."""
    began = (since or {}).get(each.experiment)
    holder = (holders or {}).get(each.name)
    return _FORMS[each.gate].format(
        name=printable(each.name, most=60),
        numbers=f"{each.held}/{each.limit}",
        limit=each.limit,
        age="" if began is None else f" {'' if holder is None else 'for '}{running_clock(now - began)}",
        holder="" if holder is None else f" held by {printable(holder)}, waited",
    )


def waits_since(views: Mapping[str, RunView]) -> dict[str, float]:
    """Return when each experiment began what comes before its attempts: to wait for its lease, then its setup."""
    found: dict[str, float] = {}
    for name, view in views.items():
        began = view.started_at if view.leased_at is None else view.leased_at
        if began is not None:
            found[name] = began
    return found


def waiting_line(items: Sequence[str]) -> str:
    """Return all of it as one line of text."""
    return "waiting: " + SEPARATOR.join(items)
