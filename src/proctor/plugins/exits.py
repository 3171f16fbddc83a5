"""What the end of an agent's program means: one issue code for each of the ways in which a command can end.

A harness that runs a program asks `code_of_exit` and reports the code, with `exit_words` in the message. What a command
says is never taken for what was done to it: a program that itself returns 124 or 137 has not run out of time and was
not killed.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping

from proctor.model.codes import CODES
from proctor.plugins.api import ExecResult

NO_STATUSES: Mapping[int, str] = {}

_NOT_ITS_OWN = {"lost": "provider.lost", "timed_out": "time.agent", "output_exceeded": "harness.limit"}
"""Fields of the result that say that something else ended the program, whatever it returned meanwhile."""


def code_of_exit(result: ExecResult, statuses: Mapping[int, str] = NO_STATUSES) -> str | None:
    """Return the issue code of the way in which a program ended; None where it returned 0.

    `statuses` is what the harness declares of statuses that its program returns: each has the code of an issue, such as
    `{3: "harness.limit"}`. All others but 0 are `harness.exit_nonzero`. Raises `KeyError` for a declared code that is
    not in the table.
    """
    for ended, code in _NOT_ITS_OWN.items():
        if getattr(result, ended):
            return code
    own = statuses.get(result.exit_code) if result.exit_code is not None else None
    if own is not None:
        return CODES[own].code
    if result.exit_code == 0:
        return None
    if result.out_of_memory:
        return "harness.out_of_memory"
    return "harness.crashed" if result.exit_code is None else "harness.exit_nonzero"


def exit_words(result: ExecResult) -> str:
    """Return how a program ended: `status 3`, `signal 9 (SIGKILL)`, that its time was over, and so on."""
    if result.lost is not None:
        return result.lost
    if result.timed_out:
        return "its time was over"
    if result.output_exceeded:
        return "it printed more than it may"
    ended = f"signal {result.signal}{_name_of(result.signal)}" if result.signal else f"status {result.exit_code}"
    return f"out of memory ({ended})" if result.out_of_memory else ended


def _name_of(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:  # most real-time signals have no name
        return ""


__all__ = ["NO_STATUSES", "code_of_exit", "exit_words"]
