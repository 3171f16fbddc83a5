"""What displays look at beside events: terminals, calls, the machine (spec 07)."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from pathlib import Path

import pytest

from proctor.cli.panels import terminal_for
from proctor.cli.plan_line import plan_line
from proctor.cli.rooms import Options
from proctor.cli.terminal import Terminal, is_build, terminal_of
from proctor.cli.watch import Watch, call_stats
from proctor.core.schedule import ExperimentPlan
from proctor.errors import Fault
from proctor.report.health import CallStats
from proctor.report.sign import Sign
from proctor.runtime.calls import METER, CallMeter, noted_call
from proctor.runtime.clock import SystemClock
from proctor.runtime.countdown import Limit, Sight
from proctor.runtime.host import HostMeter
from proctor.testing.fakes import FakeClock


@pytest.mark.parametrize(
    ("environ", "shown"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True),
        ({"TERM": "xterm", "CI": "false"}, True),
        ({"TERM": "xterm", "CI": "true"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_160_a_panel_needs_a_terminal_that_can_show_it(
    environ: dict[str, str], shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, follower = pty.openpty()
    try:
        with os.fdopen(os.dup(follower), "w") as stream:
            monkeypatch.setattr(sys, "__stderr__", stream)
            found = terminal_of(stream, environ)
            assert (found is not None) is shown
            if found is not None:
                assert found.colour is ("NO_COLOR" not in environ)
                assert found.size() == (80, 24), "a terminal that does not say how large it is"
                assert found.in_front()
    finally:
        os.close(leader)
        os.close(follower)


def test_160_a_pipe_and_a_stream_of_somebody_else_are_no_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "w") as stream:
        assert terminal_of(stream, {"TERM": "xterm"}) is None
        monkeypatch.setattr(sys, "__stderr__", stream)
        assert terminal_of(stream, {"TERM": "xterm"}) is None
    assert terminal_of(None, {"TERM": "xterm"}) is None


def test_a_terminal_that_is_gone_has_a_size_all_the_same() -> None:
    assert Terminal(-1, colour=False).size() == (80, 24)


def test_builds_are_known_by_their_variable() -> None:
    assert [is_build({"CI": value}) for value in ("1", "true", "0", "False", "")] == [True, True, False, False, False]


def test_07_calls_are_counted_by_what_became_of_them() -> None:
    clock, meter = FakeClock(), CallMeter()

    async def calls() -> None:
        METER.set(meter)
        for seconds, fault in ((1.0, None), (3.0, None), (0.5, "model.rate_limited"), (9.0, "model.timeout")):
            try:
                with noted_call(clock):
                    clock.advance(seconds)
                    if fault is not None:
                        raise Fault(fault, "no")
            except Fault:
                pass
        with pytest.raises(asyncio.CancelledError), noted_call(clock):
            raise asyncio.CancelledError

    asyncio.run(calls())
    assert call_stats(meter) == CallStats(4, 2.0, 1, 1)
    for _ in range(100):
        meter.note(1.0, None)
    assert call_stats(meter) == CallStats(50, 1.0, 0, 0), "only the last count"


def test_07_the_load_of_the_machine_is_read_from_proc(tmp_path: Path) -> None:
    stat, memory = tmp_path / "stat", tmp_path / "meminfo"
    memory.write_text("MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\n")
    stat.write_text("cpu  100 0 100 700 100 0 0 0 0 0\n")
    meter = HostMeter(stat, memory)
    assert meter.cpu() is None, "no time has passed"
    stat.write_text("cpu  150 0 125 715 110 0 0 0 0 0\n")
    assert meter.cpu() == pytest.approx(0.75)
    assert meter.memory() == pytest.approx(0.6)


def test_07_a_machine_that_does_not_say_it_is_left_out(tmp_path: Path) -> None:
    meter = HostMeter(tmp_path / "none", tmp_path / "none")
    assert (meter.cpu(), meter.memory()) == (None, None)


def test_07_the_limit_that_ends_a_try_is_named() -> None:
    watch = Watch(SystemClock())
    assert watch.sign("a") is None
    for limit, name in ((Limit.PHASE, ""), (Limit.TRY, "attempt"), (Limit.IDLE, "idle")):
        watch.sight = lambda _, limit=limit: Sight(4.0, limit, 1200.0, 900.0)
        assert watch.sign("a") == Sign(4.0, 1200.0, name)
    watch.sight = lambda _: Sight(4.0)
    assert watch.sign("a") == Sign(4.0, None, "")
    assert watch.waiting() is None
    assert watch.waiting_by_experiment() is None


def plan(name: str, tasks: int, attempts: int = 1, cap: int | None = None) -> ExperimentPlan:
    ids = tuple(f"t{number}" for number in range(tasks))
    return ExperimentPlan(name, ids, attempts, "docker", (True,) * tasks, max_concurrency=cap)


@pytest.mark.parametrize(
    ("plans", "says"),
    [
        ([plan("a", 9)], "9 attempts · 9 tasks"),
        ([plan("a", 9, 2)], "18 attempts · 9 tasks"),
        ([plan(name, 9) for name in "abcde"], "45 attempts · 9 tasks × 5 experiments"),  # noqa: RUF001
        ([plan(name, 9, 2) for name in "ab"], "36 attempts · 9 tasks × 2 experiments × 2 attempts"),  # noqa: RUF001
        ([plan("a", 24), plan("b", 10)], "34 attempts · 24 tasks · 2 experiments"),
        ([plan("a", 10, 2), plan("b", 10)], "30 attempts · 10 tasks · 2 experiments"),
    ],
)
def test_07_a_product_is_shown_only_where_it_is_true(plans: list[ExperimentPlan], says: str) -> None:
    line = plan_line(plans, options_of())
    assert line.startswith(f"PLAN  {says} · concurrency 19 (from flag)")


def test_07_the_plan_line_names_every_cap_and_what_is_expected() -> None:
    line = plan_line([plan("fast", 3), plan("slow", 3, cap=1)], options_of(), ["est. 14 min"])
    assert line.endswith("concurrency 19 (from flag) · docker 8 · slow ≤1 · est. 14 min")


def test_07_no_terminal_is_asked_for_where_no_panel_is_wanted() -> None:
    assert terminal_for(options_of(progress="plain")) is None
    assert terminal_for(options_of(progress="none")) is None


def options_of(**more: object) -> Options:
    from proctor.cli.controls import Controls

    controls = Controls(19, "from flag", {"docker": 8, "local": 0}, "results")
    return Options(controls=controls, **more)  # type: ignore[arg-type]
