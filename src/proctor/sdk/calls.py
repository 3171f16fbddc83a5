"""Runs and launches from Python, inside an event loop and outside of one."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from proctor.cli.dry_run import planned
from proctor.cli.interrupts import Interrupts
from proctor.cli.outcome import Outcome
from proctor.cli.python_arguments import prepare
from proctor.cli.python_launch import prepare_launch
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Follower, Options
from proctor.cli.session import execute
from proctor.errors import UsageError, describe
from proctor.runtime.running import run_to_end
from proctor.sdk.arguments import Launch, Named, RunArguments, asked
from proctor.sdk.plans import Plan, plan_of
from proctor.sdk.results import LaunchResult, RunResult, launch_result, run_result
from proctor.sdk.streams import StreamEvent, stream_of

T = TypeVar("T")

Prepared = tuple[list[Resolved], Options]

log = logging.getLogger(__name__)


async def arun(
    benchmark: Named,
    harness: Named,
    model: Named | None = None,
    *,
    handle_signals: bool = False,
    **arguments: Unpack[RunArguments],
) -> RunResult:
    """Run one experiment to its end and return how it ended; the same as `proctor run BENCHMARK HARNESS MODEL`.

    `arguments` are the options of the command and the fields of an experiment, by the names that they have in files
    and after `--set` (see `RunArguments`). Several runs may go on side by side, in one event loop too.

    A cancellation of the task that awaits this is a first interrupt: attempts in flight are cancelled and clean up,
    what is finished is kept, and then `CancelledError` is raised. A second one cuts the clean-up short. Signals are
    left alone, unless `handle_signals` says otherwise, on the main thread: then SIGINT, SIGTERM and SIGHUP are taken as
    the command line takes them.

    Raises `UsageError` (what is wrong with the arguments) and `NothingToRun` before anything is started, `StoreError`
    when a run cannot be made, `InternalError` for a bug of proctor. That attempts fail or error raises nothing.
    """
    resolved, options = _of_run(benchmark, harness, model, arguments)
    outcome = await _to_its_end(resolved, options, _interrupts(handle_signals=handle_signals))
    return run_result(outcome, resolved[0].experiment.name, options.fail_under)


def run(
    benchmark: Named,
    harness: Named,
    model: Named | None = None,
    *,
    handle_signals: bool = True,
    **arguments: Unpack[RunArguments],
) -> RunResult:
    """Run one experiment as `arun` does, where no event loop runs.

    On the main thread SIGINT, SIGTERM and SIGHUP are taken while it runs, as the command line takes them: the first
    ends the run in good order, the second cuts the clean-up short, the third exits. After a run that was ended so the
    signal does what it would have done without proctor: SIGINT raises `KeyboardInterrupt`.

    Raises `UsageError` inside a running event loop, and what `arun` raises.
    """
    _refuse_inside_a_loop("run")
    result = run_to_end(arun(benchmark, harness, model, handle_signals=handle_signals, **arguments))
    _raise_signal(result.signal)
    return result


async def alaunch(launch: Launch, *, handle_signals: bool = False, **arguments: Unpack[RunArguments]) -> LaunchResult:
    """Run the experiments of a launch file, or of a mapping like one, and return how each ended.

    As `proctor launch FILE.yaml`: one scheduler, one set of limits. `arguments` are its options; fields of an
    experiment among them hold for every request, over what the file says. Cancellation, signals and errors are as with
    `arun`; that one request fails stops no other.
    """
    resolved, options = _of_launch(launch, arguments)
    outcome = await _to_its_end(resolved, options, _interrupts(handle_signals=handle_signals))
    return launch_result(outcome, options.fail_under)


def launch(launch: Launch, *, handle_signals: bool = True, **arguments: Unpack[RunArguments]) -> LaunchResult:
    """Run the experiments of a launch file as `alaunch` does, where no event loop runs; signals are as with `run`."""
    _refuse_inside_a_loop("launch")
    result = run_to_end(alaunch(launch, handle_signals=handle_signals, **arguments))
    _raise_signal(result.signal)
    return result


async def aplan(
    benchmark: Named | None = None,
    harness: Named | None = None,
    model: Named | None = None,
    *,
    launch: Launch | None = None,
    concurrency: Sequence[int] = (),
    **arguments: Unpack[RunArguments],
) -> Plan:
    """Return what `arun` with the same arguments, or with `launch` `alaunch`, would do; nothing is started or written.

    `concurrency` are settings of the global limit to compare, of which the first is planned with. Raises `UsageError`
    and `NothingToRun` as the run would.
    """
    if concurrency:
        arguments["task_concurrency"] = concurrency[0]
    resolved, options = _of_either(benchmark, harness, model, launch, arguments)
    return plan_of(await planned(resolved, options, concurrency))


def plan(
    benchmark: Named | None = None,
    harness: Named | None = None,
    model: Named | None = None,
    *,
    launch: Launch | None = None,
    concurrency: Sequence[int] = (),
    **arguments: Unpack[RunArguments],
) -> Plan:
    """Return what `aplan` returns, where no event loop runs. Raises `UsageError` inside of one."""
    _refuse_inside_a_loop("plan")
    return run_to_end(aplan(benchmark, harness, model, launch=launch, concurrency=concurrency, **arguments))


async def stream(
    benchmark: Named | None = None,
    harness: Named | None = None,
    model: Named | None = None,
    *,
    launch: Launch | None = None,
    **arguments: Unpack[RunArguments],
) -> AsyncGenerator[StreamEvent]:
    """Run as `arun`, or with `launch` as `alaunch`, and yield what happens: the plan, every event, the receipt.

    These are the lines of `--json`. A reader that is slow holds up nothing. To close the generator, as the end of
    `async with contextlib.aclosing(...)` does, is a first interrupt: it comes back when the clean-up is over.

    Raises at the first step what `arun` raises.
    """
    resolved, options = _of_either(benchmark, harness, model, launch, arguments)

    async def work(follower: Follower) -> None:
        await _to_its_end(resolved, replace(options, follower=follower), _interrupts(handle_signals=False))

    async with aclosing(stream_of(work)) as events:
        async for event in events:
            yield event


# ------------------------------------------------------------------------------------------------------- preparing


def _of_run(benchmark: Named, harness: Named, model: Named | None, arguments: Any) -> Prepared:
    call = asked(arguments)
    resolved, options = prepare(
        benchmark, harness, model, call["fields"], execution=call["execution"], runtime=call["runtime"], **call["more"]
    )
    return [resolved], options


def _of_launch(launch: Launch, arguments: Any) -> Prepared:
    call = asked(arguments)
    return prepare_launch(launch, call["fields"], execution=call["execution"], runtime=call["runtime"], **call["more"])


def _of_either(
    benchmark: Named | None, harness: Named | None, model: Named | None, launch: Launch | None, arguments: Any
) -> Prepared:
    """Resolve what is named: an experiment or a launch. Raises `UsageError` for both and for neither."""
    if launch is not None and (benchmark, harness, model) == (None, None, None):
        return _of_launch(launch, arguments)
    if launch is None and benchmark is not None and harness is not None:
        return _of_run(benchmark, harness, model, arguments)
    raise UsageError(
        "give a benchmark and a harness, or `launch`, and not both",
        hint='such as ("trivial", "oracle"), or launch=FILE',
    )


# --------------------------------------------------------------------------------------------------------- running


def _interrupts(*, handle_signals: bool) -> Interrupts:
    return Interrupts(signals=handle_signals and threading.current_thread() is threading.main_thread())


def _refuse_inside_a_loop(name: str) -> None:
    """Raise `UsageError` where an event loop runs: a call that returns when all is done would stop it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        f"proctor.{name} cannot be used inside a running event loop; nothing was started",
        hint=f"use `await proctor.a{name}(...)`, with the same arguments",
    )


def _raise_signal(number: int | None) -> None:
    if number is not None and threading.current_thread() is threading.main_thread():
        signal.raise_signal(number)


async def _to_its_end(resolved: Sequence[Resolved], options: Options, interrupts: Interrupts) -> Outcome:
    """Run, and turn cancellations of this task into interrupts."""
    return await _interruptible(execute(resolved, options, interrupts), interrupts)


async def _interruptible(running: Coroutine[Any, Any, T], interrupts: Interrupts) -> T:
    work = asyncio.get_running_loop().create_task(running)
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
