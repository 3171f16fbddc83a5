"""Whether a run will open a sandbox at all: else its provider need not work here."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from proctor.cli import plan_images, sandbox_providers
from proctor.cli.starting import will_open
from proctor.core.schedule import DecidedSlot, ExperimentPlan, Filling
from proctor.model.attempt import GradingMode
from proctor.testing.fake_provider import FakeProvider

GRADED, REUSED, PASSED = Filling.GRADING_ONLY, Filling.REUSED, Filling.REUSED_PASSED


def plan(grading: GradingMode, *fillings: Filling, agent: bool = True, early_exit: bool = False) -> ExperimentPlan:
    """Of one task with two attempts, of whose slots the first are decided."""
    decided = tuple(DecidedSlot(0, ordinal, filling) for ordinal, filling in enumerate(fillings))
    return ExperimentPlan("e", ("t",), 2, "local", (agent,), grading=grading, early_exit=early_exit, decided=decided)


@pytest.mark.parametrize(
    ("schedule", "opens"),
    [
        (plan(GradingMode.NONE), True),
        (plan(GradingMode.NONE, agent=False), False),
        (plan(GradingMode.FRESH, agent=False), True),
        (plan(GradingMode.REUSE, REUSED), True),
        (plan(GradingMode.REUSE, REUSED, PASSED), False),
        (plan(GradingMode.REUSE, PASSED), True),
        (plan(GradingMode.REUSE, PASSED, early_exit=True), False),
        (plan(GradingMode.NONE, GRADED, REUSED), False),
        (plan(GradingMode.NONE, GRADED), True),
        (plan(GradingMode.FRESH, GRADED, REUSED), True),
    ],
)
def test_what_no_saved_attempt_stands_for_opens_a_sandbox(schedule: ExperimentPlan, opens: bool) -> None:
    assert will_open(schedule) is opens


class Deaf(FakeProvider):
    """Does not answer, and does not hear that nobody waits any more until it is told so a third time."""

    async def unavailable(self) -> str | None:
        for _ in range(2):
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        await asyncio.Event().wait()
        return None


def test_a_provider_that_ignores_that_nobody_waits_holds_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_images, "PROBE_SECONDS", 0.01)
    monkeypatch.setattr(sandbox_providers, "CLEAN_SECONDS", 0.01)
    why = asyncio.run(plan_images.why_unavailable(Deaf()))
    assert why is not None
    assert "did not answer" in why
