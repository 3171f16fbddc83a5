"""Runs the program on a terminal of its own and keeps what that shows."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from program import HANG_SECONDS
from screen import VirtualScreen


class OnTerminal:
    """A program whose standard streams are a terminal, which is the one that controls it."""

    def __init__(self, arguments: list[str], folder: Path, environ: Mapping[str, str], size: tuple[int, int]) -> None:
        self.screen = VirtualScreen(*size)
        self.output = b""
        self._leader, follower = pty.openpty()
        self.before = termios.tcgetattr(follower)
        self._follower = follower
        self.resize(*size)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "proctor", *arguments],
            cwd=folder,
            env=dict(environ),
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(follower, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if self.output:
            self.screen.resize(columns, lines)

    def read(self, seconds: float) -> bool:
        """Take what was written within some time; say whether anything was."""
        if not select.select([self._leader], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._leader, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        self.output += data
        self.screen.feed(data.decode("utf-8", "replace").replace("\r\n", "\n"))
        return bool(data)

    def until(self, reached: Callable[[VirtualScreen], bool]) -> str:
        """Wait until the screen shows something, and return what it shows then."""
        give_up = time.monotonic() + HANG_SECONDS
        while not reached(self.screen):
            assert time.monotonic() < give_up, f"it never came; the screen shows\n{self.screen.text}"
            self.read(0.2)
        return self.screen.text

    def press(self, key: bytes) -> None:
        os.write(self._leader, key)

    def end(self) -> int:
        """Wait for the end of the program, take the rest of what it wrote, and return its exit code."""
        give_up = time.monotonic() + HANG_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < give_up, self.screen.text
            self.read(0.1)
        while self.read(0.1):
            pass
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._follower)
        os.close(self._leader)
