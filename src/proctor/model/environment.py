"""What a sandbox is made from, as it is declared and resolved: image, variables, resources, network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from proctor.model.attempt import Phase


@dataclass(frozen=True, slots=True)
class Resources:
    """What a sandbox may use; `None` is undeclared: it counts 0 at the host gate, and is not limited."""

    cpus: float | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    """Processes and threads at once. Undeclared, a provider that can limit them has a limit of its own."""


@dataclass(frozen=True, slots=True)
class Network:
    """What commands of a sandbox may reach: nothing (`none`), `hosts` only (`allow`), or everything (`full`).

    A host is a name, `*.name` for all below it, or an address, each with `:port` behind it where only that is meant;
    without a port it stands for ports 80 and 443.
    """

    mode: Literal["none", "allow", "full"] = "full"
    hosts: tuple[str, ...] = ()


FULL_NETWORK = Network()


@dataclass(frozen=True, slots=True)
class Build:
    """An image that is built from a Dockerfile. `digest` is of everything that goes into it, and stands for the paths.

    `context` is a directory of this machine, `dockerfile` a path in it.
    """

    context: str
    digest: str
    dockerfile: str = "Dockerfile"
    args: tuple[tuple[str, str], ...] = ()
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Compose:
    """Services of a compose file that make one sandbox; commands run in `service`. `digest` is of the file's folder."""

    file: str
    digest: str
    service: str = "main"


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What a sandbox is made from: dead, hashable data."""

    provider: str = "local"
    image: str | None = None
    """A name, or a path of this machine: an unpacked root file system, a tar of one, an OCI archive."""
    image_digest: str | None = None
    """What the image was found to be when the run was planned; None where nobody knows."""
    build: Build | None = None
    compose: Compose | None = None
    image_timeout_seconds: float | None = None
    """How long it may take to fetch or build the image, once that has begun."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    resources: Resources = Resources()
    network: Network = FULL_NETWORK
    setup_network: Network | None = None
    """In phase setup, where that differs from `network`."""
    grade_network: Network | None = None
    """In phase grade, likewise."""
    user: str | None = None
    """Whom commands run as, where they say nothing of it; default: as the image says."""
    workdir: str | None = None
    """The work directory, absolute; default: as the image says, or the provider."""
    places: tuple[str, ...] = ()
    """Directories that commands can write beside the work directory, absolute; made where they are missing."""
    proxy: bool = False
    """Whether commands get the proxy variables of the machine that proctor runs on."""

    def network_of(self, phase: Phase) -> Network:
        """Return the network policy of a phase."""
        own = {Phase.SETUP: self.setup_network, Phase.GRADE: self.grade_network}.get(phase)
        return own or self.network


DEFAULT_ENVIRONMENT = EnvironmentSpec()
