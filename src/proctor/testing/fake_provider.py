"""A provider in memory, for tests of the runner.

It keeps the part of the provider contract that the runner itself relies on (open, dispose, list, keep); it runs no
commands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proctor.errors import Fault
from proctor.model.environment import EnvironmentSpec, Network
from proctor.plugins.api import Capabilities, Say
from proctor.testing.actions import Action, nothing


class FakeSandbox:
    """A sandbox in memory; it counts how often it was disposed of."""

    def __init__(self, provider: FakeProvider, name: str, labels: Mapping[str, str]) -> None:
        self._provider = provider
        self.id = name
        self.workdir = "/work"
        self.labels = dict(labels)
        self.files: dict[str, bytes] = {}
        self.networks: list[Network] = []
        """The policies that it was given after it was opened."""
        self._marked: dict[str, bytes] = {}

    async def exec(self, command: str | Sequence[str], **options: Any) -> Any:
        """Refuse: this fake runs nothing."""
        raise NotImplementedError("FakeSandbox runs no commands")

    async def write(self, path: str, content: bytes | str) -> None:
        """Write a file."""
        self.files[path] = content.encode() if isinstance(content, str) else content

    async def read(self, path: str) -> bytes:
        """Return the bytes of a file."""
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    async def upload(self, source: Any, target: str) -> None:
        """Refuse: this fake copies nothing."""
        raise NotImplementedError("FakeSandbox copies nothing")

    async def download(self, source: str, target: Any, **limits: Any) -> Any:
        """Refuse: this fake copies nothing."""
        raise NotImplementedError("FakeSandbox copies nothing")

    async def set_network(self, network: Network) -> None:
        """Note the policy."""
        self.networks.append(network)

    async def snapshot(self) -> str:
        """Return the name of an image that is nowhere."""
        return f"image-of-{self.id}"

    async def keep(self) -> None:
        """Mark it as kept."""
        self.labels["kept"] = "true"

    async def mark(self, *, keep_outside: bool = False) -> None:
        """Note the files."""
        self._marked = dict(self.files)

    async def reset(self) -> None:
        """Bring the files back, after whatever the provider was told to do first."""
        await self._provider.on_reset()
        self.files = dict(self._marked)

    async def dispose(self) -> None:
        """Remove it from the provider's live ones, after whatever the provider was told to do first."""
        await self._provider.on_dispose()
        self._provider.live.pop(self.id, None)


class FakeProvider:
    """A provider in memory. `on_open` runs before a sandbox is made, `on_dispose` before one is removed."""

    name = "fake"
    remote = False
    recommended_concurrency: int | None = None
    default_limit: int | None = None
    default_open_per_second = 0.0
    exclusive = False
    capabilities = Capabilities(
        image=True,
        build=True,
        compose=True,
        networks=frozenset({"none", "allow", "full"}),
        switches_network=True,
        cpus=True,
        memory=True,
        processes=True,
        user=True,
        workdir=True,
        places=True,
        reuse=True,
        snapshot=True,
        keep=True,
    )
    lifetime_seconds: float | None = None
    warning: str | None = None

    def __init__(
        self,
        on_open: Action = nothing,
        on_dispose: Action = nothing,
        on_reset: Action = nothing,
        on_prepare: Action = nothing,
    ) -> None:
        self.on_open = on_open
        self.on_prepare = on_prepare
        self.on_reset = on_reset
        self.on_dispose = on_dispose
        self.live: dict[str, FakeSandbox] = {}
        self.opened = 0
        self.peak = 0

    def refuse(self, environment: EnvironmentSpec) -> str | None:
        """Return None: it makes anything."""
        return None

    async def unavailable(self) -> str | None:
        """Return None: it is always there."""
        return None

    async def resolve(self, environment: EnvironmentSpec) -> EnvironmentSpec:
        """Return the environment as it is."""
        return environment

    async def prepare(self, environment: EnvironmentSpec, say: Say) -> None:
        """Do what it was told."""
        await self.on_prepare()

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> FakeSandbox:
        """Make a sandbox."""
        await self.on_open()
        self.opened += 1
        sandbox = FakeSandbox(self, f"fake-{self.opened}", labels)
        self.live[sandbox.id] = sandbox
        self.peak = max(self.peak, len(self.live))
        return sandbox

    async def list(self, labels: Mapping[str, str]) -> list[Mapping[str, str]]:
        """Return the live sandboxes that carry `labels`."""
        wanted = labels.items()
        return [{**box.labels, "sandbox": box.id} for box in self.live.values() if wanted <= box.labels.items()]

    async def remove(self, sandbox: str) -> None:
        """Remove it from the live ones."""
        self.live.pop(sandbox, None)

    async def enter(self, sandbox: str) -> tuple[str, ...]:
        """Return a command that says which sandbox it is for."""
        if sandbox not in self.live:
            raise Fault("provider.lost", f"there is no sandbox {sandbox}")
        return ("echo", sandbox)

    async def finalize(self) -> None:
        """Do nothing: nothing is left outside sandboxes."""
