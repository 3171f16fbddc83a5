"""Progress is written whatever happens to it, at a pace that costs little, and holds nobody (spec 07, 10 I4)."""

from __future__ import annotations

import asyncio
import itertools
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proctor.cli import progress_writer
from proctor.cli.progress_writer import AT_MOST_SECONDS, EVERY_SECONDS, ProgressWriter
from proctor.model.attempt import Outcome, Phase, TryResult
from proctor.model.events import (
    BackoffStarted,
    GradingQueued,
    PhaseStarted,
    RunStarted,
    TryEnded,
    TryStarted,
)
from proctor.model.spec import Component, Task, TimeLimits
from proctor.report.estimate import Estimate
from proctor.report.view import RunView
from proctor.runtime.clock import SystemClock
from proctor.runtime.countdown import Limit, Sight
from proctor.store.progress_file import Progress, ProgressFile, read_progress

LIMITS = TimeLimits(try_seconds=500.0, dispose_seconds=30.0)


class Stopped:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return 1_000_000.0 + self.now


def view_of(clock: Any, *attempts: str) -> RunView:
    view = RunView("e")
    view.add(RunStarted(1, "i", "r", "e", "0", "host", 1, 5), clock.wall())
    for name in attempts:
        view.add(TryStarted(name, f"task-{name}", 0, 1), clock.wall())
        view.add(PhaseStarted(name, Phase.AGENT), clock.wall())
    return view


def writer_of(folder: Path, view: RunView, clock: Any, estimate: Estimate | None = None) -> ProgressWriter:
    names = [flight.task for flight in view.in_flight.values()]
    room: Any = SimpleNamespace(
        writer=SimpleNamespace(run_id="r", layout=SimpleNamespace(progress=folder / "progress.json")),
        resolved=SimpleNamespace(experiment=SimpleNamespace(limits=LIMITS)),
        plan=SimpleNamespace(tasks=[Task(name, Component("text")) for name in names]),
        tasks={name: place for place, name in enumerate(names)},
    )
    estimator: Any = SimpleNamespace(estimate=lambda: estimate or Estimate())
    return ProgressWriter("i", {"e": room}, {"e": view}, clock, estimator)


def told(writer: ProgressWriter, folder: Path) -> Progress:
    asyncio.run(writer.end())
    progress = read_progress(folder / "progress.json")
    assert progress is not None
    return progress


def test_07_it_says_what_the_view_says(tmp_path: Path) -> None:
    clock = Stopped()
    view = view_of(clock, "idle", "own", "try", "pause", "queue", "gone", "bare")
    view.add(PhaseStarted("gone", Phase.DISPOSE), clock.wall())
    view.add(BackoffStarted("pause", "model.rate_limited", 8.0), clock.wall())
    view.add(GradingQueued("queue"), clock.wall())
    view.total = 7
    clock.now += 50.0
    writer = writer_of(tmp_path, view, clock)
    sights = {
        "idle": Sight(20.0, Limit.IDLE, 60.0, 40.0),
        "own": Sight(1.0, Limit.PHASE, 100.0, 50.0),
        "try": Sight(1.0, Limit.TRY, 77.0, 27.0),
        "pause": Sight(3.0, Limit.PHASE, 100.0, 60.0, paused=True),
        "queue": Sight(2.0),
        "gone": Sight(2.0),
    }
    writer.sight = sights.get
    writer.waiting = lambda: {"e": {"concurrency": 0}, "other": {"lane x": 3}}
    progress = told(writer, tmp_path)
    now = clock.wall()
    rows = {each.attempt: each for each in progress.in_flight}
    assert progress.counts["running"] == 7
    assert (progress.backing_off, progress.waiting_for_grading) == (1, 1)
    assert progress.waiting == {"concurrency": 0}
    assert progress.written_at == now
    assert {row.phase_at for name, row in rows.items()} == {now - 50.0}
    ends = {name: (row.limit, row.limit_seconds, row.ends_at, row.left_seconds) for name, row in rows.items()}
    assert ends == {
        "idle": ("agent_idle_timeout_seconds", 60.0, now + 40.0, None),
        "own": ("agent_timeout_seconds", 100.0, now + 50.0, None),
        "try": ("timeout_seconds", 500.0, now + 27.0, None),
        "pause": ("agent_timeout_seconds", 100.0, None, 60.0),
        "queue": (None, None, None, None),
        "gone": ("dispose_timeout_seconds", 30.0, now - 20.0, None),
        "bare": (None, None, None, None),
    }
    assert rows["idle"].output_at == now - 20.0
    assert rows["pause"].waits_until == now - 42.0
    assert [rows[name].state for name in ("own", "pause", "queue")] == ["running", "backing off", "waiting for grading"]


def test_07_it_is_written_again_and_again_and_at_the_end(tmp_path: Path) -> None:
    clock = SystemClock()
    writer = writer_of(tmp_path, view_of(clock, "a"), clock, Estimate(9.0, 10.0, 1.0, 0.1))

    async def drive() -> Progress | None:
        task = asyncio.create_task(writer.write_forever())
        while not (tmp_path / "progress.json").exists():
            await asyncio.sleep(0.001)
        task.cancel()
        first = read_progress(tmp_path / "progress.json")
        await writer.end()
        return first

    first, last = asyncio.run(drive()), read_progress(tmp_path / "progress.json")
    assert first is not None
    assert last is not None
    assert (first.ended, last.ended) == (False, True)
    assert first.estimate is not None
    assert first.estimate.cost_spread_usd == 0.1
    assert last.estimate is None


def test_08_D5_a_disk_that_takes_nothing_is_said_once_and_fails_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SystemClock()
    writer = writer_of(tmp_path / "not" / "there", view_of(clock, "a"), clock)
    asyncio.run(writer.end())
    asyncio.run(writer.end())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "progress is not told to others: cannot write" in caplog.text


def test_10_I4_a_disk_that_does_not_answer_holds_neither_the_run_nor_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, gone, inside = SystemClock(), threading.Event(), threading.Event()

    def stuck(self: ProgressFile, data: bytes) -> None:
        inside.set()
        gone.wait()

    monkeypatch.setattr(ProgressFile, "write", stuck)
    writer = writer_of(tmp_path, view_of(clock, "a"), clock)

    async def drive() -> None:
        task = asyncio.create_task(writer.write_forever())
        while not inside.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        await writer.end(0.05)

    try:
        asyncio.run(drive())
    finally:
        gone.set()


@pytest.mark.parametrize(
    ("computing", "waiting", "every"),
    [(0.0, 0.0, EVERY_SECONDS), (0.01, 0.0, 2.0), (0.0, 0.5, 5.0), (9.0, 0.0, AT_MOST_SECONDS)],
)
def test_12_it_is_written_the_more_seldom_the_more_it_costs(
    computing: float, waiting: float, every: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Stopped()
    encode = progress_writer.encode_progress

    def encodes(progress: Progress) -> bytes:
        clock.now += computing
        return encode(progress)

    def writes(self: ProgressFile, data: bytes) -> None:
        clock.now += waiting

    monkeypatch.setattr(progress_writer, "encode_progress", encodes)
    monkeypatch.setattr(ProgressFile, "write", writes)
    writer = writer_of(tmp_path, view_of(clock, "a"), clock)
    asyncio.run(writer.end())
    assert writer._every == pytest.approx(every)


def test_10_I4_a_bug_in_what_is_told_fails_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = SystemClock()
    writer = writer_of(tmp_path, view_of(clock, "a"), clock)
    writer.waiting = lambda: {}["nothing"]
    asyncio.run(writer.end())
    assert "a bug of proctor" in caplog.text
    assert not (tmp_path / "progress.json").exists()


def test_12_what_is_left_of_the_invocation_is_estimated_once_for_all_its_runs(tmp_path: Path) -> None:
    clock, left = Stopped(), itertools.count(9)
    several = [writer_of(tmp_path / name, view_of(clock, "a"), clock) for name in "abc"]
    rooms = {name: one.rooms["e"] for name, one in zip("abc", several, strict=True)}
    views = {name: one.views["e"] for name, one in zip("abc", several, strict=True)}

    estimator: Any = SimpleNamespace(estimate=lambda: Estimate(float(next(left)), 99.0, 1.0, 0.1))
    writer = ProgressWriter("i", rooms, views, clock, estimator)
    for name in "abc":
        (tmp_path / name).mkdir()
    asyncio.run(writer._write(ended=False))
    found = [read_progress(tmp_path / name / "progress.json") for name in "abc"]
    assert [one and one.estimate and one.estimate.seconds_left for one in found] == [9.0, 9.0, 9.0], "of one moment"
    asyncio.run(writer.end())


def test_07_until_when_an_attempt_waits_for_another_try_is_told(tmp_path: Path) -> None:
    clock = Stopped()
    view = view_of(clock, "a")
    view.add(TryEnded("a", 1, TryResult(Outcome.BROKEN)), clock.wall())
    writer = writer_of(tmp_path, view, clock)
    writer.retry_in = {"a": 8.0}.get
    [row] = told(writer, tmp_path).in_flight
    assert (row.state, row.waits_until) == ("between tries", clock.wall() + 8.0)
