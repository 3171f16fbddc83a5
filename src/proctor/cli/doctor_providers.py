"""What each provider does on this machine: whether it works, what it isolates, what it can."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from proctor.cli.sandbox_providers import PROBE_SECONDS, Probed, probe_all, problem_of, within
from proctor.config.default_provider import VARIABLE, default_provider, why_default
from proctor.errors import ProctorError, describe
from proctor.plugins.api import Capabilities, Provider

ISOLATES = {
    "local": "nothing: commands run as you, and can change whatever you can",
    "bwrap": "file tree, processes, IPC and network, by namespaces of Linux; no daemon",
    "docker": "containers of Docker or Podman",
    "kubernetes": "pods of a cluster",
}
"""What the providers that come with proctor put between a sandbox and the machine (spec 06)."""

DEFAULT_SECONDS = 12.0
"""How long it may take to find the default: a thread that tries a sandbox has a limit of its own, and clears up."""

_MODES = ("none", "allow", "full")
_CAN = {
    "image": "images", "build": "builds", "compose": "compose", "cpus": "limit cpus", "memory": "limit memory",
    "processes": "limit processes", "user": "other users", "reuse": "reuse", "snapshot": "snapshots", "keep": "keep",
}  # fmt: skip
"""Words for what a provider can do, by the field of `Capabilities`."""


async def providers() -> list[dict[str, Any]]:
    """Return one row for each installed provider, all asked at once, each for a bounded time."""
    return list(await asyncio.gather(*map(_row, await probe_all())))


async def _row(one: Probed) -> dict[str, Any]:
    provider = one.provider
    row: dict[str, Any] = {"provider": one.name, "works": one.works, "why_not": one.why_not}
    row["hint"] = one.hint
    row["isolates"] = ISOLATES.get(one.name) or (provider.warning if provider is not None else None)
    row["can"] = _can(provider.capabilities) if provider is not None else None
    row["facts"] = await _facts(provider)
    if provider is not None:
        problem = await problem_of(within(PROBE_SECONDS, provider.finalize()))
        row["problem"] = problem
    return row


def _can(capabilities: Capabilities) -> list[str]:
    """Return in words what a provider can do."""
    networks = [mode for mode in _MODES if mode in capabilities.networks]
    return [f"network {'/'.join(networks)}", *(word for name, word in _CAN.items() if getattr(capabilities, name))]


async def _facts(provider: Provider | None) -> dict[str, str]:
    """Return what a provider says of itself, such as versions; optional for it (`async def facts()`)."""
    say: Any = getattr(provider, "facts", None)
    if say is None:
        return {}
    try:
        return {str(name): str(value) for name, value in (await within(PROBE_SECONDS, say())).items()}
    except TimeoutError:
        return {"problem": f"it did not say within {PROBE_SECONDS:g} s what it uses"}
    except Exception as error:
        return {"problem": describe(error)}


async def default_row() -> dict[str, Any]:
    """Return the name of the default provider, and why it is that; where that fails, no name and the reason."""
    row: dict[str, Any] = {"provider": None, "why": None, "variable": os.environ.get(VARIABLE)}
    try:
        row["provider"], row["why"] = await within(DEFAULT_SECONDS, asyncio.to_thread(_default))
    except TimeoutError:
        row["why"] = f"it was not found out within {DEFAULT_SECONDS:g} s"
    except ProctorError as error:
        row["why"] = error.message
    return row


def _default() -> tuple[str, str]:
    return default_provider(), why_default()


__all__ = ["ISOLATES", "default_row", "providers"]
