"""What the tests of leases share: a clock that stands still, owners of every kind, and processes that do as told.

Run as a program, it is such a process: it takes one order per line, and answers with one line.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import proctor
from proctor.store.lease_info import Granted, LeaseError
from proctor.store.leases import Leases
from proctor.store.owner import Owner, this_owner

HANG_SECONDS = 100
"""Only a hang takes so long."""

SOURCE = Path(proctor.__file__).parents[1]


class StillClock:
    """A wall clock that shows what it is set to."""

    def __init__(self, now: float = 1_796_056_235.0) -> None:
        self.now = now

    def wall(self) -> float:
        return self.now


def gone(owner: Owner | None = None) -> Owner:
    """Return an owner whose process id belongs to another process by now."""
    owner = owner or this_owner()
    return replace(owner, process_start_ticks=owner.process_start_ticks - 1)


def elsewhere(owner: Owner | None = None) -> Owner:
    """Return an owner on another host."""
    return replace(owner or this_owner(), host="another-host", boot_id="another-boot")


def leases_at(path: Path, owner: Owner | None = None, clock: StillClock | None = None) -> Leases:
    return Leases(path, owner or this_owner(), clock or StillClock(), busy_seconds=HANG_SECONDS)


class Worker:
    """A process that holds leases; `ask` waits for its answer."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def order(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def answer(self) -> list[str]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"process {self.pid} ended without an answer"
        return line.split()

    def ask(self, *words: str) -> list[str]:
        self.order(*words)
        return self.answer()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=HANG_SECONDS)


@contextmanager
def workers(path: Path, count: int) -> Iterator[list[Worker]]:
    """Start processes, and wait until all are ready."""
    started = [Worker(path) for _ in range(count)]
    try:
        for worker in started:
            assert worker.answer() == ["ready"]
        yield started
    finally:
        for worker in started:
            worker.end()


def obey(leases: Leases, words: list[str]) -> str:
    """Carry out one order and return the answer."""
    action, key, token, *_ = [*words, "-", "-"]
    match action:
        case "acquire":
            answer = leases.try_acquire(key, f"experiment of {os.getpid()}")
            return f"granted {answer.token}" if isinstance(answer, Granted) else f"held {answer.info.owner.pid}"
        case "release":
            leases.release(key, token)
            return "released"
        case "recover":
            return f"recovering {leases.begin_recovery(key, token).holder_token}"
        case "rounds":
            return f"done {rounds(leases, key, int(token))}"
        case _:
            raise ValueError(action)


def rounds(leases: Leases, key: str, count: int) -> int:
    """Take and release the lease `count` times; inside, a file that nobody else may have made exists."""
    alone = leases.path.with_name("alone")
    for _ in range(count):
        while not isinstance(answer := leases.try_acquire(key, "rounds"), Granted):
            pass  # the database paces this: each question is a transaction
        os.close(os.open(alone, os.O_CREAT | os.O_EXCL))
        os.unlink(alone)
        leases.release(key, answer.token)
    return count


def main() -> None:
    leases = leases_at(Path(sys.argv[1]))
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            answer = obey(leases, line.split())
        except LeaseError as error:
            answer = f"refused {error.message}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
