"""How a command ended: what its supervisor reports, why it was no longer waited for, and the result of both."""

from __future__ import annotations

from asyncio import Future
from dataclasses import dataclass
from enum import Enum

from proctor.plugins.api import ExecResult
from proctor.runtime.output import HeadTail


class Stop(Enum):
    """Why a command is no longer waited for."""

    ENDED = "ended"
    TIMED_OUT = "timed out"
    OUTPUT_EXCEEDED = "output exceeded"
    OBSERVER_FAILED = "observer failed"
    DISPOSED = "disposed"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """What a supervisor reports: how the command ended, and what its processes had used by then."""

    exit_code: int | None
    signal: int | None
    left: bool
    out_of_memory: bool
    cpu_seconds: float
    peak_rss_bytes: int


def result_of(
    stop: Stop, end: CommandEnd | None, gone: Future[int], *, out: HeadTail, err: HeadTail, output_bytes: int | None
) -> ExecResult:
    """Make the result: where there is no exit code, exactly one field says why.

    `gone` is the status of the supervisor, which is done where it was lost; `output_bytes` the limit of each stream.
    """
    if output_bytes is not None and max(out.total, err.total) > output_bytes:
        stop = Stop.OUTPUT_EXCEEDED  # also when it ended before it could be killed for it
    told = end if stop is Stop.ENDED else None
    return ExecResult(
        exit_code=told.exit_code if told else None,
        stdout=out.kept,
        stderr=err.kept,
        stdout_dropped=out.dropped,
        stderr_dropped=err.dropped,
        signal=told.signal if told else None,
        timed_out=stop is Stop.TIMED_OUT,
        output_exceeded=stop is Stop.OUTPUT_EXCEEDED,
        out_of_memory=end is not None and end.out_of_memory,
        lost=_why_lost(stop, gone),
    )


def _why_lost(stop: Stop, gone: Future[int]) -> str | None:
    if stop is Stop.DISPOSED:
        return "the sandbox was disposed of while the command ran"
    if stop is not Stop.LOST:
        return None
    if gone.result() < 0:
        return f"supervisor was killed by signal {-gone.result()}"
    return f"supervisor ended with status {gone.result()} before the command did"
