"""Launches, plans and streams from Python (spec 02 Parallel names, 10 I5)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import TypeAdapter

import proctor
from proctor.cli.python_launch import prepare_launch
from proctor.config.schema import ExperimentConfig
from proctor.errors import NothingToRun, UsageError
from proctor.model.events import AttemptSealed
from proctor.sdk import RunArguments
from proctor.sdk.arguments import CallArguments, asked

TWO: dict[str, Any] = {
    "defaults": {"benchmark": "trivial"},
    "requests": [{"name": "gold", "harness": "oracle"}, {"name": "nothing", "harness": "nop"}],
}
HANGS = {"id": "plugins:Sleeper", "params": {"seconds": 3600, "command": "sleep 0.01"}}


@pytest.fixture(autouse=True)
def here(environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# ------------------------------------------------------------------------------------------------------- launches


def test_10_I5_a_launch_has_a_result_for_each_request() -> None:
    result = proctor.launch(TWO, limit=2, fail_under=0.5)
    assert list(result) == ["gold", "nothing"]
    assert (result["gold"].rate, result["gold"].exit_code) == (1.0, 0)
    assert (result["nothing"].rate, result["nothing"].exit_code) == (0.0, 1)
    assert (result.exit_code, result.signal) == (1, None)
    assert [attempt["verdict"] for attempt in result["gold"].attempts] == ["passed"] * 2
    assert result["gold"].directory.parent == Path("results/gold")
    assert result["gold"].run_id == result["nothing"].run_id


def test_10_I5_a_launch_of_a_file_inside_a_running_loop(tmp_path: Path) -> None:
    (tmp_path / "launch.yaml").write_text(json.dumps(TWO))

    async def main() -> proctor.LaunchResult:
        with pytest.raises(UsageError, match=r"proctor\.launch cannot be used inside a running event loop"):
            proctor.launch("launch.yaml")
        with pytest.raises(UsageError, match=r"proctor\.plan cannot be used inside a running event loop"):
            proctor.plan(launch="launch.yaml")
        return await proctor.alaunch(tmp_path / "launch.yaml", limit=1)

    assert {name: run.rate for name, run in asyncio.run(main()).items()} == {"gold": 1.0, "nothing": 0.0}


def test_02_arguments_hold_for_every_request_over_what_the_file_says() -> None:
    tree = {**TWO, "task_concurrency": 3, "defaults": {"benchmark": "trivial", "attempts": 2}}
    resolved, options = prepare_launch(tree, {"attempts": 5}, execution={"task_concurrency": 7}, runtime={})
    assert [one.experiment.attempts for one in resolved] == [5, 5]
    assert options.controls.task_concurrency == 7
    resolved, options = prepare_launch(tree, {}, execution={}, runtime={})
    assert [one.experiment.attempts for one in resolved] == [2, 2]
    assert options.controls.task_concurrency == 3


def test_02_a_mapping_may_hold_what_stands_for_lists_mappings_and_texts() -> None:
    tree = {
        "defaults": types.MappingProxyType({"benchmark": types.MappingProxyType({"id": "trivial"})}),
        "requests": (
            {"name": "one", "harness": "nop", "flags": {"file": Path("x/y"), "more": (Path("z"), 1)}},
            types.MappingProxyType({"name": "two", "harness": types.MappingProxyType({"id": "oracle"})}),
        ),
        "matrix": {"name": "{harness}-{attempts}", "harness": ("nop", "oracle"), "attempts": (2, 3)},
    }
    resolved, _ = prepare_launch(tree, {"labels": types.MappingProxyType({"who": "me"})}, execution={}, runtime={})
    assert [(one.experiment.name, one.experiment.harness.id, one.experiment.attempts) for one in resolved] == [
        ("one", "nop", 1), ("two", "oracle", 1),
        ("nop-2", "nop", 2), ("nop-3", "nop", 3), ("oracle-2", "oracle", 2), ("oracle-3", "oracle", 3),
    ]  # fmt: skip
    assert resolved[0].experiment.flags == {"file": "x/y", "more": ["z", 1]}
    assert {one.experiment.benchmark.id for one in resolved} == {"trivial"}
    assert all(one.experiment.labels == {"who": "me"} for one in resolved)


@pytest.mark.parametrize(
    ("arguments", "reused"),
    [
        ({"launch": TWO}, 0),
        ({"launch": TWO, "reuse": True}, 4),
        ({"launch": TWO, "reuse": "first"}, 4),
        ({"launch": {**TWO, "defaults": {"benchmark": "trivial", "runtime": {"reuse": True}}}}, 4),
        ({"launch": {**TWO, "defaults": {"benchmark": "trivial", "runtime": {"reuse": True}}}, "reuse": False}, 0),
        ({"launch": TWO, "reuse": True, "rerun": "failed"}, 2),
    ],
)
def test_04_reuse_from_python(arguments: dict[str, Any], reused: int) -> None:
    proctor.launch(TWO, limit=2, run_id="first")
    decisions = proctor.plan(**arguments, limit=2).decisions
    assert decisions.get("reuse", 0) == reused


@pytest.mark.parametrize(
    ("launch", "more", "said"),
    [
        ({"requests": []}, {}, "`requests` is empty"),
        ({"requests": [{"name": "a", "bench": 1}]}, {}, "unknown field `requests.0.bench`; did you mean `benchmark`"),
        (TWO, {"attmpts": 2}, "did you mean `attempts`"),
        (TWO, {"limit": 0}, "limit"),
        (TWO, {"rerun": "all"}, "without `reuse` everything is"),
        (TWO, {"tasks": []}, "`tasks` is empty"),
        ("nowhere.yaml", {}, "cannot read `nowhere.yaml`"),
    ],
)
def test_02_what_is_wrong_is_said_before_anything_is_started(
    launch: Any, more: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises((UsageError, NothingToRun)) as error:
        proctor.launch(launch, **more)
    assert said in error.value.message
    assert list(tmp_path.iterdir()) == []


def test_10_I5_a_cancelled_launch_is_whole(tmp_path: Path) -> None:
    tree = {"defaults": {"benchmark": "trivial", "harness": HANGS}, "requests": [{"name": "a"}, {"name": "b"}]}

    async def main() -> None:
        task = asyncio.create_task(proctor.alaunch(tree, limit=1))
        while sum('"agent"' in path.read_text() for path in tmp_path.rglob("journal.jsonl")) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(main())
    summaries = [json.loads(path.read_text()) for path in tmp_path.rglob("summary.json")]
    assert [(one["completion"], one["counts"]["cancelled"]) for one in summaries] == [("interrupted", 1)] * 2


# ---------------------------------------------------------------------------------------------------------- plans


def test_04_P4_a_plan_is_data_and_creates_nothing(tmp_path: Path) -> None:
    plan = proctor.plan("trivial", "nop", limit=3, attempts=2)
    assert list(tmp_path.iterdir()) == []
    assert (plan.total, plan.decisions) == (6, {"execute: new": 6})
    assert [(slot.task, slot.ordinal) for slot in plan.slots] == [(f"t000{n}", k) for n in range(3) for k in range(2)]
    assert len(list(plan.slots)) == 6, "they can be read again"
    assert plan.predictions[0].seconds is None
    assert plan.limits[0].value == 32
    assert str(plan).startswith("PLAN  6 attempts")


def test_04_P4_a_plan_of_a_launch_with_settings_to_compare() -> None:
    plan = proctor.plan(launch=TWO, limit=2, concurrency=[1, 2])
    assert [(one.name, one.decisions) for one in plan.experiments] == [
        ("gold", {"execute: new": 2}), ("nothing", {"execute: new": 2}),
    ]  # fmt: skip
    assert [one.rounds for one in plan.predictions] == [4, 2]
    assert "concurrency 1 (from the call, compared with 2)" in str(plan)


@pytest.mark.parametrize("arguments", [{}, {"benchmark": "trivial"}, {"benchmark": "trivial", "launch": TWO}])
def test_a_plan_of_nothing_or_of_two_things_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="give a benchmark and a harness, or `launch`"):
        proctor.plan(**arguments)


# -------------------------------------------------------------------------------------------------------- streams


def collected(**arguments: Any) -> list[proctor.StreamEvent]:
    async def main() -> list[proctor.StreamEvent]:
        return [event async for event in proctor.stream(**arguments)]

    return asyncio.run(main())


def test_a_stream_is_what_json_writes(proctor: Callable[..., Any]) -> None:
    ended = proctor("run", "trivial", "oracle", "--limit", "2", "--json")
    events = collected(benchmark="trivial", harness="oracle", limit=2)
    # Two attempts at once: in which order they get on differs from run to run, what happens does not.
    assert Counter(event.type for event in events) == Counter(event["type"] for event in ended.events)
    by_type = {event["type"]: event for event in ended.events}
    for event in events:
        assert set(event.data) == set(by_type[event.type]), event.type
    assert (events[0].type, events[-1].type) == ("plan", "receipt")
    assert events[-1].data["exit_code"] == 0
    sealed = [event.event for event in events if isinstance(event.event, AttemptSealed)]
    assert [one.verdict for one in sealed] == ["passed", "passed"]


def test_a_stream_of_a_launch_names_the_experiment() -> None:
    events = collected(launch=TWO, limit=1)
    assert {event.experiment for event in events} == {None, "gold", "nothing"}
    assert len(events[-1].data["runs"]) == 2


def test_what_is_wrong_is_raised_at_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean `nop`"):
        collected(benchmark="trivial", harness="nope")
    assert list(tmp_path.iterdir()) == []


def test_10_I5_to_close_a_stream_is_an_interrupt_and_comes_back_after_the_clean_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with contextlib.aclosing(proctor.stream("trivial", HANGS, limit=3, task_concurrency=2)) as events:
            async for event in events:
                if event.type == "PhaseStarted" and event.data["phase"] == "agent":
                    break
        [run] = tmp_path.rglob("summary.json")
        assert json.loads(run.read_text())["completion"] == "interrupted"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_10_I5_a_cancelled_reader_is_an_interrupt_too(tmp_path: Path) -> None:
    async def read() -> None:
        async for _ in proctor.stream("trivial", HANGS, limit=1):
            pass

    async def main() -> None:
        task = asyncio.create_task(read())
        while not any('"agent"' in path.read_text() for path in tmp_path.rglob("journal.jsonl")):
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(main())
    [run] = tmp_path.rglob("summary.json")
    assert json.loads(run.read_text())["counts"]["cancelled"] == 1


def test_10_I4_a_reader_that_is_slow_holds_up_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.sdk.streams.HELD_AT_MOST", 20)

    async def main() -> list[proctor.StreamEvent]:
        events = proctor.stream("trivial", "oracle")
        seen = [await anext(events)]
        while not list(tmp_path.rglob("summary.json")):  # the run goes to its end although nobody reads
            await asyncio.sleep(0.01)
        return seen + [event async for event in events]

    events = asyncio.run(main())
    assert [event.type for event in events[-2:]] == ["left_out", "receipt"]
    kept = sum(event.event is not None for event in events)
    [journal] = tmp_path.rglob("journal.jsonl")
    assert kept + events[-2].data["count"] == len(journal.read_text().splitlines())


# ---------------------------------------------------------------------------------------------------------- types


def test_02_calls_take_every_field_of_an_experiment_and_nothing_else() -> None:
    fields = set(RunArguments.__annotations__) - set(CallArguments.__annotations__)
    assert fields == set(ExperimentConfig.model_fields) - {"benchmark", "harness", "model"}


def test_the_types_of_arguments_allow_the_defaults_of_their_fields() -> None:
    hints = get_type_hints(RunArguments)
    parts = ("benchmark", "harness", "model", "environment")
    fields = {name: field for name, field in ExperimentConfig.model_fields.items() if name not in parts}
    checked = [name for name in fields if is_plain(hints[name])]
    assert len(checked) > len(fields) / 2
    for name in checked:
        TypeAdapter(hints[name]).validate_python(fields[name].default, strict=True)


def is_plain(hint: Any) -> bool:
    alternatives = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return all(one in (int, float, str, bool, type(None)) for one in alternatives)


def test_arguments_are_put_in_their_places() -> None:
    call = asked(
        {
            "tasks": "a", "tag": ["x"], "tags": ["y"], "attempts": 2, "task_concurrency": 3,
            "execution": {"max_retries": 1}, "results_dir": "r", "runtime": None, "limit": None, "progress": "none",
        }
    )  # fmt: skip
    assert call == {
        "fields": {"tags": ["y"], "attempts": 2},
        "execution": {"max_retries": 1, "task_concurrency": 3},
        "runtime": {"results_dir": "r"},
        "more": {"tasks": ("a",), "tag": ("x",), "limit": None, "progress": "none"},
    }
