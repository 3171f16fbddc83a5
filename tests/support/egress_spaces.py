"""A network namespace with nothing in it, and sockets that were connected from inside, for tests to talk through."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PUPPET = """
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000 | 0x40000000):
    sys.exit("unshare: " + os.strerror(ctypes.get_errno()))
with socket.socket(fileno=int(sys.argv[1])) as control:
    control.send(b"ready")
    while asked := control.recv(1000):
        host, port = asked.decode().split()
        made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        with made:
            made.settimeout(20)
            try:
                made.connect((host, int(port)))
            except OSError as error:
                control.send(errno.errorcode.get(error.errno, str(error)).encode())
            else:
                made.settimeout(None)
                socket.send_fds(control, [b"ok"], [made.fileno()])
"""


class NetSpace:
    """A process in a user and a network namespace of its own. `fd` is the network namespace."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self.fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        self._control = control

    def connect(self, host: str, port: int) -> socket.socket:
        """Return a socket connected from inside; raises `ConnectionError` with the name of the error."""
        self._control.send(f"{host} {port}".encode())
        said, fds, _, _ = socket.recv_fds(self._control, 100, 1)
        if said != b"ok":
            raise ConnectionError(said.decode())
        return socket.socket(fileno=fds[0])


@contextmanager
def net_space() -> Iterator[NetSpace | str]:
    """Give a namespace, or the reason why this machine has none."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, its:
        command = [sys.executable, "-I", "-S", "-c", PUPPET, str(its.fileno())]
        child = subprocess.Popen(command, pass_fds=[its.fileno()], stderr=subprocess.PIPE)
        its.close()
        try:
            if ours.recv(100) != b"ready":
                _, said = child.communicate()
                yield f"no network namespaces here: {said.decode().strip()}"
                return
            space = NetSpace(child.pid, ours)
            try:
                yield space
            finally:
                os.close(space.fd)
        finally:
            child.kill()
            child.wait()
            assert child.stderr is not None
            child.stderr.close()
