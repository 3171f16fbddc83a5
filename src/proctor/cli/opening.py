"""Makes the run directories of an invocation: of all its experiments, under one run id, or of none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from proctor.cli.open_files import make_room_for
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options, Room, run_started
from proctor.cli.run_logs import OfInvocation
from proctor.cli.run_writer import RunWriter
from proctor.cli.sandbox_labels import labels_of
from proctor.cli.saved_work import Filled, group_of, slots_filled
from proctor.model.ids import run_id_of
from proctor.models.prices import Prices
from proctor.runtime.clock import SystemClock, utc
from proctor.runtime.redact import Redactor
from proctor.store.layout import free_run_id

Rooms = dict[str, Room]
"""By name of the experiment."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What all runs of an invocation begin with; `at` is when it started, which names them."""

    invocation: str
    at: float
    options: Options
    redactor: Redactor
    published: Callable[[Path], None]

    def rooms(self, planned: Sequence[tuple[Resolved, Filled]], *, attempt_files: bool) -> Rooms:
        """Make the directories. Raises `UsageError` for a run id that is taken, `CannotStart` where one cannot be made.

        Then nothing is left behind.
        """
        make_room_for(len(planned))
        root = Path(self.options.controls.results_dir)
        groups = [group_of(run_plan.experiment, root, self.options.run_name) for _, (run_plan, _) in planned]
        while True:
            run_id = free_run_id(run_id_of(utc(self.at)), groups)
            rooms: Rooms = {}
            try:
                for one, filled in planned:
                    rooms[filled[0].experiment.name] = self._room(one, filled, run_id, attempt_files=attempt_files)
            except BaseException:
                _discard(rooms)
                raise
            if len({room.writer.run_id for room in rooms.values()}) <= 1:
                return rooms
            _discard(rooms)  # another process took the id in one of the directories in between: all or none

    def _room(self, one: Resolved, filled: Filled, run_id: str, *, attempt_files: bool) -> Room:
        run_plan, saved = filled
        writer = RunWriter.create(
            run_plan,
            self.options,
            run_started(self.invocation, run_plan, run_id),
            self.at,
            attempt_files=attempt_files,
            redactor=self.redactor,
            filled=slots_filled(run_plan, saved, Path(self.options.controls.results_dir)),
        )
        writer.published = self.published
        writer.handler.addFilter(OfInvocation(self.invocation, run_plan.experiment.name))
        tasks = {task.id: index for index, task in enumerate(run_plan.tasks)}
        controls = self.options.controls
        labels = labels_of(self.invocation, writer.run_id, run_plan.experiment.name, Path(controls.results_dir))
        price = Prices(SystemClock().wall).price
        return Room(one, run_plan, tasks, writer, labels, controls.keep_environment, price=price, saved=saved)


def _discard(rooms: Rooms) -> None:
    for room in rooms.values():
        room.writer.discard()
