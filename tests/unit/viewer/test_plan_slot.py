"""One slot read out of a plan is the same as that of the plan when all of it is read."""

from pathlib import Path

import pytest

from proctor.store.plan_file import PlanFile, PlannedSlot, read_plan, write_plan
from proctor.viewer.plan_slot import PLAN_BYTES, read_rows, unreadable

TASKS = ["a", "a-longer", 'quote" and \\ slash', "<b>", "名", "line\nend", "half \ud800"]


def plan_of(*, sparse: bool) -> PlanFile:
    slots: list[PlannedSlot] = []
    for number, task in enumerate(TASKS):
        for ordinal in range(1, 4):
            if sparse and number == 2 and ordinal == 2:
                continue
            reused = number % 2 and ordinal == 3
            source = ("reuse", "identity equal", f"{number}bcdefghijkl") if reused else ("execute", "new", None)
            slots.append(PlannedSlot(task, ordinal, f"id{number}{ordinal if number == 1 else ''}", *source))
    parts = {task: {"grader": "g", "task": f"t{n}"} if n else {"task": "t0"} for n, task in enumerate(TASKS)}
    return PlanFile({"name": "e"}, slots, {"harness": "h"}, parts)


@pytest.mark.parametrize("sparse", [False, True])
def test_each_slot_is_the_same_both_ways(tmp_path: Path, sparse: bool) -> None:
    path = tmp_path / "plan.json"
    write_plan(path, plan_of(sparse=sparse))
    whole, rows = read_plan(path), read_rows(path)
    assert rows is not None
    assert rows.experiment == {"name": "e"}
    assert len(whole.slots) >= 20
    for slot in whole.slots:
        one = rows.slot(slot.task, slot.ordinal)
        assert one is not None
        assert (one.identity, one.decision, one.reason, one.source) == (
            slot.identity, slot.decision, slot.reason, slot.source,
        )  # fmt: skip
        assert one.parts == {**whole.shared_parts, **whole.task_parts.get(slot.task, {})}


@pytest.mark.parametrize(("task", "ordinal"), [("b", 1), ("a", 0), ("a", 4), ("a-", 1), ("", 1)])
def test_a_slot_that_is_not_planned_is_none(tmp_path: Path, task: str, ordinal: int) -> None:
    path = tmp_path / "plan.json"
    write_plan(path, plan_of(sparse=False))
    rows = read_rows(path)
    assert rows is not None
    assert rows.slot(task, ordinal) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[", b"\xff", b'{"tasks":3}', b"[" * 5000])
def test_a_plan_that_cannot_be_read_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    assert read_rows(path) is None
    assert read_rows(tmp_path / "missing.json") is None


def test_a_plan_that_was_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for name in ("first", "second"):
        write_plan(path, PlanFile({"name": name}, [PlannedSlot("a", 0, "1")]))
        rows = read_rows(path)
        assert rows is not None
        assert rows.experiment == {"name": name}


def test_a_plan_that_would_fill_the_memory_is_not_expanded(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_plan(path, PlanFile({"name": "e"}, [PlannedSlot("a", 0, "1")]))
    assert unreadable(path) is None
    small = path.read_text()
    path.write_text(small.replace('"ordinals":[0,1]', '"ordinals":[0,1000000000000]'))
    assert "slots" in (unreadable(path) or "")
    with path.open("ab") as file:
        file.truncate(PLAN_BYTES + 1)
    assert "bytes" in (unreadable(path) or "")
    assert read_rows(path) is None
    path.unlink()
    assert unreadable(path) is None
    (tmp_path / "elsewhere.json").write_text(small)
    path.symlink_to(tmp_path / "elsewhere.json")
    assert unreadable(path) == "is not a regular file"
    assert read_rows(path) is None
