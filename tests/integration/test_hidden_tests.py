"""Hidden tests and reference solutions are never in the sandbox while the agent runs (spec 05 Grading modes)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proctor.cli.run_writer import TryDirectory
from proctor.model.attempt import Outcome
from proctor.model.environment import EnvironmentSpec
from proctor.model.events import GradingQueued, TryEnded
from proctor.model.ids import SlotKey
from proctor.model.spec import Task, TimeLimits
from proctor.plugins.registry import Kind, load, names
from proctor.providers.local import LocalProvider
from proctor.runtime.clock import SystemClock
from proctor.runtime.job import TryJob
from proctor.runtime.redact import Redactor
from proctor.runtime.try_runner import TryRunner
from proctor.store.layout import RunLayout
from proctor.testing.fakes import FakeHarness

TASKS = 12
SHORTEST = 8
"""A shorter line says nothing: it may stand anywhere."""


class Spy(FakeHarness):
    """Looks through its sandbox: every name and content of the file tree, and the environment of a command."""

    def __init__(self) -> None:
        super().__init__(on_start=self._look, on_send=self._look, on_collect=self._look)
        self.looks = 0
        self.seen = b""

    async def _look(self) -> None:
        sandbox = self.contexts[-1].sandbox
        self.looks += 1
        told = await sandbox.exec("env; pwd; echo; tr '\\0' '\\n' < /proc/self/environ; cat /proc/self/cmdline")
        assert told.ok, told
        self.seen += told.stdout
        for folder, folders, files in os.walk(Path(sandbox.workdir).parent):
            self.seen += "\n".join((*folders, *files)).encode()
            self.seen += b"".join(Path(folder, name).read_bytes() for name in files)


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts(inner)


PROJECTS_OWN = "evals"
"""Its tasks are those of a project, and what they check is never in a sandbox: it is their own code."""


def hidden_lines(task: Task) -> set[str]:
    """Return the lines of what the task hides, but for those that its prompt tells anyway."""
    reference = task.reference
    hidden = [
        *texts(dict(task.grader.params)),
        *((reference.answer or "", reference.script or "") if reference else ()),
    ]
    lines = {line.strip() for text in hidden for line in text.splitlines()}
    told = task.prompt + "".join(data.decode("utf-8", "replace") for data in task.files.values())
    return {line for line in lines if len(line) >= SHORTEST and line not in told}


def run_with_spy(benchmark: Any, task: Task, folder: Path) -> Spy:
    spy = Spy()
    provider = LocalProvider(folder / "base")
    directory = TryDirectory(RunLayout(folder / "run"), SlotKey("e", task.id, 0), 1)
    grader_class = load(Kind.GRADER, task.grader.id)
    job = TryJob(
        attempt="a",
        try_number=1,
        task=task,
        benchmark=benchmark,
        harness=spy,
        grader=grader_class(grader_class.options(**task.grader.params)),
        grading=benchmark.grading,
        provider=provider,
        environment=task.environment or EnvironmentSpec(),
        agent_sandbox=True,
        limits=TimeLimits(),
        labels={"run": "r"},
        artifacts=task.artifacts,
        folder=directory,
    )
    events: list[Any] = []

    async def drive() -> None:
        def emit(event: Any) -> None:
            events.append(event)
            if isinstance(event, GradingQueued):
                runner.grant()

        runner = TryRunner(job, emit=emit, save=directory.save, clock=SystemClock(), redactor=Redactor())
        await runner.run()
        await provider.finalize()

    asyncio.run(drive())
    assert isinstance(events[-1], TryEnded)
    assert events[-1].result.outcome is Outcome.GRADED, events[-1].result
    return spy


QUESTIONS = [{"question": f"what is {n} and {n}?", "answer": f"a-hidden-answer-{n}"} for n in range(8)]
PROGRAMS = [
    {
        "task_id": str(n),
        "text": "double a number",
        "code": f"def double(x):\n    return 2 * x + {n} - {n}",
        "test_list": [f"assert double({n}) == {2 * n}"],
        "challenge_test_list": [f"assert double({n + 100}) == {2 * n + 200}  # never shown"],
    }
    for n in range(8)
]
ROWS = {"jsonl": QUESTIONS, "code": PROGRAMS}
"""What benchmarks read that have no data of their own."""
PARAMS = {"jsonl": {"prompt": "{question}", "answer": "answer"}, "code": {"shown_tests": 1, "challenge_tests": True}}

ELSEWHERE = {PROJECTS_OWN, "harbor", "reasoning_gym", "agentdojo"}
"""Those whose own tests look after this: they need an image, or a package that is not always there."""


def made(name: str, folder: Path) -> Any:
    benchmark_class = load(Kind.BENCHMARK, name)
    params: dict[str, Any] = {}
    if name in ROWS:
        rows = folder / "rows.jsonl"
        rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS[name]))
        params = {"path": str(rows), **PARAMS[name]}
    return benchmark_class(benchmark_class.options(**params))


@pytest.mark.integration
@pytest.mark.parametrize("name", [name for name in names(Kind.BENCHMARK) if name not in ELSEWHERE])
def test_05_nothing_of_the_tests_or_the_solution_is_in_the_sandbox_while_the_agent_runs(
    name: str, tmp_path: Path
) -> None:
    benchmark = made(name, tmp_path)
    tasks = list(asyncio.run(benchmark.tasks()))
    for number, task in enumerate(tasks[:: max(1, len(tasks) // TASKS)]):
        spy = run_with_spy(benchmark, replace(task, needs_sandbox=True), tmp_path / str(number))
        assert spy.looks == 3, "in setup, while the agent works, and after it"
        found = [line for line in hidden_lines(task) if line.encode() in spy.seen]
        assert not found, f"{task.id} gives away: {found}"


def test_the_spy_sees_what_is_given_away(tmp_path: Path) -> None:
    benchmark_class = load(Kind.BENCHMARK, "humaneval")
    benchmark = benchmark_class(benchmark_class.options())
    task = next(iter(asyncio.run(benchmark.tasks())))
    assert len(hidden_lines(task)) > 5

    class Leaking:
        grading, gradings = benchmark.grading, benchmark.gradings

        async def setup(self, ctx: Any) -> None:
            await ctx.sandbox.write("tests/hidden.py", task.grader.params["test"])

    spy = run_with_spy(Leaking(), task, tmp_path)
    assert [line for line in hidden_lines(task) if line.encode() in spy.seen]
