"""The results root that a viewer shows: which runs there are, and what is in each. Nothing here leads out of it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from proctor.errors import StoreError
from proctor.report.summary import summary_data
from proctor.store.layout import RunLayout
from proctor.store.plan_file import PlanFile
from proctor.store.reader import JournalReader, read_journal
from proctor.viewer.page import NotFound
from proctor.viewer.run_list import RunEntry, RunList, read_object
from proctor.viewer.run_read import RunFold, RunRead, plan_of
from proctor.viewer.slot_index import SlotIndex

JOURNAL = "journal.jsonl"
RUNS_KEPT = 8
"""So much is remembered of runs: that of those that were asked for last."""
FOLDED_BYTES = 24 * 1024 * 1024
"""A longer journal is folded only where that cannot be avoided: for a comparison. It takes a second per 20 MB."""
DEPTHS = 4
"""A run lies at most so many directories below the root: run name, experiment, run."""

T = TypeVar("T")


class Results:
    """Runs by their directories below a root, `/` between the parts. May be used from several threads."""

    def __init__(self, root: Path, only: tuple[Path, ...] = ()) -> None:
        self.root = root.resolve()
        self._only = tuple(path.resolve() for path in only)
        self._list = RunList()
        self._folds: _Kept[_Fold] = _Kept()
        self._slots: _Kept[RunSlots] = _Kept()

    def runs(self) -> Iterator[str]:
        """Yield the directories of all runs, in order."""
        for place in self._only or (self.root,):
            if (place / JOURNAL).is_file():
                yield place.relative_to(self.root).as_posix()
                continue
            for depth in range(1, DEPTHS + 1):
                for journal in sorted(place.glob("/".join(["*"] * depth + [JOURNAL]))):
                    yield journal.parent.relative_to(self.root).as_posix()

    def entries(self) -> list[RunEntry]:
        """Return the runs as they stand in the list."""
        return [self._list.entry(run, RunLayout(self.root / run)) for run in self.runs()]

    def entry(self, run: str) -> RunEntry:
        """Return a run as it stands in the list. Raises `NotFound`."""
        return self._list.entry(run, self.layout(run))

    def layout(self, run: str) -> RunLayout:
        """Return the layout of a run. Raises `NotFound` where there is none of that name below the root."""
        parts = run.split("/")
        if "\0" in run or any(part in ("", ".", "..") for part in parts) or len(run) > 4096:
            raise NotFound(f"there is no run `{run:.200}`")
        try:
            directory = (self.root / run).resolve()
            found = (directory / JOURNAL).is_file()
        except (OSError, RuntimeError, ValueError):
            found, directory = False, self.root
        inside = directory == self.root / run and directory.is_relative_to(self.root)
        shown = not self._only or any(directory.is_relative_to(place) for place in self._only)
        if not (found and inside and shown):
            raise NotFound(f"there is no run `{run:.200}`, or not any more")
        return RunLayout(directory)

    def run(self, run: str) -> RunRead:
        """Return all that is known of a run by now, by its whole journal. Raises `NotFound`, `StoreError`."""
        layout = self.layout(run)
        return self._folds.get(run, lambda: _Fold(layout)).now()

    def slots(self, run: str) -> RunSlots:
        """Return the slots of a run, brought up to now. Raises `NotFound`, `StoreError`."""
        layout = self.layout(run)
        found = self._slots.get(run, lambda: RunSlots(layout))
        found.follow()
        return found

    def summary(self, run: str) -> Mapping[str, Any]:
        """Return the content of summary.json, made now where the run has none; empty where that would take long."""
        layout = self.layout(run)
        if summary := read_object(layout.summary_json):
            return summary
        if layout.journal.stat().st_size > FOLDED_BYTES:
            return {}
        return summary_data(self.run(run).view, run=layout.run_id, directory=str(layout.directory))


class RunSlots:
    """The plan of a run and what became of each slot."""

    def __init__(self, layout: RunLayout) -> None:
        self.plan: PlanFile | None = plan_of(layout)[0]
        self.index = SlotIndex(layout.journal)
        self._lock = threading.Lock()
        self.places: dict[str, list[int]] = {}
        """The ordinals of each task, in plan order."""
        for slot in self.plan.slots if self.plan else ():
            self.places.setdefault(slot.task, []).append(slot.ordinal)

    def follow(self) -> None:
        """Read on in the journal. Raises `StoreError`."""
        with self._lock:
            try:
                self.index.follow()
            except OSError as error:
                raise StoreError(
                    f"journal `{self.index.journal}` cannot be read: {error.strerror}", hint="is it still there?"
                ) from error
            if self.plan is None:
                for slot in self.index:
                    ordinals = self.places.setdefault(slot.task, [])
                    if slot.ordinal not in ordinals:
                        ordinals.append(slot.ordinal)


class _Fold:
    """A run whose journal is read on from where it was left."""

    def __init__(self, layout: RunLayout) -> None:
        self._layout = layout
        self._plan, self._problem = plan_of(layout)
        self._fold = RunFold(self._plan)
        self._reader: JournalReader = read_journal(layout.journal)
        self._lock = threading.Lock()

    def now(self) -> RunRead:
        with self._lock:
            trouble = self._fold.follow(self._reader)
            return RunRead(self._layout, self._plan, self._problem, self._fold, self._reader.torn, trouble)


class _Kept(Generic[T]):
    """What is remembered of the runs that were asked for last."""

    def __init__(self) -> None:
        self._items: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, run: str, make: Callable[[], T]) -> T:
        with self._lock:
            found = self._items.pop(run, None)
        if found is None:
            found = make()
        with self._lock:
            self._items[run] = found
            while len(self._items) > RUNS_KEPT:
                self._items.popitem(last=False)
        return found
