"""The time of a command counts execution only, never waiting for a processor (spec 05 Time)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.plugins.api import ExecResult
from proctor.runtime import execution_time
from proctor.runtime.execution_time import BACKSTOP, MOST_THREADS, ExecutionTime, Sample, ThreadTimes, read_tree
from proctor.runtime.process import Processes, find_processes

HANG_SECONDS = 60
PYTHON = getattr(sys, "_base_executable", sys.executable)
WORK = "import time\nwhile time.process_time() < 0.5: pass"


def sample(ended: float = 0, **threads: tuple[float, float]) -> Sample:
    """How long each thread ran and waited, by made-up names, and how long those ran that ended."""
    return Sample({(hash(name), 1): ThreadTimes(*times) for name, times in threads.items()}, ended)


def test_without_waiting_time_is_time() -> None:
    time = ExecutionTime(10, processors=2)
    assert time.observe(4, sample(main=(0.1, 0))) == 6
    assert time.observe(9, sample(main=(0.2, 0))) == 1
    assert time.observe(10, sample(main=(0.2, 0))) == 0


def test_what_one_process_waited_is_not_charged() -> None:
    time = ExecutionTime(10, processors=2)
    assert time.observe(10, sample(main=(0.6, 9.4))) == pytest.approx(9.4)
    assert time.observe(20, sample(main=(1.2, 18.8))) == pytest.approx(8.8)


def test_a_parent_that_waits_for_a_working_child_is_not_charged_for_what_the_child_waited() -> None:
    time = ExecutionTime(10, processors=2)
    assert time.observe(10, sample(parent=(0.01, 0), child=(1, 9))) == pytest.approx(9)


def test_children_one_after_another_are_all_seen() -> None:
    time = ExecutionTime(10, processors=2)
    time.observe(4, sample(parent=(0, 0), first=(1, 3)))
    time.observe(8, sample(parent=(0, 0), second=(1, 3), ended=1))
    assert time.charged_seconds == pytest.approx(2)


def test_children_that_came_and_went_are_taken_to_have_waited_as_the_others_did() -> None:
    time = ExecutionTime(10, processors=2)
    time.observe(10, sample(parent=(0.5, 4.5), ended=0.5))
    assert time.charged_seconds == pytest.approx(1)


def test_children_that_came_and_went_count_for_what_they_ran() -> None:
    time = ExecutionTime(10, processors=2)
    time.observe(10, sample(parent=(0.1, 10), ended=8))
    assert time.charged_seconds == pytest.approx(4.05)


def test_two_that_work_and_wait_by_turns_are_not_charged_for_it() -> None:
    time = ExecutionTime(10, processors=2)
    assert time.observe(10, sample(a=(0.5, 4.5), b=(0.5, 4.5))) == pytest.approx(9)


def test_a_command_cannot_gain_time_by_its_own_crowd() -> None:
    crowd = {f"p{number}": (10 / 16, 10 - 10 / 16) for number in range(32)}
    assert ExecutionTime(10, processors=2).observe(10, sample(**crowd)) == 0, "it had both processors all the time"


def test_a_command_is_charged_at_least_what_its_busiest_thread_ran() -> None:
    idle = {f"p{number}": (0.0, 10.0) for number in range(5)}
    assert ExecutionTime(10, processors=64).observe(10, sample(busy=(10, 0), **idle)) == 0


def test_nothing_lives_for_ever() -> None:
    time = ExecutionTime(2, processors=1)
    assert time.observe(2 * BACKSTOP - 1, sample(main=(0, 2 * BACKSTOP - 1))) == 2
    assert time.observe(2 * BACKSTOP, sample(main=(0, 2 * BACKSTOP))) == 0


def test_where_the_kernel_does_not_tell_all_time_is_charged() -> None:
    time = ExecutionTime(10, processors=1)
    assert time.observe(4, None) == 6
    assert time.observe(5, sample(main=(0.5, 0.5))) == pytest.approx(5.5)


def test_the_number_of_an_ended_thread_may_be_another_ones() -> None:
    time = ExecutionTime(100, processors=1)
    time.observe(10, sample(main=(1, 9)))
    time.observe(20, sample(main=(8, 2)))
    assert time.charged_seconds == pytest.approx(9)


SECONDS = st.floats(0, 1e4)
THREADS = st.dictionaries(
    st.tuples(st.integers(1, 4), st.just(1)), st.builds(ThreadTimes, SECONDS, SECONDS), max_size=4
)
SAMPLES = st.none() | st.builds(Sample, THREADS, SECONDS)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.floats(0, 100), SAMPLES), max_size=8), st.floats(0.1, 100), st.integers(1, 64))
def test_never_more_is_charged_than_passed(steps: list[tuple[float, Sample | None]], limit: float, cpus: int) -> None:
    time, elapsed, charged = ExecutionTime(limit, cpus), 0.0, 0.0
    for passed, seen in steps:
        elapsed += passed
        left = time.observe(elapsed, seen)
        assert charged <= time.charged_seconds <= elapsed + 1e-6
        assert 0 <= left <= limit
        charged = time.charged_seconds


def test_all_threads_of_all_descendants_are_read() -> None:
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen([PYTHON, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        thread.start()
        found = read_tree(os.getpid())
        waiting.set()
        thread.join()
    assert found is not None
    processes = {pid for pid, _ in found.threads}
    assert {os.getpid(), child.pid} < processes
    assert sum(pid == os.getpid() for pid, _ in found.threads) >= 2
    assert found.threads[os.getpid(), os.getpid()].ran_seconds > 0


def test_what_children_ran_that_have_ended_is_read() -> None:
    script = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]]); print(1, flush=True); input()"
    )
    with subprocess.Popen([PYTHON, "-c", script, WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = read_tree(child.pid)
    assert found is not None
    assert 0.4 < found.ended_seconds < 60


def test_the_tree_is_read_without_lists_of_children_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([PYTHON, "-c", "input()"], stdin=subprocess.PIPE) as child:
        exists = os.path.exists
        monkeypatch.setattr(execution_time.os.path, "exists", lambda path: "children" not in path and exists(path))
        found = read_tree(os.getpid())
        monkeypatch.undo()
    assert found is not None
    assert child.pid in {pid for pid, _ in found.threads}


def test_a_process_without_such_a_file_is_not_known() -> None:
    assert read_tree(0) is None


def test_reading_a_crowd_has_an_end() -> None:
    script = f"""
import threading
threads = [threading.Thread(target=threading.Event().wait, daemon=True) for _ in range({MOST_THREADS + 50})]
for thread in threads: thread.start()
print(1, flush=True)
input()
"""
    with subprocess.Popen([PYTHON, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = read_tree(child.pid)
    assert found is not None
    assert len(found.threads) == MOST_THREADS


@pytest.mark.long
def test_commands_that_share_the_processors_are_not_late() -> None:
    """Eight commands, half a second of work each, on few processors: by the wall all would be beyond their limit."""

    async def scenario() -> list[ExecResult]:
        processes = Processes(f"time-{os.getpid()}", grace_seconds=0.2)
        count = min(4 * len(os.sched_getaffinity(0)), 64)
        try:
            async with asyncio.timeout(HANG_SECONDS):
                return await asyncio.gather(
                    *(
                        processes.run([PYTHON, "-I", "-S", "-c", WORK], cwd="/", env={}, timeout_seconds=1.5)
                        for _ in range(count)
                    )
                )
        finally:
            await processes.kill()
            assert find_processes(processes.name) == set()

    results = asyncio.run(scenario())
    assert [result.exit_code for result in results] == [0] * len(results)


def test_what_sleeps_without_end_is_ended_among_others_that_work() -> None:
    async def scenario() -> ExecResult:
        processes = Processes(f"sleep-{os.getpid()}", grace_seconds=0.2)
        endless = "while True: pass"
        try:
            async with asyncio.timeout(HANG_SECONDS):
                busy = [
                    asyncio.ensure_future(processes.run([PYTHON, "-I", "-S", "-c", endless], cwd="/", env={}))
                    for _ in range(2 * len(os.sched_getaffinity(0)))
                ]
                sleeper = "import time\nwhile True: time.sleep(0.01)"
                result = await processes.run([PYTHON, "-I", "-S", "-c", sleeper], cwd="/", env={}, timeout_seconds=0.5)
        finally:
            await processes.kill()
        await asyncio.wait(busy)
        return result

    assert asyncio.run(scenario()).timed_out
