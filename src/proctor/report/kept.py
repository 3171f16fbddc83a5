"""Sandboxes that were kept for a person to look at: what they are, how to enter them, how to stop them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from proctor.model.events import SandboxKept
from proctor.report.wording import plural, printable


def sandbox_command(what: str, sandbox: str, provider: str) -> str:
    """Return the command that does something with a sandbox; the provider is named where the id does not tell it."""
    where = "" if sandbox.startswith(f"{provider}-") else f" --env {shlex.quote(printable(provider))}"
    return f"proctor sandbox {what} {shlex.quote(printable(sandbox))}{where}"


def kept_line(kept: SandboxKept) -> str:
    """Return a sandbox that was kept, with the commands for it."""
    what = f"@{kept.attempt} try {kept.try_number}, {kept.purpose} sandbox"
    commands = (sandbox_command(word, kept.sandbox, kept.provider) for word in ("enter", "stop"))
    return f"{what}: " + ", ".join(f"`{command}`" for command in commands)


def were_kept_lines(sandboxes: Sequence[str]) -> list[str]:
    """Return how many sandboxes a run kept, and how to see which of them are still there; nothing for none."""
    number = plural(len(sandboxes), "sandbox was", "sandboxes were")
    return [f"{number} kept: `proctor sandbox list --kept` says which are left"] if sandboxes else []


__all__ = ["kept_line", "sandbox_command", "were_kept_lines"]
