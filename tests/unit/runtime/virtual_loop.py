"""An event loop whose time leaps: it stands still while anything is left to do, then goes to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

THREAD_SECONDS = 60.0
"""Only a thread that hangs takes so long."""


class Stuck(AssertionError):
    """Nothing is left to do, nothing will ever happen, and the work has not ended."""


class _Leaping(selectors.DefaultSelector):
    """Waits for threads only; of any other wait it is said that it is over."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self.loop.threads:
            return super().select(THREAD_SECONDS)
        if timeout is None:
            self.loop.on_idle()
            return super().select(0)
        self.loop.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with a time of its own.

    `on_step` is called after each callback, `on_idle` where nothing will ever follow.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.threads = 0
        self.troubles: list[str] = []
        """What asyncio complained of: exceptions that nobody retrieved, tasks that were destroyed."""
        self.on_step: Callable[[], None] | None = None
        self.on_idle: Callable[[], None] = self._stuck
        selector = _Leaping()
        selector.loop = self
        super().__init__(selector)
        self.set_exception_handler(lambda _, context: self.troubles.append(repr(context)))

    def _stuck(self) -> None:
        tasks = "\n".join(repr(task) for task in asyncio.all_tasks(self))
        raise Stuck(f"nothing will ever happen any more; tasks:\n{tasks}")

    def time(self) -> float:
        return self.now

    def _counted(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        if self.on_step is None:
            return callback

        def counted(*arguments: Any) -> None:
            try:
                callback(*arguments)
            finally:
                if self.on_step is not None:
                    self.on_step()

        return counted

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_soon(self._counted(callback), *args, context=context)

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_soon_threadsafe(self._counted(callback), *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return super().call_at(when, self._counted(callback), *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        self.threads += 1
        future = super().run_in_executor(executor, func, *args)

        def ended(_: Any) -> None:
            self.threads -= 1

        future.add_done_callback(ended)
        return future


class Steps:
    """Counts the steps of an event loop from now on, and does something after one of them."""

    def __init__(self, virtual: VirtualLoop, number: int, act: Callable[[], None]) -> None:
        self.count = 0
        self.acted = False
        self._number = number
        self._act = act
        virtual.on_step = self._step

    def _step(self) -> None:
        self.count += 1
        if self.count == self._number:
            self.acted = True
            self._act()


def run_virtually(work: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run `work` to its end in a loop of its own; fails where a task is left, or where asyncio complained."""
    loop = VirtualLoop()
    try:
        try:
            result = loop.run_until_complete(work(loop))
        except (KeyboardInterrupt, SystemExit) as error:
            raise AssertionError(f"the event loop was ended by {error!r}") from error
        left = asyncio.all_tasks(loop)
        assert not left, f"tasks are left: {left}"
    finally:
        loop.on_idle = lambda: None
        loop.on_step = None
        if left := asyncio.all_tasks(loop):  # it failed: nothing of it may disturb another test
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=THREAD_SECONDS))
        loop.close()
    assert not loop.troubles, "\n".join(loop.troubles)
    return result


class LoopClock:
    """The time of the event loop."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        return 1_800_000_000.0 + asyncio.get_running_loop().time()


async def settled() -> None:
    """Let everything go on that can, to its end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=THREAD_SECONDS)
