"""One run on disk: its directory, plan, journal, log, and the files that are derived from the journal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proctor.core.plan import RunPlan
from proctor.errors import Fault, StoreError
from proctor.model.attempt import Verdict
from proctor.model.events import AttemptSealed, Event, RunStarted, SlotFilled
from proctor.model.ids import AttemptId, SlotKey
from proctor.model.spec import Experiment
from proctor.runtime.redact import RedactingFormatter, Redactor
from proctor.store.files import write_file
from proctor.store.fold import AttemptEvent, AttemptFold
from proctor.store.folded_try import SavedWork
from proctor.store.journal import Journal
from proctor.store.layout import RunLayout, experiment_dir_name
from proctor.store.log_file import LogFile
from proctor.store.names import component_name, file_name, is_plain_file_name
from proctor.store.plain import NotEncodable, plain_json
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan
from proctor.store.plan_tags import KEY, rows_by_tag
from proctor.store.reader import read_journal
from proctor.store.results import write_attempt, write_evidence, write_json

if TYPE_CHECKING:
    from proctor.cli.rooms import Options


@dataclass(frozen=True, slots=True)
class TryDirectory:
    """Where a try keeps what it leaves behind; may be used in any thread. It costs nothing where nothing is left."""

    layout: RunLayout
    slot: SlotKey
    try_number: int

    @property
    def directory(self) -> Path:
        """The directory; it is made when something is put there."""
        return self.layout.try_dir(self.slot.task, self.slot.ordinal, self.try_number)

    def save(self, name: str, content: Any) -> None:
        """Keep evidence under a relative name: bytes as they are, anything else as JSON. Raises `Fault`."""
        try:
            write_evidence(self.path(name), content)
        except NotEncodable as error:  # the plugin's doing: this attempt's trouble, not the disk's
            raise Fault("harness.crashed", f"{name} cannot be kept: {error.message}") from error
        except StoreError as error:
            raise Fault("store.full", error.message) from error

    def path(self, name: str) -> Path:
        """Return where a file is."""
        return self.directory / name

    def name_of(self, text: str) -> str:
        """Return a safe file name for a path or name that came from elsewhere."""
        return file_name(text)

    def is_plain(self, name: str) -> bool:
        """Say whether a name that came from elsewhere is safe as it is."""
        return is_plain_file_name(name)


@dataclass(slots=True)
class RunWriter:
    """Writes one run. `append` and `flush` belong to the event loop's thread, `commit` to the commit thread."""

    layout: RunLayout
    journal: Journal
    opening: tuple[tuple[Event, float], ...]
    """What the journal begins with: the start of the run, and the slots that saved attempts fill."""
    attempt_files: bool
    handler: logging.Handler
    tags: Mapping[str, Sequence[str]]
    """The tags of the tasks that have some."""
    published: Callable[[Path], None] | None = None
    """Told the directory whenever more of the journal is durable."""
    verdicts: list[tuple[str, int, Verdict]] = field(default_factory=list[tuple[str, int, Verdict]])
    """(task, ordinal, verdict) of every sealed attempt, in the order in which they were sealed."""
    _folds: dict[AttemptId, AttemptFold] = field(default_factory=dict[AttemptId, AttemptFold])
    _sealed: list[AttemptFold] = field(default_factory=list[AttemptFold])
    _flushed: list[AttemptFold] = field(default_factory=list[AttemptFold])
    _dirty: bool = False

    @classmethod
    def create(
        cls,
        plan: RunPlan,
        options: Options,
        event: RunStarted,
        at: float,
        *,
        attempt_files: bool,
        redactor: Redactor,
        filled: Iterable[SlotFilled] = (),
    ) -> RunWriter:
        """Make the directory of a run and write its plan and the first lines of its journal.

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
            handler.setFormatter(RedactingFormatter(redactor, scope=True))
            logging.getLogger("proctor").addHandler(handler)
            opening = tuple((one, at) for one in (replace(event, run=layout.run_id), *filled))
            tags = {task.id: task.tags for task in plan.tasks if task.tags}
            writer = cls(layout, journal, opening, attempt_files, handler, tags)
            undo.callback(writer.close)
            for one, moment in opening:
                writer.append(one, moment)
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

    def log(self, text: str) -> None:
        """Write a line into the log of this run alone."""
        record = logging.getLogger(__name__).makeRecord(__name__, logging.INFO, "", 0, text, (), None)
        if record.levelno >= self.handler.level:
            self.handler.handle(record)

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
        if self.published is not None:
            self.published(self.layout.directory)

    def events(self) -> Iterable[tuple[Event, float]]:
        """Return what the journal holds on disk."""
        return read_journal(self.layout.journal)

    def saved_work(self, attempt: AttemptId) -> SavedWork | None:
        """Return the newest checkpoint of an attempt that is not sealed, if there is one."""
        fold = self._folds.get(attempt)
        return None if fold is None else fold.saved_work

    def folder(self, slot: SlotKey, try_number: int) -> TryDirectory:
        """Return the directory of a try."""
        return TryDirectory(self.layout, slot, try_number)

    def end(self, summary: dict[str, Any], markdown: str, html: str) -> None:
        """Write summary.json, summary.md and summary.html."""
        write_json(self.layout.summary_json, summary, durable=True)
        write_file(self.layout.summary_markdown, markdown.encode(), durable=True)
        write_file(self.layout.summary_html, html.encode(), durable=True)

    def close(self) -> None:
        """Close journal and log; a second call does nothing."""
        logging.getLogger("proctor").removeHandler(self.handler)
        self.handler.close()
        self.journal.close()


def experiment_dir_of(experiment: Experiment) -> str:
    """Return the name of the directory that the runs of an experiment are in."""
    if experiment.directory is not None:
        return component_name(experiment.directory)
    model = experiment.model.id if experiment.model else None
    return experiment_dir_name(model, experiment.benchmark.id, experiment.harness.id)


def plan_file(plan: RunPlan, about: dict[str, Any], redactor: Redactor) -> PlanFile:
    """Return the content of plan.json; the experiment in it is without credentials."""
    slots: list[PlannedSlot] = []
    task_parts: dict[str, Any] = {}
    for entry in plan.entries():
        kind, reason, source = entry.decision
        slots.append(PlannedSlot(entry.slot.task, entry.slot.ordinal, entry.identity, kind.value, reason, source))
        task_parts[entry.slot.task] = entry.task_parts
    if tags := rows_by_tag(task.tags for task in plan.tasks):
        about = {**about, KEY: tags}
    return PlanFile(redacted(plan.experiment, redactor), slots, plan.shared_identity.parts, task_parts, about)


def redacted(experiment: Experiment, redactor: Redactor) -> Any:
    """Return an experiment as plan.json has it: as JSON, without credentials."""
    return redactor.tree(plain_json(experiment, "experiment"))
