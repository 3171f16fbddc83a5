"""The allow-list of a sandbox whose network namespace may end and be made anew while the sandbox lives."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from proctor.errors import Fault
from proctor.model.attempt import Phase
from proctor.model.environment import EnvironmentSpec, Network
from proctor.runtime.process import Launch, Namespaces

if TYPE_CHECKING:
    from proctor.providers.egress.proxy import Egress

ATTEMPTS = 5


class SandboxEgress:
    """Starts a proxy for the first command that has an allow-list, and another where the namespace is another.

    `open_namespace` returns a descriptor of the namespace that commands are in now; it is closed here.
    """

    def __init__(self, open_namespace: Callable[[], Awaitable[int]], network: Network) -> None:
        self._open_namespace = open_namespace
        self._network = network
        self._egress: Egress | None = None
        self._changing = asyncio.Lock()

    async def variables(self) -> Mapping[str, str]:
        """Return what commands are told of the proxy, which listens when this returns; nothing without an allow-list.

        Raises `Fault`.
        """
        if self._network.mode != "allow":
            return {}
        async with self._changing:
            egress = await self._current()
        return egress.variables

    async def set_policy(self, network: Network) -> None:
        """Let through what another policy allows, also on connections that are open. Raises `Fault`."""
        async with self._changing:
            self._network = network
            if self._egress is not None:
                await self._egress.set_policy(network if network.mode == "allow" else Network("none"))

    async def close(self) -> None:
        """End the proxy; the next command with an allow-list has a new one."""
        async with self._changing:
            await self._end()

    async def _current(self) -> Egress:
        from proctor.providers.egress.proxy import Egress  # noqa: PLC0415 - most sandboxes have no allow-list

        namespace = await self._open_namespace()
        try:
            if self._egress is not None and not self._egress.is_in(namespace):
                await self._end()
            if self._egress is None:
                self._egress = await Egress.start(namespace, self._network)
            return self._egress
        finally:
            os.close(namespace)

    async def _end(self) -> None:
        if self._egress is not None:
            egress, self._egress = self._egress, None
            await egress.close()


class ProxiedNamespaces(Namespaces):
    """Namespaces in which commands with an allow-list find their proxy, also when they had to be started again."""

    def __init__(self, launch: Callable[[], Launch], environment: Mapping[str, str], network: Network) -> None:
        super().__init__(launch, environment)
        self.egress = SandboxEgress(lambda: self.open("ns/net", os.O_RDONLY), network)

    async def line(self) -> bytes:
        """Return what a supervisor needs to enter them; raises `Fault`."""
        for _ in range(ATTEMPTS):
            line = await super().line()
            if not await self.egress.variables() or line == await super().line():
                return line  # else they were ended in between, and the proxy may be in those before or after
        raise Fault("provider.lost", "the namespaces of the sandbox vanish as soon as they are started")


def refusal_of_hosts(environment: EnvironmentSpec) -> str | None:
    """Return why an allow-list of a phase cannot be understood, or None."""
    policies = [environment.network_of(phase) for phase in Phase]
    if all(policy.mode != "allow" for policy in policies):
        return None
    from proctor.providers.egress.proxy import refusal  # noqa: PLC0415 - as above

    return next((said for policy in policies if (said := refusal(policy)) is not None), None)


__all__ = ["ProxiedNamespaces", "SandboxEgress", "refusal_of_hosts"]
