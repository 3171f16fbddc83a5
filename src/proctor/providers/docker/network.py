"""What a container reaches: the engine's network, hosts of an allow-list by a proxy, or nothing; by phase."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from proctor.errors import Fault, describe
from proctor.model.attempt import Phase
from proctor.model.environment import EnvironmentSpec, Network
from proctor.providers.docker.engine import Docker, engine_faults

if TYPE_CHECKING:
    from proctor.providers.egress.proxy import Egress

_PHASES = (Phase.SETUP, Phase.AGENT, Phase.GRADE)


def needs(environment: EnvironmentSpec, mode: str) -> bool:
    """Return whether a phase of an environment has such a network."""
    return any(environment.network_of(phase).mode == mode for phase in _PHASES)


def allow_lists_work() -> str | None:
    """Return why allow-lists cannot be enforced by this process, or None: it has to enter networks of containers."""
    return None if os.geteuid() == 0 else "only root can put its proxy into the network of a container"


class ContainerNetwork:
    """The network of one container, in the state that the last phase left."""

    def __init__(self, name: str, environment: EnvironmentSpec, default: str) -> None:
        self._name = name
        self._default = default
        self._connected = self.mode_at_start(environment, default) != "none"
        self._wants_proxy = needs(environment, "allow")
        self._egress: Egress | None = None
        self._policy = Network("full") if self._connected else Network("none")

    @staticmethod
    def mode_at_start(environment: EnvironmentSpec, default: str) -> str:
        """Return the network that a container is made with: one that no phase needs is never connected."""
        return default if needs(environment, "full") else "none"

    @property
    def variables(self) -> Mapping[str, str]:
        """What commands are told of the proxy."""
        return self._egress.variables if self._egress is not None and self._policy.mode == "allow" else {}

    async def apply(self, docker: Docker, policy: Network) -> None:
        """Let commands reach what `policy` says from now on, connections that are open included. Raises `Fault`."""
        if self._wants_proxy and self._egress is None:
            self._egress = await self._start_proxy(docker)
        if policy.mode != "full":
            await self._disconnect(docker)
        if self._egress is not None:
            await self._egress.set_policy(policy if policy.mode == "allow" else Network("none"))
        if policy.mode == "full":
            await self._connect(docker)
        self._policy = policy

    async def renew(self, docker: Docker) -> None:
        """Bring about the same anew, after a restart of the container: its network namespace is another one."""
        await self.close()
        self._egress = None
        if self._wants_proxy or self._policy.mode == "none":
            self._connected = True  # for all that we know
            await self.apply(docker, self._policy)

    async def close(self) -> None:
        """End the proxy, where there is one."""
        if self._egress is not None:
            await self._egress.close()

    async def _disconnect(self, docker: Docker) -> None:
        if not self._connected:
            return
        if self._default in await self._networks(docker):
            await self._ask(docker, "disconnect", Force=True)
        if left := await self._networks(docker):
            raise Fault("provider.lost", f"sandbox {self._name} cannot be cut off from network {left[0]}")
        self._connected = False

    async def _networks(self, docker: Docker) -> list[str]:
        with engine_faults("provider.lost", f"the network of sandbox {self._name} cannot be looked at"):
            shown: dict[str, Any] = await docker.containers.container(self._name).show()
        networks: dict[str, Any] = shown["NetworkSettings"].get("Networks") or {}
        return [one for one in networks if one != "none"]

    async def _connect(self, docker: Docker) -> None:
        if not self._connected:
            await self._ask(docker, "connect")
            self._connected = True

    async def _ask(self, docker: Docker, what: str, **options: Any) -> None:
        with engine_faults("provider.lost", f"sandbox {self._name}: cannot {what} network {self._default}"):
            network: Any = await docker.networks.get(self._default)
            await getattr(network, what)({"Container": self._name, **options})

    async def _start_proxy(self, docker: Docker) -> Egress:
        from proctor.providers.egress.proxy import Egress  # noqa: PLC0415 - only where it is used

        place = await namespace_of(docker, self._name)
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            why = f"the network of sandbox {self._name} cannot be entered: {describe(error)}"
            raise Fault("provider.open_failed", why) from error
        try:
            return await Egress.start(descriptor, Network("none"))
        finally:
            with suppress(OSError):
                os.close(descriptor)


class ServicesNetwork(ContainerNetwork):
    """The network of the main one of several services, whose own networks lead nowhere else: `names` are theirs.

    What is allowed besides is reached by a proxy in the main service, which the others do not reach.
    """

    def __init__(self, name: str, environment: EnvironmentSpec, names: Sequence[str]) -> None:
        super().__init__(name, environment, "none")
        self._names = names

    @property
    def variables(self) -> Mapping[str, str]:
        """What commands are told of the proxy, which is not asked for other services."""
        found = super().variables
        direct = {one: ",".join((found[one], *self._names)) for one in ("NO_PROXY", "no_proxy") if one in found}
        return {**found, **direct}

    async def _disconnect(self, docker: Docker) -> None:
        """Do nothing: it was never connected."""


async def namespace_of(docker: Docker, name: str) -> str:
    """Return the network namespace of a container, where its engine runs on this machine."""
    with engine_faults("provider.lost", f"sandbox {name} cannot be looked at"):
        shown: dict[str, Any] = await docker.containers.container(name).show()
    return f"/proc/{int(shown['State']['Pid'])}/ns/net"
