"""What an invocation shows: one fold per run, and the displays that render it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from proctor.core.plan import ExperimentPlan
from proctor.report.ndjson import Ndjson
from proctor.report.plain import PlainText
from proctor.report.summary import summary_data, summary_lines, summary_markdown
from proctor.report.view import RunView
from proctor.report.wording import SEPARATOR, plural, printable
from proctor.runtime.clock import Clock
from proctor.runtime.loop import Shown
from proctor.store.codec import encode

if TYPE_CHECKING:
    from proctor.cli.run_writer import RunWriter
    from proctor.cli.session import Options, Outcome

BEAT_SECONDS = 1.0


class Displays:
    """Folds events into views and hands them to the displays that were asked for."""

    def __init__(self, options: Options, writers: Mapping[str, RunWriter], clock: Clock) -> None:
        self._options = options
        self._writers = writers
        self._clock = clock
        self.views = {name: RunView(name) for name in writers}
        self._plain = PlainText(sys.stderr, self.views) if options.progress != "none" else None
        self._ndjson = Ndjson(sys.stdout, encode) if options.as_json else None

    def plan(self, schedules: Sequence[ExperimentPlan], notes: Sequence[str]) -> None:
        """Say what is going to happen, before anything does; `notes` are warnings and the like."""
        lines = [plan_line(schedules, self._options), *notes]
        if self._plain:
            for line in lines:
                self._plain.say(line)
            self._plain.flush()
        if self._ndjson:
            self._ndjson.write("plan", {"experiments": [_plan_data(one) for one in schedules], "notes": list(notes)})
            self._ndjson.flush()

    def show(self, batch: Sequence[Shown]) -> None:
        """Take events that are on disk."""
        for experiment, event, at in batch:
            self.views[experiment].add(event, at)
            if self._plain:
                self._plain.show(experiment, event, at)
            if self._ndjson:
                self._ndjson.show(experiment, event, at)
        for display in (self._plain, self._ndjson):
            if display:
                display.flush()

    async def beat_forever(self) -> None:
        """Let the plain text say that it is alive when nothing happens."""
        while self._plain:
            await asyncio.sleep(BEAT_SECONDS)
            self._plain.beat(self._clock.wall())

    def end(self, outcome: Outcome, invocation: str) -> None:
        """Write the summaries and say them; with `--json`, exactly one receipt."""
        summaries: list[dict[str, Any]] = []
        lines: list[str] = []
        for name, view in self.views.items():
            writer = self._writers[name]
            data = summary_data(view, run=writer.run_id, directory=str(writer.directory))
            summaries.append(data)
            lines += summary_lines(view, directory=str(writer.directory))
            if outcome.store_error is None:
                writer.end(data, summary_markdown(view, run=writer.run_id, directory=str(writer.directory)))
        if outcome.store_error is not None:
            lines.append(f"error: {outcome.store_error.message}")
            lines.append("hint: what is listed as finished above is kept; free space, then run it again")
        if self._plain:
            for line in lines:
                self._plain.say(line)
            self._plain.flush()
        if self._ndjson:
            receipt = {"invocation": invocation, "exit_code": int(outcome.exit), "runs": summaries}
            self._ndjson.write("receipt", receipt)
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
