"""What is found out once it is known what will really be executed, and before anything of it costs time or money."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from proctor.cli.expected_durations import Histories, histories_of, with_durations
from proctor.cli.plan_images import why_unavailable
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.cli.saved_work import Filled
from proctor.core.decided import what_is_left
from proctor.core.schedule import ExperimentPlan
from proctor.errors import UsageError
from proctor.model.attempt import GradingMode
from proctor.plugins.api import Provider


async def ready_to_start(
    resolved: Sequence[Resolved], filled: Sequence[Filled], options: Options
) -> tuple[list[Filled], Histories]:
    """Return plans with how long attempts took before, and what earlier runs tell.

    Raises one `UsageError` that names every provider at which sandboxes will be opened and that cannot be used here.
    """
    pairs = zip(resolved, filled, strict=True)
    used = {one.provider.name: one.provider for one, (run_plan, _) in pairs if will_open(run_plan.schedule)}
    await _refuse_unavailable(list(used.values()))
    histories = histories_of(filled, options)
    return with_durations(filled, histories), histories


def will_open(schedule: ExperimentPlan) -> bool:
    """Say whether a sandbox will be opened, as far as that can be told from what planning decided."""
    left = what_is_left(schedule)
    if left is None:
        return False
    if left.grading is GradingMode.FRESH:
        return True
    filled = Counter(slot.task for slot in left.decided)  # what is only graded opens none in mode none
    return any(opens and filled[place] < left.attempts for place, opens in enumerate(left.agent_sandbox))


async def _refuse_unavailable(providers: Sequence[Provider]) -> None:
    reasons = await asyncio.gather(*(why_unavailable(provider) for provider in providers))
    said = [
        f"provider `{provider.name}` cannot be used here: {why}"
        for provider, why in zip(providers, reasons, strict=True)
        if why is not None
    ]
    if said:
        raise UsageError("; ".join(said), hint="`proctor doctor` says what works on this machine")


__all__ = ["ready_to_start", "will_open"]
