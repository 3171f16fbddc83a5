"""Checks of benchmarks: what becomes of their tasks in sandboxes, of a sample."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from proctor.harnesses.nop import NopHarness, NopOptions
from proctor.harnesses.oracle import OracleHarness, OracleOptions
from proctor.model.attempt import Grade, TryResult, Verdict, verdict_of
from proctor.model.spec import Task
from proctor.plugins.api import Harness
from proctor.testing._benchmark_tasks import grader_of
from proctor.testing.check_benchmarks import BenchmarkBench
from proctor.testing.check_context import GatedSandbox, HarnessWorld, opened
from proctor.testing.check_plugin import refusing
from proctor.testing.check_try import TryBench
from proctor.testing.conformance import require, require_equal

LISTING = "find . -type f -exec cksum {} + | sort; find . ! -type f | sort"


async def references_pass(bench: BenchmarkBench) -> None:
    """What the harness `oracle` shows: a task that its own solution does not solve cannot be graded rightly."""
    async with _tries(bench) as (tasks, tries):
        for task in tasks:
            if task.reference is None:
                continue
            result = await _ended(tries, task, OracleHarness(OracleOptions()))
            why = f"is not solved by its own reference: {_why(result)}"
            fits = verdict_of(result) in (Verdict.PASSED, Verdict.SKIPPED)
            require(fits, f"task `{task.id}` {why}")


async def nothing_passes_for_free(bench: BenchmarkBench) -> None:
    """What the harness `nop` shows: a task that nobody worked on is graded, and not solved."""
    async with _tries(bench) as (tasks, tries):
        for task in tasks:
            result = await _ended(tries, task, NopHarness(NopOptions()))
            verdict = verdict_of(result)
            require(verdict is not Verdict.PASSED, f"task `{task.id}` passes with nothing done and no answer given")
            why = f"cannot be graded where nothing was done ({verdict}): {_why(result)}"
            require(verdict in (Verdict.FAILED, Verdict.SKIPPED), f"task `{task.id}` {why}")


async def setting_up_twice_changes_nothing(bench: BenchmarkBench) -> None:
    """A sandbox may be used again, and a setup that failed is repeated."""
    benchmark = bench.made()
    tries = TryBench(benchmark, bench.make_provider, bench.environment)
    for task in bench.sampled(await bench.tasks(benchmark)):
        environment = tries.environment_of(task, bench.make_provider())
        async with opened(bench.make_provider, environment) as sandbox:
            world = HarnessWorld(task, "a", None, GatedSandbox(sandbox))
            seen: list[str] = []
            for times in ("", " a second time"):
                with refusing(f"`setup` of task `{task.id}`{times}"):
                    await benchmark.setup(world)
                seen.append((await sandbox.exec(LISTING)).out)
            require_equal(f"files after `setup` of task `{task.id}` a second time", seen[1], seen[0])


@asynccontextmanager
async def _tries(bench: BenchmarkBench) -> AsyncGenerator[tuple[list[Task], TryBench]]:
    """Give the tasks that are tried out, and what runs them."""
    benchmark = bench.made()
    judge = None if bench.make_judge is None else bench.make_judge()
    tasks = bench.sampled(await bench.tasks(benchmark))
    asked = [task for task in tasks if judge is not None or not getattr(grader_of(task), "needs_judge", False)]
    try:
        yield asked, TryBench(benchmark, bench.make_provider, bench.environment, judge)
    finally:
        if judge is not None:
            await judge.close()


async def _ended(tries: TryBench, task: Task, harness: Harness) -> TryResult:
    with tempfile.TemporaryDirectory(prefix="proctor-check-") as folder:
        return await tries.run(task, harness, grader_of(task), Path(folder))


def _why(result: TryResult) -> str:
    grade: Grade | None = result.grade
    checks = [] if grade is None else [one for one in grade.checks if not one.ok]
    said = [f"{one.label}: expected {one.expected!r:.100}, got {one.actual!r:.100}" for one in checks[:3]]
    said += [f"{issue.code}: {issue.message}" for issue in result.issues[:3]]
    return "; ".join(said) or "the grader says no more"


CHECKS = (references_pass, nothing_passes_for_free, setting_up_twice_changes_nothing)
