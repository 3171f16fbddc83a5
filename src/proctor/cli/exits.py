"""Exit codes, each with its sentence (spec 02)."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What the exit status of proctor means."""

    OK = 0, "complete, and the gate is met where there is one"
    GATE_NOT_MET = 1, "complete, but the gate (`--fail-under`, or `check`) is not met"
    USAGE = 2, "usage or configuration, or results cannot be written: nothing was started"
    INCOMPLETE = 3, "attempts errored, or slots were not dispatched, or nothing could be scored"
    NOTHING_TO_RUN = 4, "nothing to run: no task matches, or the benchmark is empty"
    INTERNAL = 70, "a bug of proctor; the run directory is kept and named"
    SIGHUP = 129, "ended by SIGHUP"
    SIGINT = 130, "ended by SIGINT (Ctrl-C)"
    SIGTERM = 143, "ended by SIGTERM"

    meaning: str

    def __new__(cls, value: int, meaning: str) -> Exit:
        """Keep the sentence with the number."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member


def exit_of_signal(signal: int) -> Exit:
    """Return the exit code of an invocation that ended by a signal (128 + its number)."""
    return Exit(128 + signal)


_STRENGTH = (Exit.INTERNAL, Exit.SIGHUP, Exit.SIGINT, Exit.SIGTERM, Exit.INCOMPLETE, Exit.GATE_NOT_MET, Exit.OK)


def strongest(*exits: Exit) -> Exit:
    """Return the one that counts where several apply: 70, a signal, 3, 1, 0."""
    return min(exits, key=_STRENGTH.index, default=Exit.OK)
