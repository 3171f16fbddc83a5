"""Makes listening sockets inside a network namespace.

Imported, it does so for the thread that calls it. Run as a program it first joins the user namespace that owns the
network namespace, which only a process of one thread can do; it needs nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import socket
import struct
import sys

NS_GET_USERNS = 0xB701
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
BACKLOG = 128


class CannotEnter(OSError):
    """The namespace cannot be joined."""


def listen_in(namespace_fd: int, wanted: list[tuple[str, list[int]]]) -> list[socket.socket]:
    """Join a network namespace and return a listening socket for each (address, ports): of the first port that is free.

    The thread stays in the namespace: it must end after this. Raises `CannotEnter`, `OSError`.
    """
    _set_namespace(namespace_fd, CLONE_NEWNET)
    _raise_loopback()
    made: list[socket.socket] = []
    try:
        for address, ports in wanted:
            made.append(_listen(address, ports))
    except OSError:
        for one in made:
            one.close()
        raise
    return made


def _set_namespace(fd: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, kind) != 0:
        number = ctypes.get_errno()
        raise CannotEnter(number, f"cannot join the namespace of the sandbox: {os.strerror(number)}")


def _raise_loopback() -> None:
    """Bring `lo` up where it is down, as in a namespace that nobody has set up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        found = fcntl.ioctl(one, SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0))
        flags = struct.unpack("16sh22x", found)[1]
        if not flags & IFF_UP:
            fcntl.ioctl(one, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | IFF_UP))


def _listen(address: str, ports: list[int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for port in ports:
        one = socket.socket(family, socket.SOCK_STREAM)
        try:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an earlier phase may linger
            one.bind((address, port))
            one.listen(BACKLOG)
        except OSError as error:
            one.close()
            if error.errno != errno.EADDRINUSE or port == ports[-1]:
                raise OSError(
                    error.errno, f"cannot listen on {address}:{port} of the sandbox: {error.strerror}"
                ) from error
        else:
            one.setblocking(False)
            return one
    raise ValueError(f"no port to listen on at {address}")


def _join_owner(namespace_fd: int) -> None:
    owner = fcntl.ioctl(namespace_fd, NS_GET_USERNS)
    if os.fstat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino:
        _set_namespace(owner, CLONE_NEWUSER)
    os.close(owner)


def main() -> None:
    """Send the sockets through the socket that was handed down, or say there why there are none."""
    namespace_fd, answer_fd = int(sys.argv[1]), int(sys.argv[2])
    with socket.socket(fileno=answer_fd) as answer:
        try:
            _join_owner(namespace_fd)
            made = listen_in(namespace_fd, json.loads(sys.argv[3]))
        except OSError as error:
            answer.send(json.dumps([error.errno, error.strerror or str(error)]).encode())
        else:
            socket.send_fds(answer, [b"[]"], [one.fileno() for one in made])


if __name__ == "__main__":
    main()

__all__ = ["CannotEnter", "listen_in"]
