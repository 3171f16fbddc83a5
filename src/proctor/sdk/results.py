"""How calls end: the result of a run, and that of a launch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.cli.exits import Exit
from proctor.cli.outcome import Outcome, exit_code
from proctor.report.metrics import Metrics
from proctor.report.summary import summary_data
from proctor.store.fold import fold_attempts
from proctor.store.layout import RunLayout
from proctor.store.reader import read_journal


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. What is unknown is None, never 0."""

    run_id: str
    directory: Path
    """Where journal, summary and everything that the attempts left behind are."""
    experiment: str
    counts: Mapping[str, Any]
    """Attempts by what became of them: disjoint, and together `total`; `not_dispatched` is a mapping by reason."""
    headline: str
    """The result in one sentence, which says what is missing from it."""
    rate: float | None
    """Passed / slots that are not skipped; None while anything is missing: then it is from `low` to `high`."""
    low: float | None
    high: float | None
    mean_score: float | None
    cost_usd: float | None
    """What all calls cost, in US dollars: 0 where none was made, None where a price is unknown."""
    completion: str | None
    """`complete`, `interrupted` or `stopped`."""
    exit_code: int
    """What the command line would have exited with; of one run of several, what it would have alone."""
    meaning: str
    """What that says, in words."""
    signal: int | None = None
    """The number of the signal that ended it."""
    cost_at_least_usd: float = 0.0
    """All of `cost_usd`, or where that is None the part of it that is known."""
    unpriced_calls: int = 0
    """How many calls have a cost of which not all is known."""

    @property
    def attempts(self) -> Iterator[dict[str, Any]]:
        """The attempts that are final, as result.json has them, in the order in which they ended; read when asked for.

        Raises `StoreError` where the journal cannot be read.
        """
        return (json.loads(fold.encoded()) for fold in fold_attempts(read_journal(RunLayout(self.directory).journal)))


@dataclass(frozen=True, slots=True)
class LaunchResult(Mapping[str, RunResult]):
    """How a launch ended: the result of each request, by its name, in the order of the file."""

    runs: Mapping[str, RunResult]
    exit_code: int
    """What the command line would have exited with: the strongest of all runs."""
    meaning: str
    """What that says, in words."""

    def __getitem__(self, name: str) -> RunResult:
        return self.runs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def signal(self) -> int | None:
        """The number of the signal that ended it."""
        return next((run.signal for run in self.runs.values() if run.signal is not None), None)


_FROM_SUMMARY = (
    "experiment", "counts", "headline", "rate", "low", "high", "mean_score", "cost_usd", "completion", "signal",
    "cost_at_least_usd", "unpriced_calls",
)  # fmt: skip


def run_result(outcome: Outcome, name: str, fail_under: float | None) -> RunResult:
    """Return how the run of one experiment ended."""
    view, writer = outcome.views[name], outcome.writers[name]
    alone = Outcome({name: view}, {name: writer}, Exit.OK, outcome.store_error, outcome.bug)
    code = outcome.exit if len(outcome.views) == 1 else exit_code(alone, fail_under)
    # None of its fields is one of the metrics, which are in summary.json and take a second for 100,000 attempts.
    unused = Metrics(None, None)
    data = summary_data(view, run=writer.run_id, directory=str(writer.directory), metrics=unused)
    return RunResult(
        run_id=writer.run_id,
        directory=writer.directory,
        exit_code=int(code),
        meaning=Exit(code).meaning,
        **{field: data[field] for field in _FROM_SUMMARY},
    )


def launch_result(outcome: Outcome, fail_under: float | None) -> LaunchResult:
    """Return how all runs of an invocation ended."""
    runs = {name: run_result(outcome, name, fail_under) for name in outcome.views}
    return LaunchResult(runs, int(outcome.exit), Exit(outcome.exit).meaning)
