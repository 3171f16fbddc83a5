"""What progress.json says of one attempt in flight: what the fold of events knows, and what can be seen of its try."""

from __future__ import annotations

from collections.abc import Callable

from proctor.model.attempt import Phase
from proctor.model.ids import AttemptId
from proctor.model.spec import TimeLimits
from proctor.report.in_flight import InFlight
from proctor.runtime.countdown import Limit, Sight
from proctor.store.plain import escape_surrogates
from proctor.store.progress_file import Flight

LimitsOf = Callable[[str], TimeLimits]
"""The limits of a try, by the id of its task."""


def flight_row(
    attempt: AttemptId,
    flight: InFlight,
    sight: Sight | None,
    limits: LimitsOf,
    now: float,
    *,
    waits: bool,
    retry_in: float | None,
) -> Flight:
    """Return what is said of one attempt, as of `now`.

    `waits`: for the permits of grading. `retry_in`: so many seconds until it is tried again, where it waits for that.
    """
    phase, phase_at, cause = flight.phase, flight.phase_at, flight.backing_off
    state, until = "running", None
    if cause is not None:
        state, until = "backing off", _until(flight)
    elif flight.ended:
        state, cause = "between tries", flight.cause or None
        until = None if retry_in is None else round(now + retry_in, 1)
    elif waits:
        state = "waiting for grading"
    elif flight.image is not None:
        state, cause = "waiting for image", escape_surrogates(flight.image)
    limit = seconds = ends_at = left = output_at = None
    if state != "between tries" and sight is not None:
        output_at = round(now - sight.silent_seconds, 1)
        if sight.limit is not None and phase is not None:
            limit, seconds = _named(sight, phase, flight.task, limits)
            if sight.paused:
                left = round(sight.left_seconds or 0.0, 1)
            else:
                ends_at = round(now + (sight.left_seconds or 0.0), 1)
        elif phase is Phase.DISPOSE and not waits and (seconds := limits(flight.task).dispose_seconds):
            limit, ends_at = "dispose_timeout_seconds", round(phase_at + seconds, 1)
    return Flight(
        attempt, escape_surrogates(flight.task), flight.ordinal, flight.try_number, state, round(flight.started_at, 1),
        phase.value if phase is not None and state != "between tries" else None,
        round(phase_at, 1) if phase is not None and state != "between tries" else None,
        output_at, limit, seconds, ends_at, left, cause, until,
    )  # fmt: skip


def _until(flight: InFlight) -> float | None:
    seconds = flight.waits_seconds
    return None if seconds is None else round(flight.waits_since + seconds, 1)


def _named(sight: Sight, phase: Phase, task: str, limits: LimitsOf) -> tuple[str, float | None]:
    """Return a limit by the name of its setting, and how long it is."""
    match sight.limit:
        case Limit.IDLE:
            return "agent_idle_timeout_seconds", sight.limit_seconds
        case Limit.TRY:
            return "timeout_seconds", limits(task).try_seconds
        case _:
            return f"{phase.value}_timeout_seconds", sight.limit_seconds
