"""The worker's side of `workers`: one JSON object a line is asked, one is answered.

Each request is worked on by a fork, under limits, from a state in which nothing was done before: what one breaks is
gone with its fork.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Callable
from typing import Any, Protocol

SECONDS_AT_MOST = 600
"""Processor time of a fork that sets itself no other limit."""


class Asked(Protocol):
    """What answers."""

    def prepare(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Load what stays for later requests, outside of a fork; return the answer where none is needed."""
        ...

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer, in a fork."""
        ...


def _in_fork(tasks: Asked, asked: dict[str, Any]) -> bytes:
    """Return the line that a fork answers, or that says how it ended. Ends this process where nobody listens now."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_the_fork(tasks, asked, writing)
    os.close(writing)
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    poll.register(0, 0)  # the other end is gone
    said = bytearray()
    while True:
        ready = dict(poll.poll())
        if 0 in ready:
            os.kill(child, signal.SIGKILL)
            os._exit(0)
        part = os.read(reading, 1 << 16)
        if not part:
            break
        said += part
    os.close(reading)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 0:
        return bytes(said)
    state = "time" if status in (-signal.SIGXCPU, -signal.SIGKILL) else "ended"
    return json.dumps({"state": state, "why": f"its process ended with status {status}"}).encode()


def _be_the_fork(tasks: Asked, asked: dict[str, Any], writing: int) -> None:
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_AT_MOST, SECONDS_AT_MOST + 1))
        try:
            answer = tasks.answer(asked)
        except Exception as error:  # of the package
            answer = {"state": "raised", "why": f"{type(error).__name__}: {error}"}
        line = json.dumps(answer).encode()
        while line:
            line = line[os.write(writing, line) :]
        status = 0
    finally:
        os._exit(status)


def serve(make: Callable[[], Asked]) -> None:
    """Answer until standard input is at its end. `make` imports the package."""
    sys.dont_write_bytecode = True
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # packages print
    try:
        tasks = make()
    except Exception as error:  # whatever is wrong with the package
        broken = {"state": "broken", "why": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(broken).encode() + b"\n")
        return
    for line in iter(sys.stdin.buffer.readline, b""):
        asked = json.loads(line)
        at_once = tasks.prepare(asked)
        gc.freeze()  # a fork that collects garbage would copy all that is loaded
        answers.write((_in_fork(tasks, asked) if at_once is None else json.dumps(at_once).encode()) + b"\n")
        answers.flush()


__all__ = ["serve"]
