"""The images of an invocation: begun in plan order from the start, so that tries rarely wait for one (spec 06 V4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from proctor.cli.controls import Controls
from proctor.cli.rooms import Room, environment_in
from proctor.core.decided import what_is_left
from proctor.core.environments import as_graded
from proctor.errors import Fault, SkipTask
from proctor.model.attempt import GradingMode
from proctor.model.environment import EnvironmentSpec
from proctor.plugins.api import Provider
from proctor.runtime.hurry import COURTESY_SECONDS, Hurry
from proctor.runtime.images import ImageLog, Images, image_name, log_name
from proctor.runtime.log_scope import SHOWN
from proctor.runtime.shield import shielded

CLOSE_SECONDS = 60.0
"""How long what still goes on at the end may take to end."""

HURRIED_SECONDS = COURTESY_SECONDS / 2
"""How long in a hurry: what is closed afterwards needs some of the time as well."""

log = logging.getLogger(__name__)


class ImageMaking:
    """Makes images ready in the background while it is entered; the rooms' tries find them by `Room.images`.

    So many at once as may be built, and no more ahead: a try that wants another one waits for these at most, not for
    all of the plan. Nothing is begun of an experiment with a setup hook: that hook may be what makes its images. Each
    image has its log in `images/` of the first run that uses it, as `redact` leaves it.
    """

    def __init__(
        self, rooms: Mapping[str, Room], controls: Controls, redact: Callable[[str], str], hurry: Hurry | None = None
    ) -> None:
        self._rooms = rooms
        self._at_once = controls.max_build_concurrency
        self._redact = redact
        self._hurry = hurry or Hurry()
        self._images = Images(self._at_once, log_of=self._log_of)
        self._workers: list[asyncio.Task[None]] = []
        self._folders: dict[str, Path] = {}
        """Where the log of an image is, by its name; filled when the first is asked for."""
        for room in rooms.values():
            room.images = self._images

    async def __aenter__(self) -> None:
        """Begin, where any environment has an image."""
        ahead = _ahead(self._rooms)
        first = next(ahead, None)
        if first is not None:
            todo = _from(first, ahead)
            loop = asyncio.get_running_loop()
            self._workers = [loop.create_task(self._work(todo)) for _ in range(self._at_once)]

    async def __aexit__(self, *_: object) -> None:
        """End what still goes on; what ignores that holds nobody for longer than the limit, or a hurry allows."""
        try:
            await shielded(self._end(), CLOSE_SECONDS, self._hurry, HURRIED_SECONDS)
        except TimeoutError as error:
            log.warning("images that were still being made ready are left to themselves: %s", error)

    async def _end(self) -> None:
        for worker in self._workers:
            worker.cancel()
        if self._workers:
            await asyncio.wait(self._workers)
        await self._images.close()

    async def _work(self, todo: Iterator[tuple[Provider, EnvironmentSpec]]) -> None:
        for provider, environment in todo:
            if self._images.settled(provider, environment):
                continue
            name = image_name(environment)
            log.info("image %s: making it ready", name, extra=SHOWN)
            # What is wrong with it is said by each try that wants it.
            with suppress(Fault, SkipTask):
                await self._images.ready(provider, environment)
                log.info("image %s: ready", name, extra=SHOWN)

    def _log_of(self, name: str) -> ImageLog | None:
        if not self._folders:
            for room in self._rooms.values():
                for environment in _environments(room):
                    self._folders.setdefault(log_name(environment), room.writer.directory / "images")
        folder = self._folders.get(name)
        if folder is None:
            return None
        folder.mkdir(exist_ok=True)
        return _Log(folder / f"{name}.log", self._redact)


class _Log:
    """The log of one image, without credentials; a line is in the file as soon as it was said."""

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        self._file = path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)
        self._redact = redact

    def write(self, text: str, /) -> None:
        self._file.write(self._redact(text))

    def close(self) -> None:
        self._file.close()


def _from(
    first: tuple[Provider, EnvironmentSpec], rest: Iterator[tuple[Provider, EnvironmentSpec]]
) -> Iterator[tuple[Provider, EnvironmentSpec]]:
    yield first
    yield from rest


def _ahead(rooms: Mapping[str, Room]) -> Iterator[tuple[Provider, EnvironmentSpec]]:
    """Yield what is to be made ready without being asked for, in plan order, each once as far as that is cheap."""
    for room in rooms.values():
        if room.resolved.hooks.setup is None:
            before: EnvironmentSpec | None = None
            for environment in _environments(room):
                if environment is not before:
                    yield room.resolved.provider, environment
                before = environment


def _environments(room: Room) -> Iterator[EnvironmentSpec]:
    """Yield the environments with an image in which tasks of a run will be worked on or graded, in plan order."""
    schedule = what_is_left(room.plan.schedule)
    if schedule is None:
        return
    fresh = schedule.grading is GradingMode.FRESH
    opens = {name for name, agent in zip(schedule.task_ids, schedule.agent_sandbox, strict=True) if agent or fresh}
    for task in room.plan.tasks:
        for one in (task, as_graded(task)) if fresh and task.grade_environment is not None else (task,):
            environment = environment_in(room, one)
            has_image = (environment.image, environment.build, environment.compose) != (None, None, None)
            if task.id in opens and has_image:
                yield environment
