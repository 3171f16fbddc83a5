"""The panel while it lives: when it is drawn, what is written above it, and how it ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from proctor.cli.streams import Patient
from proctor.cli.terminal import Terminal
from proctor.report.panel import Look, Page, frame
from proctor.report.panel_screen import Screen
from proctor.runtime.clock import Clock

LEAST_SECONDS = 0.1
"""Frames are at least so far apart."""
USUAL_SECONDS = 0.25
"""And usually so far, where something has changed."""
AGES_SECONDS = 1.0
"""Where nothing has, ages are brought up to date so often."""
MOST_SECONDS = 5.0
CPU_SHARE = 0.01
"""At most so much of the time is spent on frames: what takes longer is drawn less often."""


class LivePanel:
    """Draws pages on a terminal. To be used on the thread of the event loop."""

    def __init__(self, stream: Patient, terminal: Terminal, page: Callable[[], Page], clock: Clock) -> None:
        self._stream = stream
        self._terminal = terminal
        self._page = page
        self._clock = clock
        self._screen = Screen(colour=terminal.colour)
        self._above: list[str] = []
        self._dirty = True
        self._drawn_at = float("-inf")
        self._pause = USUAL_SECONDS
        self._ended = False
        self._was_stopped = False
        self._before: Any = None
        """What was done at SIGCONT before."""

    def begin(self) -> None:
        """Begin a new frame when the process is continued after it was stopped; `stop` undoes it."""
        # Not by the event loop: that may take a signal later than the timer of the next frame.
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGCONT"):
            self._before = signal.signal(signal.SIGCONT, self._continued) or signal.SIG_DFL

    @property
    def encoding(self) -> str:
        """That of the terminal."""
        return self._stream.encoding

    def write(self, text: str) -> None:
        """Write whole lines above the panel; `flush` hands them on."""
        self._above.append(text)

    def changed(self) -> None:
        """Note that a frame would look different now."""
        self._dirty = True

    def flush(self) -> None:
        """Write the lines that were said, above the panel."""
        self._look_for_stop()
        if not self._above:
            return
        text = "".join(self._above)
        self._above.clear()
        self._stream.write(text if self._ended else self._screen.above(text, self._terminal.size()[0]))
        self._stream.flush()

    def tick(self) -> None:
        """Draw a frame if it is time for one; to be called about every `LEAST_SECONDS`."""
        self.flush()
        since = self._clock.monotonic() - self._drawn_at
        due = since >= self._pause and (self._dirty or since >= AGES_SECONDS)
        if due and not self._stream.waiting and self._terminal.in_front():
            self._draw()

    def end(self) -> None:
        """Draw the last frame, which stays; what is said from now on comes below it."""
        if self._ended:
            return
        try:
            self.flush()
            if self._terminal.in_front():
                self._draw()
        finally:
            self.stop()

    def stop(self) -> None:
        """Draw nothing any more, and leave what is shown where it is."""
        self._ended = True
        before, self._before = self._before, None
        if before is not None:
            signal.signal(signal.SIGCONT, before)
        self.flush()

    def _draw(self) -> None:
        self._look_for_stop()
        began = self._clock.monotonic()
        width, height = self._terminal.size()
        # The line below the panel is where the cursor rests.
        look = Look(width, max(1, height - 1), self._stream.encoding)
        text = self._screen.draw(frame(self._page(), look), width)
        self._dirty = False
        self._stream.write(text)
        self._stream.flush()
        self._drawn_at = self._clock.monotonic()
        took = self._drawn_at - began
        self._pause = min(MOST_SECONDS, max(USUAL_SECONDS, took / CPU_SHARE))

    def _continued(self, number: int, frame: FrameType | None) -> None:
        """The process was stopped, and goes on; this comes in the middle of anything."""
        self._was_stopped = True

    def _look_for_stop(self) -> None:
        """Where the process was stopped, what stands on the terminal now is not ours."""
        if self._was_stopped:
            self._was_stopped = False
            self._screen.forget()
            self._drawn_at = float("-inf")
            self._dirty = True
