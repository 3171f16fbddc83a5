"""Wall time of a container's life (open, one command, dispose) beside `docker run --rm` of the same image and command.

    python benchmarks/docker_cost.py --image NAME [--address unix:///...] [--rounds 20] [--at-once 1 4]

Both ways are measured in turns, so that a change of the machine's load meets both. Quote medians and the ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from proctor.model.environment import EnvironmentSpec
from proctor.providers.docker.provider import DockerProvider

COMMAND = ["true"]
Cycle = Callable[[], Awaitable[None]]


def by_program(address: str, image: str) -> Cycle:
    """Return a run of the docker program."""

    async def cycle() -> None:
        words = ("docker", "-H", address, "run", "--rm", image, *COMMAND)
        process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL)
        assert await process.wait() == 0

    return cycle


def by_provider(provider: DockerProvider, image: str) -> Cycle:
    """Return the whole life of a sandbox."""

    async def cycle() -> None:
        sandbox = await provider.open(EnvironmentSpec(provider="docker", image=image), {"purpose": "benchmark"})
        try:
            assert (await sandbox.exec(COMMAND)).ok
        finally:
            await sandbox.dispose()

    return cycle


async def timed(cycle: Cycle, at_once: int) -> float:
    """Return the seconds of wall time that one of so many at once costs."""
    begun = time.perf_counter()
    await asyncio.gather(*(cycle() for _ in range(at_once)))
    return (time.perf_counter() - begun) / at_once


async def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", required=True)
    parser.add_argument("--address", default="unix:///var/run/docker.sock")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1])
    options = parser.parse_args()
    provider = DockerProvider(options.address)
    ways = {
        "docker run --rm": by_program(options.address, options.image),
        "provider docker": by_provider(provider, options.image),
    }
    print(f"{'at once':>7}  {'way':<16} {'median ms':>9} {'best ms':>8} {'ratio':>6}")
    for at_once in options.at_once:
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, cycle in ways.items():
                seconds[name].append(await timed(cycle, at_once))
        base = statistics.median(seconds["docker run --rm"])
        for name, found in seconds.items():
            median = statistics.median(found)
            print(f"{at_once:>7}  {name:<16} {median * 1e3:>9.0f} {min(found) * 1e3:>8.0f} {median / base:>6.2f}")
    await provider.finalize()


if __name__ == "__main__":
    asyncio.run(main())
