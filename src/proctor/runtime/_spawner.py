"""Forks supervisors, so that a command does not have to wait for the start of an interpreter; and starts bubblewrap.

A program of its own, started by `spawn.py` for a thread of proctor. It never reads what is to run: of each request it
gets one byte and some descriptors, and hands these to a child. That child is proctor's, not its own (`CLONE_PARENT`):
proctor waits for it, and adopts what it leaves. So nothing that runs depends on this program, which can be killed at
any time. It ends when its socket does, or when proctor is gone.

A request is answered over the socket of the supervisor itself, with its process id in a line of its own: by this
program and by the child, so that it comes even where one of them is killed. The end of that socket without such a line
means that there is no supervisor, and never will be.
"""

from __future__ import annotations

import gc
import os
import select
import sys

TYPE_CHECKING = False  # `typing` alone would double the time that a start takes
if TYPE_CHECKING:
    import _socket as sockets
    import signal as signals
    from typing import Any

    from proctor.runtime import _joining, _killing, _marking, _supervisor
else:
    import _signal as signals  # the plain modules: without the enums
    import _socket as sockets

    import _joining
    import _killing
    import _marking
    import _supervisor

DESCRIPTORS, MOST_DESCRIPTORS = 5, 16
"""The request and the socket of `_supervisor.py`, standard input, output and errors; what else a program is given."""
IN_GROUP = b"g"
"""The request in which the last descriptor is a control group of version 2, where the child is to begin."""
MOST_STARTING = 512
"""How many programs at most are taken for such as may still be starting."""
END_MILLISECONDS = 5000
"""How long is waited for the end of proctor after that of the socket."""
UNABLE = 3
"""How this program ends where it cannot do its work here, however often it is started."""


def main(socket: int, proctor: int) -> None:
    """Serve requests until the socket ends or the process `proctor` does."""
    launched: list[int] = []
    idle = True

    def end_if_alone(*_: object) -> None:
        if idle and os.getppid() != proctor:
            clean_up(set(launched))
            os._exit(0)

    # The end of its socket does not tell all: a fork of proctor may hold the other end, and this one may be stopped.
    signals.signal(signals.SIGCONT, end_if_alone)
    _killing.prctl(_killing.PR_SET_PDEATHSIG, _killing.SIGCONT)
    end_if_alone()
    for name in ("_ctypes", "_struct", "resource"):  # what supervisors and their children need
        __import__(name)
    block = _marking.own_block()
    if block is None or os.uname().machine not in _joining.CLONE_NUMBERS or sys.maxsize < 1 << 32:
        os._exit(UNABLE)
    requests = sockets.socket(fileno=socket)
    gc.freeze()  # what is there now stays shared with all children
    while True:
        idle = True  # else what it has just launched would not be known yet
        end_if_alone()
        kind, descriptors = receive(requests)
        end_if_alone()
        if not kind:
            select.poll().poll(END_MILLISECONDS)  # proctor closes it and is our parent for a moment more, where it ends
            os._exit(0)
        idle = False
        child = -1
        if len(descriptors) > DESCRIPTORS and kind == IN_GROUP:
            child = _joining.fork_into(descriptors[-1], beside=True)
        elif len(descriptors) >= DESCRIPTORS and kind != IN_GROUP:
            child = _joining.fork_beside()
        if child == 0:
            requests.close()
            serve(descriptors, block)
        if child > 0:
            tell(descriptors[1], child)
            if len(descriptors) > DESCRIPTORS:
                launched[:] = [*launched[1 - MOST_STARTING :], child]
        for descriptor in descriptors:
            os.close(descriptor)


def clean_up(launched: set[int]) -> None:
    """Kill what is still in the sessions of programs that were just launched, now that proctor is gone.

    Bubblewrap, which dies with proctor, leaves a child that waits for it forever if that is while it starts.
    """

    def find() -> set[int]:
        found: set[int] = set()
        for pid in _killing.parents():
            try:
                if os.getsid(pid) in launched:
                    with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
                        found |= {pid} if _marking.NAME in file.readall() else set()
            except OSError:  # it has ended
                continue
        return _killing.living(found)

    if launched:
        _killing.kill_remains([], find)


def receive(requests: sockets.socket) -> tuple[bytes, list[int]]:
    """Return the kind of the next request, empty at the end, and its descriptors: fewer where not all could be had."""
    size = sockets.CMSG_SPACE(MOST_DESCRIPTORS * 4)
    kind, ancillary, _, _ = requests.recvmsg(1, size, sockets.MSG_CMSG_CLOEXEC)
    whole = [content[: len(content) // 4 * 4] for _, what, content in ancillary if what == sockets.SCM_RIGHTS]
    return kind, [descriptor for content in whole for descriptor in memoryview(content).cast("i")]


def serve(descriptors: list[int], block: Any) -> None:
    """Become, in the fresh child, what was asked for; never returns.

    A supervisor of which proctor does not hear does nothing: that starts the command in another way.
    """
    try:
        request_file, socket, *rest = descriptors
        os.setsid()
        for number, descriptor in enumerate(rest[:3]):
            os.dup2(descriptor, number)
            os.close(descriptor)
        request = _supervisor.load(request_file)
        if "program" in request:
            launch(request, socket, rest[3:])
        _marking.mark(block, request["env"][_marking.NAME])
        if tell(socket, os.getpid()):
            _supervisor.serve(request, socket)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)  # to the errors of the command, as any program would
        sys.stderr.flush()
    finally:
        os._exit(1)


def launch(request: dict[str, Any], socket: int, passed: list[int]) -> None:
    """Become a program, in the control groups of version 1 that it is to be in; raises `OSError` if that fails."""
    for directory in request["groups"]:
        with open(f"{directory}/tasks", "wb", buffering=0) as tasks:
            tasks.write(b"0")  # see `_bounding.py`
    for number, descriptor in zip(request["passed"], passed, strict=False):  # the last may be a group
        os.dup2(descriptor, number)
    tell(socket, os.getpid())
    for signal in (signals.SIGPIPE, signals.SIGXFSZ):  # which an interpreter ignores
        signals.signal(signal, signals.SIG_DFL)
    os.execve(request["program"], request["argv"], request["env"])  # noqa: S606


def tell(socket: int, pid: int) -> bool:
    """Send the process id of a child to proctor; say whether that still listens."""
    try:
        return os.write(socket, b"%d\n" % pid) > 0
    except OSError:  # it is gone, or has given up waiting for this
        return False
