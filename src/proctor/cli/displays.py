"""What an invocation shows: one fold per run, and the displays that render it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from proctor.cli.exits import Exit, strongest
from proctor.cli.streams import Patient
from proctor.core.plan import ExperimentPlan
from proctor.errors import StoreError, describe
from proctor.model.events import StopReason, TryEnded
from proctor.report.ndjson import Ndjson
from proctor.report.plain import PlainText
from proctor.report.summary import summary_data, summary_lines, summary_markdown
from proctor.report.view import RunView
from proctor.report.waits import Waits
from proctor.report.wording import SEPARATOR, plural, printable
from proctor.runtime.clock import Clock
from proctor.runtime.publisher import Shown
from proctor.store.codec import encode

if TYPE_CHECKING:
    from proctor.cli.outcome import Outcome
    from proctor.cli.rooms import Options
    from proctor.cli.run_writer import RunWriter

BEAT_SECONDS = 1.0

log = logging.getLogger(__name__)


class Displays:
    """Folds events into views and hands them to the displays that were asked for."""

    def __init__(
        self, options: Options, writers: Mapping[str, RunWriter], clock: Clock, *, own_streams: bool = True
    ) -> None:
        self._options = options
        self._writers = writers
        self._clock = clock
        self.views = {name: RunView(name) for name in writers}
        self._prose = Patient(sys.stderr, replace=own_streams)
        self._plain = PlainText(self._prose, self.views) if options.progress != "none" else None
        self._budgets: set[str] = set()
        """Experiments with a budget of which no call of unknown price was seen."""
        self._failed: set[object] = set()
        self._waits = Waits()
        self._output = Patient(sys.stdout, replace=own_streams)
        self._ndjson = Ndjson(self._output, encode) if options.as_json else None

    def plan(self, schedules: Sequence[ExperimentPlan], notes: Sequence[str]) -> None:
        """Say what is going to happen, before anything does; `notes` are warnings and the like."""
        self._budgets = {one.name for one in schedules if one.budget_usd is not None}
        self._say([plan_line(schedules, self._options), *notes])
        self._write("plan", {"experiments": [_plan_data(one) for one in schedules], "notes": list(notes)})

    def show(self, batch: Sequence[Shown]) -> None:
        """Take events that are on disk."""
        displays = [one for one in (self._plain, self._ndjson) if one is not None and one not in self._failed]
        for experiment, event, at in batch:
            self.views[experiment].add(event, at)
            for display in displays:
                try:
                    display.show(experiment, event, at)
                except Exception as error:
                    displays = [one for one in displays if one is not display]
                    self._leave_out(display, error)
            if experiment in self._budgets and isinstance(event, TryEnded) and _price_unknown(event):
                self._budgets.discard(experiment)
                self.note(f"{printable(experiment)}: a call of unknown price was made: the budget cannot be kept")
        for sentence, loud in self._waits.begun(batch, self.views):
            log.info("%s", sentence)
            if loud and self._plain is not None:
                self._plain.say(sentence)
        for display in displays:
            display.flush()

    def _leave_out(self, display: object, error: Exception) -> None:
        """Show nothing more where showing failed: the run goes on, and its end is said all the same (spec 10 I4)."""
        log.error("a display failed, and shows no more events", exc_info=error)
        self._failed.add(display)
        if display is self._ndjson:
            self._output.lost = f"events are missing: {describe(error)}"
        self._say([f"warning: what is shown here failed and stops; the run goes on ({describe(error)})"])

    def note(self, text: str) -> None:
        """Say something that the user has to know while it goes on."""
        log.warning("%s", text)
        self._say([f"warning: {printable(text)}"])

    async def beat_forever(self) -> None:
        """Let the plain text say that it is alive when nothing happens."""
        while self._plain is not None:
            await asyncio.sleep(BEAT_SECONDS)
            self._plain.beat(self._clock.wall())

    def settle(self, outcome: Outcome) -> None:
        """Make the views final where the run did not end by itself: they then show what the journals hold.

        What was not shown because the disk failed is in a journal all the same, or it is lost. Nothing runs any more:
        what was in flight is cut off, what was queued is not dispatched.
        """
        if outcome.store_error is None and outcome.bug is None:
            return
        reason = StopReason.DISK if outcome.store_error is not None else StopReason.SCOPE_STOPPED
        for name, writer in self._writers.items():
            view = self.views[name] = RunView(name)
            try:
                for event, at in writer.events():
                    view.add(event, at)
            except StoreError as error:
                log.error("%s", error.message)
            view.cut_off(reason)
        outcome.views = self.views

    def end(self, outcome: Outcome, invocation: str, last_lines: Sequence[str] = ()) -> None:
        """Write the summaries and say them, then `last_lines`; with `--json`, one receipt, whatever went wrong."""
        summaries: list[dict[str, Any]] = []
        lines: list[str] = []
        for name, view in self.views.items():
            writer = self._writers[name]
            data = summary_data(view, run=writer.run_id, directory=str(writer.directory))
            summaries.append(data)
            lines += summary_lines(view, directory=str(writer.directory))
            try:
                writer.end(data, summary_markdown(view, run=writer.run_id, directory=str(writer.directory)))
            except StoreError as error:
                outcome.store_error = outcome.store_error or error
                outcome.exit = strongest(outcome.exit, Exit.INCOMPLETE)
        if outcome.store_error is not None:
            lines.append(f"error: {outcome.store_error.message}")
            lines.append("hint: what is listed as finished above is kept in the journal; free space, then run it again")
        if outcome.exit is Exit.INTERNAL:
            lines.append("error: internal: this is a bug of proctor; please report it, and keep the results above")
        self._say([*lines, *last_lines])
        self._write("receipt", {"invocation": invocation, "exit_code": int(outcome.exit), "runs": summaries})

    async def close(self, outcome: Outcome, patience_seconds: Callable[[], float]) -> None:
        """Wait until all is written that was shown, for a reader that takes nothing at most `patience_seconds()`."""
        await self._output.drain(self._clock, patience_seconds)
        if self._output.lost is not None:
            outcome.exit = strongest(outcome.exit, Exit.INCOMPLETE)
            self._say([f"error: could not write to standard output: {self._output.lost}"])
        await self._prose.drain(self._clock, patience_seconds)

    def _say(self, lines: Sequence[str]) -> None:
        if self._plain is not None:
            for line in lines:
                self._plain.say(line)
            self._plain.flush()

    def _write(self, kind: str, data: dict[str, Any]) -> None:
        if self._ndjson is not None:
            self._ndjson.write(kind, data)
            self._ndjson.flush()


def plan_line(schedules: Sequence[ExperimentPlan], options: Options) -> str:
    """Return the PLAN line: how much there is to do, and each limit in force with where it came from."""
    slots = sum(one.slots for one in schedules)
    tasks = {len(one.task_ids) for one in schedules}
    parts = [plural(slots, "attempt")]
    if len(schedules) > 1 and len(tasks) == 1 and all(one.attempts == 1 for one in schedules):
        parts.append(f"{plural(tasks.pop(), 'task')} × {plural(len(schedules), 'experiment')}")  # noqa: RUF001
    else:
        parts.append(plural(sum(len(one.task_ids) for one in schedules), "task"))
    controls = options.controls
    parts.append(f"concurrency {controls.task_concurrency} ({controls.concurrency_source})")
    parts += [f"{name} {limit}" for name, limit in controls.provider_limits.items() if limit]
    parts += [f"{printable(one.name)} ≤{one.max_concurrency}" for one in schedules if one.max_concurrency]
    return "PLAN  " + SEPARATOR.join(parts)


def _plan_data(one: ExperimentPlan) -> dict[str, Any]:
    return {"experiment": one.name, "tasks": len(one.task_ids), "attempts_per_task": one.attempts, "slots": one.slots}


def _price_unknown(event: TryEnded) -> bool:
    used = event.result.usage + event.result.grader_usage
    return used.calls > 0 and used.cost_usd is None
