"""Whether there is a terminal for the panel, and what stands on its pages. What draws is imported only where it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from proctor.cli.plan_line import plan_parts
from proctor.cli.streams import Patient
from proctor.cli.terminal import Terminal, terminal_of
from proctor.cli.watch import Watch
from proctor.core.plan import ExperimentPlan
from proctor.model.events import AttemptSealed, DispatchStopped, Event, IssueRaised, StopReason, TryStarted
from proctor.report.estimate import Estimate
from proctor.report.view import RunView
from proctor.runtime.clock import Clock

if TYPE_CHECKING:
    from proctor.cli.live_panel import LivePanel
    from proctor.cli.rooms import Options
    from proctor.report.panel import Page


_ON_PANEL: frozenset[type[Event]] = frozenset({AttemptSealed, TryStarted, IssueRaised})


def terminal_for(options: Options) -> Terminal | None:
    """Return the terminal for it, if there is one; lines of `--json` on the same one would tear it."""
    if options.progress != "auto" or (options.as_json and sys.stdout.isatty()):
        return None
    return terminal_of(sys.stderr, os.environ)


def on_panel(event: Event) -> bool:
    """Say whether the panel shows an event by itself, so that no line of text is written of it above.

    With early exit dispatch stops once for each task that is solved.
    """
    if isinstance(event, DispatchStopped):
        return event.reason is StopReason.EARLY_EXIT
    return type(event) in _ON_PANEL


def begin_panel(
    options: Options,
    terminal: Terminal,
    schedules: Sequence[ExperimentPlan],
    *,
    views: Mapping[str, RunView],
    watch: Watch,
    estimate: Callable[[], Estimate | None],
    stream: Patient,
    clock: Clock,
) -> LivePanel:
    """Return a panel of an invocation."""
    from proctor.cli.live_panel import LivePanel  # noqa: PLC0415 - rich takes long to import
    from proctor.report.panel import Page  # noqa: PLC0415

    plan = plan_parts(schedules, options)
    tries = {one.name: 1 + one.retry.max_retries for one in schedules}

    def page() -> Page:
        return Page(
            now=clock.wall(),
            views=views,
            plan=plan,
            waiting=watch.waiting(),
            health=watch.health(views.values()),
            estimate=estimate(),
            tries=tries,
            holders=watch.holders,
            sight=watch.sign,
            retry_in=watch.retry_in,
        )

    return LivePanel(stream, terminal, page, clock)
