"""The panel on a real terminal: it lives, it is resized, interrupted, stopped and killed, and leaves all well (07)."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from program import HANG_SECONDS, Ended
from terminal import OnTerminal

RUN = ["run", "trivial", "plugins:Sleeper", "--task-concurrency", "2"]
FOREVER = [*RUN, "--set", "harness.params.seconds=1000"]
CODES = re.compile(r"\x1b\[[?\d;]*[a-zA-Z]")

Start = Callable[..., OnTerminal]


@pytest.fixture
def start(environment: None, tmp_path: Path) -> Iterator[Start]:
    """Start on a terminal that can show a panel."""
    started: list[OnTerminal] = []

    def call(*arguments: str, size: tuple[int, int] = (100, 30), **environ: str) -> OnTerminal:
        known = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
        found = OnTerminal(list(arguments), tmp_path, {**known, "TERM": "xterm-256color", **environ}, size)
        started.append(found)
        return found

    yield call
    for each in started:
        each.close()


def codes(output: bytes) -> set[str]:
    """The kinds of control codes in an output, without their numbers."""
    return {re.sub(r"[\d;]", "", code) for code in CODES.findall(output.decode())}


@pytest.mark.long
def test_07_a_run_on_a_terminal_shows_what_runs_and_what_waits_and_ends_with_a_clean_frame(start: Start) -> None:
    terminal = start(*RUN, "--set", "harness.params.seconds=2", "--limit", "4")
    shown = terminal.until(lambda screen: "WAITING" in screen.text and "agent" in screen.text)
    assert "PLAN     4 attempts · 4 tasks · concurrency 2 (from flag)" in shown
    assert "4 total · 2 running · 2 queued" in shown
    assert re.search(r"RUNNING  t0000 #0 +agent +00:0\d", shown)
    assert re.search(r"WAITING  2 concurrency 2/2", shown)
    assert terminal.end() == 0
    text = terminal.screen.text
    assert text.count("PLAN ") == 1, f"a frame was left behind:\n{text}"
    assert text.count("4 total · 0 running · 0 queued · 4 passed") == 2, "the last frame, and the summary"
    assert "RUNNING" not in text
    assert "trivial/plugins:Sleeper: 100.0% (4/4 passed)" in text
    assert "where the time went:" in text
    assert termios.tcgetattr(terminal._follower) == terminal.before
    assert codes(terminal.output) <= {"\x1b[A", "\x1b[K", "\x1b[m"}, "no mode of the terminal is changed"


@pytest.mark.long
def test_10_I1_ctrl_c_leaves_a_last_frame_and_the_closing_lines(start: Start) -> None:
    terminal = start(*FOREVER, "--limit", "4")
    terminal.until(lambda screen: "agent" in screen.text)
    terminal.press(b"\x03")
    assert terminal.end() == 130
    lines = terminal.screen.text.splitlines()
    assert sum(line.startswith("PLAN ") for line in lines) == 1
    frame = next(number for number, line in enumerate(lines) if line.startswith("PLAN "))
    assert any("interrupted by SIGINT" in line for line in lines[:frame]), "it is said above the panel"
    assert "0 running · 0 queued" in "\n".join(lines[frame : frame + 3])
    assert any(line.startswith("missing: 4 attempts of 4 tasks (2 cancelled, 2 not dispatched)") for line in lines)
    assert not any("sandbox" in line for line in lines), "case 167: there was none"
    assert termios.tcgetattr(terminal._follower) == terminal.before


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_10_I1_other_signals_end_it_as_cleanly(start: Start, number: signal.Signals) -> None:
    terminal = start(*FOREVER, "--limit", "2")
    terminal.until(lambda screen: "agent" in screen.text)
    terminal.process.send_signal(number)
    assert terminal.end() == 128 + number
    assert terminal.screen.text.count("PLAN ") == 1
    assert f"interrupted by {number.name}" in terminal.screen.text


def test_07_a_kill_leaves_the_terminal_as_it_was(start: Start) -> None:
    terminal = start(*FOREVER, "--limit", "2")
    terminal.until(lambda screen: "agent" in screen.text)
    terminal.process.kill()
    terminal.end()
    assert termios.tcgetattr(terminal._follower) == terminal.before
    assert "?" not in "".join(codes(terminal.output)), "no cursor is hidden, no screen switched"
    assert terminal.screen.column == 0, "whatever is written next has a line of its own"


@pytest.mark.long
def test_07_a_stopped_process_goes_on_below_what_the_shell_wrote(start: Start) -> None:
    terminal = start(*FOREVER, "--limit", "2")
    terminal.until(lambda screen: "agent" in screen.text)
    terminal.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, terminal.process.pid, os.WSTOPPED)
    while terminal.read(0.3):
        pass
    os.write(terminal._follower, b"[1]+  Stopped\r\n$ fg\r\n")
    terminal.process.send_signal(signal.SIGCONT)
    text = terminal.until(lambda screen: screen.text.count("PLAN ") == 2 and "agent" in screen.text.partition("fg")[2])
    assert text.index("Stopped") < text.rindex("PLAN ")


@pytest.mark.sampled
@pytest.mark.parametrize("columns", [80, 40])
def test_07_a_terminal_that_becomes_narrower_is_filled_anew(start: Start, columns: int) -> None:
    terminal = start(*FOREVER, "--limit", "4", size=(120, 30))
    terminal.until(lambda screen: "agent" in screen.text)
    while terminal.read(0.15):  # a frame that is on its way is of the old width
        pass
    terminal.resize(columns, 30)
    terminal.until(lambda screen: "00:0" in screen.text and screen.text.count("PLAN ") == 1)
    shown = [line for line in terminal.screen.shown if line]
    assert max(map(len, shown)) <= columns
    assert "2 concurrency 2/2" in "\n".join(shown)


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "environ"),
    [
        (["--progress", "plain"], {}),
        ([], {"TERM": "dumb"}),
        ([], {"CI": "true"}),
        (["--json"], {}),
    ],
)
def test_160_where_no_panel_can_be_shown_there_are_lines_and_no_codes(
    start: Start, options: list[str], environ: dict[str, str]
) -> None:
    terminal = start(*RUN, "--limit", "3", *options, **environ)
    assert terminal.end() == 0
    assert b"\x1b" not in terminal.output
    assert "[3/3] passed" in terminal.screen.text
    assert "PLAN  3 attempts" in terminal.screen.text


@pytest.mark.long
def test_160_no_colour_still_shows_the_panel_with_all_its_words(start: Start) -> None:
    terminal = start(*FOREVER, "--limit", "2", NO_COLOR="1")
    terminal.until(lambda screen: "agent" in screen.text)
    assert b"m" not in b"".join(re.findall(rb"\x1b\[[\d;]*([a-zA-Z])", terminal.output))


@pytest.mark.long
def test_07_a_terminal_without_utf8_gets_stand_ins(start: Start) -> None:
    terminal = start(*FOREVER, "--limit", "2", PYTHONIOENCODING="ascii")
    text = terminal.until(lambda screen: "agent" in screen.text)
    assert "2 attempts | 2 tasks | concurrency 2" in text
    assert text.isascii()


@pytest.mark.long
def test_07_what_draws_is_not_imported_where_nothing_is_drawn(tmp_path: Path, environment: None) -> None:
    code = (
        "import sys; from proctor.cli.main import run; run(sys.argv[1:]);"
        "print(sorted(name for name in sys.modules if 'panel_' in name or 'live_panel' in name or name == 'rich.live'))"
    )
    script = [sys.executable, "-c", code, "run", "trivial", "nop", "--limit", "1"]
    ended = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=HANG_SECONDS)
    assert ended.stdout == "[]\n", "what rich-click needs for its own messages is another matter"


@pytest.mark.long
def test_07_receipt_summary_show_and_text_agree(program: Callable[..., Ended], proctor: Callable[..., Ended]) -> None:
    ended = program(
        "run", "trivial", "plugins:Flaky", "--set", "harness.params.every=3", "--limit", "7", "--json",
        "--max-retries", "1", "--set", "execution.retry_min_delay_seconds=0.01",
    )  # fmt: skip
    [run] = ended.receipt["runs"]
    counts = run["counts"]
    assert json.loads((ended.run_dir / "summary.json").read_text()) == run
    shown = json.loads(proctor("show", str(ended.run_dir), "--json").out)
    assert {name: shown[name] for name in run if name != "directory"} == {
        name: value for name, value in run.items() if name != "directory"
    }
    line = next(line for line in ended.err.splitlines() if line.startswith("7 total"))
    assert f"{counts['passed']} passed · {counts['failed']} failed · {counts['errored']} errored" in line
    progress = json.loads((ended.run_dir / "progress.json").read_text())
    assert progress["counts"] == counts
    assert progress["ended"] is True


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_07_in_tmux_the_last_screen_after_ctrl_c_is_clean(tmp_path: Path, environment: None) -> None:
    socket = str(tmp_path / "tmux")

    def tmux(*arguments: str) -> str:
        environ = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "TMUX")}
        command = ["tmux", "-S", socket, "-f", "/dev/null", *arguments]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, env={**environ, "TERM": "xterm"}, timeout=HANG_SECONDS
        ).stdout

    def screen_with(words: str) -> str:
        give_up = time.monotonic() + HANG_SECONDS
        while words not in (shown := tmux("capture-pane", "-p", "-t", "run")):
            assert time.monotonic() < give_up, shown
            time.sleep(0.1)
        return shown

    shell = f"cd {tmp_path} && {sys.executable} -m proctor {' '.join(FOREVER)} --limit 4; echo ended $?; sleep 1000"
    tmux("new-session", "-d", "-s", "run", "-x", "80", "-y", "24", shell)
    try:
        frame = screen_with("WAITING")
        assert "4 total · 2 running · 2 queued" in frame
        tmux("send-keys", "-t", "run", "C-c")
        last = screen_with("ended 130")
        assert last.count("PLAN ") == 1
        assert "RUNNING" not in last
        assert "interrupted by SIGINT" in last
    finally:
        tmux("kill-server")


@pytest.mark.long
def test_167_sandboxes_that_an_interrupt_removes_are_counted(start: Start) -> None:
    terminal = start(*RUN, "--set", "harness.params.command=sleep 1000", "--limit", "4")
    terminal.until(lambda screen: "agent" in screen.text)
    while terminal.read(0.2):  # until both are in the agent's part, or as good as
        pass
    terminal.press(b"\x03")
    assert terminal.end() == 130
    assert "2 sandboxes removed" in terminal.screen.text
    assert "may be left" not in terminal.screen.text


@pytest.mark.long
def test_168_a_slow_setup_explains_on_the_panel_why_nothing_runs(start: Start, tmp_path: Path) -> None:
    (tmp_path / "hooking.py").write_text("import time\n\ndef slow():\n    time.sleep(1000)\n")
    terminal = start(*RUN, "--set", "setup=hooking:slow", "--limit", "4")
    shown = terminal.until(lambda screen: "setup of" in screen.text)
    assert "4 total · 0 running · 4 queued" in shown
    assert re.search(r"WAITING  4 setup of trivial/plugins:Sleeper 00:0\d", shown)
    terminal.press(b"\x03")
    assert terminal.end() == 130
    assert terminal.screen.text.count("PLAN ") == 1
