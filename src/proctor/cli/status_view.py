"""How runs that go on are shown by `proctor status`: as lines, and as JSON. Ages are of the moment of the answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from proctor.core.aggregate import Counts
from proctor.report.columns import table
from proctor.report.cost_words import known_part
from proctor.report.plain import counts_line
from proctor.report.wording import SEPARATOR, duration, money, plural, printable
from proctor.runtime.clock import utc
from proctor.store.active_runs import Seen
from proctor.store.owner import Living
from proctor.store.progress_file import Flight, Left, Progress

LATE_AFTER_SECONDS = 5.0
"""So much later than it was announced the next progress may come; an invocation that is later does not answer."""

ROWS_SHOWN = 20
"""Of one run so many attempts in flight are shown unless all are asked for: the longest silent ones."""


class State(StrEnum):
    """How a run stands."""

    RUNNING = "running"
    NOT_ANSWERING = "not answering"
    """Its process is alive, or may be, and tells nothing; or its files cannot be read."""
    LOST = "lost"
    """Its process is gone, and the run did not come to its end."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Standing:
    """How one run stands at the moment `now`."""

    seen: Seen
    now: float
    state: State
    why: str | None = None
    """Where it is not simply running: what is known of the cause."""

    @property
    def since(self) -> float | None:
        """The moment of the last sign of it, where it gives none any more."""
        progress = self.seen.progress
        gone = self.state in (State.NOT_ANSWERING, State.LOST)
        return progress.written_at if progress is not None and gone else None

    @property
    def current(self) -> bool:
        """Whether ages can be told: of what is gone or has ended nothing grows older."""
        return self.state in (State.RUNNING, State.NOT_ANSWERING)


def standing_of(seen: Seen, now: float) -> Standing:  # noqa: PLR0911 - one line per state
    """Return how a run stands that was seen so at `now`."""
    progress, life = seen.progress, seen.life
    if progress is not None and progress.ended:
        return Standing(seen, now, State.ENDED)
    if life is not None and life.living is Living.DEAD:
        return Standing(seen, now, State.LOST, "; ".join(filter(None, (life.why, seen.problem))))
    if seen.problem is not None:
        return Standing(seen, now, State.NOT_ANSWERING, seen.problem)
    if seen.writer is None or life is None:
        return Standing(seen, now, State.ENDED, "it told no end; `proctor show` reads its journal")
    if life.stopped:
        return Standing(seen, now, State.NOT_ANSWERING, life.why)
    if progress is None:
        return Standing(seen, now, State.RUNNING, "it has told no progress yet")
    if now - progress.written_at > progress.every_seconds + LATE_AFTER_SECONDS:
        busy = "; its event loop is held, or its disk takes nothing" if life.living is Living.ALIVE else ""
        return Standing(seen, now, State.NOT_ANSWERING, f"{life.why}{busy}")
    return Standing(seen, now, State.RUNNING)


# ------------------------------------------------------------------------------------------------------------ lines


def status_lines(one: Standing, *, rows: int | None = ROWS_SHOWN) -> list[str]:
    """Return what is said of one run; `rows` attempts in flight at most, or all."""
    progress = one.seen.progress
    lines = [_headline(one)]
    if progress is None:
        return lines
    facts = [
        counts_line(
            _counts(progress),
            backing_off=progress.backing_off,
            waiting_for_grading=progress.waiting_for_grading,
            between_tries=progress.between_tries,
        ),
        known_part(progress.cost_usd, progress.cost_at_least_usd, progress.unpriced_calls),
        *_estimate(one, progress.estimate),
    ]
    lines.append("  " + SEPARATOR.join(facts))
    if progress.waiting:
        lines.append("  waiting: " + SEPARATOR.join(f"{n:,} {printable(gate)}" for gate, n in progress.waiting.items()))
    if one.state is State.LOST and progress.in_flight:
        lines.append("  in flight when it was seen last:")
    return lines + _table(one, progress, rows)


def _headline(one: Standing) -> str:
    progress, writer = one.seen.progress, one.seen.writer
    parts = [str(one.seen.directory)]
    if progress is not None:
        parts.append(printable(progress.experiment))
    state = str(one.state)
    if one.since is not None:
        state += f" since {_clock(one.since)} ({duration(max(0.0, one.now - one.since))} ago)"
    if progress is not None and progress.completion is not None and one.state is State.ENDED:
        state += f" ({progress.completion})"
    parts.append(state)
    if one.why is not None:
        parts.append(printable(one.why))
    elif one.state is State.RUNNING and progress is not None:
        owner = str(progress.owner) if progress.owner is not None else str(writer)
        parts.append(f"for {duration(max(0.0, one.now - progress.started_at))}, {owner}")
    return SEPARATOR.join(parts)


def _estimate(one: Standing, left: Left | None) -> list[str]:
    progress = one.seen.progress
    if left is None or progress is None or not one.current:
        return []
    said: list[str] = []
    if left.seconds_left is not None:
        said.append(f"eta {duration(max(0.0, left.seconds_left - (one.now - progress.written_at)))}")
    if left.cost_usd:
        spread = f" ±{left.cost_spread_usd:.2f}" if left.cost_spread_usd is not None else ""
        said.append(f"{money(left.cost_usd)}{spread} expected in all")
    return said


_HEAD = ("TASK", "TRY", "PHASE", "FOR", "LAST OUTPUT", "LIMIT", "ENDS")


def _table(one: Standing, progress: Progress, rows: int | None) -> list[str]:
    if not progress.in_flight:
        return []
    now = one.now if one.current else progress.written_at
    silent = sorted(progress.in_flight, key=lambda each: (each.output_at is None, each.output_at or each.started_at))
    shown = silent if rows is None else silent[:rows]
    lines = table([_HEAD, *(_row(each, now) for each in shown)], "  ")
    if len(shown) < len(silent):
        lines.append(f"  and {plural(len(silent) - len(shown), 'more attempt')} in flight (--all)")
    return lines


def _row(each: Flight, now: float) -> tuple[str, ...]:
    phase = each.phase or "-"
    if each.state != "running":
        phase = each.state if each.phase is None else f"{each.phase}, {each.state}"
        if each.waits_until is not None:
            phase += f" {duration(max(0.0, each.waits_until - now))}"
        if each.backing_off is not None:
            phase += f" ({each.backing_off})"
    limit = f"{each.limit} {duration(each.limit_seconds)}" if each.limit and each.limit_seconds is not None else "none"
    return (
        f"{printable(each.task)} #{each.ordinal}",
        str(each.try_number),
        phase,
        _age(each.phase_at, now),
        _age(each.output_at, now),
        limit,
        _end(each, now),
    )


def _end(each: Flight, now: float) -> str:
    if each.ends_at is not None:
        return f"in {duration(max(0.0, each.ends_at - now))}, {_clock(each.ends_at)}"
    return f"{duration(each.left_seconds)} left, it waits" if each.left_seconds is not None else "-"


def _age(at: float | None, now: float) -> str:
    return "-" if at is None else duration(max(0.0, now - at))


def _clock(at: float) -> str:
    return utc(at).strftime("%H:%M:%SZ")


def _counts(progress: Progress) -> Counts:
    known = set(Counts.__dataclass_fields__)
    return Counts(**{name: value for name, value in progress.counts.items() if name in known})


# ------------------------------------------------------------------------------------------------------------- JSON


def status_data(one: Standing) -> dict[str, Any]:
    """Return what is said of one run as JSON: its progress, and ages as of `now` beside the moments."""
    seen = one.seen
    data: dict[str, Any] = {
        "directory": str(seen.directory),
        "state": one.state.value,
        "why": one.why,
        "since": one.since,
        "now": round(one.now, 3),
        "process": None
        if seen.life is None
        else {"living": seen.life.living.value, "why": seen.life.why, "stopped": seen.life.stopped},
        "progress": None,
    }
    if seen.progress is not None:
        now = one.now if one.current else seen.progress.written_at
        content = msgspec.to_builtins(seen.progress)
        content["in_flight"] = [_flight_data(each, now) for each in seen.progress.in_flight]
        data["progress"] = content
    return data


def _flight_data(each: Flight, now: float) -> dict[str, Any]:
    ages = {
        "seconds_in_phase": None if each.phase_at is None else round(max(0.0, now - each.phase_at), 1),
        "seconds_since_output": None if each.output_at is None else round(max(0.0, now - each.output_at), 1),
        "ends_in_seconds": None if each.ends_at is None else round(max(0.0, each.ends_at - now), 1),
    }
    return {**{name: getattr(each, name) for name in each.__struct_fields__}, **ages}


__all__ = ["ROWS_SHOWN", "Standing", "State", "standing_of", "status_data", "status_lines"]
