"""Notices code of a plugin that holds the event loop, says so, and ends it at its limit (spec 05 Time).

An `async def` that computes without a pause, sleeps with `time.sleep` or waits for a socket of its own holds all else:
no other attempt goes on, no timer fires, no signal is taken. A thread sees from outside that the loop does not come
round, and sends the main thread a signal. Its handler runs between two instructions of whatever executes there. It
looks whose code that is, and where the time of that code is over it raises `LoopBlocked` in it. It does so only inside
a task of the phase that holds the loop, and only where the innermost code that is not of the standard library is a
plugin's: what proctor executes itself, on behalf of a plugin too, is never cut off.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from proctor.runtime.whose_code import HOLDER, Holder, plugin_code

TICK_SECONDS = 0.25
"""How often the thread looks whether the loop came round."""

HELD_FROM_SECONDS = 0.5
"""From here on the time of others does not count while one holds the loop."""

SAID_FROM_SECONDS = 1.0
"""What holds the loop for so long is said, once."""

BLOCKED_AT_MOST_SECONDS = 60.0
"""How long code may hold the loop where no limit of it ends earlier."""

HURRIED_SECONDS = 1.0
"""How long then, when an interrupt waits for the loop."""

AGAIN_SECONDS = 0.01
"""After so long it is tried again where the code could not be ended: it was inside proctor, or went on after it."""

SIGNAL = signal.SIGURG
"""Ignored by default, also where it comes late, and used by hardly anybody."""

ADVICE = "use asyncio.to_thread or an async library there"

log = logging.getLogger(__name__)


class LoopBlocked(BaseException):
    """Raised in code of a plugin that held the event loop for too long. No `Exception`: that is caught too easily."""


@dataclass(frozen=True, slots=True)
class _Sight:
    """What the handler found: the step of a task that executes, since which question, and where in a plugin."""

    question: int
    task: asyncio.Task[Any]
    holder: Holder
    where: str

    def same_step(self, other: _Sight | None) -> bool:
        return other is not None and (self.question, self.task) == (other.question, other.task)


class Watch:
    """Watches one event loop from a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, interrupts: bool) -> None:
        self._loop = loop
        self.interrupts = interrupts
        self.hurried = False
        """Whether an interrupt waits for the loop."""
        self._thread_id = threading.get_ident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proctor-watchdog", daemon=True)
        self._asked: int = 0
        self._answered: int = 0
        self._asked_at = self._looked_at = loop.time()
        self._sight: _Sight | None = None
        self._order: _Sight | None = None
        self._step: _Sight | None = None
        self._step_seconds = self._held = 0.0
        self._said = False
        self._thread.start()

    def stop(self) -> None:
        """End; nothing is raised any more."""
        self._order = None
        self._stop.set()
        self._thread.join(TICK_SECONDS * 4)

    def held_by_others(self, holder: Holder) -> float:
        """Return for how long code of others than `holder` held the loop so far, in seconds."""
        held = self._held - holder.held_seconds
        sight = self._sight
        if sight is not None and sight.question == self._asked != self._answered and sight.holder is not holder:
            seconds = self._loop.time() - self._asked_at
            held += seconds if seconds >= HELD_FROM_SECONDS else 0.0
        return held

    # ---------------------------------------------------------------------------------------------- in the thread

    def _run(self) -> None:
        seconds = TICK_SECONDS
        while not self._stop.wait(seconds):
            try:
                seconds = self._tick()
            except RuntimeError:  # the loop was closed
                return

    def _tick(self) -> float:
        """Look once; return when to look again."""
        now = self._loop.time()
        passed, self._looked_at = now - self._looked_at, now
        if self._answered == self._asked:
            self._step = None
            self._asked_at = now
            self._asked += 1
            self._loop.call_soon_threadsafe(self._answer, self._asked)
            return TICK_SECONDS
        sight = self._sight if self.interrupts else None
        if sight is None or not sight.same_step(self._step):
            self._step, self._step_seconds = (sight if sight and sight.question == self._asked else None), 0.0
        else:
            self._step_seconds += min(passed, TICK_SECONDS * 4)  # not what the whole process was stopped for
        return self._blocked(now)

    def _blocked(self, now: float) -> float:
        step, after = self._step, TICK_SECONDS
        if step is not None and self._step_seconds:
            due = now - self._step_seconds + (HURRIED_SECONDS if self.hurried else BLOCKED_AT_MOST_SECONDS)
            if (ends_at := step.holder.ends_at()) is not None:
                due = min(due, ends_at)
            if now >= due:
                self._order, after = step, AGAIN_SECONDS
            else:
                after = min(TICK_SECONDS, due - now)
        if not self._said and now - self._asked_at >= SAID_FROM_SECONDS:
            self._say(now)
        if self.interrupts:
            signal.pthread_kill(self._thread_id, SIGNAL)
        return after

    def _say(self, now: float) -> None:
        sight = self._step
        if sight is None and not self.interrupts:
            frame = sys._current_frames().get(self._thread_id)  # pyright: ignore[reportPrivateUsage]
            where = frame and asyncio.current_task(self._loop) and plugin_code(frame)
            whose = "code"
        else:
            where = sight and sight.where
            whose = f"attempt @{sight.holder.attempt}, phase {sight.holder.phase}," if sight else ""
        if where:
            self._said = True
            seconds = now - self._asked_at
            log.warning("%s at %s holds the event loop for %.1f s: all else waits; %s", whose, where, seconds, ADVICE)

    # ------------------------------------------------------------------------------------ in the thread of the loop

    def _answer(self, question: int) -> None:
        seconds = self._loop.time() - self._asked_at
        sight = self._sight
        if sight is not None and sight.question == question and seconds >= HELD_FROM_SECONDS:
            self._held += seconds
            sight.holder.held_seconds += seconds
        self._answered = question
        self._sight = self._order = None

    def on_signal(self, frame: FrameType | None) -> None:
        """Look what executes, and end it if that was ordered and it is still the same."""
        order, self._order = self._order, None
        task = asyncio.current_task(self._loop)
        holder = HOLDER.get()
        where = frame and plugin_code(frame)
        if task is None or holder is None or not where:
            return
        self._sight = _Sight(self._asked, task, holder, where)
        if order is not None and self._sight.same_step(order) and self._answered != self._asked:
            seconds = self._loop.time() - self._asked_at
            holder.struck = f"it held the event loop for {seconds:.1f} s at {where}; {ADVICE}"
            raise LoopBlocked(holder.struck)


# --------------------------------------------------------------------------------------------- one per event loop

_watches: dict[asyncio.AbstractEventLoop, tuple[Watch, int]] = {}


def held_by_others(loop: asyncio.AbstractEventLoop, holder: Holder) -> float:
    """Return for how long code of others than `holder` held `loop` since it is watched; 0 where nobody watches."""
    watched = _watches.get(loop)
    return watched[0].held_by_others(holder) if watched else 0.0


def hurry(loop: asyncio.AbstractEventLoop) -> None:
    """Let nothing hold `loop` for long any more: an interrupt waits for it. A handler of a signal may call this."""
    if loop in _watches:
        _watches[loop][0].hurried = True


@contextmanager
def watching(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Watch `loop`, which runs on this thread; more than one may ask for it.

    On another thread than the main one, and where somebody else uses the signal, what holds the loop is only said.
    """
    if loop not in _watches:
        _watches[loop] = Watch(loop, interrupts=_install()), 0
    watch, users = _watches[loop]
    _watches[loop] = watch, users + 1
    try:
        yield
    finally:
        watch, users = _watches[loop]
        _watches[loop] = watch, users - 1
        if users == 1:
            del _watches[loop]
            watch.stop()
            _uninstall()


def _install() -> bool:
    """Make the signal ours, where it is nobody's; say whether it is ours."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(SIGNAL) in (signal.SIG_DFL, signal.SIG_IGN):
        signal.signal(SIGNAL, _on_signal)
    return signal.getsignal(SIGNAL) is _on_signal


def _uninstall() -> None:
    """Give the signal back; one that comes late is ignored."""
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(SIGNAL) is _on_signal and not any(watch.interrupts for watch, _ in _watches.values()):
        signal.signal(SIGNAL, signal.SIG_DFL)


def _on_signal(number: int, frame: FrameType | None) -> None:
    try:
        watched = _watches.get(asyncio.get_running_loop())
    except RuntimeError:  # no loop runs: there is nothing to hold
        return
    if watched is not None:
        watched[0].on_signal(frame)
