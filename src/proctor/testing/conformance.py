"""Conformance suites: what a plugin must do, as checks that its author runs.

    @pytest.mark.parametrize("check", check_provider(MyProvider), ids=str)
    def test_my_provider(check):
        asyncio.run(check())

A check raises `NotConforming` with a sentence that says what was expected and what came.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from proctor.model.environment import EnvironmentSpec
from proctor.plugins.api import Provider, Sandbox
from proctor.runtime import _killing

CHECK_SECONDS = 120.0
"""How long one check may take; only one that hangs comes near."""

ENVIRONMENT_MARKER = "PROCTOR_CHECK"


class NotConforming(AssertionError):
    """A plugin does not do what its contract says."""


def require(holds: bool, message: str) -> None:
    """Raise `NotConforming` with `message` unless `holds`."""
    if not holds:
        raise NotConforming(message)


def require_equal(what: str, actual: object, expected: object) -> None:
    """Raise `NotConforming` unless both are equal."""
    require(actual == expected, f"{what}: expected {_short(expected)}, got {_short(actual)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}... ({len(text)} characters)"


@dataclass(frozen=True, slots=True)
class Stage:
    """What one check of a provider works with; the sandbox is disposed of after it."""

    provider: Provider
    environment: EnvironmentSpec
    sandbox: Sandbox
    labels: dict[str, str]
    folder: Path
    """An empty directory of this machine."""

    async def open(self) -> Sandbox:
        """Open one more sandbox like the first; the check disposes of it."""
        return await self.provider.open(self.environment, self.labels)


@dataclass(frozen=True, slots=True)
class ProviderCheck:
    """One thing that a provider must do; call it and await the result."""

    name: str
    make_provider: Callable[[], Provider]
    environment: EnvironmentSpec
    body: Callable[[Stage], Awaitable[None]]

    def __str__(self) -> str:
        return self.name

    async def __call__(self) -> None:
        """Run the check with a provider and a sandbox of its own; raises `NotConforming`."""
        token = os.urandom(8).hex()
        environment = replace(self.environment, env={**self.environment.env, ENVIRONMENT_MARKER: token})
        provider = self.make_provider()
        labels = {"check": token, "purpose": "conformance"}
        async with asyncio.timeout(CHECK_SECONDS):
            sandbox = await provider.open(environment, labels)
            try:
                with tempfile.TemporaryDirectory(prefix="proctor-check-") as folder:
                    await self.body(Stage(provider, environment, sandbox, labels, Path(folder)))
            finally:
                await sandbox.dispose()
                await provider.finalize()
        left = _killing.living(_killing.marked(f"{ENVIRONMENT_MARKER}={token}".encode()))
        require(not left, f"processes of the sandbox are left on this machine after dispose: {sorted(left)}")
        require_equal("sandboxes listed after dispose", list(await provider.list(labels)), [])


def check_provider(
    make_provider: Callable[[], Provider], environment: EnvironmentSpec | None = None
) -> list[ProviderCheck]:
    """Return the checks of a provider, each independent of the others.

    `environment` is what sandboxes are made from: it needs `sh` and the usual small programs (cat, env, grep, head,
    mkfifo, setsid, sleep, tail), busybox's or others'. Nothing is made before a check is called.
    """
    from proctor.testing import _provider_exec, _provider_files, _provider_life  # noqa: PLC0415 - they import this

    bodies = (*_provider_exec.CHECKS, *_provider_files.CHECKS, *_provider_life.CHECKS)
    return [ProviderCheck(body.__name__, make_provider, environment or EnvironmentSpec(), body) for body in bodies]
