"""The runs of a results root, each from its small files alone: progress.json, summary.json, the head of plan.json."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, cast

from proctor.errors import ProctorError
from proctor.store.layout import RunLayout
from proctor.store.lock import is_being_written
from proctor.store.plan_file import read_experiment
from proctor.viewer.inside import is_file, size_of
from proctor.viewer.shown import known

SMALL_FILE_BYTES = 16 * 1024 * 1024
"""A larger file of these is none that proctor wrote."""
COUNTS_KEPT = 20
TEXT_CHARACTERS = 2_000
"""So much of a text of these files is kept in the list."""

PLAN_BYTES = 128 * 1024 * 1024
"""Neither is a larger plan: 100,000 tasks take a tenth of it."""

STATES = ("running", "complete", "interrupted", "stopped", "killed", "unknown")


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run in the list; None is unknown."""

    run: str
    state: str
    experiment: str = ""
    benchmark: str | None = None
    harness: str | None = None
    model: str | None = None
    headline: str | None = None
    rate: float | None = None
    low: float | None = None
    high: float | None = None
    started_at: float | None = None
    seconds: float | None = None
    cost_usd: float | None = None
    counts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    score: tuple[float, float | None, float | None] | None = None
    """The mean, and its interval."""
    reused_cost_usd: float | None = 0.0
    """What the reused attempts among them cost in the runs that made them."""

    @property
    def name(self) -> str:
        """The id of the run."""
        return self.run.rpartition("/")[2]


_Key = tuple[tuple[int, int] | None, ...]


class RunList:
    """Reads entries, each again only when a file of it has changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Key, RunEntry]] = {}

    def entry(self, run: str, layout: RunLayout) -> RunEntry:
        """Return the entry of a run, whatever is missing or damaged in its files."""
        files = (layout.progress, layout.summary_json, layout.plan)
        key = (*map(_mark, files), _mark(layout.journal) if not is_file(layout.summary_json) else None)
        found = self._known.get(run)
        if found is not None and found[0] == key and found[1].state != "running":
            return found[1]
        made = _entry(run, layout)
        self._known[run] = key, made
        return made


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _entry(run: str, layout: RunLayout) -> RunEntry:
    summary, progress = read_object(layout.summary_json), read_object(layout.progress)
    experiment = _experiment(layout)
    ids = {name: _text(_object(experiment.get(name)).get("id")) for name in ("benchmark", "harness", "model")}
    started, written = (known(progress.get(name)) for name in ("started_at", "written_at"))
    seconds = known(summary.get("seconds"))
    if seconds is None and started is not None and written is not None:
        seconds = max(0.0, written - started)
    names = (summary.get("experiment"), progress.get("experiment"), experiment.get("name"))
    return RunEntry(
        run,
        _state(layout, summary, progress),
        experiment=next(filter(None, (_text(one) for one in names)), ""),
        **ids,
        headline=_text(summary.get("headline")),
        rate=known(summary.get("rate")),
        low=known(summary.get("low")),
        high=known(summary.get("high")),
        started_at=started,
        seconds=seconds,
        cost_usd=known(summary.get("cost_usd") if summary else progress.get("cost_usd")),
        counts=_counts(_object(summary.get("counts") or progress.get("counts"))),
        score=_score(object_in(object_in(summary, "metrics"), "score")),
        reused_cost_usd=known(summary.get("reused_cost_usd", 0.0)),
    )


def _counts(counts: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name[:TEXT_CHARACTERS]: count for name, count in islice(counts.items(), COUNTS_KEPT) if known(count)}


def _score(score: Mapping[str, Any]) -> tuple[float, float | None, float | None] | None:
    mean, low, high = (number_in(score, name) for name in ("mean", "low", "high"))
    return None if mean is None else (mean, low, high)


def _state(layout: RunLayout, summary: Mapping[str, Any], progress: Mapping[str, Any]) -> str:
    said = summary.get("completion") or progress.get("completion")
    if said in STATES:
        return said
    try:
        alive = is_being_written(layout.journal)
    except ProctorError:
        alive = None
    return {True: "running", False: "killed", None: "unknown"}[alive]


def _experiment(layout: RunLayout) -> Mapping[str, Any]:
    try:
        size = size_of(layout.plan)
        return {} if size is None or size > PLAN_BYTES else read_experiment(layout.plan)
    except ProctorError:
        return {}


def read_object(path: Path) -> Mapping[str, Any]:
    """Return the JSON object in a file of ours; an empty one where there is none that can be read."""
    try:
        size = size_of(path)
        if size is None or size > SMALL_FILE_BYTES:
            return {}
        return _object(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return {}


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def object_in(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object under a name of a JSON object; an empty one where there is none."""
    return _object(values.get(name))


def objects_in(values: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    """Return the objects in the list under a name of a JSON object; none where there is no list."""
    found = values.get(name)
    return [_object(one) for one in cast("list[Any]", found) if one] if isinstance(found, list) else []


def number_in(values: Mapping[str, Any], name: str) -> float | None:
    """Return the number under a name of a JSON object, or None."""
    return known(values.get(name))


def _text(value: Any) -> str | None:
    return value[:TEXT_CHARACTERS] if isinstance(value, str) else None


_SORTS: dict[str, Callable[[RunEntry], Any]] = {
    "run": lambda one: one.name,
    "experiment": lambda one: one.experiment,
    "model": lambda one: one.model or "",
    "passed": lambda one: one.low,
    "started": lambda one: one.started_at,
    "time": lambda one: one.seconds,
    "cost": lambda one: one.cost_usd,
    "state": lambda one: STATES.index(one.state),
}
SORTS = tuple(_SORTS)
DEFAULT_SORT = "-started"


def chosen(entries: Iterable[RunEntry], *, text: str = "", state: str = "", sort: str = "") -> Sequence[RunEntry]:
    """Return the entries that hold `text` and are in `state`, by `sort` (`-` before it: from the highest down).

    What is unknown comes last, whichever way they are sorted.
    """
    words = text.lower().split()
    found = [one for one in entries if (not state or one.state == state) and _holds(one, words)]
    name = sort.removeprefix("-")
    if name not in _SORTS:
        sort, name = DEFAULT_SORT, DEFAULT_SORT[1:]
    value = _SORTS[name]
    sorted_by = [one for one in found if value(one) is not None]
    sorted_by.sort(key=lambda one: (value(one), one.run), reverse=sort.startswith("-"))
    return [*sorted_by, *(one for one in found if value(one) is None)]


def _holds(one: RunEntry, words: Sequence[str]) -> bool:
    text = " ".join(filter(None, (one.run, one.experiment, one.benchmark, one.harness, one.model))).lower()
    return all(word in text for word in words)
