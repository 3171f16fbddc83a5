"""What the user should know before anything starts; a run and the plan of it say the same."""

from __future__ import annotations

import os
from collections.abc import Sequence

from proctor.cli.model_limits import differing_limits, endpoints_of
from proctor.cli.price_notes import price_notes
from proctor.cli.proxy import proxy_note
from proctor.cli.resolve import Resolved
from proctor.cli.spent_before import budget_notes
from proctor.core.plan import RunPlan
from proctor.model.attempt import GradingMode


def beforehand(resolved: Sequence[Resolved], plans: Sequence[RunPlan]) -> list[str]:
    """Return the warnings of providers at which sandboxes are opened, and notes on experiments; each once."""
    pairs = zip(resolved, plans, strict=True)
    warnings = [_warning(one) for one, run_plan in pairs if opens_sandboxes(run_plan)]
    notes = [text for one in resolved for text in one.notes]
    notes += differing_limits(model for one in resolved for model in endpoints_of(one.experiment))
    warnings += price_notes(one.experiment for one in resolved)
    said = [f"warning: {text}" for text in warnings if text] + [f"note: {text}" for text in notes]
    said += budget_notes(plans)
    proxy = proxy_note(plans, os.environ)
    said += [] if proxy is None else [proxy]
    return list(dict.fromkeys(said))


def _warning(one: Resolved) -> str | None:
    """Return what a user should know of the provider; of one that nobody chose also why it is not another."""
    warning = one.provider.warning
    if warning is None or one.why_provider is None:
        return warning
    return f"{warning} (it is used as bwrap does not work here: {one.why_provider})"


def opens_sandboxes(run_plan: RunPlan) -> bool:
    """Say whether an experiment opens sandboxes at its provider."""
    return any(run_plan.schedule.agent_sandbox) or run_plan.experiment.grading is GradingMode.FRESH
