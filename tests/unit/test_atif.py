"""Trajectories keep to the published format, to bounds, and to what is known, whatever was said in a session."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.model.attempt import Usage
from proctor.model.bounds import TREE_DEPTH
from proctor.plugins import atif, atif_steps
from proctor.plugins.api import Completion, Tool, ToolCall, Trajectory, arguments_of
from proctor.runtime.kept import kept_tree
from support.atif_rules import checked

PRICED = Usage(calls=1, input_tokens=3, output_tokens=2, cache_read_tokens=5, cost_usd=0.25)


def begun(**changes: Any) -> Trajectory:
    return Trajectory(**{"session": "abcdefgh2345", "agent": "me", "version": "1", "model": "vendor/m", **changes})


def test_a_session_with_calls_and_results_is_as_the_format_has_it() -> None:
    trajectory = begun()
    trajectory.offer([Tool("bash", "runs it", {"type": "object"})])
    trajectory.say("system", "be brief")
    trajectory.say("user", "list the files", timestamp="2026-01-02T03:04:05Z")
    call = ToolCall("c1", "bash", '{"command": "ls"}')
    completion = Completion("", PRICED, model="m-1", stop_reason="tool_calls", tool_calls=(call,), reasoning="hm")
    trajectory.complete(completion)
    trajectory.observe("a.txt", "c1")
    trajectory.observe("the disk is nearly full")
    tool = {"name": "bash", "description": "runs it", "parameters": {"type": "object"}}
    assert checked(trajectory.value()) == {
        "schema_version": "ATIF-v1.6",
        "session_id": "abcdefgh2345",
        "agent": {
            "name": "me",
            "version": "1",
            "model_name": "vendor/m",
            "tool_definitions": [{"type": "function", "function": tool}],
        },
        "steps": [
            {"step_id": 1, "source": "system", "message": "be brief"},
            {"step_id": 2, "source": "user", "message": "list the files", "timestamp": "2026-01-02T03:04:05Z"},
            {
                "step_id": 3,
                "source": "agent",
                "message": "",
                "model_name": "m-1",
                "reasoning_content": "hm",
                "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}],
                "metrics": {"prompt_tokens": 8, "completion_tokens": 2, "cached_tokens": 5, "cost_usd": 0.25},
                "extra": {"stop_reason": "tool_calls"},
                "observation": {
                    "results": [
                        {"source_call_id": "c1", "content": "a.txt"},
                        {"content": "the disk is nearly full"},
                    ]
                },
            },
        ],
        "final_metrics": {
            "total_steps": 3,
            "total_prompt_tokens": 8,
            "total_completion_tokens": 2,
            "total_cached_tokens": 5,
            "total_cost_usd": 0.25,
        },
    }


def test_nothing_said_is_no_trajectory() -> None:
    assert begun().value() is None


def test_a_result_that_comes_late_belongs_to_its_call() -> None:
    trajectory = begun()
    trajectory.act("first", calls=[ToolCall("c1", "bash", "{}"), ToolCall("c2", "bash", "{}")])
    trajectory.act("second", calls=[ToolCall("c3", "bash", "{}")])
    for name in ("c3", "c2", "c1"):
        trajectory.observe(f"result of {name}", name)
    steps = checked(trajectory.value())["steps"]
    assert [len(step["observation"]["results"]) for step in steps] == [2, 1]
    assert steps[0]["observation"]["results"][1] == {"source_call_id": "c1", "content": "result of c1"}


@pytest.mark.parametrize(
    "arguments",
    [
        '{"command": ', "", "[1]", '"ls"', "null", '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e400}',
        '{"a": ' + "9" * 5000 + "}", "[" * 100_000, '{"a": ' * TREE_DEPTH + "1" + "}" * TREE_DEPTH, "\ud800\0",
    ],
)  # fmt: skip
def test_arguments_that_are_no_object_of_json_are_kept_as_they_were_written(arguments: str) -> None:
    call = ToolCall("c1", "bash", arguments)
    trajectory = begun()
    trajectory.act("", calls=[call])
    step = checked(trajectory.value())["steps"][0]
    assert step["tool_calls"][0]["arguments"] == {}
    assert step["extra"]["raw_arguments"] == {"c1": arguments}
    assert trajectory.cut is None


def test_arguments_as_a_model_should_write_them() -> None:
    assert arguments_of(ToolCall("c", "bash", ' {"command": "ls", "n": 1.5} ')) == {"command": "ls", "n": 1.5}


def test_a_sum_to_which_a_call_is_missing_is_unknown_and_never_zero() -> None:
    lost, silent, unpriced = begun(), begun(), begun()
    for trajectory in (lost, silent, unpriced):
        trajectory.act("x", usage=PRICED)
    lost.lose_call()
    silent.act("y", usage=Usage(calls=1))
    unpriced.act("y", usage=Usage(calls=1, input_tokens=1))
    assert checked(lost.value())["final_metrics"] == {"total_steps": 1}
    assert checked(silent.value())["final_metrics"] == {"total_steps": 2}
    assert "metrics" not in checked(silent.value())["steps"][1]
    final = checked(unpriced.value())["final_metrics"]
    assert final["total_prompt_tokens"] == 9
    assert "total_cost_usd" not in final


def test_a_sum_that_was_reported_as_such_counts() -> None:
    trajectory = begun()
    trajectory.act("x")
    trajectory.total(Usage(calls=2, input_tokens=7, output_tokens=1, cost_usd=0.5))
    assert checked(trajectory.value())["final_metrics"] == {
        "total_steps": 1,
        "total_prompt_tokens": 7,
        "total_completion_tokens": 1,
        "total_cached_tokens": 0,
        "total_cost_usd": 0.5,
    }


def test_129_huge_results_are_cut_with_counts_and_nothing_more_is_cut_by_whoever_keeps_them() -> None:
    trajectory = begun()
    trajectory.say("user", "go")
    for number in range(70):
        trajectory.act(f"step {number}", usage=PRICED, calls=[ToolCall(f"c{number}", "bash", "{}")])
        trajectory.observe("x" * 1_000_000, f"c{number}")
    value = checked(trajectory.value())
    kept = [step["message"] for step in value["steps"]]
    gone = 71 - len(kept)
    assert kept[:2] == ["go", "step 0"]
    assert kept[-1] == "step 69"
    assert gone > 0
    assert f"{gone:,} steps" in value["notes"]
    assert f"{gone:,} steps left out" in (trajectory.cut or "")
    assert value["final_metrics"]["total_steps"] == 71
    assert value["final_metrics"]["total_cost_usd"] == 70 * 0.25
    assert kept_tree(value, str)[1] is None


def test_129_one_huge_step_is_cut_with_counts() -> None:
    trajectory = begun()
    trajectory.act("x" * 20_000_000, calls=[ToolCall(f"c{number}", "bash", "{}") for number in range(100_000)])
    trajectory.observe("y" * 20_000_000, "c1")
    trajectory.observe("z", "c99999")
    value = checked(trajectory.value())
    step = value["steps"][0]
    assert step["extra"]["left_out"]["tool_calls"] == 100_000 - len(step["tool_calls"])
    assert trajectory.cut == "the trajectory is kept in part: 0 steps left out, 1 steps cut"


def test_126_texts_that_are_no_utf_8_are_kept_as_they_are(tmp_path: Path) -> None:
    texts = ["\ud800", "\udfff", "a\0b", "a\u2028b", "x" * 5_000_000]
    trajectory = begun()
    for text in texts:
        trajectory.act(text, reasoning=text, calls=[ToolCall("c", "bash", json.dumps({"command": text}))])
        trajectory.observe(text, "c")
    steps = checked(trajectory.value())["steps"]
    assert [step["message"] for step in steps] == texts
    assert [step["reasoning_content"] for step in steps] == texts
    assert [step["tool_calls"][0]["arguments"]["command"] for step in steps] == texts
    assert [step["observation"]["results"][0]["content"] for step in steps] == texts
    assert trajectory.cut is None


TEXTS = st.text(max_size=40) | st.sampled_from(["\ud800", "\0", "x" * 300])
CALLS = st.lists(st.builds(ToolCall, st.sampled_from(["", "a", "b", "c"]), TEXTS, TEXTS | st.just('{"a": [1]}')))
USAGES = st.none() | st.builds(
    Usage, calls=st.integers(0, 2), input_tokens=st.integers(0, 9), cost_usd=st.none() | st.floats(0, 1)
)


@given(st.integers(0, 2**32), st.integers(4_000, 50_000), st.data())
def test_whatever_happens_the_rules_of_the_format_hold(seed: int, room: int, data: st.DataObject) -> None:
    chance = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atif, "STEPS_WEIGHT", room)
        patch.setattr(atif_steps, "STEP_WEIGHT", room // 2)
        trajectory = begun()
        for _ in range(chance.randrange(60)):
            match chance.randrange(5):
                case 0:
                    trajectory.say(chance.choice(["system", "user"]), data.draw(TEXTS))
                case 1:
                    trajectory.act(
                        data.draw(TEXTS),
                        usage=data.draw(USAGES),
                        calls=data.draw(CALLS),
                        timestamp=chance.choice([None, "2026-01-01T00:00:00+00:00", "yesterday"]),
                    )
                case 2:
                    trajectory.lose_call()
                case _:
                    trajectory.observe(data.draw(TEXTS), chance.choice([None, "", "a", "b", "nobody's"]))
        value = trajectory.value()
        if value is not None:
            checked(value)
