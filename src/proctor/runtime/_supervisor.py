"""Runs one command and answers for every process that comes of it.

One process for each command, forked by `_spawner.py` or, where that is not to be had, a program of its own. It runs in
an interpreter without site packages: so it imports nothing of this package but its neighbours that begin with `_`, and
nothing that makes a start slow.

It is a "child subreaper": whatever the command leaves behind, daemons with sessions of their own included, becomes its
child, so nothing escapes. It lives until the last of these processes is gone, and it kills all of them when it is told
to, or when its socket reaches the end because proctor died, by kill -9 too. What a command inside of namespaces leaves
behind goes to the first process there, and ends with them: its supervisor ends with the command, and looks for the rest
only when it has to kill.

It is given two descriptors. The first holds the marshalled request of `command.py`. Over the second, a socket, come
single bytes: `T` asks every process to end (SIGTERM), `K` kills every process. One line of JSON goes back when the
command itself has ended.
"""

from __future__ import annotations

import marshal
import os
import select

TYPE_CHECKING = False  # `typing` alone would double the time that a start takes
if TYPE_CHECKING:
    import signal as signals
    from typing import Any

    from proctor.runtime import _becoming, _bounding, _joining, _killing
else:
    import _signal as signals  # the plain module: without the enums, which cost 5 ms

    import _becoming
    import _bounding
    import _joining
    import _killing

COUNT_MILLISECONDS = 100
"""How often processes are counted where the kernel does not limit their number for us."""

CHILD_ROUNDS = 200
REPORT = '{"exit_code": %s, "signal": %s, "left": %s, "out_of_memory": %s, "cpu_seconds": %.6f, "peak_rss_bytes": %d}\n'


class Supervisor:
    """One command and its processes."""

    def __init__(self, request: dict[str, Any], socket: int, bounds: _bounding.Groups) -> None:
        self.request, self.socket, self.bounds = request, socket, bounds
        self.groups: list[str] = []
        self.status: int | None = None
        self.reported = self.kernel_counts = False
        self.cpu_seconds, self.peak_rss_bytes = 0.0, 0
        self.inside, self.ending = request["inside"] is not None, False
        self.subreaper = not self.inside and _killing.prctl(_killing.PR_SET_CHILD_SUBREAPER, 1)
        self.wake = _killing.pipe_of_signals(signals.SIGCHLD, signals.SIGCONT)

    def start(self, namespaces: list[int]) -> None:
        """Start the command, in `namespaces` where there are any. It waits until its limits stand."""
        gate, gate_end = os.pipe()
        supervisor = 0 if self.inside else os.getpid()
        groups = self.bounds
        self.main = _joining.fork_inside(namespaces, groups) if namespaces else groups.bear(beside=False)
        if self.main == 0:
            os.close(gate_end)
            _becoming.become(self.request, groups, gate, supervisor)
        for number in _becoming.IGNORED:  # only now: the child is to be reached by the first SIGTERM
            signals.signal(number, signals.SIG_IGN)
        groups.settle(self.main)
        self.groups, self.kernel_counts = groups.joined, groups.counts
        if self.inside and not groups.complete:  # it must not run without the limits of its sandbox
            self.kill()
            os._exit(_joining.NOT_BOUNDED)
        os.write(gate_end, b"+")  # its end alone would mean that we are lost
        null = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        for descriptor in (null, gate, gate_end):
            os.close(descriptor)

    def run(self) -> bool:
        """Serve until no process is left; say whether that was reached."""
        poller = select.poll()
        poller.register(self.socket, select.POLLIN)
        poller.register(self.wake, select.POLLIN)
        while self._running():
            self._report()
            if os.getppid() != self.request["proctor"]:
                return self.kill()
            ready = dict(poller.poll(self._patience()))
            self._drain_wake()
            if self.socket in ready:
                order = self._order()
                if order == b"T":
                    self._terminate()
                elif order != b"":
                    return self.kill()
            if self._too_many():
                return self.kill()
        self._report()
        return True

    def kill(self) -> bool:
        """Kill everything; say whether nothing is left."""
        self.ending = True
        for _ in range(_killing.KILL_ROUNDS):
            for directory in self.groups:
                _killing.kill_group(directory)
            self._kill_children()
            _killing.stop_and_kill(self._tree)
            if not self._running():
                break
            select.poll().poll(_killing.ROUND_MILLISECONDS)
            self._drain_wake()
        gone = not self._running()
        self._report()
        return gone

    def _kill_children(self) -> None:
        """Kill those whose parent we are, over and over.

        A process that starts the next and ends is gone before a walk over all processes comes to it; but each of its
        kind becomes our child, and is quickly found as such.
        """
        for _ in range(CHILD_ROUNDS):
            found = _killing.children(os.getpid())
            if not found:
                return
            for pid in found:
                _killing.send(pid, signals.SIGKILL)
            self._running()

    def close(self) -> None:
        """Remove the control groups."""
        for directory in self.groups:
            _killing.remove_group(directory)

    def _order(self) -> bytes:
        """Read one order; the end of the socket, however it comes, is the order to kill."""
        try:
            return os.read(self.socket, 1) or b"K"
        except BlockingIOError:
            return b""
        except OSError:
            return b"K"

    def _terminate(self) -> None:
        self.ending = True
        for pid in self._tree():
            _killing.send(pid, signals.SIGTERM)
            _killing.send(pid, signals.SIGCONT)  # a stopped process would not see the other one

    def _patience(self) -> int | None:
        if not self.subreaper and self.status is not None:
            return _killing.ROUND_MILLISECONDS * 5  # nobody tells us when an orphan ends that is not our child
        if self.request["processes"] is not None and not self.kernel_counts:
            return COUNT_MILLISECONDS
        return None

    def _too_many(self) -> bool:
        limit = self.request["processes"]
        return limit is not None and not self.kernel_counts and len(self._tree()) > limit

    def _tree(self) -> set[int]:
        found = _killing.descendants(os.getpid())
        return found if self.subreaper else found | self._strays()

    def _strays(self) -> set[int]:
        trace = self.request["trace"] if self.inside else None
        return _killing.strays(self.groups if self.inside else [], self.request["marker"], trace)

    def _running(self) -> bool:
        """Reap what has ended; say whether anything is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return not self.subreaper and (self.ending or not self.inside) and self._has_strays()
            if pid == 0:
                return True
            self.cpu_seconds += usage.ru_utime + usage.ru_stime
            self.peak_rss_bytes = max(self.peak_rss_bytes, usage.ru_maxrss * 1024)
            if pid == self.main:
                self.status = status

    def _has_strays(self) -> bool:
        """Look twice: a process that is just becoming another program has no environment to be known by."""
        return bool(self._strays() or select.poll().poll(_killing.ROUND_MILLISECONDS) or self._strays())

    def _drain_wake(self) -> None:
        try:
            while os.read(self.wake, 4096):
                pass
        except BlockingIOError:  # it is empty
            pass

    def _report(self) -> None:
        """Say once how the command ended."""
        if self.status is None or self.reported:
            return
        self.reported = True
        if self.bounds.refused():
            os._exit(_joining.NOT_BOUNDED)
        killed = os.WIFSIGNALED(self.status)
        line = REPORT % (
            "null" if killed else os.WEXITSTATUS(self.status),
            os.WTERMSIG(self.status) if killed else "null",
            "true" if self._running() or self.inside else "false",
            "true" if _killing.out_of_memory(self.groups) else "false",
            self.cpu_seconds,
            self.peak_rss_bytes,
        )
        try:  # noqa: SIM105 - contextlib is not imported here, for its cost
            os.write(self.socket, line.encode())
        except OSError:
            pass  # the runner is gone; the end of the socket says so to the loop


def load(request_file: int) -> dict[str, Any]:
    """Read the request, and close its file."""
    request: dict[str, Any] = marshal.loads(os.pread(request_file, os.fstat(request_file).st_size, 0))  # noqa: S302
    os.close(request_file)
    return request


def main(request_file: int, socket: int) -> None:
    """Serve the request of a file and exit."""
    serve(load(request_file), socket)


def serve(request: dict[str, Any], socket: int) -> None:
    """Serve one request and exit: with 0 when nothing is left, with 1 when something could not be killed."""

    def end_if_alone(*_: object) -> None:
        if os.getppid() != request["proctor"]:
            os._exit(0)

    # This wakes us where the command has stopped us. A fork of proctor may keep the end of the socket from coming.
    signals.signal(signals.SIGCONT, end_if_alone)
    _killing.prctl(_killing.PR_SET_PDEATHSIG, signals.SIGCONT)
    end_if_alone()
    os.set_inheritable(socket, False)
    groups = _bounding.Groups(request["groups"])  # before it waits: namespaces take longer to start
    namespaces = _joining.wait_for_namespaces(request["inside"], socket, groups)
    os.set_blocking(socket, False)
    supervisor = Supervisor(request, socket, groups)
    supervisor.start(namespaces)
    gone = supervisor.run()
    supervisor.close()
    os._exit(0 if gone else 1)
