"""One run on disk: its directory, plan, journal, log, and the files that are derived from the journal."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proctor.core.plan import RunPlan
from proctor.errors import StoreError
from proctor.model.attempt import Verdict
from proctor.model.events import AttemptSealed, Event, RunStarted
from proctor.model.ids import AttemptId, SlotKey
from proctor.model.spec import Experiment
from proctor.runtime.redact import RedactingFormatter, Redactor
from proctor.store.files import write_file
from proctor.store.fold import AttemptEvent, AttemptFold
from proctor.store.journal import Journal
from proctor.store.layout import RunLayout, experiment_dir_name
from proctor.store.log_file import LogFile
from proctor.store.plain import plain_json
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan
from proctor.store.reader import read_journal
from proctor.store.results import write_attempt, write_evidence, write_json

if TYPE_CHECKING:
    from proctor.cli.rooms import Options


@dataclass(slots=True)
class RunWriter:
    """Writes one run. `append` and `flush` belong to the event loop's thread, `commit` to the commit thread."""

    layout: RunLayout
    journal: Journal
    started: tuple[RunStarted, float]
    attempt_files: bool
    handler: logging.Handler
    verdicts: list[tuple[str, int, Verdict]] = field(default_factory=list[tuple[str, int, Verdict]])
    """(task, ordinal, verdict) of every sealed attempt, in the order in which they were sealed."""
    _folds: dict[AttemptId, AttemptFold] = field(default_factory=dict[AttemptId, AttemptFold])
    _sealed: list[AttemptFold] = field(default_factory=list[AttemptFold])
    _flushed: list[AttemptFold] = field(default_factory=list[AttemptFold])
    _dirty: bool = False

    @classmethod
    def create(
        cls, plan: RunPlan, options: Options, event: RunStarted, at: float, *, attempt_files: bool, redactor: Redactor
    ) -> RunWriter:
        """Make the directory of a run and write its plan and the first line of its journal.

        `event` is the start of the run with the default run id; a taken one gets a suffix, a taken `--run-id` is a
        `UsageError`. Raises `CannotStart` when something cannot be written; then nothing is left behind.
        """
        layout = RunLayout.create(
            Path(options.controls.results_dir),
            experiment_dir_of(plan.experiment),
            default_id=event.run,
            run_id=options.run_id,
            run_name=options.run_name,
        )
        with layout.opening(), ExitStack() as undo:
            write_plan(layout.plan, plan_file(plan, {"run": layout.run_id, "invocation": event.invocation}, redactor))
            journal = Journal.create(layout.journal, at=at, pid=event.pid, host=event.host)
            undo.callback(journal.close)
            handler = LogFile(layout.log)
            handler.setLevel(options.file_log_level)
            handler.setFormatter(RedactingFormatter(redactor))
            logging.getLogger("proctor").addHandler(handler)
            started = replace(event, run=layout.run_id)
            writer = cls(layout, journal, (started, at), attempt_files, handler)
            undo.callback(writer.close)
            writer.append(started, at)
            writer.flush()
            writer.commit()
            undo.pop_all()
        return writer

    def discard(self) -> None:
        """Take back a run in which nothing was started: close it and remove its directory."""
        with suppress(StoreError):  # whoever discards it is about to say why
            self.close()
        self.layout.discard()

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.layout.run_id

    @property
    def directory(self) -> Path:
        """The directory of the run."""
        return self.layout.directory

    def append(self, event: Event, at: float) -> None:
        """Take an event into the journal's buffer and into the fold of its attempt."""
        self.journal.append(event, at)
        if not isinstance(event, AttemptEvent):
            return
        if event.attempt not in self._folds:  # its first try, or a slot that was given up without one
            self._folds[event.attempt] = AttemptFold(event.attempt)
        self._folds[event.attempt].add(event, at)
        if isinstance(event, AttemptSealed):
            self._sealed.append(self._folds.pop(event.attempt))
            self.verdicts.append((event.task, event.ordinal, event.verdict))

    def flush(self) -> None:
        """Write what is buffered to the journal."""
        self.journal.flush()
        self._dirty = True
        if self._sealed:
            self._flushed += self._sealed
            self._sealed = []

    def commit(self) -> None:
        """Make what was flushed durable, then write the result of each attempt that it seals."""
        if not self._dirty:
            return
        self._dirty = False
        self.journal.sync()
        ready, self._flushed = self._flushed, []
        if self.attempt_files:
            for fold in ready:
                write_attempt(self.layout, fold)

    def events(self) -> Iterable[tuple[Event, float]]:
        """Return what the journal holds on disk."""
        return read_journal(self.layout.journal)

    def save(self, slot: SlotKey, try_number: int, name: str, content: Any) -> None:
        """Keep evidence of a try under a relative name: bytes as they are, anything else as JSON."""
        path = self.layout.try_dir(slot.task, slot.ordinal, try_number) / name
        write_evidence(path, content)

    def end(self, summary: dict[str, Any], markdown: str) -> None:
        """Write summary.json and summary.md."""
        write_json(self.layout.summary_json, summary, durable=True)
        write_file(self.layout.summary_markdown, markdown.encode(), durable=True)

    def close(self) -> None:
        """Close journal and log; a second call does nothing."""
        logging.getLogger("proctor").removeHandler(self.handler)
        self.handler.close()
        self.journal.close()


def experiment_dir_of(experiment: Experiment) -> str:
    """Return the name of the directory that the runs of an experiment are in."""
    model = experiment.model.id if experiment.model else None
    return experiment_dir_name(model, experiment.benchmark.id, experiment.harness.id)


def plan_file(plan: RunPlan, about: dict[str, Any], redactor: Redactor) -> PlanFile:
    """Return the content of plan.json; the experiment in it is without credentials."""
    slots: list[PlannedSlot] = []
    task_parts: dict[str, Any] = {}
    for entry in plan.entries():
        decision, _, reason = entry.decision.partition(": ")
        slots.append(PlannedSlot(entry.slot.task, entry.slot.ordinal, entry.identity, decision, reason or None))
        task_parts[entry.slot.task] = entry.task_parts
    experiment = redactor.tree(plain_json(plan.experiment, "experiment"))
    return PlanFile(experiment, slots, plan.shared_identity.parts, task_parts, about)
