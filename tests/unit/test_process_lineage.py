"""The trace by which the processes of a command are known when nothing else tells of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.runtime import lineage
from proctor.runtime.process import Processes, find_processes

NAMES = st.text("abc-019", min_size=1, max_size=8)


@settings(deadline=None, max_examples=200)
@given(st.sets(st.tuples(NAMES, st.integers(1, 1 << lineage.COMMAND_BITS)), min_size=2, max_size=2))
def test_each_command_has_a_trace_of_its_own(commands: set[tuple[str, int]]) -> None:
    traces = {lineage.trace_of(name, number) for name, number in commands}
    assert len(traces) == 2
    assert all(trace is not None and 0 < trace < lineage.HIGHEST for trace in traces)


def test_a_process_without_a_variable_is_found_by_its_trace_and_no_other_is() -> None:
    async def scenario() -> None:
        here, there = Processes(f"here-{os.getpid()}"), Processes(f"there-{os.getpid()}")
        try:
            for processes in (here, there):
                await processes.run(["sh", "-c", "exec env -i sleep 300 >&- 2>&- &"], cwd="/", env=os.environ)
            found = [find_processes(processes.name) for processes in (here, there)]
            assert [len(processes) for processes in found] == [2, 2], "the sleeper and its supervisor"
            assert found[0].isdisjoint(found[1])
        finally:
            await here.kill()
            assert find_processes(here.name) == set()
            assert len(find_processes(there.name)) == 2
            await there.kill()
            assert find_processes(there.name) == set()

    asyncio.run(scenario())


NESTED = """
import asyncio, os, sys
from proctor.runtime import lineage
from proctor.runtime.process import Processes
async def main():
    processes = Processes("inner")
    result = await processes.run(["sh", "-c", "kill -9 $PPID; exec env -i sleep 300"], cwd="/", env=os.environ)
    await processes.kill()
    print(result.lost, lineage.orphans(), lineage._own_limit() < 1 << 63)
asyncio.run(main())
"""


def test_a_proctor_in_a_sandbox_of_another_knows_its_own() -> None:
    async def scenario() -> str:
        outer = Processes(f"outer-{os.getpid()}")
        try:
            env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            result = await outer.run([sys.executable, "-c", NESTED], cwd="/", env=env)
            return result.out + result.err
        finally:
            await outer.kill()

    assert asyncio.run(scenario()) == "supervisor was killed by signal 9 set() True\n"


def test_this_process_is_no_orphan_of_its_own() -> None:
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as child:
        assert child.pid not in lineage.orphans()
        child.kill()
