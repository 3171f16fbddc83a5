"""The contract of providers: what makes sandboxes, and what it can do.

`plugins.api` has all of this as well; plugins import it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from proctor.model.environment import EnvironmentSpec
from proctor.plugins.sandboxes import Sandbox


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a provider can do. What an environment asks for and no capability covers is refused at planning."""

    image: bool = False
    needs_image: bool = False
    """Whether it can make nothing without an image, a Dockerfile or a compose file."""
    build: bool = False
    """Images from a Dockerfile."""
    compose: bool = False
    networks: frozenset[str] = frozenset({"full"})
    """The modes of a network policy that it enforces."""
    switches_network: bool = False
    """Whether a live sandbox can be given another policy (`Sandbox.set_network`)."""
    cpus: bool = False
    memory: bool = False
    processes: bool = False
    user: bool = False
    workdir: bool = False
    places: bool = False
    """Whether commands can write at any absolute path that the environment names."""
    reuse: bool = False
    """Whether its sandboxes can be marked and reset."""
    snapshot: bool = False
    keep: bool = False
    """Whether its sandboxes can outlive the process (`Sandbox.keep`) and be entered then (`Provider.enter`)."""


Say = Callable[[str], None]
"""Takes a line about what goes on, such as one of a build; each is a sign of life."""


class Provider(Protocol):
    """Makes sandboxes. One object per provider and invocation."""

    name: str
    remote: bool
    recommended_concurrency: int | None
    default_limit: int | None
    default_open_per_second: float
    """Sandboxes opened per second unless told otherwise; 0 is off."""
    exclusive: bool
    """Whether it is correct only with one attempt at a time."""
    capabilities: Capabilities
    lifetime_seconds: float | None
    """How long a sandbox lives, or None for ever."""
    warning: str | None
    """One line that a user should read before trusting it, or None."""

    def refuse(self, environment: EnvironmentSpec) -> str | None:
        """Return why this provider cannot make such an environment for a reason beyond its capabilities, or None."""
        ...

    async def unavailable(self) -> str | None:
        """Return why it cannot be used on this machine now, such as a daemon that does not answer, or None."""
        ...

    async def resolve(self, environment: EnvironmentSpec) -> EnvironmentSpec:
        """Return the environment with `image_digest`, as far as that can be told without fetching or building."""
        ...

    async def prepare(self, environment: EnvironmentSpec, say: Say) -> None:
        """Get ready what all sandboxes of an environment share: fetch, unpack or build its image.

        It is called once for each distinct image of an invocation, before `open`. Raises `Fault`: `image.missing`,
        `image.build_failed`.
        """
        ...

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> Sandbox:
        """Make a sandbox that carries `labels` where `list` finds them. Cancelled, it leaves nothing behind."""
        ...

    async def list(self, labels: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        """Return the labels of the live sandboxes that carry all of `labels`, whichever process opened them.

        With them: `sandbox` = its id, and `kept` = "true" where it was kept.
        """
        ...

    async def remove(self, sandbox: str) -> None:
        """Dispose of a sandbox by its id, whichever process opened it; nothing there is no error. Raises `Fault`."""
        ...

    async def enter(self, sandbox: str) -> Sequence[str]:
        """Return the command that gives a person a shell in a sandbox, by its id; raises `Fault` where it is gone."""
        ...

    async def finalize(self) -> None:
        """Remove what is left of the invocation after its last sandbox: networks, volumes, connections."""
        ...


__all__ = ["Capabilities", "Provider", "Say"]
