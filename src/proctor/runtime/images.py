"""Makes each image ready once, however many tries want it, and a few at a time (spec 06 V4)."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import logging
import re
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from proctor.errors import Fault, boundary
from proctor.model.attempt import Phase
from proctor.model.codes import CODES
from proctor.model.environment import EnvironmentSpec
from proctor.plugins.api import Provider, Say
from proctor.runtime.shield import end_task

STALL_SECONDS = 600.0
"""How long preparing an image may say nothing, unless told otherwise."""

END_SECONDS = 30.0
"""How long it may take to end where nobody wants it any more, or where it stalled."""

_LAST_LINES = 20

log = logging.getLogger(__name__)


class ImageLog(Protocol):
    """Where all that is said while one image is made ready is written to."""

    def write(self, text: str, /) -> object:
        """Take a line, its end included."""
        ...

    def close(self) -> object:
        """End."""
        ...


LogOf = Callable[[str], ImageLog | None]
"""Opens the log of an image by a name that is safe as the name of a file (see `log_name`), or returns None."""


def image_name(environment: EnvironmentSpec) -> str:
    """Return what an environment is made from, in words for a person."""
    if environment.build is not None:
        return f"build of {environment.build.context}"
    if environment.compose is not None:
        return f"compose file {environment.compose.file}"
    return environment.image or "no image"


def log_name(environment: EnvironmentSpec) -> str:
    """Return a name for what an environment is made from that is safe as the name of a file, and no other's."""
    digest = hashlib.sha256(repr(_made_from(environment)).encode("utf-8", "surrogateescape")).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", image_name(environment)).strip("-")[-60:]
    return f"{readable}-{digest[:12]}"


def _made_from(environment: EnvironmentSpec) -> Hashable:
    """Return what an image is told by, or None where an environment is made from none."""
    one = environment
    if one.image is None and one.build is None and one.compose is None:
        return None
    # A compose file is filled in with the variables of the environment.
    variables = tuple(sorted(one.env.items())) if one.compose is not None else ()
    return one.image, one.image_digest, one.build, one.compose, variables


@dataclass(eq=False, slots=True)
class _Work:
    """One image that is being made ready, or was."""

    name: str
    log_name: str
    task: asyncio.Task[None] | None = None
    waiting: int = 0
    listeners: list[Say] = field(default_factory=list[Say])
    heard_at: float = 0.0
    last: list[str] = field(default_factory=list[str])


class Images:
    """The images of one invocation. At most `max_builds` are made ready at once; others wait in order.

    One that says nothing for `stall_seconds` (None: however long) is given up. `log_of` opens the log of an image.
    """

    def __init__(
        self, max_builds: int, stall_seconds: float | None = STALL_SECONDS, log_of: LogOf | None = None
    ) -> None:
        if max_builds < 1:
            raise ValueError(f"max_builds must be 1 or more, not {max_builds}")
        self._permits = asyncio.Semaphore(max_builds)
        self._stall_seconds = stall_seconds
        self._log_of = log_of
        self._works: dict[Hashable, _Work] = {}

    def settled(self, provider: Provider, environment: EnvironmentSpec) -> bool:
        """Return whether nothing is left to wait for: there is no image, or it was made ready."""
        made_from = _made_from(environment)
        work = self._works.get((id(provider), made_from))
        task = work and work.task
        ended = task is not None and task.done() and not task.cancelled() and task.exception() is None
        return made_from is None or ended

    async def ready(self, provider: Provider, environment: EnvironmentSpec, say: Say | None = None) -> None:
        """Return when the image of an environment is ready; at once where it has none.

        Whoever wants the same one waits for the same work, and hears what is said from then on. It is cancelled when
        nobody waits for it any more. Raises the `Fault` that it ended with: for all who wait, and where trying again
        cannot help for all who come later, without another attempt. A stall is `image.build_stalled`.
        """
        made_from = _made_from(environment)
        if made_from is None:
            return
        key = (id(provider), made_from)
        work = self._works.get(key)
        if work is None:
            work = self._works[key] = _Work(image_name(environment), log_name(environment))
        if work.task is None:
            # Not in the context of the first who wants it: it is not a part of that try.
            work.task = contextvars.Context().run(
                asyncio.get_running_loop().create_task, self._make(work, provider, environment)
            )
        await self._wait(key, work, work.task, say)

    async def _wait(self, key: Hashable, work: _Work, task: asyncio.Task[None], say: Say | None) -> None:
        work.waiting += 1
        if say is not None:
            work.listeners.append(say)
        try:
            await asyncio.wait({task})
        finally:
            work.waiting -= 1
            if say is not None:
                work.listeners.remove(say)
            if not task.done() and not work.waiting:
                self._forget(key, work)
                await end_task(task, 2 * END_SECONDS)  # within it waits so long itself
        if task.cancelled():
            raise Fault("provider.open_failed", f"preparing {work.name} was given up")
        error = task.exception()
        if error is not None:
            if not (isinstance(error, Fault) and CODES[error.code].permanent):
                self._forget(key, work)
            if isinstance(error, Fault):
                raise _again(error) from error
            raise error.with_traceback(None)

    def _forget(self, key: Hashable, work: _Work) -> None:
        """Let the next who wants it begin anew."""
        if self._works.get(key) is work:
            del self._works[key]

    async def close(self) -> None:
        """End all that is still being made ready; where all who waited were cancelled, that is done already."""
        works, self._works = list(self._works.values()), {}
        tasks = [work.task for work in works if work.task is not None and not work.task.done()]
        await asyncio.gather(*(end_task(task, 2 * END_SECONDS) for task in tasks))

    # ------------------------------------------------------------------------------------------------- the work

    async def _make(self, work: _Work, provider: Provider, environment: EnvironmentSpec) -> None:
        async with self._permits:
            file = self._open_log(work)
            try:
                await self._watched(work, provider, environment, file)
            finally:
                if file is not None:
                    with suppress(OSError):  # what could not be written was said already
                        file.close()

    async def _watched(
        self, work: _Work, provider: Provider, environment: EnvironmentSpec, file: ImageLog | None
    ) -> None:
        loop = asyncio.get_running_loop()
        work.heard_at = begun = loop.time()
        limit = environment.image_timeout_seconds
        say = _hearing(work, loop, file)
        task = loop.create_task(_prepare(provider, environment, say))
        try:
            while not task.done():
                left = None if self._stall_seconds is None else work.heard_at + self._stall_seconds - loop.time()
                if left is not None and left <= 0:
                    raise Fault("image.build_stalled", self._stalled(work), phase=Phase.OPEN)
                if limit is not None:
                    left = min(limit + begun - loop.time(), limit if left is None else left)
                    if left <= 0:
                        raise Fault(
                            "image.build_failed", f"{work.name}: it took longer than {limit:g} s", phase=Phase.OPEN
                        )
                await asyncio.wait({task}, timeout=left)
        finally:
            if not task.done() and not await end_task(task, END_SECONDS):
                log.warning("%s: preparing it ignores that it was cancelled; it is left to itself", work.name)
        task.result()

    def _stalled(self, work: _Work) -> str:
        said = "\n".join(["; it said last:", *work.last]) if work.last else " at all"
        return f"{work.name}: it said nothing for {self._stall_seconds:g} s{said}"

    def _open_log(self, work: _Work) -> ImageLog | None:
        if self._log_of is None:
            return None
        try:
            return self._log_of(work.log_name)
        except OSError as error:
            log.warning("%s: its log cannot be written: %s", work.name, error)
            return None


def _again(error: Fault) -> Fault:
    """Return a fault once more, for one of those who are told: phases are set on it."""
    return Fault(error.code, str(error), phase=error.issue.phase, refused=error.refused, retry_after=error.retry_after)


async def _prepare(provider: Provider, environment: EnvironmentSpec, say: Say) -> None:
    with boundary(Phase.OPEN):
        await provider.prepare(environment, say)


def _hearing(work: _Work, loop: asyncio.AbstractEventLoop, file: ImageLog | None) -> Say:
    """Return what takes the lines that are said while an image is made ready."""
    broken = False

    def say(line: str) -> None:
        nonlocal broken
        work.heard_at = loop.time()
        work.last = [*work.last, line][-_LAST_LINES:]
        if file is not None and not broken:
            try:
                file.write(f"{line}\n")
            except OSError as error:
                broken = True
                log.warning("%s: its log cannot be written any more: %s", work.name, error)
        for listener in tuple(work.listeners):
            listener(line)

    return say


__all__ = ["STALL_SECONDS", "ImageLog", "Images", "LogOf", "image_name", "log_name"]
