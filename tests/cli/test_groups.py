"""Task groups from the declaration to the results: one sandbox, one after another, and its end (spec 03 L3-L5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program import Ended

Proctor = Callable[..., Ended]

GROUPS = '{"one": ["t0", "t2"]}'


def arguments(
    command: str, tmp_path: Path, *more: str, tasks: int = 4, groups: str = GROUPS, on_unavailable: str = "stop-group"
) -> list[str]:
    trace = tmp_path / "trace"
    return [
        command, "group_plugins:Grouped", "group_plugins:Doer", "--set", f"benchmark.params.tasks={tasks}",
        "--set", f"benchmark.params.groups={groups}", "--set", f"benchmark.params.on_unavailable={on_unavailable}",
        "--set", f"benchmark.params.trace={trace}", "--set", f"harness.params.trace={trace}",
        "--set", "harness.params.sandbox=true", *more,
    ]  # fmt: skip


def trace_of(tmp_path: Path) -> list[str]:
    return (tmp_path / "trace").read_text().splitlines()


def counts_of(ended: Ended) -> dict[str, Any]:
    [run] = ended.receipt["runs"]
    return run["counts"]


def states(ended: Ended) -> dict[tuple[str, int], str]:
    return {(e["task"], e["ordinal"]): e["verdict"] for e in ended.events if e["type"] == "AttemptSealed"}


def in_group(tmp_path: Path) -> list[list[str]]:
    """Return what happened to the sandboxes of the group: words of each line."""
    return [line.split() for line in trace_of(tmp_path) if line.startswith(("setup", "teardown", "t0", "t2"))]


def test_L3_a_group_has_one_sandbox_and_all_attempts_of_a_member_before_the_next(
    proctor: Proctor, tmp_path: Path
) -> None:
    ended = proctor(*arguments("run", tmp_path, "--attempts", "2", "--json"))
    assert ended.code == 0, ended.err
    lines = in_group(tmp_path)
    assert [line[0] for line in lines] == ["setup", "t0", "t0", "t2", "t2", "teardown"]
    boxes = {line[1] if line[0].startswith("t") and line[0] != "teardown" else line[2] for line in lines}
    assert len(boxes) == 1
    others = {line.split()[1] for line in trace_of(tmp_path) if line.startswith(("t1", "t3"))}
    assert len(others) == 4, "each attempt of the others has a sandbox of its own"
    assert not others & boxes


def test_L5_state_is_that_of_one_sandbox(proctor: Proctor, tmp_path: Path) -> None:
    groups = '{"one": ["t0", "t1"], "two": ["t2", "t3"]}'
    assert proctor(*arguments("run", tmp_path, groups=groups)).code == 0
    lines = [line.split(maxsplit=2) for line in trace_of(tmp_path)]
    seen = {task: state for task, _, state in lines if task in ("t0", "t1", "t2", "t3")}
    one, two = "{'group': 'one'}", "{'group': 'two'}"
    assert seen == {"t0": one, "t1": one, "t2": two, "t3": two}


def test_L3_other_groups_and_tasks_run_beside_a_group(proctor: Proctor, tmp_path: Path) -> None:
    groups = '{"one": ["t0", "t1"], "two": ["t2"]}'
    ended = proctor(*arguments("run", tmp_path, "--task-concurrency", "8", "--json", groups=groups))
    first = [e["task"] for e in ended.events if e["type"] == "TryStarted"][:3]
    assert first == ["t0", "t2", "t3"], "t1 waits for the sandbox of its group"


@pytest.mark.parametrize(
    ("choice", "stopped", "passed", "boxes", "code"),
    [("stop-group", 3, 4, 1, 3), ("replace-sandbox", 0, 7, 2, 3)],
)
def test_L3_on_unavailable_says_what_becomes_of_the_rest(
    proctor: Proctor, tmp_path: Path, choice: str, stopped: int, passed: int, boxes: int, code: int
) -> None:
    """The first attempt of the group crashes, after which its sandbox is of no use."""
    ended = proctor(
        *arguments("run", tmp_path, "--attempts", "2", "--set", "harness.params.deed=crash", on_unavailable=choice),
        "--json",
    )
    assert ended.code == code, ended.err
    counts = counts_of(ended)
    assert counts["errored"] == 1
    assert counts["not_dispatched"] == ({"stopped scope": stopped} if stopped else {})
    assert counts["passed"] == passed
    lines = in_group(tmp_path)
    assert len([line for line in lines if line[0] == "setup"]) == boxes
    assert len([line for line in lines if line[0] == "teardown"]) == boxes, "undone after a crash as well"


def test_L3_a_stopped_group_gets_no_retry_and_a_replaced_sandbox_does(proctor: Proctor, tmp_path: Path) -> None:
    retry = ("--max-retries", "1", "--set", "execution.retry_min_delay_seconds=0.01", "--json")
    crash = ("--set", "harness.params.deed=crash")
    stopped = proctor(*arguments("run", tmp_path, *retry, *crash))
    assert states(stopped)["t0", 0] == "errored"
    assert counts_of(stopped)["not_dispatched"] == {"stopped scope": 1}
    replaced = proctor(*arguments("run", tmp_path, *retry, *crash, on_unavailable="replace-sandbox"))
    assert replaced.code == 0, replaced.err
    assert counts_of(replaced)["passed"] == 4


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--set", "sandbox_reuse=true"), "task group `one` cannot be run with `sandbox_reuse`"),
        (("--env", "group_plugins:NoReuse"), "task group `one` needs a provider that can reuse sandboxes"),
    ],
)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_L3_what_cannot_be_is_said_before_any_sandbox(
    proctor: Proctor, tmp_path: Path, command: str, more: tuple[str, ...], words: str
) -> None:
    ended = proctor(*arguments(command, tmp_path, *more))
    assert ended.code == 2
    assert words in ended.err
    assert "hint:" in ended.err
    assert not (tmp_path / "trace").exists()
    assert not ended.run_dirs


def test_L3_members_may_be_left_out_and_a_group_is_no_dependency_graph(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor(*arguments("run", tmp_path, "--tasks", "t2,t3", "--json"))
    assert ended.code == 0, ended.err
    assert [line[0] for line in in_group(tmp_path)] == ["setup", "t2", "teardown"]
    assert proctor(*arguments("run", tmp_path, "--tasks", "t3", "--set", "sandbox_reuse=true")).code == 0


def test_L3_the_plan_shows_the_group_of_each_slot(proctor: Proctor, tmp_path: Path) -> None:
    shown = proctor(*arguments("plan", tmp_path))
    assert shown.code == 0, shown.err
    lines = {line.split()[0]: line for line in shown.out.splitlines() if " #0 " in line}
    assert lines["t0"].endswith("group one")
    assert lines["t2"].endswith("group one")
    assert "group" not in lines["t1"]
    listed = proctor(*arguments("plan", tmp_path, "--json"))
    slots = {e["task"]: e.get("group") for e in listed.events if e["type"] == "slot"}
    assert slots == {"t0": "one", "t1": None, "t2": "one", "t3": None}


def test_L3_the_order_of_the_members_changes_neither_schedule_nor_identity(proctor: Proctor, tmp_path: Path) -> None:
    orders, plans = [], []
    for groups in (GROUPS, '{"one": ["t2", "t0"]}', '{"one": ["t2", "t0", "t2"]}'):
        # Nothing is known of any task: how long one took would change the order.
        fresh = ("--task-concurrency", "1", "--results-dir", f"results{len(orders)}", "--json")
        ended = proctor(*arguments("run", tmp_path, *fresh, groups=groups))
        orders.append([(e["task"], e["ordinal"]) for e in ended.events if e["type"] == "TryStarted"])
        listed = proctor(*arguments("plan", tmp_path, "--json", groups=groups))
        plans.append({e["task"]: e["identity"] for e in listed.events if e["type"] == "slot"})
    assert orders[0] == orders[1] == orders[2]
    assert plans[0] == plans[1] == plans[2]


def test_04_P2_the_group_is_in_the_identity(proctor: Proctor, tmp_path: Path) -> None:
    plans = []
    for groups in (GROUPS, '{"other": ["t0", "t2"]}', "{}"):
        listed = proctor(*arguments("plan", tmp_path, "--json", groups=groups))
        plans.append({e["task"]: e["identity"] for e in listed.events if e["type"] == "slot"})
    assert len({plan["t0"] for plan in plans}) == 3
    assert len({plan["t1"] for plan in plans}) == 1


def test_L4_no_sandbox_is_opened_for_a_group_that_is_reused(proctor: Proctor, tmp_path: Path) -> None:
    assert proctor(*arguments("run", tmp_path)).code == 0
    (tmp_path / "trace").unlink()
    again = proctor(*arguments("run", tmp_path, "--reuse", "--json"))
    assert again.code == 0, again.err
    assert counts_of(again)["reused_passed"] == 4
    assert not (tmp_path / "trace").exists()


def test_L3_a_skipped_member_leaves_the_sandbox_to_the_next(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor(*arguments("run", tmp_path, "--set", "harness.params.deed=skip", "--json"))
    assert ended.code == 0, ended.err
    assert counts_of(ended)["skipped"] == 1
    assert [line[0] for line in in_group(tmp_path)] == ["setup", "t0", "t2", "teardown"]


def test_05_task_fatal_in_a_group_ends_its_task_alone(proctor: Proctor, tmp_path: Path) -> None:
    ended = proctor(*arguments("run", tmp_path, "--attempts", "2", "--set", "harness.params.deed=task", "--json"))
    assert ended.code == 3
    assert counts_of(ended)["errored"] == 2
    assert [line[0] for line in in_group(tmp_path)] == ["setup", "t0", "t2", "t2", "teardown"]
    assert json.dumps(ended.receipt)
