"""The whole program over plugins and agents that do anything, and signals at any moment: the counts add up, nothing
is left running (spec 02 exit codes, 05, 08, 10).

A seed that fails can be tried alone: `pytest tests/integration/test_chaos.py -k "seed7]"`, and others with
`CHAOS_SEEDS=20:200`. What happens in an attempt depends on the seed; how far the others are then does not.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import proctor
from proctor.model.attempt import Verdict
from proctor.model.events import (
    AttemptSealed,
    Completion,
    DispatchStopped,
    RunEnded,
    SandboxOpened,
    TryEnded,
    TryStarted,
)
from proctor.report.summary import summary_data
from proctor.report.view import RunView
from proctor.runtime.cgroup import PREFIX, find_roots
from proctor.store.fold import fold_attempts
from proctor.store.plan_file import read_plan
from proctor.store.reader import read_journal

SUPPORT = Path(__file__).parent.parent / "support"
FIRST, LAST = map(int, os.environ.get("CHAOS_SEEDS", "0:1").split(":"))
SLOTS = 200
HANG_SECONDS = 100
"""Only a hang takes so long."""
GONE_WITHIN_SECONDS = 20
"""What was killed may take a while to end on a busy machine."""

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}

COMPLAINTS = (
    "Traceback", "never awaited", "never retrieved", "was destroyed", "Exception ignored", "ResourceWarning",
)  # fmt: skip
"""What asyncio and the interpreter say of programs that are not clean."""

OPTIONS = [
    "--env", "chaos_plugins:ChaosProvider", "--max-retries", "2", "--task-concurrency", "16", "--timeout", "0.6",
    "--json",
    "--set", "execution.retry_min_delay_seconds=0.05", "--set", "execution.retry_max_delay_seconds=0.2",
    "--set", "stop_on_repeated=0", "--set", f"benchmark.params.tasks={SLOTS}",
    *(f"--set={phase}_timeout_seconds=0.6" for phase in ("open", "setup", "collect", "grade")),
    "--set", "dispose_timeout_seconds=2",
]  # fmt: skip


@dataclass(frozen=True)
class Plot:
    """What a seed decides about a run as a whole."""

    seed: int
    grading: str
    reuse: bool
    signals: tuple[signal.Signals, ...]
    after_sealed: int
    """The first signal comes when so many attempts are sealed."""
    pause_seconds: float
    """Between the two signals."""

    @classmethod
    def of(cls, seed: int) -> Plot:
        die = random.Random(f"plot {seed}")
        first = (die.choice(list(SIGNALS)),) if seed % 2 else ()
        second = (die.choice(list(SIGNALS)),) if first and die.random() < 0.4 else ()
        return cls(
            seed,
            grading=("none", "fresh", "reuse")[seed % 3],
            reuse=die.random() < 0.3,
            signals=first + second,
            after_sealed=die.choice([0, SLOTS - 2, *(die.randrange(SLOTS) for _ in range(5))]),
            pause_seconds=die.choice([0.0, die.random(), 3 * die.random()]),
        )


class Run:
    """One run of the program in a folder of its own."""

    def __init__(self, plot: Plot, folder: Path) -> None:
        self.plot = plot
        self.folder = folder
        self.mark = f"{3000 + plot.seed}.{os.getpid()}{time.monotonic_ns() % 10**9}"
        source = Path(proctor.__file__).parent.parent
        environment = {
            **os.environ, "TMPDIR": str(folder), "CHAOS_SEED": str(plot.seed), "CHAOS_MARK": self.mark,
            "PYTHONPATH": os.pathsep.join([str(SUPPORT), str(source)]), "PYTHONWARNINGS": "default", "NO_COLOR": "1",
        }  # fmt: skip
        settings = [f"benchmark.params.grading={plot.grading}", f"sandbox_reuse={str(plot.reuse).lower()}"]
        command = [sys.executable, "-m", "proctor", "run", "chaos_plugins:ChaosBenchmark", "chaos_plugins:ChaosHarness"]
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            self.process = subprocess.Popen(
                [*command, *OPTIONS, *(f"--set={setting}" for setting in settings)],
                cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip

    def play(self) -> tuple[signal.Signals, ...]:
        """Send the signals, wait for the end, and return those that the program was there to take."""
        sent: list[signal.Signals] = []
        try:
            for number in self.plot.signals:
                if sent:
                    time.sleep(self.plot.pause_seconds)
                elif not self.wait_until(lambda: self.sealed() >= self.plot.after_sealed):
                    break
                if self.process.poll() is None:
                    self.process.send_signal(number)
                    sent.append(number)
            self.process.wait(HANG_SECONDS)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        return tuple(sent)

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Wait for a condition; say whether it came before the end of the program."""
        end = time.monotonic() + HANG_SECONDS
        while not condition():
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < end, self.err
            time.sleep(0.01)
        return True

    def sealed(self) -> int:
        found = list((self.folder / "results").rglob("journal.jsonl"))
        return found[0].read_bytes().count(b'"type":"AttemptSealed"') if found else -1

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text("utf-8", "replace")

    @property
    def receipt(self) -> dict[str, Any]:
        return json.loads((self.folder / "out").read_bytes().splitlines()[-1])

    @property
    def directory(self) -> Path:
        [journal] = (self.folder / "results").rglob("journal.jsonl")
        return journal.parent

    def processes(self, sandboxes: set[str]) -> list[str]:
        """Return the command lines of live processes that came of this run."""
        signs = [text.encode() for text in (self.mark, str(self.folder), *sandboxes)]
        found: list[str] = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    command = (entry / "cmdline").read_bytes()
                    known = command + (entry / "environ").read_bytes()
                except OSError:  # it has ended
                    continue
                if command and any(sign in known for sign in signs):
                    found.append(f"{entry.name} {command.replace(bytes(1), b' ').decode('utf-8', 'replace')[:200]}")
        return found


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    return Run(Plot.of(request.param), tmp_path)


@pytest.mark.parametrize("run", range(FIRST, LAST), ids=lambda seed: f"seed{seed}", indirect=True)
def test_10_whatever_happens_the_counts_add_up_and_nothing_is_left(run: Run) -> None:
    sent = run.play()
    print(f"{run.plot}: took {[number.name for number in sent]}, ended with {run.process.returncode}")
    events = [event for event, _ in read_journal(run.directory / "journal.jsonl")]
    check_end(run, sent, events)
    check_counts(run, events)
    check_attempts(run, events)
    check_remains(run, sent, events)
    said = run.err + (run.directory / "run.log").read_text("utf-8", "replace")
    complaints = [line for line in said.splitlines() if any(complaint in line for complaint in COMPLAINTS)]
    assert not complaints, said[-5000:]


def check_end(run: Run, sent: tuple[signal.Signals, ...], events: list[Any]) -> None:
    """Check the exit code, and that all say the same about the end."""
    assert (run.directory / "journal.jsonl").read_bytes().endswith(b"\n"), "the journal is whole"
    assert isinstance(events[-1], RunEnded)
    completion = events[-1].completion
    code, receipt = run.process.returncode, run.receipt
    if completion is Completion.INTERRUPTED:
        assert receipt["exit_code"] in {SIGNALS[number] for number in sent}, run.err
        check_how_to_go_on(run, events)
    else:
        assert completion is Completion.COMPLETE
        # Errors are certain to be among so many; a signal that came when all was over may have been taken or not.
        assert receipt["exit_code"] in {3, *(SIGNALS[number] for number in sent)}, run.err
    # Once everything is written and said, and nobody takes signals any more, one ends the process by itself.
    assert code in {receipt["exit_code"], *(-number for number in sent)}, run.err
    assert receipt["type"] == "receipt"
    assert receipt["runs"] == [json.loads((run.directory / "summary.json").read_text())]
    assert receipt["runs"][0]["completion"] == completion.value


def check_how_to_go_on(run: Run, events: list[Any]) -> None:
    """Check that the last lines say what is missing, and how to run that."""
    slots = read_plan(run.directory / "plan.json").slots
    there = {
        event.task for event in events if isinstance(event, AttemptSealed) and event.verdict is not Verdict.CANCELLED
    }
    count = len({slot.task for slot in slots} - there)
    hints = [line for line in run.err.splitlines() if line.startswith("hint: to run what is missing")]
    assert len(hints) == bool(count)
    if count:
        assert f"missing: {count} attempt" in run.err
        words = shlex.split(hints[0].partition("missing: ")[2])
        assert words[:4] == ["proctor", "run", "chaos_plugins:ChaosBenchmark", "chaos_plugins:ChaosHarness"]
        assert words[-1] == "--reuse"


def check_counts(run: Run, events: list[Any]) -> None:
    """Check that every slot is accounted for, once, by the journal, its fold and the summary alike."""
    slots = {(slot.task, slot.ordinal) for slot in read_plan(run.directory / "plan.json").slots}
    assert len(slots) == SLOTS
    sealed = [(event.task, event.ordinal) for event in events if isinstance(event, AttemptSealed)]
    assert len(sealed) == len(set(sealed)), "each slot is sealed once"
    assert set(sealed) <= slots
    stopped = sum(event.slots for event in events if isinstance(event, DispatchStopped))
    assert len(sealed) + stopped == SLOTS
    view = RunView(run.receipt["runs"][0]["experiment"])
    for event, at in read_journal(run.directory / "journal.jsonl"):
        view.add(event, at)
    summary = run.receipt["runs"][0]
    data = summary_data(view, run=summary["run"], directory=summary["directory"])
    assert json.loads(json.dumps(data)) == summary, "the summary is a fold of the journal"
    counts = summary["counts"]
    parts = {name: number for name, number in counts.items() if isinstance(number, int) and name != "total"}
    assert counts["total"] == SLOTS == sum(parts.values()) + sum(counts["not_dispatched"].values())
    assert (counts["running"], counts["queued"]) == (0, 0)
    verdicts = Counter(event.verdict.value for event in events if isinstance(event, AttemptSealed))
    assert all(counts[verdict] == number for verdict, number in verdicts.items())


def check_attempts(run: Run, events: list[Any]) -> None:
    """Check that each try has one end, and each sealed attempt its result."""
    started = Counter((event.attempt, event.try_number) for event in events if isinstance(event, TryStarted))
    ended = Counter((event.attempt, event.try_number) for event in events if isinstance(event, TryEnded))
    assert started == ended
    assert set(started.values()) <= {1}
    assert max(number for _, number in started) <= 3
    issues = [issue for event in events if isinstance(event, TryEnded) for issue in event.result.issues]
    bugs = [issue for issue in issues if issue.code in ("internal", "store.full")]
    assert not bugs, bugs
    results = {path: json.loads(path.read_text()) for path in (run.directory / "attempts").rglob("result.json")}
    folds = list(fold_attempts(read_journal(run.directory / "journal.jsonl")))
    assert len(results) == len(folds) == sum(isinstance(event, AttemptSealed) for event in events)
    by_attempt = {result["attempt"]: result for result in results.values()}
    assert all(by_attempt[fold.attempt] == json.loads(fold.encoded()) for fold in folds)


def check_remains(run: Run, sent: tuple[signal.Signals, ...], events: list[Any]) -> None:
    """Check that no process, sandbox, control group or lock is left."""
    sandboxes = {event.sandbox for event in events if isinstance(event, SandboxOpened)}
    assert sandboxes
    end = time.monotonic() + GONE_WITHIN_SECONDS
    while left := run.processes(sandboxes):
        assert time.monotonic() < end, left
        time.sleep(0.05)
    there = [path.name for path in run.folder.glob("proctor-*/*")]
    if len(sent) < 2:
        assert there == []
    else:  # by force: what could not be removed in time is named, with the command that removes it
        assert [name for name in there if name not in run.err] == []
    assert not list(run.directory.glob("*.lock"))
    roots = find_roots()
    for root in (roots.unified, roots.pids, roots.memory):
        groups = os.listdir(root) if root else []
        assert [name for name in groups if name.startswith(f"{PREFIX}{run.process.pid}-")] == []
