"""What goes back while a try goes on, by the table "what is held when" of spec 03 (a referee's part)."""

from __future__ import annotations

from proctor.model.attempt import GradingMode, Phase
from proctor.model.events import (
    BackoffEnded,
    BackoffStarted,
    GradingQueued,
    PhaseEnded,
    PhaseStarted,
    Purpose,
    SandboxOpened,
    TryEvent,
    WorkCheckpointed,
)
from proctor.testing.referee_books import BOX, Ledger, is_of_provider
from proctor.testing.referee_cases import Live, require


def opened(ledger: Ledger, event: SandboxOpened, live: Live) -> None:
    """Judge that a sandbox opens under a permit, and none beside it."""
    plan = ledger.plan_of(live)
    provider = f"provider {plan.graded_at if event.purpose is Purpose.GRADE else plan.provider}"
    owner = ledger.lanes[live.lane] if live.lane is not None else live
    require(owner.gates[provider] > 0, f"G3: {event} without a permit of its provider")
    require(live.sandbox is None, f"{event}, with another one still open")
    require(not (live.only and event.purpose is Purpose.AGENT), f"T3: {event} in a try that only grades")
    if live.lane is None:
        live.sandbox = event.sandbox
    elif event.purpose is Purpose.AGENT:
        ledger.lanes[live.lane].opened = True


def held_when(ledger: Ledger, event: TryEvent, live: Live) -> None:
    """Count what goes back, by the table."""
    plan = ledger.plan_of(live)
    match event:
        case WorkCheckpointed():
            live.saved = True
        case BackoffStarted():
            live.before, live.where = live.where, "backing off"
            graded = live.before == "grading"
            provider = plan.graded_at if graded else plan.provider
            refused = is_of_provider(event.code)
            model = (plan.judge or plan.model) if graded else plan.model
            live.refused_open = provider if refused else None
            live.endpoint = f"provider {provider}" if refused or model is None else f"model {model}"
            ledger.give(live, ["global"])
        case BackoffEnded():
            live.where = "resuming"
        case GradingQueued():
            require(not live.only, f"T3: {event} of a try that has its permits")
            live.where = "waiting for grading"
            ledger.give(live, ["global", "model ", *BOX])
        case PhaseStarted(_, Phase.DISPOSE):
            ledger.give(live, ["model "])
        case PhaseStarted(_, Phase.GRADE) if plan.grading is GradingMode.NONE and live.where != "grading":
            ledger.give(live, ["model ", *BOX])
        case PhaseEnded(_, Phase.DISPOSE) if plan.grading is not GradingMode.REUSE and live.where != "grading":
            ledger.give(live, ["model ", *BOX])
        case _:
            pass
