"""A provider whose environments have images, and tasks that each want one."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel

from proctor.errors import Fault
from proctor.model.attempt import GradingMode
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Component, Task
from proctor.plugins.api import AttemptContext, Say
from proctor.providers.local import LocalProvider

TRACE = "images.trace"


class Imaged(LocalProvider):
    """Makes an image ready by writing down that it does; one named `missing` is not there."""

    name = "imaged"
    capabilities = replace(LocalProvider.capabilities, image=True)
    busy: ClassVar[int] = 0

    async def prepare(self, environment: EnvironmentSpec, say: Say) -> None:
        Imaged.busy += 1
        with Path(TRACE).open("a") as trace:
            trace.write(f"{environment.image} {Imaged.busy}\n")
        say(f"fetching {environment.image} with key {os.environ.get('SOME_API_KEY', '')}")
        await asyncio.sleep(0.01)
        Imaged.busy -= 1
        if environment.image == "missing":
            raise Fault("image.missing", f"no such image: {environment.image}")


class Deaf(Imaged):
    """Goes on making an image ready whoever cancels that."""

    name = "deaf"

    async def prepare(self, environment: EnvironmentSpec, say: Say) -> None:
        Path(TRACE).touch()
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)


class Options(BaseModel):
    images: list[str] = ["one", "one", "two"]


class Wanting:
    """Tasks of which each wants an image."""

    name = "wanting"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options = Options

    def __init__(self, options: Options) -> None:
        self._images = options.images

    async def tasks(self) -> list[Task]:
        return [
            Task(f"t{n}", Component("text", {"expected": "ok"}), environment=EnvironmentSpec(image=image))
            for n, image in enumerate(self._images)
        ]

    async def setup(self, ctx: AttemptContext) -> None:
        pass


def make_images() -> None:
    """Be a setup hook."""
    with Path(TRACE).open("a") as trace:
        trace.write("hook\n")
