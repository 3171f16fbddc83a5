"""Starts a supervisor as a program of its own: where there is no spawner, see `spawn.py`. Takes about 10 ms."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from proctor.runtime import _killing
from proctor.runtime._sealed import sealed as sealed_copy

FOLDER = os.path.dirname(os.path.abspath(_killing.__file__))
START = "import sys; sys.path.append(sys.argv[1]); import _supervisor; _supervisor.main(*map(int, sys.argv[2:]))"
"""Imported, not run as a script: a module is compiled once and for all, which halves the time of a start."""


class Ends(NamedTuple):
    """The descriptors of a supervisor."""

    request: int
    socket: int
    stdin: int
    stdout: int
    stderr: int


class Child(Protocol):
    """A child process, as far as a command needs it; `subprocess.Popen` is one."""

    pid: int

    def poll(self) -> int | None:
        """Return its status, negative for a signal; None while it runs."""
        ...

    def wait(self) -> int:
        """Wait for its end, and return its status."""
        ...

    def send_signal(self, sig: int) -> None:
        """Send a signal unless it has ended."""
        ...

    def kill(self) -> None:
        """Send SIGKILL unless it has ended."""
        ...


class Spawned:
    """A child of this process that a spawner started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its status, negative for a signal; None while it runs."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        """Wait for its end, and return its status."""
        status = self._reap(0)
        assert status is not None
        return status

    def send_signal(self, sig: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            _killing.send(self.pid, sig)

    def kill(self) -> None:
        """Send SIGKILL unless it has ended."""
        self.send_signal(_killing.SIGKILL)

    def _reap(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # somebody else has waited for it; nobody knows the status then
                self.returncode = 0
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def base_interpreter() -> str:
    """Return the interpreter below any virtual environment: without proctor and its packages."""
    base: str | None = getattr(sys, "_base_executable", None)
    return base or sys.executable


def program_of(interpreter: str, *, sealed: bool) -> tuple[str, dict[str, str]]:
    """Return what to execute for an interpreter, and the variables that it needs. Raises `OSError`."""
    libraries = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    if not sealed:
        return interpreter, libraries
    executable, more = sealed_copy(interpreter)
    return executable, {**libraries, **more}


def start_directly(ends: Ends, environment: Mapping[str, str], *, sealed: bool) -> subprocess.Popen[bytes]:
    """Start a supervisor; raises `OSError` when no process can be made."""
    interpreter = base_interpreter()
    executable, libraries = program_of(interpreter, sealed=sealed)
    return subprocess.Popen(
        [interpreter, "-I", "-S", "-c", START, FOLDER, str(ends.request), str(ends.socket)],
        stdin=ends.stdin,
        stdout=ends.stdout,
        stderr=ends.stderr,
        pass_fds=(ends.request, ends.socket),
        start_new_session=True,
        executable=executable,
        env={**environment, **libraries},
        cwd="/",
    )
