"""What an environment asks of a provider, set against what the provider can do: a table, read at planning (spec 06)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from proctor.model.attempt import Phase
from proctor.model.environment import EnvironmentSpec
from proctor.plugins.providers import Capabilities, Provider

_PHASES = (Phase.SETUP, Phase.AGENT, Phase.GRADE)


def _all(paths: Sequence[str]) -> str | None:
    return ", ".join(f"`{path}`" for path in paths) or None


_NEEDS: tuple[tuple[str, Callable[[EnvironmentSpec], object], Callable[[Capabilities], bool]], ...] = (
    ("has no images: cannot use `{}`", lambda one: one.image, lambda can: can.image),
    ("builds no images: cannot build `{}`", lambda one: one.build and one.build.context, lambda can: can.build),
    ("has no compose services: cannot use `{}`", lambda one: one.compose and one.compose.file, lambda can: can.compose),
    ("cannot limit cpus to {}", lambda one: one.resources.cpus, lambda can: can.cpus),
    ("cannot limit memory to {} bytes", lambda one: one.resources.memory_bytes, lambda can: can.memory),
    ("cannot limit processes to {}", lambda one: one.resources.processes, lambda can: can.processes),
    ("runs every command as one user: cannot run them as `{}`", lambda one: one.user, lambda can: can.user),
    ("has no file tree of its own for {}: use bwrap or docker", lambda one: _all(one.places), lambda can: can.places),
    ("chooses the work directory itself: cannot use `{}`", lambda one: one.workdir, lambda can: can.workdir),
)  # fmt: skip
"""What is said, what an environment asks for (None is nothing), and whether a provider can do it."""


def refusals(
    provider: Provider, environment: EnvironmentSpec, *, graded_in_place: bool = False, whole: bool = True
) -> list[str]:
    """Return every reason why a provider cannot make such an environment; none where it can.

    `graded_in_place` says that the sandbox of the agent is that of grading as well (grading mode reuse). What is not
    `whole` is what an experiment says, and its tasks may say the rest: an image that is missing is no reason then.
    """
    can = provider.capabilities
    found = [
        say.format(asked) for say, ask, able in _NEEDS if (asked := ask(environment)) is not None and not able(can)
    ]
    found += _network_refusals(can, environment, graded_in_place)
    if whole and can.needs_image and (environment.image, environment.build, environment.compose) == (None, None, None):
        found.append("needs an image: set `image`, `build` or `compose` in the environment")
    lines = [f"provider {provider.name} {one}" for one in found]
    lines += _proxy_refusals(environment)
    own = provider.refuse(environment)
    return lines if own is None else [*lines, own]


def _network_refusals(can: Capabilities, environment: EnvironmentSpec, graded_in_place: bool) -> Iterator[str]:
    setup, agent, grade = (environment.network_of(phase) for phase in _PHASES)
    for mode in dict.fromkeys(policy.mode for policy in (setup, agent, grade)):
        if mode not in can.networks:
            yield f"cannot limit the network: cannot enforce `{mode}`"
    if can.switches_network:
        return
    if setup != agent:
        yield "cannot change the network of a live sandbox: setup and agent must have the same"
    if grade != agent and graded_in_place:
        yield (
            "cannot change the network of a live sandbox: agent and grade must have the same, as the sandbox of the "
            "agent is graded (grading mode reuse)"
        )


def _proxy_refusals(environment: EnvironmentSpec) -> Iterator[str]:
    """Yield why the proxy variables of this machine, and a password in them, are not for a limited sandbox."""
    modes = {phase: environment.network_of(phase).mode for phase in _PHASES}
    limited = [f"{phase} has `{mode}`" for phase, mode in modes.items() if mode != "full"]
    if environment.proxy and limited:
        yield (
            "`proxy: true` hands the proxy variables of this machine to the sandbox, which is only for network `full` "
            f"in all phases: {', '.join(limited)}"
        )


__all__ = ["refusals"]
