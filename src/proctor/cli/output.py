"""What commands print: data on standard output, prose on standard error, and what becomes of it when nobody reads."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, TextIO

from proctor.errors import ProctorError
from proctor.report.wording import for_encoding, inactive


class OutputError(ProctorError):
    """Standard output cannot be written, although somebody wants to read it: a full disk, for example."""


def say(text: str, *, err: bool = False, styled: bool = False) -> None:
    """Print a text and a line end on standard output, or with `err` on standard error, and hand it on at once.

    Nothing in it makes a terminal do anything, whoever is quoted in it, but with `styled`, for text that is ours alone.

    Goes quiet where the stream is closed or its reader is gone: that is no trouble of the command, whose exit code
    stays what it is. Raises `OutputError` when standard output cannot be written for any other reason.
    """
    stream: TextIO | None = sys.stderr if err else sys.stdout
    if stream is None:  # the process was started without it
        return
    try:
        stream.write(for_encoding(text if styled else inactive(text), stream.encoding) + "\n")
        stream.flush()
    except (OSError, ValueError) as error:  # ValueError: somebody closed it
        _give_up(stream)
        if err or not isinstance(error, OSError) or isinstance(error, BrokenPipeError):
            return  # of trouble with standard error nobody can be told
        why = (error.strerror or str(error)).lower()
        raise OutputError(
            f"could not write to standard output: {why}", hint="free some space, or send it elsewhere"
        ) from error


class Lines:
    """Standard output as a stream of whole lines, for what writes to streams."""

    def write(self, text: str) -> None:
        """Print one line; as `say` does."""
        say(text.removesuffix("\n"))

    def flush(self) -> None:
        """Do nothing: every line is handed on at once."""


def _give_up(stream: TextIO) -> None:
    """Let whatever else is written to a stream vanish, and what it still holds, which would fail again at the exit."""
    with suppress(OSError, ValueError):  # a stream without a descriptor has nothing that the exit could write
        descriptor = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
        stream.flush()


def fill_standard_streams() -> None:
    """Put /dev/null in place of standard streams that the process was started without.

    The next file that is opened would get the number of one that is missing, and what is printed would go into it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    streams: Any = sys
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(streams, name, open(number, mode, encoding="utf-8", errors="replace", closefd=False))  # noqa: SIM115
