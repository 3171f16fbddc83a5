"""The spawners of this process: programs that stay and fork the supervisors of commands, see `_spawner.py`.

There is none before the first command. One ends with this process, or when the last event loop that has used it is
gone; a fork of this process gets its own. All calls may come from any thread.
"""

from __future__ import annotations

import array
import atexit
import os
import resource
import socket
import subprocess
import threading
import weakref
from asyncio import AbstractEventLoop
from collections.abc import Sequence
from contextlib import suppress

from proctor.runtime import _killing
from proctor.runtime._marking import PLACEHOLDER, ROOM
from proctor.runtime.spawn_direct import FOLDER, base_interpreter, program_of

ANSWER_SECONDS = 10.0
"""How long a spawner may take for one request before it is killed, and the request served without one."""
ATTEMPTS = 5
"""How many spawners in a row may fail; then there are none any more. One that served many requests is forgiven."""
MANY = 100
END_SECONDS = 1.0
"""How long is waited for a spawner that was killed. One that takes longer is reaped some time later."""

UNABLE = 3
"""How a spawner ends where it cannot do its work, however often it is started; see `_spawner.py`."""

_START = "import sys; sys.path.append(sys.argv[1]); import _spawner; _spawner.main(int(sys.argv[2]), int(sys.argv[3]))"

_INHERITED = (
    "Umask:", "Uid:", "Gid:", "Groups:", "SigBlk:", "SigIgn:", "Cap", "NoNewPrivs:", "Seccomp", "Cpus_allowed:",
    "Mems_allowed:",
)  # fmt: skip
"""Lines of `status` in /proc that tell of what a thread hands down."""
_LIMITS = range(16)


class Spawner:
    """One such program, for one thread, since what it starts is told when that thread ends.

    The first part of `key` says whether it runs from a copy of the interpreter that nobody can write to; the second is
    the thread.
    """

    def __init__(self, key: tuple[bool, int], heritage: object) -> None:
        self.heritage = heritage
        """What its children inherit."""
        self.requests = 0
        self.ended = False
        self._users: set[int] = set()
        self._key = key
        executable, libraries = program_of(base_interpreter(), sealed=key[0])
        self._socket, far_end = socket.socketpair()
        with far_end:
            try:
                self._process = self._start(executable, far_end.fileno(), libraries)
            except BaseException:
                self._socket.close()
                raise

    def _start(self, executable: str, far_end: int, libraries: dict[str, str]) -> subprocess.Popen[bytes]:
        name, _, room = ROOM.partition("=")
        return subprocess.Popen(
            [base_interpreter(), "-I", "-S", "-c", _START, FOLDER, str(far_end), str(os.getpid()), PLACEHOLDER],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(far_end,),
            start_new_session=True,
            executable=executable,
            env={name: room, **libraries},  # in this order: the first one is written over
            cwd="/",
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def use(self, loop: AbstractEventLoop) -> None:
        """Keep it for as long as this event loop is there."""
        if id(loop) not in self._users:
            self._users.add(id(loop))
            weakref.finalize(loop, self._leave, id(loop)).atexit = False

    def _leave(self, loop: int) -> None:
        with _state.lock:
            self._users.discard(loop)
            if not self._users:
                self.stop()

    def ask(self, ends: Sequence[int], kind: bytes) -> None:
        """Ask for one child; raises `OSError`, `BlockingIOError` where too many are asked for at once."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", ends))]
        self._socket.sendmsg([kind], rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        self.requests += 1

    def fail(self) -> None:
        """Kill it since it does not do what it is for: what it was asked and has not done, it never will."""
        with _state.lock:
            if not self.ended:
                self.stop()
                unable = self._process.returncode == UNABLE
                _state.failed = ATTEMPTS if unable else 1 + (0 if self.requests >= MANY else _state.failed)

    def miss(self) -> None:
        """Take notice that it did not start what it was asked for: as a failure where it is no more."""
        with _state.lock:
            if not self.ended and self._process.poll() is not None:
                self.fail()

    def stop(self) -> None:
        """End it; harmless where it has ended. What it started is not touched."""
        with _state.lock:
            if self.ended:
                return
            self.forget()
            if self._process.poll() is None:
                self._process.kill()
                with suppress(subprocess.TimeoutExpired):  # the next start of any process reaps it
                    self._process.wait(END_SECONDS)

    def forget(self) -> None:
        """Take leave of it, and leave its process alone."""
        self.ended = True
        self._socket.close()
        if _state.spawners.get(self._key) is self:
            del _state.spawners[self._key]

    def disown(self) -> None:
        """Take leave of one that is the child of another process: this one is a fork of that."""
        self.forget()
        self._process.returncode = 0  # else it would be waited for


class _State:
    """What this process knows of its spawners."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # an event loop may be collected, and its spawner stopped, at any moment
        self.spawners: dict[tuple[bool, int], Spawner] = {}
        self.failed = 0
        """How many failed in a row."""


_state = _State()


def ask(ends: Sequence[int], loop: AbstractEventLoop, *, sealed: bool, kind: bytes = b"+") -> Spawner | None:
    """Have a child started with the descriptors `ends`; None where that has to be done without a spawner.

    They are a request, a socket, three streams, and what else the `kind` of request needs; see `_spawner.py`. The
    answer comes over that socket: the process id of the child, or the end where it was not started.
    """
    key = sealed, threading.get_native_id()
    heritage = _heritage()
    with _state.lock:
        while _state.failed < ATTEMPTS:
            spawner = _state.spawners.get(key)
            if spawner is not None and spawner.heritage != heritage:
                spawner.stop()
                spawner = None
            try:
                if spawner is None:
                    spawner = _state.spawners[key] = Spawner(key, heritage)
                spawner.use(loop)
                spawner.ask(ends, kind)
            except ConnectionError:
                if spawner is not None:
                    spawner.fail()
            except OSError:  # too many are asked for at once, or no process can be made, as will be seen
                return None
            else:
                return spawner
    return None


def _heritage() -> object:
    """Return what processes inherit that are started now: it may change, and a spawner keeps what it was given."""
    status = _killing.read_text("/proc/thread-self/status").splitlines()
    return (
        [line for line in status if line.startswith(_INHERITED)],
        [resource.getrlimit(kind) for kind in _LIMITS],
        (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)),
        _killing.read_text("/proc/self/oom_score_adj"),
        _killing.read_text("/proc/thread-self/cgroup"),
    )


def stop_all() -> None:
    """End all spawners of this process; those that are needed again are started again."""
    for spawner in list(_state.spawners.values()):
        spawner.stop()


def _begin_anew() -> None:
    """Take leave of the spawners of the process that this one is a fork of."""
    _state.lock = threading.RLock()  # another thread may have held it
    for spawner in list(_state.spawners.values()):
        spawner.disown()
    _state.failed = 0


os.register_at_fork(after_in_child=_begin_anew)
atexit.register(stop_all)
