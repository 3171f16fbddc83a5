"""Provider `docker`: a container for each sandbox, by Docker or by Podman through its compatible socket.

The engine is where `DOCKER_HOST` says, else at the usual sockets. A container carries the labels of its sandbox, each
with `proctor.` before its name, and is named like the sandbox; once kept it is named `proctor-kept-...`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from proctor.errors import Fault
from proctor.model.attempt import Phase
from proctor.model.environment import EnvironmentSpec
from proctor.plugins.api import Capabilities, Say
from proctor.providers.docker import container as containers
from proctor.providers.docker.engine import Docker, Engine, engine_faults
from proctor.providers.docker.network import ContainerNetwork, ServicesNetwork, allow_lists_work, needs
from proctor.providers.docker.sandbox import DockerSandbox, Place
from proctor.runtime.process import GRACE_SECONDS, shielded

if TYPE_CHECKING:
    from proctor.providers.docker.images import Images, Known

ID_BYTES = 6
CREATE_SECONDS = 300.0
"""How long the engine may take to make a container that is not started yet."""
REMOVE_SECONDS = 120.0
"""How long the removal of what was not opened to the end may take."""
_ID = re.compile(rf"proctor-(kept-)?[0-9a-f]{{{2 * ID_BYTES}}}")
_PROJECT_LABEL = "com.docker.compose.project"


class DockerProvider:
    """Makes containers by the engine at `address`, by default the one that the environment of proctor names."""

    name = "docker"
    recommended_concurrency: int | None = 10
    default_limit: int | None = 128
    default_open_per_second = 0.0
    exclusive = False
    lifetime_seconds: float | None = None
    warning: str | None = None

    def __init__(self, address: str | None = None, *, grace_seconds: float = GRACE_SECONDS) -> None:
        self._engine = Engine(address)
        self._grace_seconds = grace_seconds
        self._known: Known | None = None
        self._facts: dict[str, containers.ImageFacts] = {}

    @property
    def remote(self) -> bool:
        """Whether its containers are on another machine than this one."""
        return not self._engine.is_local

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; allow-lists of hosts only where the engine is on this machine and proctor is root."""
        allow = self._engine.is_local and allow_lists_work() is None
        return Capabilities(
            image=True, needs_image=True, build=True, compose=True,
            networks=frozenset({"full", "none", "allow"} if allow else {"full", "none"}),
            switches_network=True, cpus=True, memory=True, processes=True, user=True, workdir=True,
            places=True, reuse=True, snapshot=True, keep=True,
        )  # fmt: skip

    def refuse(self, environment: EnvironmentSpec) -> str | None:
        """Return what is wrong with the image, the compose file or the list of hosts."""
        from proctor.providers.docker import compose as docker_compose  # noqa: PLC0415 - on use
        from proctor.providers.docker import images as docker_images  # noqa: PLC0415 - on use
        from proctor.providers.egress import proxy as egress  # noqa: PLC0415 - on use

        if environment.compose is not None:
            return docker_compose.refuse_compose(environment)
        policies = [environment.network_of(phase) for phase in Phase]
        refused = (egress.refusal(policy) for policy in policies if policy.mode == "allow")
        return docker_images.refuse_image(environment) or next((one for one in refused if one), None)

    async def unavailable(self) -> str | None:
        """Return why no engine can be used, with the addresses that were tried."""
        return await self._engine.unavailable()

    async def resolve(self, environment: EnvironmentSpec) -> EnvironmentSpec:
        """Return the environment with the digest of its image."""
        async with self._engine.client() as docker:
            return await self._images_of(docker).resolve(environment)

    async def prepare(self, environment: EnvironmentSpec, say: Say) -> None:
        """Pull or build the image, or those of the compose file."""
        self._engine.hold()
        async with self._engine.client() as docker:
            if environment.compose is None:
                await self._images_of(docker).prepare(environment, say)
            else:
                await self._services(docker).prepare(environment, say)

    def _images_of(self, docker: Docker) -> Images:
        from proctor.providers.docker.images import Images, Known  # noqa: PLC0415 - on use

        self._known = self._known or Known()
        return Images(docker, self._known)

    def _services(self, docker: Docker) -> Any:
        from proctor.providers.docker.compose import Services  # noqa: PLC0415 - on use

        return Services(docker, self._images_of(docker), self._engine.address)

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> DockerSandbox:
        """Make and start a container; cancelled at any moment, it removes it again."""
        sandbox = f"proctor-{os.urandom(ID_BYTES).hex()}"
        self._engine.hold()
        async with self._engine.client() as docker:
            if environment.compose is not None:
                return await self._open_services(docker, environment, sandbox, labels)
            name = self._images_of(docker).name_of(environment)
            image = name, await self._facts_of(docker, name)
            try:
                owned = containers.labels_of(labels, sandbox)
                return await self._open_container(docker, environment, sandbox, image, owned)
            except BaseException as error:
                await _removed(containers.remove_container(docker, sandbox), error)
                raise

    async def _open_container(
        self, docker: Docker, environment: EnvironmentSpec, sandbox: str,
        image: tuple[str, containers.ImageFacts], labels: Mapping[str, str],
    ) -> DockerSandbox:  # fmt: skip
        name, facts = image
        workdir, user = containers.workdir_of(environment, facts), containers.user_of(environment, facts)
        default = "podman" if await self._engine.is_podman() else "bridge"
        config = containers.container_config(
            environment, name, labels,
            workdir=workdir if user == "0" else "/",
            network=ContainerNetwork.mode_at_start(environment, default),
        )  # fmt: skip
        with engine_faults("provider.open_failed", f"no container could be made of image {name}"):
            # A request that is cut off may be carried out all the same, after the removal that follows.
            await shielded(docker.containers.create(config, name=sandbox), CREATE_SECONDS)
            await docker.containers.container(sandbox).start()
        owner = (0, 0) if user == "0" else await containers.own_directory(docker, sandbox, workdir, user)
        network = ContainerNetwork(sandbox, environment, default)
        try:
            if needs(environment, "allow") or environment.network_of(Phase.SETUP).mode != "full":
                await network.apply(docker, environment.network_of(Phase.SETUP))
        except BaseException:
            await network.close()
            raise
        place = await self._place(environment, sandbox, workdir, user, owner)
        remove = partial(containers.remove_container, name=sandbox)
        return DockerSandbox(self._engine, place, network, remove, grace_seconds=self._grace_seconds)

    async def _open_services(
        self, docker: Docker, environment: EnvironmentSpec, sandbox: str, labels: Mapping[str, str]
    ) -> DockerSandbox:
        services = self._services(docker)
        main = await services.up(environment, sandbox, containers.labels_of(labels, sandbox))
        setup, network = environment.network_of(Phase.SETUP), None
        if setup.mode != "full":
            network = ServicesNetwork(sandbox, environment, services.names(environment))
        try:
            with engine_faults("provider.open_failed", f"service of sandbox {sandbox}"):
                config: dict[str, Any] = (await docker.containers.container(main).show())["Config"]
            facts = containers.ImageFacts(user=config.get("User") or "", workdir=config.get("WorkingDir") or "")
            workdir, user = containers.workdir_of(environment, facts), containers.user_of(environment, facts)
            owner = await containers.own_directory(docker, sandbox, workdir, user)
            if network is not None:
                await network.apply(docker, setup)
        except BaseException as error:
            if network is not None:
                await network.close()
            await _removed(services.remove(sandbox), error)
            raise

        async def remove(docker: Docker) -> None:
            await self._services(docker).remove(sandbox)

        place = await self._place(environment, sandbox, workdir, user, owner)
        return DockerSandbox(self._engine, place, network, remove, grace_seconds=self._grace_seconds)

    async def _place(
        self, environment: EnvironmentSpec, sandbox: str, workdir: str, user: str, owner: tuple[int, int]
    ) -> Place:
        limited = environment.resources.memory_bytes is not None
        is_podman = await self._engine.is_podman()
        return Place(sandbox, workdir, user, owner, environment.env, memory_is_limited=limited, is_podman=is_podman)

    async def _facts_of(self, docker: Docker, image: str) -> containers.ImageFacts:
        if image in self._facts:
            return self._facts[image]
        facts = await containers.facts_of_image(docker, image)
        if image.startswith("sha256:"):  # a name may mean another image tomorrow
            self._facts[image] = facts
        return facts

    async def list(self, labels: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        """Return the labels of the sandboxes of this engine, whichever process opened them."""
        asked = [f"{containers.LABEL}{name}={value}" for name, value in labels.items() if name != "sandbox"]
        async with self._engine.client() as docker:
            shown = await containers.containers_with(docker, [containers.ID_LABEL, *asked])
        return [own for own in containers.sandboxes_of(shown) if labels.items() <= own.items()]

    async def remove(self, sandbox: str) -> None:
        """Dispose of a sandbox by its id, whichever process opened it."""
        async with self._engine.client() as docker:
            for one in await self._containers_of(docker, sandbox):
                project = containers.labels_on(one).get(_PROJECT_LABEL)
                if project is not None:
                    await self._services(docker).remove(project)
                    return
                await containers.remove_container(docker, one["Id"])

    async def enter(self, sandbox: str) -> Sequence[str]:
        """Return the command that starts a shell in the container, by the program of its engine."""
        async with self._engine.client() as docker:
            shown = await self._containers_of(docker, sandbox)
            if not shown:
                raise Fault("provider.lost", f"there is no sandbox {sandbox}")
            shown.sort(
                key=lambda one: (
                    containers.KEPT not in str(one.get("Names")) and f"/{sandbox}" not in one.get("Names", ())
                )
            )
            name = str(shown[0]["Names"][0]).lstrip("/")
            podman = await self._engine.is_podman() and shutil.which("podman") is not None
        program = ("podman", "--remote", "--url") if podman else ("docker", "-H")
        return (*program, self._engine.address, "exec", "-it", name, "sh")

    async def _containers_of(self, docker: Docker, sandbox: str) -> list[dict[str, Any]]:
        """Return the containers of a sandbox, by its id or by the name that it has once it is kept."""
        if not _ID.fullmatch(sandbox):
            raise ValueError(f"{sandbox!r} is no sandbox of provider {self.name}")
        own = sandbox.replace(containers.KEPT, "proctor-", 1)
        return await containers.containers_with(docker, [f"{containers.ID_LABEL}={own}"])

    async def finalize(self) -> None:
        """Close the connections."""
        await self._engine.release()


async def _removed(removal: Coroutine[Any, Any, None], error: BaseException) -> None:
    """Remove what was not opened to the end; `error` says why it was not, and matters more than what fails here."""
    try:
        await shielded(removal, REMOVE_SECONDS)
    except (Fault, TimeoutError) as failure:
        error.add_note(f"what was made of the sandbox could not be removed: {failure}")
