"""When the panel is drawn: seldom enough to cost nothing, and never in the way of the run (spec 07; 10 I4)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "support"))
from screen import VirtualScreen

import proctor.cli.displays as displays_module
from proctor.cli.controls import Controls
from proctor.cli.displays import Displays
from proctor.cli.live_panel import AGES_SECONDS, CPU_SHARE, LEAST_SECONDS, USUAL_SECONDS, LivePanel
from proctor.cli.panels import on_panel
from proctor.cli.rooms import Options
from proctor.model.events import DispatchStopped, RunStarted, StopReason
from proctor.report.panel import Page
from proctor.report.view import RunView
from proctor.testing.fakes import FakeClock


class FakeStream:
    """A stream whose reader takes everything, or nothing while it is `stuck`."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.screen = VirtualScreen(60, 20)
        self.stuck = False
        self.writes = 0
        self._text = ""

    @property
    def waiting(self) -> int:
        return int(self.stuck)

    def write(self, text: str) -> None:
        self._text += text

    def flush(self) -> None:
        self.writes += bool(self._text)
        self.screen.feed(self._text)
        self._text = ""


class FakeTerminal:
    colour = False

    def __init__(self) -> None:
        self.columns = 60
        self.front = True

    def size(self) -> tuple[int, int]:
        return self.columns, 20

    def in_front(self) -> bool:
        return self.front


class Rig:
    def __init__(self, *, cost: float = 0.0) -> None:
        self.clock, self.stream, self.terminal = FakeClock(), FakeStream(), FakeTerminal()
        self.view = RunView("e")
        self.pages = 0
        self.cost = cost
        self.panel = LivePanel(self.stream, self.terminal, self.page, self.clock)  # type: ignore[arg-type]
        self.view.add(RunStarted(1, "i", "r", "e", "0", "h", 1, 5, 5), 0.0)

    def page(self) -> Page:
        self.pages += 1
        self.clock.advance(self.cost)
        self.view.total += 1  # so that no frame is like another
        return Page(self.clock.monotonic(), {"e": self.view}, plan=["5 attempts"])

    def run(self, seconds: float, *, busy: bool) -> int:
        """Let time pass in ticks; return how many frames were drawn."""
        before, until = self.pages, self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            if busy:
                self.panel.changed()
            self.panel.tick()
            self.clock.advance(LEAST_SECONDS)
        return self.pages - before


def test_07_it_is_drawn_a_few_times_a_second_while_things_change_and_once_a_second_for_the_ages() -> None:
    assert Rig().run(10.0, busy=True) <= 10.0 / USUAL_SECONDS + 1
    assert Rig().run(10.0, busy=True) <= 10 * 10, "never more than ten times a second"
    assert Rig().run(10.0, busy=False) <= 10.0 / AGES_SECONDS + 1
    assert Rig().run(10.0, busy=False) >= 9


def test_07_where_frames_cost_much_there_are_fewer_of_them() -> None:
    rig = Rig(cost=0.02)
    frames = rig.run(60.0, busy=True)
    assert frames * 0.02 <= 60.0 * CPU_SHARE * 1.2
    assert frames > 10


def test_10_I4_a_terminal_that_takes_nothing_gets_no_more_frames() -> None:
    rig = Rig()
    rig.stream.stuck = True
    assert rig.run(5.0, busy=True) == 0
    rig.stream.stuck = False
    assert rig.run(5.0, busy=True) > 0


def test_07_in_the_background_nothing_is_drawn() -> None:
    rig = Rig()
    rig.terminal.front = False
    assert rig.run(5.0, busy=True) == 0


def test_07_lines_go_above_the_panel_and_the_last_frame_stays() -> None:
    rig = Rig()
    rig.panel.tick()
    rig.panel.write("first\nsecond\n")
    rig.panel.flush()
    rig.clock.advance(1.0)
    rig.panel.tick()
    rig.panel.write("third\n")
    rig.panel.end()
    rig.panel.end()
    rig.stream.write("summary\n")
    rig.stream.flush()
    lines = rig.stream.screen.text.splitlines()
    assert lines[:4] == ["first", "second", "third", "PLAN     5 attempts"]
    assert lines[-1] == "summary"
    assert sum(line.startswith("PLAN") for line in lines) == 1


def test_07_it_follows_the_width_of_the_terminal() -> None:
    rig = Rig()
    rig.panel.tick()
    rig.terminal.columns = 40
    rig.stream.screen.resize(40, 20)
    rig.run(2.0, busy=True)
    lines = rig.stream.screen.text.splitlines()
    assert max(map(len, lines)) <= 40
    assert sum(line.startswith("PLAN") for line in lines) == 1


def test_10_I4_a_panel_that_fails_is_left_out_and_text_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, ticks = FakeClock(), 0

    async def next_tick(seconds: float) -> None:
        nonlocal ticks
        ticks += 1
        clock.advance(seconds)
        if ticks > 3:
            raise asyncio.CancelledError

    def breaks() -> Page:
        raise ZeroDivisionError("no page")

    panel = LivePanel(FakeStream(), FakeTerminal(), breaks, clock)  # type: ignore[arg-type]
    monkeypatch.setattr(displays_module, "terminal_for", lambda options: FakeTerminal())
    monkeypatch.setattr(displays_module, "begin_panel", lambda *_, **__: panel)
    monkeypatch.setattr(displays_module.asyncio, "sleep", next_tick)

    async def beat() -> None:
        options = Options(controls=Controls(1, "from flag", {}, "results"))
        displays = Displays(options, {}, clock, own_streams=False)
        displays.plan([], ["note: before"])
        with pytest.raises(asyncio.CancelledError):
            await displays.beat_forever()
        displays.note("after")

    asyncio.run(beat())
    said = capsys.readouterr().err
    assert "the run goes on (ZeroDivisionError: no page)" in said
    assert said.rstrip().endswith("warning: after")


def test_07_the_first_frame_after_a_stop_begins_below_whatever_was_written_meanwhile() -> None:
    """Whatever comes first when the process goes on, a frame or a line: nothing that stands there is written over."""
    for line in ("", "a line\n"):
        rig = Rig()

        async def go(rig: Rig = rig, line: str = line) -> None:
            before = signal.getsignal(signal.SIGCONT)
            rig.panel.begin()
            rig.panel.tick()
            rig.stream.screen.feed("[1]+  Stopped\n$ fg\n")
            os.kill(os.getpid(), signal.SIGCONT)
            rig.panel.write(line)
            rig.panel.tick()
            rig.panel.stop()
            assert signal.getsignal(signal.SIGCONT) == before

        asyncio.run(go())
        text = rig.stream.screen.text
        assert text.index("$ fg") < text.rindex("PLAN")
        assert text.count("PLAN") == 2
        assert line in text + "\n"


def test_07_a_task_that_is_solved_writes_no_line_above_the_panel() -> None:
    """With early exit there is one for each task."""
    assert on_panel(DispatchStopped("e", StopReason.EARLY_EXIT, 1))
    assert not on_panel(DispatchStopped("e", StopReason.BUDGET, 1))
