"""Sandboxes of several services: a compose file brought up once for each, under the sandbox's own name.

The compose program reads the file and starts the services. Images are pulled and built by ourselves, so that they are
made once for all sandboxes. Services are removed through the engine, by label: it is sure, also after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from proctor.data.build_context import compose_digest
from proctor.errors import Fault, UsageError
from proctor.model.attempt import Phase
from proctor.model.environment import Compose, EnvironmentSpec
from proctor.plugins.api import Say
from proctor.providers.docker.compose_checks import health_conditions, problems, section
from proctor.providers.docker.compose_file import builds, names_of, pulled, sandbox_file
from proctor.providers.docker.compose_program import (
    INSTALL,
    ComposeFailed,
    ComposeProgram,
    absolute,
    find_program,
    parsed,
)
from proctor.providers.docker.compose_sweep import last_words, reclaim_networks, remove_project
from proctor.providers.docker.health import checking_health
from proctor.providers.docker.images import Images
from proctor.providers.docker.images_build import tag_of
from proctor.providers.egress.sandbox import refusal_of_hosts

UP_SECONDS = 300.0
"""How long services may take to come up, what they wait for of each other included."""

ADDRESS_PAUSES_SECONDS = (1.0, 3.0, 10.0, 30.0, 60.0)
"""How long is waited for an engine to have addresses for one more network."""

_NO_ADDRESSES = ("non-overlapping IPv4 address pool", "could not find free subnet", "all predefined address pools")


def refuse_compose(environment: EnvironmentSpec) -> str | None:
    """Return why there can be no sandbox of such services, as far as the file says it by itself, or None."""
    compose = environment.compose
    if compose is None:
        return None
    if find_program() is None:
        return f"compose file `{compose.file}` {INSTALL}"
    found = _network_problems(environment)
    try:
        content = parsed(Path(compose.file).read_text("utf-8"))
        found += problems(content, Path(compose.file).parent, compose.service)
    except (OSError, UnicodeDecodeError, ComposeFailed) as error:
        found.append(f"it cannot be read: {error}")
    return _refusal(compose, found)


def _network_problems(environment: EnvironmentSpec) -> list[str]:
    """Return what its networks cannot do: they are made either open or closed, and stay so."""
    policies = {environment.network_of(phase) for phase in (Phase.SETUP, Phase.AGENT, Phase.GRADE)}
    if len(policies) > 1 and any(policy.mode == "full" for policy in policies):
        return ["its services have the network `full` in all phases, setup, agent and grade, or in none of them"]
    return [] if (refused := refusal_of_hosts(environment)) is None else [refused]


def _refusal(compose: Compose, found: list[str]) -> str | None:
    return f"compose file `{compose.file}`: {'; '.join(found)}" if found else None


@dataclass(slots=True)
class _Ready:
    """A file as it was resolved, and what the engine knows of the image of each service."""

    content: Any
    images: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


class Services:
    """The sandboxes of compose files of one engine. `docker` is an `aiodocker.Docker`, `host` its DOCKER_HOST."""

    def __init__(self, docker: Any, images: Images, host: str | None) -> None:
        self._docker = docker
        self._images = images
        self._program = ComposeProgram(host)

    async def prepare(self, environment: EnvironmentSpec, say: Say) -> None:
        """Read the file, and pull or build the images of all its services. Raises `Fault`."""
        compose = _compose_of(environment)
        content = await self._read(compose, environment)
        ready = _Ready(content)
        for image in pulled(content):
            await self._images.fetch(image, None, say)
        try:
            built = await asyncio.to_thread(builds, content, compose)
        except UsageError as error:
            raise Fault("image.build_failed", f"compose file `{compose.file}`: {error}") from error
        for build in built.values():
            await self._images.build(build, say)
        for name, service in section(section(content).get("services")).items():
            image = tag_of(built[name]) if name in built else section(service).get("image")
            if not image:
                raise Fault("image.missing", f"compose file `{compose.file}`: service `{name}` has no image")
            ready.images[name] = await self._images.inspect(str(image))
        self._images.known.files[_key(environment)] = ready

    async def up(self, environment: EnvironmentSpec, sandbox: str, labels: Mapping[str, str]) -> str:
        """Start the services of a sandbox; return the id of the main one's container, which `sandbox` names as well.

        Everything that is made carries `labels`. Raises `Fault`; failed or cancelled, it leaves nothing behind.
        """
        compose = _compose_of(environment)
        if _key(environment) not in self._images.known.files:
            await self.prepare(environment, lambda _: None)
        ready: _Ready = self._images.known.files[_key(environment)]
        podman = await self._is_podman()
        content = sandbox_file(ready.content, environment, sandbox, labels, ready.images, podman=podman)
        try:
            async with checking_health(self._docker, sandbox, podman and health_conditions(content)):
                await self._start(content, compose, sandbox)
            return await self._main_container(compose, sandbox)
        except BaseException as error:
            reason = error
            if isinstance(error, ComposeFailed):
                words = [f"compose file `{compose.file}`: {error}", *await last_words(self._docker, sandbox)]
                reason = Fault("provider.open_failed", "\n".join(words))
            await _to_its_end(self.remove(sandbox))
            if reason is error:
                raise
            raise reason from error

    def names(self, environment: EnvironmentSpec) -> tuple[str, ...]:
        """Return how services of a file that was read are found by each other."""
        ready: _Ready = self._images.known.files[_key(environment)]
        return names_of(ready.content)

    async def remove(self, sandbox: str) -> None:
        """Remove the containers, networks and volumes of a sandbox, whichever process made them.

        Nothing there is no error. Raises `Fault` ("dispose.failed") where something stays.
        """
        await remove_project(self._docker, sandbox)

    async def _read(self, compose: Compose, environment: EnvironmentSpec) -> Any:
        if (reason := refuse_compose(environment)) is not None:
            raise Fault("image.build_failed", reason)
        try:
            digest = await asyncio.to_thread(compose_digest, Path(compose.file))
            if digest != compose.digest:
                raise Fault("image.build_failed", f"compose file `{compose.file}` changed since the run was planned")
            content = await self._program.resolved(compose, environment.env)
        except (ComposeFailed, UsageError) as error:
            raise Fault("image.build_failed", f"compose file `{compose.file}`: {error}") from error
        # Once more, now with all that it takes from elsewhere.
        found = problems(content, absolute(compose.file).parent, compose.service)
        if (reason := _refusal(compose, found)) is not None:
            raise Fault("image.build_failed", reason)
        return content

    async def _start(self, content: Mapping[str, Any], compose: Compose, sandbox: str) -> None:
        for pause_seconds in ADDRESS_PAUSES_SECONDS:
            try:
                return await self._program.up(content, compose, sandbox, UP_SECONDS)
            except ComposeFailed as error:
                if not any(words in str(error) for words in _NO_ADDRESSES):
                    raise
            # Each sandbox has a network of its own, and an engine addresses for some thirty of them.
            if not await reclaim_networks(self._docker):
                await asyncio.sleep(pause_seconds)
        return await self._program.up(content, compose, sandbox, UP_SECONDS)

    async def _main_container(self, compose: Compose, sandbox: str) -> str:
        from aiodocker.exceptions import DockerError  # noqa: PLC0415 - heavy: only where it is used

        try:
            container = await self._docker.containers.get(sandbox)
        except DockerError as error:
            raise ComposeFailed(f"service `{compose.service}` has no container: {error.message}") from error
        shown = cast("dict[str, Any]", await container.show())
        if not shown["State"]["Running"]:
            raise ComposeFailed(f"service `{compose.service}` ended at once: it needs `sh` in its image")
        return str(shown["Id"])

    async def _is_podman(self) -> bool:
        version = section(await self._docker.version())
        return any("podman" in str(section(one).get("Name")).lower() for one in version.get("Components") or ())


def _compose_of(environment: EnvironmentSpec) -> Compose:
    if environment.compose is None:
        raise ValueError("the environment has no compose file")
    return environment.compose


def _key(environment: EnvironmentSpec) -> Hashable:
    return environment.compose, tuple(sorted(environment.env.items()))


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Run a clean-up to its end, through any cancellation; one that came meanwhile is raised after it."""
    task = asyncio.get_running_loop().create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


__all__ = ["Services", "refuse_compose"]
