"""What ends an invocation before its time: signals, its time limit, a caller that was cancelled (spec 10 I1, I5)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import ClassVar

from proctor.cli.exits import Exit, exit_of_signal
from proctor.cli.streams import write_at_once
from proctor.model.events import Interrupted
from proctor.runtime.hurry import Hurry
from proctor.runtime.loop import Loop
from proctor.runtime.signals import name_of, on_signals

FORCED_EXIT_SECONDS = 5.0
"""So long after a second signal the process exits, whatever holds it; what is being written then gets as long again."""

UNREAD_SECONDS = (60.0, 5.0, 0.5)
"""How long the end waits for a reader that takes nothing: ordinarily, once interrupted, and by force."""


class Interrupts:
    """Takes what asks an invocation to end: the first time in good order, the second by force, the third at once.

    With `signals` it takes those of the process while `taken` is entered, which is to be on the main thread; only then
    is the process ever left at once. `lines` is what is said then.
    """

    begun_here: ClassVar[bool] = False
    """Whether any invocation was begun in this process."""

    def __init__(self, *, signals: bool, owns_process: bool = False) -> None:
        self.signals = signals
        self.owns_process = owns_process
        """Whether nobody but proctor uses the process."""
        self.begun = False
        """Whether anything was started."""
        self._level = 0
        self._loop: Loop | None = None
        self._early: list[Interrupted] = []
        self._closing = False
        self._ended = threading.Event()
        self.hurry = Hurry()
        """That of everything that is closed after the loop."""
        self.lines: Callable[[], Sequence[str]] = tuple[str]

    @property
    def asked(self) -> bool:
        """Whether anything has asked it to end."""
        return self._level > 0

    def taken(self) -> AbstractContextManager[None]:
        """Return the context in which signals are taken: from here on there is something to end in good order."""
        self.begun = Interrupts.begun_here = True
        return on_signals(self._signal, self._signal, self._leave) if self.signals else nullcontext()

    @contextmanager
    def attached(self, loop: Loop) -> Generator[None]:
        """Hand over to a loop that is about to run what came so far, and what comes; detach it however it ends."""
        self._loop = loop
        for event in self._early:
            loop.interrupt(event)
        try:
            yield
        finally:
            self.detach()

    def detach(self) -> None:
        """The loop has ended: from now on there is only closing to do, which whatever comes makes hurry."""
        self._loop = None
        self._closing = True
        if self._level > 1:
            self.hurry.begin()

    def end(self) -> None:
        """The invocation has ended."""
        self._ended.set()

    def stop(self, cause: str, signal: int = 0) -> None:
        """Ask for the end; to be called on the event loop."""
        self._level += 1
        again = " again: clean-up is cut short, what is left is killed" if self._level > 1 else ""
        event = Interrupted(signal, cause + again)
        if self._loop is not None:
            self._loop.interrupt(event)
        elif not self._closing:
            self._early.append(event)
        if self._closing:
            self.hurry.begin()
        if self._level == 2 and self.signals:
            threading.Thread(target=self._watch, args=(signal,), name="proctor-exit", daemon=True).start()
        if self._level > 2 and self.signals:
            self._leave(signal)

    def time_is_over(self, seconds: float) -> None:
        """Ask for the end, as the time of the invocation is over; without effect where something else has asked."""
        if not self.asked:
            self.stop(f"its time limit of {seconds:g} s")

    def unread_seconds(self) -> float:
        """Return how long the end waits now for a reader that takes nothing."""
        return UNREAD_SECONDS[min(self._level, 2)]

    def _signal(self, number: int) -> None:
        self.stop(name_of(number), number)

    def _watch(self, signal: int) -> None:
        """See that a forced end is one, also where something holds the event loop."""
        if not self._ended.wait(FORCED_EXIT_SECONDS) and not (self._closing and self._ended.wait(FORCED_EXIT_SECONDS)):
            self._leave(signal)

    def _leave(self, signal: int) -> None:
        """Exit now: the journal is intact at every moment, and supervisors end what their runner leaves behind."""
        lines = ["error: left at once, without cleaning up; what is finished is kept", *self.lines()]
        write_at_once(2, "".join(f"{line}\n" for line in lines))
        os._exit(exit_of_signal(signal) if signal else Exit.INCOMPLETE)
