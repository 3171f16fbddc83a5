"""The page of a run: what came of it, what was decided at planning, and what became of each slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from proctor.model.attempt import Verdict
from proctor.store.plan_tags import tags_of
from proctor.viewer.inside import is_file
from proctor.viewer.page import Asked, Page
from proctor.viewer.paging import Paging
from proctor.viewer.results import Results, RunSlots
from proctor.viewer.run_list import object_in, objects_in
from proctor.viewer.slot_index import Slot

TASKS_ON_A_PAGE = 60
TASKS_ON_A_FILE = 2_000
"""Of a site of files, whose pages filter by themselves."""
CELLS_OF_A_TASK = 64
"""So many attempts of a task have a cell; the rest are counted."""
TAGS_SHOWN, TAGS_CHOSEN, CODES_SHOWN = 200, 1_000, 200
"""So many tags have a row, and can be chosen; so many codes of issues and numbers of attempts have a row."""

STATES = (*(verdict.value for verdict in Verdict), "running", "waiting", "not dispatched")
"""What a slot can be: what waits is not dispatched any more once the run has ended."""

FILES = ("journal.jsonl", "plan.json", "run.log", "summary.json", "summary.md", "summary.html", "progress.json")

_LETTERS = {
    "passed": "P",
    "failed": "F",
    "errored": "E",
    "skipped": "S",
    "cancelled": "C",
    "running": "…",
    "waiting": "·",
    "not dispatched": "-",
}


class Cell(NamedTuple):
    """A slot in the grid."""

    ordinal: int
    state: str
    letter: str
    attempt: str | None
    score: float | None
    tries: int
    source: str | None


class Row(NamedTuple):
    """A task in the grid; `more` cells are not shown."""

    task: str
    cells: Sequence[Cell]
    more: int


def run_page(results: Results, asked: Asked, run: str) -> Page:
    """Return the page of a run."""
    entry, slots = results.entry(run), results.slots(run)
    directory, summary = results.layout(run).directory, results.summary(run)
    metrics = object_in(summary, "metrics")
    by_tag = object_in(metrics, "by_tag")
    query = {name: asked.query.get(name, "") for name in ("q", "state", "tag")}
    tags = tags_of(slots.plan) if slots.plan else {}
    ended = entry.state not in ("running", "unknown")
    tasks = _chosen(slots, tags, query, ended)
    size = TASKS_ON_A_FILE if asked.links.static else TASKS_ON_A_PAGE
    paging = Paging.of(len(tasks), asked.query.get("page"), size)
    counted = Counter(state_of(slots.index.of(task, n), ended) for task, all_n in slots.places.items() for n in all_n)
    values = {
        "run": run,
        "entry": entry,
        "summary": summary,
        "metrics": metrics,
        "at_k": objects_in(metrics, "pass_at_k")[:CODES_SHOWN],
        "by_tag": dict(islice(by_tag.items(), TAGS_SHOWN)),
        "more_tags": max(0, len(by_tag) - TAGS_SHOWN),
        "sub_scores": dict(islice(object_in(metrics, "sub_scores").items(), TAGS_SHOWN)),
        "issues": objects_in(summary, "issues")[:CODES_SHOWN],
        "counts": [(state, counted[state]) for state in STATES if counted[state]],
        "slots": sum(counted.values()),
        "tasks": len(slots.places),
        "found": len(tasks),
        "rows": [_row(slots, task, ended) for task in tasks[paging.start : paging.end]],
        "paging": paging,
        "given": {name: value for name, value in query.items() if value},
        "tags": sorted({tag for own in tags.values() for tag in own})[:TAGS_CHOSEN],
        "decisions": _decisions(slots),
        "files": [name for name in FILES if is_file(directory / name)],
        "damaged": slots.index.damaged,
        "no_plan": slots.plan is None,
    }
    return Page("run.html", f"{entry.name} · {entry.experiment}", values, live=entry.state == "running")


def state_of(slot: Slot, ended: bool) -> str:
    """Return what a slot is by now, of a run that has ended or not."""
    if slot.verdict is not None:
        return slot.verdict.value
    if slot.attempt is not None:
        return "running"
    return "not dispatched" if ended else "waiting"


def _row(slots: RunSlots, task: str, ended: bool) -> Row:
    ordinals = sorted(slots.places[task])
    cells = [_cell(slots.index.of(task, ordinal), ended) for ordinal in ordinals[:CELLS_OF_A_TASK]]
    return Row(task, cells, len(ordinals) - len(cells))


def _cell(slot: Slot, ended: bool) -> Cell:
    state = state_of(slot, ended)
    return Cell(slot.ordinal, state, _LETTERS[state], slot.attempt, slot.score, slot.tries, slot.source)


def _chosen(slots: RunSlots, tags: Mapping[str, Sequence[str]], query: Mapping[str, str], ended: bool) -> list[str]:
    """Return the tasks that hold the text, have the tag, and have an attempt in the state that were asked for."""
    words = query["q"].lower().split()
    return [
        task
        for task, ordinals in slots.places.items()
        if all(word in task.lower() for word in words)
        and (not query["tag"] or query["tag"] in tags.get(task, ()))
        and (not query["state"] or any(state_of(slots.index.of(task, n), ended) == query["state"] for n in ordinals))
    ]


def _decisions(slots: RunSlots) -> list[tuple[str, str | None, int]]:
    """Return what was decided at planning, why, and for how many slots."""
    return [(kind, reason, count) for (kind, reason), count in Counter(_planned(slots)).most_common()]


def _planned(slots: RunSlots) -> Iterator[tuple[str, str | None]]:
    for slot in slots.plan.slots if slots.plan else ():
        yield slot.decision, slot.reason
