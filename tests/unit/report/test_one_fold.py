"""One fold: every display says the same numbers, at every moment, and they are those of the scheduler (spec 07).

The events are those of whole invocations, with retries, backoffs, grading queues, lanes, reuse, early exit, budgets,
interrupts and failing disks, drawn from seeds.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "support"))
from journals import Invocation, Told

from proctor.core.aggregate import Counts
from proctor.model.attempt import Verdict
from proctor.model.events import AttemptSealed
from proctor.model.waiting import Gate
from proctor.report.ndjson import Ndjson
from proctor.report.panel import Look, Page, frame
from proctor.report.plain import PlainText, counts_of
from proctor.report.summary import summary_data, summary_lines
from proctor.report.view import RunView
from proctor.report.waiting_text import settled
from proctor.store.codec import decode, encode
from proctor.testing.worlds import world_of

SEEDS = 48
EVERY = 7
"""Displays are compared after each so manieth step; the fold after every one."""

PARTS = ("total", "reused", "running", "queued", "passed", "failed", "errored", "skipped", "not dispatched",
         "cancelled")  # fmt: skip
COUNT = re.compile(rf"([\d,]+) ({'|'.join(PARTS)})\b")
APART = re.compile(r"([\d,]+) (backing off|waiting for grading)\b")


def numbers(text: str) -> dict[str, int]:
    """Read the parts of a count line; what is not named is 0."""
    found = dict.fromkeys(PARTS, 0)
    for count, name in COUNT.findall(text):
        found[name] = int(count.replace(",", ""))
    return found


def parts_of(counts: Counts) -> dict[str, int]:
    data = {name: getattr(counts, name) for name in PARTS if name != "not dispatched"}
    return {**data, "not dispatched": counts.stopped}


def apart(text: str) -> dict[str, int]:
    return {name: int(count.replace(",", "")) for count, name in APART.findall(text)}


def watched(seed: int) -> Iterator[tuple[Invocation, dict[str, RunView], list[Told]]]:
    invocation = Invocation(world_of(seed))
    views = {plan.name: RunView(plan.name) for plan in invocation.world.plans}
    for step in invocation.steps():
        for experiment, event, at in step:
            views[experiment].add(event, at)
        yield invocation, views, step


@pytest.mark.parametrize("first", range(0, SEEDS, 12))
def test_07_the_fold_counts_what_the_scheduler_counts_after_every_step(first: int) -> None:
    for seed in range(first, first + 12):
        for invocation, views, _ in watched(seed):
            snapshot = invocation.scheduler.snapshot()
            for one in snapshot.experiments:
                view = views[one.name]
                assert (view.counts.queued, view.counts.running, view.sealed) == (one.queued, one.in_flight, one.sealed)
                assert view.counts.not_dispatched == {reason.value: n for reason, n in one.stopped.items()}
                assert len(view.waiting_for_grading) == one.waiting_for_grading
                assert view.between_tries == one.between_tries


@pytest.mark.parametrize("first", range(0, SEEDS, 12))
def test_03_B2_running_exceeds_what_executes_by_exactly_those_that_back_off_or_wait_for_grading(first: int) -> None:
    for seed in range(first, first + 12):
        for invocation, views, _ in watched(seed):
            [slots] = [gate for gate in invocation.scheduler.snapshot().gates if gate.name == "global"]
            running = sum(view.counts.running for view in views.values())
            waiting = sum(
                view.backing_off + view.between_tries + len(view.waiting_for_grading) for view in views.values()
            )
            assert running - waiting == slots.held
            assert slots.limit is not None
            assert running - waiting <= slots.limit


@pytest.mark.parametrize("seed", range(SEEDS))
def test_07_panel_text_and_summary_say_the_same_numbers(seed: int) -> None:
    for number, (invocation, views, _) in enumerate(watched(seed)):
        if number % EVERY:
            continue
        total = sum((view.counts for view in list(views.values())[1:]), next(iter(views.values())).counts)
        waiting = invocation.scheduler.waiting(now=invocation.runtime.now)
        page = Page(now=invocation.now, views=views, waiting=waiting)
        lines = ["".join(text for text, _ in line) for line in frame(page, Look(400, 40))]
        head = lines[0]
        assert numbers(head) == parts_of(total)
        assert numbers(head)["total"] == sum(numbers(head).values()) - numbers(head)["total"], "the parts add up"
        backing_off = sum(view.backing_off + view.between_tries for view in views.values())
        graded = sum(len(view.waiting_for_grading) for view in views.values())
        assert sum(apart(head).values()) == backing_off + graded
        for view in views.values():
            assert numbers(counts_of(view)) == parts_of(view.counts)
            counts = summary_data(view, run="r", directory="d")["counts"]
            direct = {name: counts[name] for name in PARTS if name in counts and name != "not dispatched"}
            assert direct.items() <= parts_of(view.counts).items()
            assert sum(counts["not_dispatched"].values()) == view.counts.stopped
            said = numbers(next(line for line in summary_lines(view, directory="d") if " total" in line))
            assert said == parts_of(view.counts)
            assert said["reused"] == counts["reused_passed"] + counts["reused_failed"]
        assert sum(each.slots for each in settled(waiting, views)) == total.queued
        assert Gate.DECIDED not in {each.gate for each in settled(waiting, views)} or total.queued == 0


@pytest.mark.parametrize("seed", range(0, SEEDS, 3))
def test_07_whoever_reads_the_lines_of_json_comes_to_the_same_numbers(seed: int) -> None:
    stream = io.StringIO()
    ndjson, read = Ndjson(stream, encode), dict[str, RunView]()
    for number, (_, views, step) in enumerate(watched(seed)):
        for told in step:
            ndjson.show(*told)
        for line in stream.getvalue().splitlines():
            take(line, read)
        stream.seek(0)
        stream.truncate()
        if number % EVERY == 0:
            for name, view in views.items():
                assert comparable(read[name]) == comparable(view)


def take(line: str, views: dict[str, RunView]) -> None:
    data: dict[str, Any] = json.loads(line)
    name = data["experiment"]
    try:
        event, at = decode(json.dumps(data).encode())
    except Exception:
        del data["experiment"]
        event, at = decode(json.dumps(data).encode())
    views.setdefault(name, RunView(name)).add(event, at)


def comparable(view: RunView) -> Mapping[str, Any]:
    """Everything that a summary says; times are written to the microsecond."""
    data = summary_data(view, run="r", directory="d")
    data["slot_seconds"] = {part: round(seconds, 1) for part, seconds in data["slot_seconds"].items() if seconds > 0.1}
    return {**data, "most_time": None, "seconds": round(data["seconds"], 2)}


@pytest.mark.parametrize("seed", range(0, SEEDS, 3))
def test_160_plain_text_has_one_line_for_each_attempt_and_the_last_number_is_that_of_the_summary(seed: int) -> None:
    stream, sealed = io.StringIO(), 0
    views: dict[str, RunView] = {}
    text = PlainText(stream, views)
    for _, folded, step in watched(seed):
        views.update(folded)
        sealed += sum(isinstance(event, AttemptSealed) for _, event, _ in step)
        for told in step:
            text.show(*told)
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("[")]
    assert len(lines) == sealed == sum(view.sealed for view in views.values())
    words = {verdict: sum(f"] {verdict.value} " in line for line in lines) for verdict in Verdict}
    assert words == {verdict: sum(view.verdicts[verdict] for view in views.values()) for verdict in Verdict}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", stream.getvalue()), "no control codes, no carriage returns"


def test_169_the_counters_are_disjoint_and_each_is_defined() -> None:
    page = (Path(__file__).parents[3] / "docs/progress.md").read_text()
    for name in (*PARTS, "backing off", "waiting for grading"):
        assert f"| `{name}` |" in page, f"docs/progress.md does not define {name}"
    for gate in Gate:
        assert f"| `{gate.value}` |" in page, f"docs/progress.md does not define the gate {gate}"
