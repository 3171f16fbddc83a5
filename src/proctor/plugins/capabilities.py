"""What an environment asks of a provider, set against what the provider can do: a table, read at planning (spec 06)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from proctor.model.attempt import Phase
from proctor.model.environment import EnvironmentSpec
from proctor.plugins.providers import Capabilities, Provider

_PHASES = (Phase.SETUP, Phase.AGENT, Phase.GRADE)

_NEEDS: tuple[tuple[str, Callable[[EnvironmentSpec], object], Callable[[Capabilities], bool]], ...] = (
    ("has no images: cannot use `{}`", lambda one: one.image, lambda can: can.image),
    ("builds no images: cannot build `{}`", lambda one: one.build and one.build.context, lambda can: can.build),
    ("has no compose services: cannot use `{}`", lambda one: one.compose and one.compose.file, lambda can: can.compose),
    ("cannot limit cpus to {}", lambda one: one.resources.cpus, lambda can: can.cpus),
    ("cannot limit memory to {} bytes", lambda one: one.resources.memory_bytes, lambda can: can.memory),
    ("cannot limit processes to {}", lambda one: one.resources.processes, lambda can: can.processes),
    ("runs every command as one user: cannot run them as `{}`", lambda one: one.user, lambda can: can.user),
    ("chooses the work directory itself: cannot use `{}`", lambda one: one.workdir, lambda can: can.workdir),
)  # fmt: skip
"""What is said, what an environment asks for (None is nothing), and whether a provider can do it."""


def refusals(provider: Provider, environment: EnvironmentSpec) -> list[str]:
    """Return every reason why a provider cannot make such an environment; none where it can."""
    can = provider.capabilities
    found = [
        say.format(asked) for say, ask, able in _NEEDS if (asked := ask(environment)) is not None and not able(can)
    ]
    found += _network_refusals(can, environment)
    lines = [f"provider {provider.name} {one}" for one in found]
    own = provider.refuse(environment)
    return lines if own is None else [*lines, own]


def _network_refusals(can: Capabilities, environment: EnvironmentSpec) -> Iterator[str]:
    policies = [environment.network_of(phase) for phase in _PHASES]
    for mode in dict.fromkeys(policy.mode for policy in policies):
        if mode not in can.networks:
            yield f"cannot limit the network: cannot enforce `{mode}`"
    if environment.network_of(Phase.SETUP) != environment.network_of(Phase.AGENT) and not can.switches_network:
        yield "cannot change the network of a live sandbox: setup and agent must have the same"


__all__ = ["refusals"]
