"""What earlier runs of an experiment tell of its attempts: how long they executed and what they cost.

Read from the journals in the experiment's directory, newest run first and within bounds, so that asking costs little
however much there is. Nothing here is ever fatal: a journal that cannot be read is left out, and a remark says so.
"""

from __future__ import annotations

import os
import stat
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from proctor.errors import StoreError
from proctor.model.attempt import Verdict
from proctor.model.events import (
    AttemptSealed,
    Event,
    GradingStarted,
    PhaseEnded,
    RunStarted,
    TryEnded,
    TryStarted,
)
from proctor.model.ids import AttemptId
from proctor.model.spent import Spent
from proctor.store.layout import RunLayout, run_name_levels
from proctor.store.reader import JournalReader, read_journal

RUNS_AT_MOST = 10
"""Of so many runs, the newest ones, samples are taken."""

BYTES_AT_MOST = 24 * 1024 * 1024
"""So much of all journals together is read: about two seconds."""

_BEGINNING = f'{{"type":"{RunStarted.__name__}",'.encode()
_COUNTED = frozenset({Verdict.PASSED, Verdict.FAILED})


@dataclass(frozen=True, slots=True)
class Sample:
    """One attempt that ended passed or failed; seconds of execution, over all its tries, waiting not counted.

    The agent's part is everything before grading: opening, setup, agent, collect. Where grading had a sandbox of its
    own, its opening and disposal count as grading. `cost_usd` is 0 where no call was made, None where it is not known;
    then `known_cost_usd` is the part of it that is.
    """

    task: str
    agent_seconds: float
    grade_seconds: float
    dispose_seconds: float
    cost_usd: float | None
    passed: bool
    known_cost_usd: float = 0.0

    @property
    def seconds(self) -> float:
        """The seconds of execution in all."""
        return self.agent_seconds + self.grade_seconds + self.dispose_seconds


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a journal that one should know: what is the matter, and whether samples of it are used."""

    journal: Path
    what: str
    used: bool


class History:
    """The samples of earlier runs of one experiment.

    `all` has them newest run first, `runs` are the directories that they are of, `remarks` what was found amiss.
    """

    def __init__(
        self, samples: Sequence[Sample] = (), runs: Sequence[Path] = (), remarks: Sequence[Remark] = ()
    ) -> None:
        self.all = tuple(samples)
        self.runs = tuple(runs)
        self.remarks = tuple(remarks)
        self._by_task: dict[str, list[Sample]] = {}
        for sample in self.all:
            self._by_task.setdefault(sample.task, []).append(sample)

    def samples(self, task: str) -> tuple[Sample, ...]:
        """Return the samples of one task, those of the newest run first."""
        return tuple(self._by_task.get(task, ()))

    def seconds(self, task: str) -> tuple[float, ...]:
        """Return how long each sample of one task executed, in seconds."""
        return tuple(sample.seconds for sample in self._by_task.get(task, ()))

    def expected_seconds(self, tasks: Sequence[str]) -> tuple[float | None, ...]:
        """Return the median duration of each task, None where it was never run; empty where nothing was."""
        if not self.all:
            return ()
        known = (self.seconds(task) for task in tasks)
        return tuple(statistics.median(seconds) if seconds else None for seconds in known)


def read_history(
    results_dir: Path,
    experiment_dir: str,
    *,
    run_name: str | None = None,
    runs_at_most: int = RUNS_AT_MOST,
    bytes_at_most: int = BYTES_AT_MOST,
) -> History:
    """Read the runs in `results_dir/<run_name>/<experiment_dir>`, newest first, and return what they tell.

    The newest are those whose journals were written to last. A run that still goes on or was killed counts as far as
    its journal goes. Raises `UsageError` for a bad run name, and nothing else; nothing is written.
    """
    levels = () if run_name is None else run_name_levels(run_name)
    remarks: list[Remark] = []
    samples: list[Sample] = []
    runs: list[Path] = []
    left = bytes_at_most
    for journal in _journals(results_dir.joinpath(*levels, experiment_dir), remarks):
        if len(runs) == runs_at_most or left <= 0:
            break
        reader = read_journal(journal)
        found, remark = _read(reader, left)
        left -= reader.offset
        if remark is not None:
            remarks.append(remark)
        if found:
            runs.append(journal.parent)
            samples += found
    return History(samples, runs, remarks)


def _journals(directory: Path, remarks: list[Remark]) -> list[Path]:
    """Return the journals of the runs in a directory, the one that was written to last first."""
    found: list[tuple[int, str, Path]] = []
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    except OSError as error:
        remarks.append(Remark(directory, f"cannot be read: {error.strerror}", used=False))
        return []
    for name in names:
        journal = RunLayout(directory / name).journal
        try:
            status = journal.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue  # what is no run has no journal
        except OSError as error:
            remarks.append(Remark(journal, f"cannot be read: {error.strerror}", used=False))
            continue
        if stat.S_ISREG(status.st_mode):
            found.append((status.st_mtime_ns, name, journal))
        else:
            remarks.append(Remark(journal, "is not a file", used=False))
    return [journal for _, _, journal in sorted(found, reverse=True)]


def _read(reader: JournalReader, bytes_at_most: int) -> tuple[list[Sample], Remark | None]:
    """Return the samples of a journal, and a remark if something is the matter with it."""
    path = reader.path
    samples: list[Sample] = []
    try:
        with path.open("rb") as file:
            beginning = file.read(len(_BEGINNING))
        if beginning != _BEGINNING[: len(beginning)]:
            return [], Remark(path, f"does not begin with {RunStarted.__name__}: no journal of a run", used=False)
        # Stopping early leaves the generator to its end: nothing of it is needed any more.
        for sample in _fold(event for event, _ in reader):
            samples.append(sample)
            if reader.offset >= bytes_at_most:
                return samples, Remark(path, f"only the first {reader.offset:,} bytes were read", used=True)
    except OSError as error:
        return [], Remark(path, f"cannot be read: {error.strerror}", used=False)
    except StoreError as error:
        return [], Remark(path, error.message, used=False)
    if reader.torn is not None:
        what = f"ends in a torn line of {reader.torn.bytes:,} bytes; what stands before it counts"
        return samples, Remark(path, what, used=True)
    return samples, None


def _sample(spent: Spent, sealed: AttemptSealed) -> Sample:
    passed = sealed.verdict is Verdict.PASSED
    known = 0.0 if spent.usage.cost_usd is not None else spent.usage.cost_at_least_usd
    return Sample(sealed.task, spent.agent, spent.grade, spent.dispose, spent.cost_usd, passed, known)


def _fold(events: Iterator[Event]) -> Iterator[Sample]:
    """Yield a sample for each attempt that is sealed passed or failed."""
    unsealed: dict[AttemptId, Spent] = {}
    for event in events:
        match event:
            case PhaseEnded(attempt, phase, seconds):
                if attempt in unsealed:  # a disposal may come to its end after the attempt did
                    unsealed[attempt].phase_ended(phase, seconds)
            case TryStarted(attempt):
                unsealed.setdefault(attempt, Spent()).grading = False
            case GradingStarted(attempt):
                if attempt in unsealed:
                    unsealed[attempt].grading = True
            case TryEnded(attempt, _, result):
                if attempt in unsealed:
                    unsealed[attempt].usage += result.usage + result.grader_usage
            case AttemptSealed(attempt, verdict=verdict):
                known = unsealed.pop(attempt, None)
                if known is not None and verdict in _COUNTED:
                    yield _sample(known, event)
            case _:
                pass


__all__ = ["BYTES_AT_MOST", "RUNS_AT_MOST", "History", "Remark", "Sample", "read_history"]
