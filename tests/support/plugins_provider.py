"""Providers that are other ones than `local` by their names and capabilities alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from proctor.errors import Fault
from proctor.model.environment import EnvironmentSpec
from proctor.plugins.api import Capabilities
from proctor.providers.local import LocalProvider


class Other(LocalProvider):
    name = "other"


class Able(LocalProvider):
    """Takes every environment, and enforces nothing of it: for tests of what is planned, whoever carries it out.

    Images are told by `IMAGES`, by their names; a name with `broken` in it makes `resolve` fail. `DOWN` in the
    environment is why the provider cannot be used.
    """

    name = "plugins_provider:Able"
    capabilities = Capabilities(
        image=True, build=True, compose=True, networks=frozenset({"none", "allow", "full"}), switches_network=True,
        cpus=True, memory=True, processes=True, user=True, workdir=True, reuse=True, keep=True,
    )  # fmt: skip
    IMAGES: ClassVar[dict[str, str]] = {}
    asked: ClassVar[list[EnvironmentSpec]] = []
    """Every environment that was to be resolved."""

    async def unavailable(self) -> str | None:
        return os.environ.get("DOWN")

    async def resolve(self, environment: EnvironmentSpec) -> EnvironmentSpec:
        self.asked.append(environment)
        if "broken" in (environment.image or ""):
            raise Fault("image.missing", "the registry says no")
        return replace(environment, image_digest=self.IMAGES.get(environment.image or ""))

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> Any:
        return await LocalProvider().open(EnvironmentSpec(env=environment.env), labels)


class Alone(Able):
    name = "plugins_provider:Alone"
    exclusive = True


class Forgetful(Able):
    name = "plugins_provider:Forgetful"
    capabilities = replace(Able.capabilities, keep=False)


class Fixed(Able):
    """What its sandboxes may reach is settled when they are opened."""

    name = "plugins_provider:Fixed"
    capabilities = replace(Able.capabilities, switches_network=False)


class Away(Able):
    """Its sandboxes are on another machine."""

    name = "plugins_provider:Away"
    remote = True


class Imaged(Able):
    """Makes nothing without an image."""

    name = "plugins_provider:Imaged"
    capabilities = Capabilities(image=True, needs_image=True)
