"""A project with tasks, a group and hooks in Python, run as a user runs it (spec 02, 03 L3-L5, 05)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Ended

Proctor = Callable[..., Ended]

TASKS = """
from pathlib import Path

from proctor import ExperimentFatal, TaskFatal, task

TRACE = Path(__file__).parent.parent.parent / "trace"


async def look(t):
    with TRACE.open("a") as file:
        file.write(f"{t.task.id if hasattr(t, 'task') else ''} {t.sandbox.id} {sorted(t.sandbox.state)}" + chr(10))


@task
async def first(t):
    "First."
    await look(t)
    t.check("group", t.sandbox.state.get("group") == "naps")


@task
async def second(t):
    "Second."
    await look(t)
    t.check("group", t.sandbox.state.get("group") == "naps")


@task
async def third(t):
    "Third."
    await look(t)
    t.check("no group", "group" not in t.sandbox.state)
"""

GROUP = """
from proctor import TaskGroup


async def prepare(sandbox):
    assert sandbox.state["experiment"]
    sandbox.state["group"] = "naps"


group = TaskGroup(
    members=["tasks/second", "tasks/first"],
    on_unavailable="stop-group",
    sandbox_setup=prepare,
)
"""

EXPERIMENT = """
from pathlib import Path

from proctor import Experiment

TRACE = Path(__file__).parent.parent / "trace"


def prepare(sandbox):
    sandbox.state["experiment"] = True


def clear(sandbox):
    with TRACE.open("a") as file:
        file.write(f"clear {sandbox.id} {sorted(sandbox.state)}" + chr(10))


experiment = Experiment(harness="nop", sandbox_setup=prepare, sandbox_teardown=clear)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "proctor.yaml": "",
        "evals/naps/tasks.py": TASKS,
        "evals/naps/group.py": GROUP,
        "experiments/one.py": EXPERIMENT,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def trace(project: Path) -> list[str]:
    return (project / "trace").read_text().splitlines()


def counts_of(ended: Ended) -> dict[str, Any]:
    [run] = ended.receipt["runs"]
    return run["counts"]


def test_L5_experiment_and_group_set_up_the_sandbox_that_the_tasks_see(proctor: Proctor, project: Path) -> None:
    ended = proctor("exp", "--attempts", "2")
    assert ended.code == 0, ended.err
    both, alone = "['experiment', 'group']", "['experiment']"
    lines = [line.split(maxsplit=2) for line in trace(project)]
    grouped = [line for line in lines if line[2] == both]
    assert len({line[1] for line in grouped}) == 1, "one sandbox for the four attempts of the group"
    assert [line[0] for line in grouped].count("clear") == 1
    assert len(grouped) == 5
    assert len({line[1] for line in lines if line[2] == alone}) == 2, "one for each attempt of the other task"


def test_L3_a_group_that_is_wrong_is_an_error_with_its_line(proctor: Proctor, project: Path) -> None:
    file = project / "evals" / "naps" / "group.py"
    file.write_text(GROUP.replace('"tasks/first"', '"tasks/frist"'))
    ended = proctor("exp")
    assert ended.code == 2
    assert "evals/naps/group.py:11: group `naps` has the member `tasks/frist`, and there is no such task" in ended.err
    assert "hint: did you mean `tasks/first`?" in ended.err
    assert not ended.run_dirs


def test_L3_a_group_is_refused_with_sandbox_reuse(proctor: Proctor, project: Path) -> None:
    ended = proctor("exp", "--set", "sandbox_reuse=true")
    assert ended.code == 2
    assert "task group `naps` cannot be run with `sandbox_reuse`" in ended.err
    assert not (project / "trace").exists()


def identities(proctor: Proctor) -> dict[str, str]:
    listed = proctor("exp", "--dry", "--json")
    assert listed.code == 0, listed.err
    return {event["task"]: event["identity"] for event in listed.events if event["type"] == "slot"}


def test_L3_listing_order_changes_neither_schedule_nor_identity(proctor: Proctor, project: Path) -> None:
    file = project / "evals" / "naps" / "group.py"
    plans, orders = [], []
    for members in ('"tasks/second", "tasks/first"', '"tasks/first", "naps/tasks/second"'):
        file.write_text(GROUP.replace('"tasks/second", "tasks/first"', members))
        plans.append(identities(proctor))
        run = proctor("exp", "--task-concurrency", "1", "--results-dir", f"results{len(plans)}", "--json")
        assert run.code == 0, run.err
        orders.append([event["task"] for event in run.events if event["type"] == "TryStarted"])
    assert plans[0] == plans[1]
    assert orders[0] == orders[1]
    assert len(orders[0]) == 3


def test_04_P2_the_setup_of_a_group_counts_for_its_members_alone(proctor: Proctor, project: Path) -> None:
    before = identities(proctor)
    file = project / "evals" / "naps" / "group.py"
    file.write_text(GROUP.replace("    assert sandbox", "    sandbox.state['more'] = 1\n    assert sandbox"))
    after = identities(proctor)
    changed = {task for task in before if before[task] != after[task]}
    assert changed == {"naps/tasks/first", "naps/tasks/second"}


@pytest.mark.parametrize(("raised", "errored", "passed"), [("TaskFatal", 2, 4), ("ExperimentFatal", 6, 0)])
def test_05_a_task_function_may_stop_its_task_or_the_experiment(
    proctor: Proctor, project: Path, raised: str, errored: int, passed: int
) -> None:
    (project / "evals" / "naps" / "group.py").unlink()
    text = TASKS.replace('    "First."\n', f'    "First."\n    raise {raised}("the data is gone")\n')
    text = text.replace('t.sandbox.state.get("group") == "naps"', "True")
    (project / "evals" / "naps" / "tasks.py").write_text(text)
    ended = proctor("exp", "--attempts", "2", "--task-concurrency", "1", "--progress", "plain")
    assert ended.code == 3, ended.err
    assert ended.err.count("the data is gone") == 1, "one message"
    assert f"{errored} errored" in ended.err
    assert f"{passed} passed" in ended.err


def test_L3_groups_that_crash_stop_their_group(proctor: Proctor, project: Path) -> None:
    text = TASKS.replace('    "First."\n', '    "First."\n    raise RuntimeError("boom")\n')
    (project / "evals" / "naps" / "tasks.py").write_text(text)
    ended = proctor("exp", "--attempts", "2", "--json")
    assert ended.code == 3, ended.err
    counts = counts_of(ended)
    assert counts["errored"] == 1
    assert counts["not_dispatched"] == {"stopped scope": 3}
    assert counts["passed"] == 2
