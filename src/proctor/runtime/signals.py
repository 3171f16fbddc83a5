"""Signals of the process, turned into calls on the event loop; what was installed is taken back afterwards."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def on_signals(first: Callable[[int], None], again: Callable[[int], None]) -> Generator[None]:
    """Call `first` with the number of the first ending signal, and `again` with each one after it.

    A signal that the process was told to ignore stays ignored (`nohup`). To be used on the main thread, inside a
    running event loop.
    """
    loop = asyncio.get_running_loop()
    seen = 0

    def received(number: int) -> None:
        nonlocal seen
        seen += 1
        (first if seen == 1 else again)(number)

    installed: list[tuple[signal.Signals, object]] = []
    for number in ENDING_SIGNALS:
        before = signal.getsignal(number)
        if before != signal.SIG_IGN:
            loop.add_signal_handler(number, received, int(number))
            installed.append((number, before))
    try:
        yield
    finally:
        for number, before in installed:
            loop.remove_signal_handler(number)
            signal.signal(number, before)  # type: ignore[arg-type]
