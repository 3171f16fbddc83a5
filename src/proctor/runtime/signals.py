"""Signals of the process, turned into calls; what was installed is taken back afterwards."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from proctor.runtime.watchdog import hurry

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def name_of(number: int) -> str:
    """Return the name of a signal, such as SIGTERM."""
    return signal.Signals(number).name


@contextmanager
def on_signals(
    first: Callable[[int], None], again: Callable[[int], None], third: Callable[[int], None] | None = None
) -> Generator[None]:
    """Call `first` with the number of the first ending signal, and `again` with each one after it, on the event loop.

    From the third on `third` is called instead, if there is one: at once, wherever the main thread is, also where
    something holds the event loop. A signal that the process was told to ignore stays ignored (`nohup`). To be used on
    the main thread, inside a running event loop.
    """
    loop = asyncio.get_running_loop()
    seen = 0

    def received(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        hurry(loop)  # where a plugin holds the event loop
        if third is not None and seen > 2:
            third(number)
        else:
            loop.call_soon_threadsafe(first if seen == 1 else again, number)

    installed: list[tuple[signal.Signals, object]] = []
    for number in ENDING_SIGNALS:
        before = signal.getsignal(number)
        if before != signal.SIG_IGN:
            loop.add_signal_handler(number, int)  # it makes signals wake the loop; the handler that counts is ours
            signal.signal(number, received)
            installed.append((number, before))
    try:
        yield
    finally:
        for number, before in installed:
            loop.remove_signal_handler(number)
            signal.signal(number, before)  # type: ignore[arg-type]
