"""What an invocation shows: one fold per run, and the displays that render it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from proctor.cli.exits import Exit, strongest
from proctor.cli.panels import begin_panel, on_panel, terminal_for
from proctor.cli.plan_line import plan_line
from proctor.cli.streams import Patient
from proctor.cli.summary_files import write_summaries
from proctor.cli.terminal import Terminal
from proctor.cli.watch import Watch
from proctor.core.plan import ExperimentPlan
from proctor.errors import StoreError, describe
from proctor.model.events import IssueRaised, StopReason, TryEnded
from proctor.models.prices import UNKNOWN
from proctor.report.estimate import Estimate, estimate_items
from proctor.report.health import health_line
from proctor.report.ndjson import Ndjson
from proctor.report.plain import PlainText
from proctor.report.summary import time_spent_lines
from proctor.report.view import RunView
from proctor.report.waits import Waits
from proctor.report.wording import printable
from proctor.runtime.clock import Clock
from proctor.runtime.log_scope import SHOWN
from proctor.runtime.publisher import Shown
from proctor.store.codec import encode

if TYPE_CHECKING:
    from proctor.cli.live_panel import LivePanel
    from proctor.cli.outcome import Outcome
    from proctor.cli.rooms import Options
    from proctor.cli.run_writer import RunWriter

BEAT_SECONDS = 1.0
TICK_SECONDS = 0.1

log = logging.getLogger(__name__)


class Displays:
    """Folds events into views and hands them to the displays that were asked for."""

    def __init__(
        self, options: Options, writers: Mapping[str, RunWriter], clock: Clock, *, own_streams: bool = True
    ) -> None:
        self._options = options
        self._writers = writers
        self._clock = clock
        self.views = {
            name: RunView(name, tags=writer.tags, missing=options.missing) for name, writer in writers.items()
        }
        self._prose = Patient(sys.stderr, replace=own_streams)
        self._plain = PlainText(self._prose, self.views) if options.progress != "none" else None
        self._budgets: set[str] = set()
        """Experiments with a budget of which no call of unknown price was seen."""
        self._failed: set[object] = set()
        self.watch = Watch(clock)
        self._own_streams = own_streams
        self._terminal = terminal_for(options)
        self._panel: LivePanel | None = None
        self.estimate: Callable[[], Estimate | None] = lambda: None
        """What is left, as of now."""
        self.redact: Callable[[str], str] = str
        """Takes credentials out of what is said."""
        self._waits = Waits()
        self._output = Patient(sys.stdout, replace=own_streams)
        self._ndjson = Ndjson(self._output, encode) if options.as_json else None

    def plan(self, schedules: Sequence[ExperimentPlan], notes: Sequence[str]) -> None:
        """Say what is going to happen, before anything does; `notes` are warnings and the like."""
        self._budgets = {one.name for one in schedules if one.budget_usd is not None}
        estimated = estimate_items(self.estimate())
        if self._terminal is not None:
            self._begin_panel(self._terminal, schedules)
            self._say(notes)
        else:
            self._say([plan_line(schedules, self._options, estimated), *notes])
        self._write("plan", {"experiments": [_plan_data(one) for one in schedules], "notes": list(notes)})

    def show(self, batch: Sequence[Shown]) -> None:
        """Take events that are on disk."""
        everyone = (self._plain, self._ndjson, self._options.follower)
        if self._panel is not None:
            self._panel.changed()
        displays = [one for one in everyone if one is not None and one not in self._failed]
        for experiment, event, at in batch:
            self.views[experiment].add(event, at)
            for display in displays:
                try:
                    if display is not self._plain or self._panel is None or not on_panel(event):
                        display.show(experiment, event, at)
                except Exception as error:
                    displays = [one for one in displays if one is not display]
                    self._leave_out(display, error)
            if isinstance(event, IssueRaised) and event.issue.code == UNKNOWN:  # raised once in a run for each model
                self.note(event.issue.message)
            if experiment in self._budgets and isinstance(event, TryEnded) and _price_unknown(event):
                self._budgets.discard(experiment)
                self.note(f"{printable(experiment)}: a call of unknown price was made: the budget cannot be kept")
        for sentence, loud in self._waits.begun(batch, self.views):
            log.info("%s", sentence, extra=SHOWN)
            if loud and self._plain is not None and self._panel is None:
                self._plain.say(sentence)
        for display in displays:
            display.flush()

    def _leave_out(self, display: object, error: Exception) -> None:
        """Show nothing more where showing failed: the run goes on, and its end is said all the same (spec 10 I4)."""
        log.error("a display failed, and shows no more events", exc_info=error, extra=SHOWN)
        self._failed.add(display)
        if self._panel is not None and display is self._panel:
            self._end_panel(last_frame=False)
        if display is self._ndjson:
            self._output.lost = f"events are missing: {describe(error)}"
        self._say([f"warning: what is shown here failed and stops; the run goes on ({describe(error)})"])

    def note(self, text: str) -> None:
        """Say something that the user has to know while it goes on."""
        log.warning("%s", text, extra=SHOWN)
        self._say([f"warning: {printable(text)}"])

    def log_line(self, text: str) -> None:
        """Show what was logged, which may have several lines."""
        self._say([text])

    async def beat_forever(self) -> None:
        """Draw the panel, or let the plain text say that it is alive; look at what waits in any case."""
        while True:
            await asyncio.sleep(BEAT_SECONDS if self._panel is None else TICK_SECONDS)
            display = self._panel or self._plain
            try:
                if self._panel is not None:
                    self._panel.tick()
                else:
                    self._beat()
            except Exception as error:
                self._leave_out(display, error)

    def _beat(self) -> None:
        waiting = self.watch.waiting()
        if self._plain is not None and self._plain not in self._failed:
            self._plain.beat(self._clock.wall(), waiting, self.watch.holders)

    def settle(self, outcome: Outcome) -> None:
        """Make the views final where the run did not end by itself: they then show what the journals hold.

        What was not shown because the disk failed is in a journal all the same, or it is lost. Nothing runs any more:
        what was in flight is cut off, what was queued is not dispatched.
        """
        if outcome.store_error is None and outcome.bug is None:
            return
        reason = StopReason.DISK if outcome.store_error is not None else StopReason.SCOPE_STOPPED
        for name, writer in self._writers.items():
            view = self.views[name] = RunView(name, tags=writer.tags, missing=self._options.missing)
            try:
                for event, at in writer.events():
                    view.add(event, at)
            except StoreError as error:
                log.error("%s", error.message)
            view.cut_off(reason)
        outcome.views = self.views

    def end(self, outcome: Outcome, invocation: str, last_lines: Sequence[str] = ()) -> None:
        """Write the summaries and say them, then `last_lines`; with `--json`, one receipt, whatever went wrong."""
        cpu = self.watch.cpu()
        for view in self.views.values():
            view.host_cpu = cpu
        ends = write_summaries(outcome, self.views, self._writers, self._options.junit)
        lines = [line for end in ends for line in end.lines]
        lines += time_spent_lines(list(self.views.values())) if len(ends) > 1 else []
        if (health := health_line(self.watch.health(self.views.values()))) is not None:
            lines.append(health)
        if outcome.store_error is not None:
            lines.append(f"error: {outcome.store_error.message}")
            lines.append("hint: what is listed as finished above is kept in the journal; free space, then run it again")
        if outcome.exit is Exit.INTERNAL:
            lines.append("error: internal: this is a bug of proctor; please report it, and keep the results above")
        self._end_panel()
        self._say([*lines, *last_lines])
        runs = [end.data for end in ends]
        self._write("receipt", {"invocation": invocation, "exit_code": int(outcome.exit), "runs": runs})

    async def close(self, outcome: Outcome, patience_seconds: Callable[[], float]) -> None:
        """Wait until all is written that was shown, for a reader that takes nothing at most `patience_seconds()`."""
        await self._output.drain(self._clock, patience_seconds)
        if self._output.lost is not None:
            outcome.exit = strongest(outcome.exit, Exit.INCOMPLETE)
            self._say([f"error: could not write to standard output: {self._output.lost}"])
        await self._prose.drain(self._clock, patience_seconds)

    # ---------------------------------------------------------------------------------------------------- the panel

    def _begin_panel(self, terminal: Terminal, schedules: Sequence[ExperimentPlan]) -> None:
        self._panel = begin_panel(
            self._options, terminal, schedules, views=self.views, watch=self.watch, estimate=self.estimate,
            stream=self._prose, clock=self._clock,
        )  # fmt: skip
        if self._own_streams:
            self._panel.begin()
        self._plain = PlainText(self._panel, self.views)

    def leave(self) -> None:
        """Leave the terminal to others, however it came to that; `end` has done so where it was reached."""
        self._end_panel(last_frame=False)

    def _end_panel(self, *, last_frame: bool = True) -> None:
        """Let the last frame stand, and go on in plain text below it."""
        panel, self._panel = self._panel, None
        if panel is None:
            return
        self._plain = PlainText(self._prose, self.views)
        try:
            panel.end() if last_frame else panel.stop()
        except Exception as error:
            self._leave_out(panel, error)

    def _say(self, lines: Sequence[str]) -> None:
        if self._plain is not None:
            for line in lines:
                self._plain.say(self.redact(line))
            self._plain.flush()

    def _write(self, kind: str, data: dict[str, Any]) -> None:
        for display in (self._ndjson, self._options.follower):
            if display is not None:
                display.write(kind, data)
                display.flush()


def _plan_data(one: ExperimentPlan) -> dict[str, Any]:
    return {"experiment": one.name, "tasks": len(one.task_ids), "attempts_per_task": one.attempts, "slots": one.slots}


def _price_unknown(event: TryEnded) -> bool:
    used = event.result.usage + event.result.grader_usage
    return used.calls > 0 and used.cost_usd is None
