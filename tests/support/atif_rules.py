"""The rules of the Agent Trajectory Interchange Format, for checking what harnesses write.

Written from the published format of the Harbor project: its RFC 0001 ("trajectory format") and the models of its
package (`harbor.models.trajectories`, of 0.25.0). These are the rules of version 1.6, which is stricter than the later
ones where they differ: `session_id` is needed, and what later versions added (`llm_call_count`, `extra` of calls and
results, embedded trajectories) is refused. Content here is text only: proctor writes no images.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Extra = dict[str, Any] | None


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Agent(Strict):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: Extra = None


class ToolCall(Strict):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]


class SubagentRef(Strict):
    session_id: str
    trajectory_path: str | None = None
    extra: Extra = None


class Result(Strict):
    source_call_id: str | None = None
    content: str | None = None
    subagent_trajectory_ref: list[SubagentRef] | None = None


class Observation(Strict):
    results: list[Result]


class Metrics(Strict):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: Extra = None

    @model_validator(mode="after")
    def cached_tokens_are_a_part_of_the_prompt(self) -> Metrics:
        assert (self.cached_tokens or 0) <= (self.prompt_tokens or 0)
        return self


class Step(Strict):
    step_id: int = Field(ge=1)
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: str
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    extra: Extra = None

    @field_validator("timestamp")
    @classmethod
    def is_iso_8601(cls, value: str | None) -> str | None:
        if value is not None:
            datetime.fromisoformat(value)
        return value

    @model_validator(mode="after")
    def only_agents_have_models_and_calls(self) -> Step:
        if self.source != "agent":
            of_agents = (self.model_name, self.reasoning_effort, self.reasoning_content, self.tool_calls, self.metrics)
            assert of_agents == (None,) * 5, f"a step of {self.source} has what only agents have"
        return self

    @model_validator(mode="after")
    def results_belong_to_calls_of_the_step(self) -> Step:
        calls = [call.tool_call_id for call in self.tool_calls or []]
        assert len(set(calls)) == len(calls), "ids of calls are unique"
        for result in self.observation.results if self.observation else []:
            assert result.source_call_id is None or result.source_call_id in calls, "a result of no call"
        return self


class FinalMetrics(Strict):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = Field(default=None, ge=0)
    extra: Extra = None


class PublishedTrajectory(Strict):
    schema_version: Literal["ATIF-v1.6"]
    session_id: str
    agent: Agent
    steps: list[Step] = Field(min_length=1)
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: Extra = None

    @model_validator(mode="after")
    def steps_are_numbered_from_one(self) -> PublishedTrajectory:
        assert [step.step_id for step in self.steps] == list(range(1, len(self.steps) + 1))
        return self

    @model_validator(mode="after")
    def another_count_of_steps_is_explained(self) -> PublishedTrajectory:
        total = self.final_metrics.total_steps if self.final_metrics else None
        assert total in (None, len(self.steps)) or self.notes, "total_steps differs, and the notes do not say why"
        return self


def checked(trajectory: Any) -> Any:
    """Return a trajectory as a strict reader of JSON gets it; raises where it breaks a rule of the format."""
    read = json.loads(json.dumps(trajectory, allow_nan=False))
    # A lone surrogate is legal in JSON and no text for pydantic: what it stands for is of no matter to the rules.
    sound = json.dumps(trajectory, ensure_ascii=False).encode("utf-8", "replace")
    PublishedTrajectory.model_validate_json(sound)
    return read
