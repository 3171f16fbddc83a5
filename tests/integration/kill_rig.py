"""The whole program in processes that are killed, and what is known of each of its invocations afterwards."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import proctor
from proctor.model.events import AttemptSealed, Event, SlotFilled, TryStarted, WorkCheckpointed
from proctor.store.reader import read_journal

SUPPORT = Path(__file__).parent.parent / "support"
SLOTS = 200
HANG_SECONDS = 100
"""Only a hang takes so long."""

RUN = [
    "run", "reuse_plugins:Counted", "reuse_plugins:Worker", "--task-concurrency", "16", "--max-retries", "2",
    "--set", f"benchmark.params.tasks={SLOTS}", "--set", "benchmark.params.artifacts_every=40",
    "--set", "execution.retry_min_delay_seconds=0.01", "--set", "execution.retry_max_delay_seconds=0.02",
    "--set", "stop_on_repeated=0",
]  # fmt: skip
"""Each 7th attempt fails at first, each 5th is not graded at first, each 40th is made in a sandbox."""

FLAKY = {
    "WORK_FLAKY": "7", "GRADER_FLAKY": "5", "WORK_SECONDS": "0.005",
    "WORK_COMMAND": "sleep 300 >/dev/null 2>&1 &",
}  # fmt: skip

_PLAIN = re.compile(r"^\[ *\d+/\d+\] (passed|failed) +(\S+) #0", re.MULTILINE)

Standing = dict[str, tuple[str, float | None]]
"""The verdict and score of each task."""


@dataclass(frozen=True)
class Moment:
    """When an invocation is killed: once it has shown so many lines, and a little later."""

    lines: int
    pause_seconds: float

    @classmethod
    def drawn(cls, die: random.Random, most: int) -> Moment:
        """Draw a moment; a pause lets it fall anywhere between two lines."""
        return cls(die.randrange(most), die.random() * 0.03)


class Invocation:
    """One invocation in a project folder; its turns are noted in a file of its own.

    What is said of it is to be asked when it has ended.
    """

    def __init__(self, folder: Path, *options: str, as_json: bool = True) -> None:
        self.folder = folder
        self.as_json = as_json
        number = len(list(folder.glob("trace-*")))
        self._trace = folder / f"trace-{number}"
        self._trace.touch()
        source = Path(proctor.__file__).parent.parent
        environment = {
            **os.environ, **FLAKY, "TMPDIR": str(folder), "WORK_TRACE": str(self._trace), "NO_COLOR": "1",
            "PYTHONPATH": os.pathsep.join([str(SUPPORT), str(source)]),
        }  # fmt: skip
        self.name = f"run{number}"
        shown = ("--json",) if as_json else ("--progress", "plain")
        self.out = folder / f"out-{number}"
        self.err = folder / f"err-{number}"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "proctor", *RUN, *shown, "--run-id", self.name, *options],
                cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip

    def kill(self, moment: Moment) -> bool:
        """Kill it at a moment; say whether it was still there to be killed."""
        end = time.monotonic() + HANG_SECONDS
        lines = 0
        with (self.out if self.as_json else self.err).open("rb") as display:
            while self.process.poll() is None and (lines := lines + display.read().count(b"\n")) <= moment.lines:
                assert time.monotonic() < end, self.said
                time.sleep(0.005)
        time.sleep(moment.pause_seconds)
        self.process.kill()
        return self.process.wait(HANG_SECONDS) == -9

    def wait(self) -> int:
        """Wait for its end."""
        try:
            return self.process.wait(HANG_SECONDS)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    @property
    def said(self) -> str:
        return self.err.read_text("utf-8", "replace")[-3000:]

    @cached_property
    def shown(self) -> set[str]:
        """The tasks that the display had shown as done; a display shows a line when its end is there."""
        whole = (self.out if self.as_json else self.err).read_text("utf-8").rpartition("\n")[0]
        if not self.as_json:
            return {task for _, task in _PLAIN.findall(whole)}
        events = map(json.loads, whole.splitlines())
        return {event["task"] for event in events if event["type"] == "AttemptSealed"}

    @cached_property
    def turns(self) -> Counter[str]:
        """How many turns of each task were begun."""
        return Counter(line.split()[0] for line in self._trace.read_text().splitlines())

    @cached_property
    def attempts(self) -> dict[str, set[str]]:
        """The attempts of each task of which a turn was begun."""
        found: dict[str, set[str]] = {}
        for line in self._trace.read_text().splitlines():
            task, attempt = line.split()
            found.setdefault(task, set()).add(attempt)
        return found

    @property
    def directory(self) -> Path | None:
        """The directory of its run, where it came so far."""
        return next((path.parent for path in self.folder.glob(f"results/*/{self.name}/journal.jsonl")), None)

    @cached_property
    def events(self) -> list[Event]:
        """What its journal says."""
        if self.directory is None:
            return []
        return [event for event, _ in read_journal(self.directory / "journal.jsonl")]

    @cached_property
    def sealed(self) -> Standing:
        """What its journal says of the attempts that are final."""
        return {event.task: _standing(event) for event in self.events if isinstance(event, AttemptSealed)}

    @cached_property
    def filled(self) -> Standing:
        """What its journal says of the slots that it took over."""
        return {event.task: _standing(event) for event in self.events if isinstance(event, SlotFilled)}

    @cached_property
    def checkpointed(self) -> set[str]:
        """The tasks whose work was saved for grading."""
        tasks: dict[str, str] = {}
        found: set[str] = set()
        for event in self.events:
            if isinstance(event, TryStarted):
                tasks[event.attempt] = event.task
            elif isinstance(event, WorkCheckpointed):
                found.add(tasks[event.attempt])
        return found

    @cached_property
    def summary(self) -> dict[str, Any]:
        assert self.directory is not None, self.said
        return json.loads((self.directory / "summary.json").read_text())


def _standing(event: AttemptSealed | SlotFilled) -> tuple[str, float | None]:
    return event.verdict.value, event.score


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of live processes that work in a folder, or in a sandbox of a proctor started there."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment, command = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
            if command and f"{folder}/".encode() in environment + b"/":
                found.append(command.replace(b"\0", b" ").decode("utf-8", "replace")[:200])
    return found


def nothing_is_left(folder: Path) -> None:
    """Wait until no process of a folder is left: supervisors notice that their runner is dead, and end the others."""
    end = time.monotonic() + HANG_SECONDS
    while left := processes_of(folder):
        assert time.monotonic() < end, left
        time.sleep(0.02)
