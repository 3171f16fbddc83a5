"""Wall and CPU time of a sandbox (open, a command, dispose) beside the bare command's, by provider and number at once.

    python benchmarks/sandbox_cost.py [--rounds 40] [--at-once 1 8 32]

All ways are measured in turns, so that a change of the machine's load meets all of them. Quote medians and ratios.
"started" stands for supervisors that are programs of their own, as they are where there is no spawner.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from proctor.model.environment import EnvironmentSpec, Network
from proctor.plugins.api import Provider
from proctor.providers.bwrap.provider import BwrapProvider
from proctor.providers.local import LocalProvider
from proctor.runtime import spawn

COMMAND = ["true"]
STARTED = ", started"
Cycle = Callable[[], Awaitable[None]]


async def bare() -> None:
    """Run the command and nothing else."""
    process = subprocess.Popen(COMMAND, stdin=subprocess.DEVNULL)  # noqa: ASYNC220 - as the others do
    pidfd = os.pidfd_open(process.pid)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(pidfd, ended.set)
    await ended.wait()
    asyncio.get_running_loop().remove_reader(pidfd)
    os.close(pidfd)
    process.wait()


def with_provider(provider: Provider, environment: EnvironmentSpec, commands: int) -> Cycle:
    """Return the whole life of a sandbox in which `commands` run in turn."""

    async def cycle() -> None:
        sandbox = await provider.open(environment, {"purpose": "benchmark"})
        try:
            for _ in range(commands):
                assert (await sandbox.exec(COMMAND)).ok
        finally:
            await sandbox.dispose()

    return cycle


def computed() -> float:
    """Return the CPU seconds of this process and all that it has reaped, and what that had reaped."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


async def measure(ways: dict[str, Cycle], rounds: int, at_once: int) -> dict[str, list[tuple[float, float]]]:
    """Return the milliseconds by the clock and of CPU of each round of each way."""
    attempts = spawn.ATTEMPTS
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, cycle in ways.items():
            spawn.ATTEMPTS = 0 if name.endswith(STARTED) else attempts
            begun, used = time.perf_counter(), computed()
            await asyncio.gather(*(cycle() for _ in range(at_once)))
            found[name].append(((time.perf_counter() - begun) * 1000, (computed() - used) * 1000))
    spawn.ATTEMPTS = attempts
    return found


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 8, 32])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        local, bwrap = LocalProvider(Path(base, "local")), BwrapProvider(Path(base, "bwrap"))
        if (why := await bwrap.unavailable()) is not None:
            raise SystemExit(why)
        none = EnvironmentSpec(provider="bwrap", network=Network("none"))
        ways = {
            "bare command": bare,
            "local": with_provider(local, EnvironmentSpec(), 1),
            "bwrap": with_provider(bwrap, none, 1),
            "local, 5 commands": with_provider(local, EnvironmentSpec(), 5),
            "bwrap, 5 commands": with_provider(bwrap, none, 5),
        }
        ways |= {name + STARTED: ways[name] for name in ("local", "bwrap")}
        await measure(ways, 2, 1)
        print(f"{'at once':>8}  {'way':20}  {'median ms':>10}  {'p90 ms':>8}  {'above bare':>10}  {'CPU ms each':>11}")
        for at_once in arguments.at_once:
            found = await measure(ways, max(5, arguments.rounds // at_once), at_once)
            least = statistics.median(wall for wall, _ in found["bare command"])
            for name, times in found.items():
                walls = [wall for wall, _ in times]
                median, late = statistics.median(walls), statistics.quantiles(walls, n=10)[-1]
                cpu = statistics.median(cpu for _, cpu in times) / at_once
                print(f"{at_once:8}  {name:20}  {median:10.1f}  {late:8.1f}  {median - least:10.1f}  {cpu:11.1f}")
        for provider in (local, bwrap):
            await provider.finalize()


if __name__ == "__main__":
    asyncio.run(main())
