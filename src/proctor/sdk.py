"""proctor from Python: `await proctor.arun(...)` inside an event loop, `proctor.run(...)` outside of one."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.cli.exits import Exit
from proctor.cli.interrupts import Interrupts
from proctor.cli.outcome import Outcome
from proctor.cli.python_arguments import Named, prepare
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.cli.session import execute
from proctor.errors import UsageError, describe
from proctor.report.summary import summary_data
from proctor.runtime.running import run_to_end
from proctor.store.fold import fold_attempts
from proctor.store.layout import RunLayout
from proctor.store.reader import read_journal

log = logging.getLogger(__name__)


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
    """What the command line would have exited with."""
    meaning: str
    """What that says, in words."""
    signal: int | None = None
    """The number of the signal that ended it."""

    @property
    def attempts(self) -> Iterator[dict[str, Any]]:
        """The attempts that are final, as result.json has them, in the order in which they ended; read when asked for.

        Raises `StoreError` where the journal cannot be read.
        """
        return (json.loads(fold.encoded()) for fold in fold_attempts(read_journal(RunLayout(self.directory).journal)))


_FROM_SUMMARY = (
    "experiment", "counts", "headline", "rate", "low", "high", "mean_score", "cost_usd", "completion", "signal",
)  # fmt: skip


async def arun(
    benchmark: Named,
    harness: Named,
    model: Named | None = None,
    *,
    results_dir: str | os.PathLike[str] | None = None,
    task_concurrency: int | None = None,
    tasks: Sequence[str] | None = None,
    limit: int | None = None,
    run_name: str | None = None,
    run_id: str | None = None,
    provider_limits: Mapping[str, int] | None = None,
    env_open_qps: Mapping[str, float] | None = None,
    progress: str = "none",
    fail_under: float | None = None,
    execution: Mapping[str, Any] | None = None,
    runtime: Mapping[str, Any] | None = None,
    reuse: bool | str = False,
    rerun: str | None = None,
    handle_signals: bool = False,
    **fields: Any,
) -> RunResult:
    """Run one experiment to its end and return how it ended; the same as `proctor run BENCHMARK HARNESS MODEL`.

    `fields` are those of an experiment, by the names that they have in files and after `--set`: `attempts`,
    `max_retries`, `agent_timeout_seconds`, `environment` and so on; `execution` and `runtime` are the sections of that
    name. `reuse` fills slots with attempts of earlier runs, of the one with that id or, with True, the newest of each
    slot; `rerun` ("failed" or "all") is what is executed again then. Several runs may go on side by side, in one event
    loop too.

    A cancellation of the task that awaits this is a first interrupt: attempts in flight are cancelled and clean up,
    what is finished is kept, and then `CancelledError` is raised. A second one cuts the clean-up short. Signals are
    left alone, unless `handle_signals` says otherwise, on the main thread: then SIGINT, SIGTERM and SIGHUP are taken as
    the command line takes them.

    Raises `UsageError` (what is wrong with the arguments) and `NothingToRun` before anything is started, `StoreError`
    when a run cannot be made, `InternalError` for a bug of proctor. That attempts fail or error raises nothing.
    """
    resolved, options = prepare(
        benchmark,
        harness,
        model,
        fields,
        execution={**(execution or {}), **_given(task_concurrency=task_concurrency)},
        runtime={
            **(runtime or {}),
            **_given(results_dir=results_dir, provider_limits=provider_limits, env_open_qps=env_open_qps),
        },
        tasks=(tasks,) if isinstance(tasks, str) else None if tasks is None else tuple(tasks),
        limit=limit,
        run_name=run_name,
        run_id=run_id,
        progress=progress,
        fail_under=fail_under,
        reuse=reuse,
        rerun=rerun,
    )
    on_main_thread = threading.current_thread() is threading.main_thread()
    outcome = await _to_its_end(resolved, options, Interrupts(signals=handle_signals and on_main_thread))
    return _result(outcome, resolved.experiment.name)


def run(benchmark: Named, harness: Named, model: Named | None = None, **arguments: Any) -> RunResult:
    """Do what `arun` does, with the same arguments, in an event loop of its own.

    On the main thread SIGINT, SIGTERM and SIGHUP are taken while it runs, as the command line takes them: the first
    ends the run in good order, the second cuts the clean-up short, the third exits. After a run that was ended so the
    signal does what it would have done without proctor: SIGINT raises `KeyboardInterrupt`.

    Raises `UsageError` inside a running event loop, and what `arun` raises.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        arguments = {"handle_signals": True, **arguments}
        result = run_to_end(arun(benchmark, harness, model, **arguments))
    else:
        raise UsageError(
            "proctor.run cannot be used inside a running event loop; nothing was started",
            hint="use `await proctor.arun(...)`, with the same arguments",
        )
    if result.signal is not None and threading.current_thread() is threading.main_thread():
        signal.raise_signal(result.signal)
    return result


def _given(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that were given."""
    return {name: value for name, value in arguments.items() if value is not None}


async def _to_its_end(resolved: Resolved, options: Options, interrupts: Interrupts) -> Outcome:
    """Run, and turn cancellations of this task into interrupts."""
    work = asyncio.get_running_loop().create_task(execute([resolved], options, interrupts))
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
            if interrupts.begun:
                interrupts.stop("its caller, which was cancelled")
            else:
                work.cancel()
    if cancelled is None:
        return work.result()
    if not work.cancelled() and (failure := work.exception()) is not None:
        log.error("the cancelled run failed: %s", describe(failure))
    raise cancelled


def _result(outcome: Outcome, name: str) -> RunResult:
    view, writer = outcome.views[name], outcome.writers[name]
    data = summary_data(view, run=writer.run_id, directory=str(writer.directory))
    return RunResult(
        run_id=writer.run_id,
        directory=writer.directory,
        exit_code=int(outcome.exit),
        meaning=Exit(outcome.exit).meaning,
        **{field: data[field] for field in _FROM_SUMMARY},
    )


__all__ = ["RunResult", "arun", "run"]
