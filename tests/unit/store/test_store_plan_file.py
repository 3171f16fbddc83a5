"""plan.json: compact, and expanded to the same slots again (spec 08 layout, D4; 04 P2, P4)."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_cases import FaultyFiles, every_fault

from proctor.errors import StoreError
from proctor.model.spec import Component, Experiment, ModelSpec
from proctor.store.codec import NewerFormat
from proctor.store.plan_file import PlanFile, PlannedSlot, encode_plan, read_plan, write_plan

EXPERIMENT = Experiment("base", Component("humaneval"), Component("chat"), ModelSpec("openai/x", api_key="sk-secret"))


def _hash(text: str, digits: int = 16) -> str:
    return sha256(text.encode()).hexdigest()[:digits]


def _plan(tasks: int, attempts: int = 1, digits: int = 16, **changes: object) -> PlanFile:
    names = [f"HumanEval/{number}" for number in range(tasks)]
    slots = tuple(
        PlannedSlot(name, ordinal, _hash(f"{name} {ordinal}", digits)) for name in names for ordinal in range(attempts)
    )
    return PlanFile(
        experiment={"name": "base"},
        slots=slots,
        shared_parts={part: _hash(part) for part in ("benchmark", "harness", "model", "environment", "flags")},
        task_parts={name: {"task": _hash(name), "grader": _hash("grader")} for name in names},
        about={"run": "20261130_163035"},
    )


def test_a_plan_comes_back_equal(tmp_path: Path) -> None:
    plan = _plan(3, attempts=4)
    write_plan(tmp_path / "plan.json", plan)
    assert read_plan(tmp_path / "plan.json") == plan


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_HASH = st.sampled_from(["aa", "bb", "cc"])


@st.composite
def _plans(draw: st.DrawFn) -> PlanFile:
    tasks = draw(st.lists(_TEXT, unique=True, max_size=6))
    ordinals = range(first := draw(st.integers(0, 1)), first + draw(st.integers(1, 3)))
    sparse = draw(st.booleans())
    slots = tuple(
        PlannedSlot(
            task,
            ordinal,
            draw(_HASH),
            *draw(st.sampled_from([("execute", "new"), ("reuse", None), ("execute", "model changed (a -> b)")])),
            draw(st.none() | st.just("k3mabcdefghi")),
        )
        for task in tasks
        for ordinal in (sorted(draw(st.sets(st.sampled_from(ordinals), min_size=1))) if sparse else ordinals)
    )
    parts = st.dictionaries(st.sampled_from(["task", "grader", "é"]), _HASH, min_size=1)
    task_parts = {task: draw(parts) for task in tasks if draw(st.booleans())}
    shared = draw(st.dictionaries(_TEXT, _HASH, max_size=2))
    return PlanFile({"name": draw(_TEXT), "flags": {"x": [1, None]}}, slots, shared, task_parts, {"n": 1})


@settings(max_examples=150)
@given(plan=_plans())
def test_any_plan_comes_back_equal(tmp_path_factory: pytest.TempPathFactory, plan: PlanFile) -> None:
    path = tmp_path_factory.getbasetemp() / "plan.json"
    path.write_bytes(encode_plan(plan))
    assert read_plan(path) == plan


def test_D8_a_plan_of_20_000_slots_is_small(tmp_path: Path) -> None:
    def bytes_per_slot(plan: PlanFile) -> float:
        assert len(plan.slots) == 20_000
        return len(encode_plan(plan)) / 20_000

    assert bytes_per_slot(_plan(20_000)) < 60
    assert bytes_per_slot(_plan(5_000, attempts=4)) < 60
    assert bytes_per_slot(_plan(20_000, digits=32)) < 75, "with identities of 32 digits"
    assert bytes_per_slot(_plan(5_000, attempts=4, digits=32)) < 60


def test_the_file_is_what_its_documentation_shows(tmp_path: Path) -> None:
    plan = PlanFile(
        {"name": "base"},
        (
            PlannedSlot("a", 0, "i0"),
            PlannedSlot("a", 1, "i0"),
            PlannedSlot("b", 0, "i1", "reuse", "identity equal", "k3mabcdefghi"),
            PlannedSlot("b", 1, "i2"),
        ),
        {"harness": "9f"},
        {"a": {"content": "fe", "grader": "77"}, "b": {"content": "ff", "grader": "77"}},
        {"run": "r"},
    )
    assert encode_plan(plan).decode() == (
        '{"format":1,\n"about":{"run":"r"},\n"experiment":{"name":"base"},\n"ordinals":[0,2],\n'
        '"identity":{"shared":{"harness":"9f"},"common":{"grader":"77"}},\n'
        '"decisions":[["execute","new"],["reuse","identity equal"]],\n'
        '"columns":["task","identity","content","grader","decision","source"],\n'
        '"tasks":[\n["a","i0","fe"],\n["b",["i1","i2"],"ff",null,[1,0],["k3mabcdefghi",null]]\n]}\n'
    )


def test_a_resolved_experiment_is_written_without_its_credentials(tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.json", PlanFile(EXPERIMENT, (PlannedSlot("t", 0, "i"),)))
    text = (tmp_path / "plan.json").read_text()
    assert "secret" not in text
    assert "api_key" not in text
    experiment = read_plan(tmp_path / "plan.json").experiment
    assert isinstance(experiment, dict)
    assert experiment["model"]["id"] == "openai/x"
    assert experiment["limits"]["open_seconds"] == 600.0


@pytest.mark.parametrize(
    "slots",
    [
        [("a", 1), ("a", 0)],
        [("a", 0), ("b", 0), ("a", 1), ("b", 1)],
        [("a", 0), ("a", 0)],
    ],
)
def test_slots_that_are_no_plan_are_refused(slots: list[tuple[str, int]]) -> None:
    plan = PlanFile({}, tuple(PlannedSlot(task, ordinal, "i") for task, ordinal in slots))
    with pytest.raises(ValueError, match=r"ordinals|together"):
        encode_plan(plan)


def test_D4_a_plan_in_which_tasks_lack_slots_says_so_by_its_format(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for format_, slots in ((1, [("a", 0), ("b", 0)]), (2, [("a", 0), ("b", 0), ("b", 2)])):
        plan = PlanFile({}, tuple(PlannedSlot(task, ordinal, "i") for task, ordinal in slots))
        write_plan(path, plan)
        assert json.loads(path.read_bytes())["format"] == format_
        assert read_plan(path) == plan
    assert path.read_bytes().endswith(b'"tasks":[\n["a",["i",null,null]],\n["b",["i",null,"i"]]\n]}\n')
    path.write_bytes(path.read_bytes().replace(b'"format":2', b'"format":1'))
    with pytest.raises(StoreError, match="damaged"):
        read_plan(path)


def test_D4_a_plan_of_a_newer_proctor_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"format":3,"all":"different"}')
    with pytest.raises(NewerFormat, match=r"plan\.json.*written by a newer proctor"):
        read_plan(path)


def test_a_damaged_plan_is_a_store_error(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    whole = encode_plan(_plan(2, attempts=2))
    for cut in range(0, len(whole) - 1, 5):
        path.write_bytes(whole[:cut])
        with pytest.raises(StoreError, match=r"plan\.json.*damaged"):
            read_plan(path)
    head, _, rows = whole.partition(b'"tasks":[\n')
    for bad in ([1, "i"], ["a", 1], ["a", "i", "t", "g", 5], ["a", "i", "t", "g", 0, 7], ["a"], ["a", ["i"]], []):
        path.write_bytes(head + b'"tasks":[\n' + json.dumps(bad).encode() + b",\n" + rows)
        with pytest.raises(StoreError, match=r"plan\.json.*damaged"):
            read_plan(path)


def test_a_missing_plan_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no plan"):
        read_plan(tmp_path / "plan.json")


def test_D5_whichever_call_fails_while_a_plan_is_written_it_is_whole_or_not_there(tmp_path: Path) -> None:
    numbers = iter(range(10**6))
    plan = _plan(2)

    def scenario(files: FaultyFiles) -> None:
        path = tmp_path / f"{next(numbers)}.json"
        try:
            write_plan(path, plan, files=files)
        except StoreError:
            if not files.failed:
                raise
        assert not path.exists() or read_plan(path) == plan

    assert every_fault(scenario) > 30
