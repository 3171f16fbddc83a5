"""What is done in the sandbox of a Harbor task before the agent starts: places for logs, room, health."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from proctor.benchmarks._harbor_environment import LOGS
from proctor.benchmarks._harbor_toml import Healthcheck
from proctor.errors import Fault
from proctor.plugins.api import AttemptContext, Sandbox
from proctor.plugins.turn_limits import time_factor_of

BASH_OR_SH = 'if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; else exec sh -c "$1"; fi'
"""Runs a command in the shell that authors of tasks count on, where it is there."""
MOST_SAID = 200
"""Characters of what a failed check said last."""


async def make_logs(sandbox: Sandbox, user: str | None) -> None:
    """Make the directories for logs, empty, so that whoever works in the sandbox can write there."""
    # What an attempt before left in a sandbox that is used again would be taken for what this one made.
    await sandbox.exec(f"rm -rf {LOGS}/agent {LOGS}/verifier {LOGS}/artifacts", user=user)
    with tempfile.TemporaryDirectory(prefix="proctor-") as folder:
        await asyncio.to_thread(_make_open, Path(folder))
        await sandbox.upload(Path(folder), LOGS)


def _make_open(folder: Path) -> None:
    os.chmod(folder, 0o755)  # noqa: S103 - a temporary folder is closed to others, and modes come along
    for name in ("agent", "verifier", "artifacts"):
        (folder / name).mkdir()
        os.chmod(folder / name, 0o777)  # noqa: S103 - agent and tests may be different users


async def require_storage(ctx: AttemptContext, megabytes: int) -> None:
    """Raise `Fault` (environment.too_large) where a sandbox has less room than its task needs."""
    result = await ctx.sandbox.exec("df -Pk .")
    columns = result.out.splitlines()[-1].split() if result.ok and result.out.strip() else []
    if len(columns) < 4 or not columns[3].isdigit():
        ctx.log.warning("`storage_mb` cannot be checked: the sandbox has no usable `df`")
        return
    free = int(columns[3]) // 1024
    if free < megabytes:
        raise Fault("environment.too_large", f"task {ctx.task.id} needs {megabytes} MB of storage: there are {free} MB")


async def require_health(ctx: AttemptContext, check: Healthcheck, user: str | None) -> None:
    """Run a health check until it succeeds, as Docker does; raises `Fault` (task.setup_failed) where it never does."""
    passed_seconds = 0.0
    failures = 0
    factor = time_factor_of(ctx)
    while True:
        lenient = passed_seconds < check.start_period_sec * factor
        command = ["sh", "-c", BASH_OR_SH, "sh", check.command]
        result = await ctx.sandbox.exec(command, timeout_seconds=check.timeout_sec * factor, user=user)
        if result.ok:
            return
        failures += not lenient
        if failures >= check.retries:
            last = (result.err.strip() or result.out.strip())[-MOST_SAID:]
            end = "its time was over" if result.timed_out else f"status {result.exit_code}"
            raise Fault("task.setup_failed", f"the health check failed {failures} times; the last: {end}: {last}")
        ctx.progress(f"the health check failed, {'within its start period' if lenient else f'{failures} times'}")
        wait_seconds = check.start_interval_sec if lenient else check.interval_sec
        await asyncio.sleep(wait_seconds)
        passed_seconds += result.seconds + wait_seconds


__all__ = ["make_logs", "require_health", "require_storage"]
