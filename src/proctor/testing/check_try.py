"""Runs one try of a task by the runner itself, for the suite of benchmarks: no plan, no record, no permits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proctor.core.environments import as_graded, environment_of
from proctor.core.task_limits import limits_of
from proctor.model.attempt import GradingMode, TryResult
from proctor.model.environment import EnvironmentSpec
from proctor.model.events import BackoffEnded, GradingQueued, TryEnded, TryEvent
from proctor.model.spec import Task, TimeLimits
from proctor.plugins.api import Benchmark, Grader, Harness, Model, Provider
from proctor.plugins.capabilities import refusals
from proctor.runtime.clock import SystemClock
from proctor.runtime.job import TryJob
from proctor.runtime.redact import Redactor
from proctor.runtime.try_runner import TryRunner
from proctor.store.names import file_name, is_plain_file_name
from proctor.testing.conformance import require


@dataclass(frozen=True, slots=True)
class TryRoom:
    """Where a try keeps files: a directory of this machine."""

    directory: Path

    def save(self, name: str, content: Any) -> None:
        """Keep bytes as they are, anything else as JSON."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode("ascii"))

    def path(self, name: str) -> Path:
        """Return where a file is."""
        return self.directory / name

    def name_of(self, text: str) -> str:
        """Return a safe file name for a path or name that came from elsewhere."""
        return file_name(text)

    def is_plain(self, name: str) -> bool:
        """Say whether a name that came from elsewhere is safe as it is."""
        return is_plain_file_name(name)


@dataclass(slots=True)
class TryBench:
    """What tries of one benchmark share."""

    benchmark: Benchmark
    make_provider: Callable[[], Provider]
    environment: EnvironmentSpec
    judge: Model | None = None
    ended: list[TryResult] = field(default_factory=list[TryResult])

    def environment_of(self, task: Task, provider: Provider) -> EnvironmentSpec:
        """Return the environment of a task. Raises `NotConforming` where the provider cannot make it."""
        environment = environment_of(task, self.environment)
        in_place = self.benchmark.grading is GradingMode.REUSE
        refused = refusals(provider, environment, graded_in_place=in_place)
        require(not refused, f"give the suite another `provider` for task `{task.id}`: {'; '.join(refused)}")
        return environment

    async def run(self, task: Task, harness: Harness, grader: Grader, folder: Path) -> TryResult:
        """Run one try of a task to its end, in whatever grading mode the benchmark names."""
        provider, grading, room = self.make_provider(), self.benchmark.grading, TryRoom(folder)
        environment = await _ready(provider, self.environment_of(task, provider))
        graded = None
        if task.grade_environment is not None:
            graded = await _ready(provider, self.environment_of(as_graded(task), provider))
        in_sandbox = grading is GradingMode.REUSE and GradingMode.NONE not in self.benchmark.gradings
        job = TryJob(
            attempt=folder.name,
            try_number=1,
            task=task,
            benchmark=self.benchmark,
            harness=harness,
            grader=grader,
            grading=grading,
            provider=provider,
            environment=environment,
            agent_sandbox=harness.needs_sandbox or in_sandbox or task.needs_sandbox or bool(task.artifacts),
            limits=limits_of(task, TimeLimits()),
            judge=self.judge if getattr(grader, "needs_judge", False) else None,
            artifacts=task.artifacts,
            folder=room,
            grade_environment=graded,
        )

        def emit(event: TryEvent) -> None:
            """Grant everything that is asked for."""
            if isinstance(event, GradingQueued):
                runner.grant()
            elif isinstance(event, BackoffEnded):
                runner.resume()
            elif isinstance(event, TryEnded):
                self.ended.append(event.result)

        runner = TryRunner(job, emit=emit, save=room.save, clock=SystemClock(), redactor=Redactor())
        try:
            await runner.run()
        finally:
            await provider.finalize()
        return self.ended.pop()


async def _ready(provider: Provider, environment: EnvironmentSpec) -> EnvironmentSpec:
    settled = await provider.resolve(environment)
    await provider.prepare(settled, lambda line: None)
    return settled


__all__ = ["TryBench", "TryRoom"]
