"""What `require_trajectory` takes for ATIF, and what it says of what is none (spec 11)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from proctor.model.attempt import Usage
from proctor.plugins.api import Tool, ToolCall, Trajectory
from proctor.testing import NotConforming
from proctor.testing.check_trajectory import require_trajectory, trajectory_problems
from support.atif_rules import checked


def sound() -> Any:
    """Return a trajectory with everything in it, made by our builder."""
    trajectory = Trajectory(session="s", agent="a", version="1", model="vendor/m")
    trajectory.offer([Tool("bash", "runs", {"type": "object"})])
    trajectory.say("system", "Be brief.", timestamp="2026-01-02T03:04:05+00:00")
    trajectory.say("user", "Do it.")
    calls = [ToolCall("c1", "bash", '{"command": "ls"}'), ToolCall("c2", "bash", "no JSON")]
    used = Usage(calls=1, input_tokens=10, cache_read_tokens=5, output_tokens=3, cost_usd=0.5)
    trajectory.act("", usage=used, calls=calls, reasoning="hm", model="m", stop_reason="tool_calls")
    trajectory.observe("a.txt", "c1")
    trajectory.observe("not run", "c2")
    return trajectory.value()


def test_a_sound_one_is_taken_of_any_version() -> None:
    value = sound()
    for version in ("ATIF-v1.0", "ATIF-v1.6", "ATIF-v1.9"):
        require_trajectory({**value, "schema_version": version})
    newer = {**value, "schema_version": "ATIF-v1.7", "something": 1}
    newer["steps"][2]["llm_call_count"] = newer["steps"][2]["tool_calls"][0]["extra"] = 1
    require_trajectory(newer)


def changed(path: str, value: Any) -> Callable[[Any], None]:
    def change(trajectory: Any) -> None:
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        for part in parents:
            trajectory = trajectory[part]
        if value is None:
            del trajectory[last]
        else:
            trajectory[last] = value

    return change


BROKEN: list[tuple[str, Any, str]] = [
    ("schema_version", "ATIF-v2.0", "schema_version is 'ATIF-v2.0'"),
    ("session_id", None, "the trajectory has no `session_id`"),
    ("agent.version", None, "agent has no `version`"),
    ("agent.mood", "good", "agent has a field that the format does not know, `mood`"),
    ("steps", [], "there are no steps"),
    ("steps", {}, "`steps` of the trajectory is of type dict"),
    ("steps.1.step_id", 7, "step 2 has the step_id 7"),
    ("steps.1.step_id", True, "`step_id` of step 2 is of type bool"),
    ("steps.1.source", "assistant", "step 2 has the source 'assistant'"),
    ("steps.1.metrics", {"prompt_tokens": 1}, "step 2 is one of user, and has what only agents have: metrics"),
    ("steps.1.message", None, "step 2 has no `message`"),
    ("steps.0.timestamp", "yesterday", "step 1 has the timestamp 'yesterday'"),
    ("steps.2.tool_calls.1.tool_call_id", "c1", "step 3 has two calls with one tool_call_id"),
    ("steps.2.tool_calls.0.arguments", "ls", "`arguments` of a call of step 3 is of type str"),
    ("steps.2.observation.results.0.source_call_id", "c9", "a result of the call 'c9', which it did not make"),
    ("steps.2.metrics.cached_tokens", 99, "more cached_tokens than prompt_tokens"),
    ("steps.2.metrics.cost_usd", float("nan"), "it is no JSON value"),
    ("steps.2.metrics.calls", 1, "metrics of step 3 has a field that the format does not know, `calls`"),
    ("steps.2.observation.results.0.ok", True, "a result of step 3 has a field that the format does not know, `ok`"),
    ("final_metrics.total_steps", 9, "total_steps is 9, there are 3 steps, and `notes` does not say why"),
    ("final_metrics.total_cost_usd", "0.5", "`total_cost_usd` of final_metrics is of type str"),
]


@pytest.mark.parametrize(("path", "value", "message"), BROKEN)
def test_what_breaks_a_rule_is_said(path: str, value: Any, message: str) -> None:
    trajectory = copy.deepcopy(sound())
    changed(path, value)(trajectory)
    with pytest.raises(NotConforming) as caught:
        require_trajectory(trajectory)
    assert message in str(caught.value)
    with pytest.raises(ValueError):  # noqa: PT011 - the published rules refuse it too, in whatever words
        checked(trajectory)


@pytest.mark.parametrize("value", [None, 1, "text", [], {"steps": {}}, {"schema_version": []}, b"", {1: {2}}])
def test_what_is_no_trajectory_at_all_is_said(value: Any) -> None:
    assert list(trajectory_problems(value))
