"""The conformance suite of benchmarks: what `plugins.api` says of `Benchmark`, as checks.

@pytest.mark.parametrize("check", check_benchmark(MyBenchmark, {"path": "data"}), ids=str)
def test_my_benchmark(check):
    asyncio.run(check())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Json, Task
from proctor.plugins.api import Benchmark, Model, Provider
from proctor.plugins.registry import Kind
from proctor.providers.local import LocalProvider
from proctor.testing.check_plugin import Making, PluginCheck, refusing
from proctor.testing.conformance import require

SAMPLE = 5


@dataclass(frozen=True, slots=True)
class BenchmarkBench:
    """What the checks of a benchmark work with."""

    making: Making
    make_provider: Callable[[], Provider]
    environment: EnvironmentSpec
    make_judge: Callable[[], Model] | None
    sample: int

    def made(self) -> Benchmark:
        """Make the benchmark."""
        return self.making()

    async def tasks(self, benchmark: Benchmark) -> list[Task]:
        """Return all tasks of a benchmark, each of which is one."""
        with refusing("`tasks`"):
            found: list[Any] = list(await benchmark.tasks())
        odd = next((one for one in found if not isinstance(one, Task)), None)
        require(odd is None, f"`tasks` must give tasks, not {odd!r:.200}")
        return found

    def sampled(self, tasks: Sequence[Task]) -> list[Task]:
        """Return as many of the tasks as are tried out, from the first to the last."""
        count = min(self.sample, len(tasks))
        last = len(tasks) - 1
        return [tasks[place * last // max(count - 1, 1)] for place in range(count)]


def check_benchmark(
    make_benchmark: Callable[[Any], Benchmark],
    params: Mapping[str, Json] | None = None,
    *,
    provider: Callable[[], Provider] = LocalProvider,
    environment: EnvironmentSpec | None = None,
    judge: Callable[[], Model] | None = None,
    sample: int = SAMPLE,
) -> list[PluginCheck]:
    """Return the checks of a benchmark with these parameters, each independent of the others.

    `make_benchmark` is what is registered: it has `options`, and makes a benchmark when it is called with them. So many
    tasks as `sample` says, from the first to the last, are tried out: solved by their references, left alone, set up
    twice, in sandboxes of `provider`. A task without a reference is not solved, and one whose grader asks a judge is
    left out of both where no `judge` is given. `proctor check` does the same with all tasks.
    """
    from proctor.testing import _benchmark_tasks, _benchmark_tries  # noqa: PLC0415 - they import this

    making = Making(Kind.BENCHMARK, make_benchmark, params or {})
    bench = BenchmarkBench(making, provider, environment or EnvironmentSpec(), judge, sample)
    bodies = (*_benchmark_tasks.CHECKS, *_benchmark_tries.CHECKS)
    return [PluginCheck(body.__name__, partial(body, bench)) for body in bodies]


__all__ = ["BenchmarkBench", "check_benchmark"]
