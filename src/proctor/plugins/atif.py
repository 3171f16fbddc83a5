"""Trajectories in the Agent Trajectory Interchange Format (ATIF), which the Harbor project publishes (its RFC 0001).

One builder for all harnesses, whether they make the calls themselves or read what a program wrote. It keeps to what
version 1.6 of the format names, which later readers read too, and to bounds: what is too much is left out of the
middle, with counts, so that a trajectory never costs a result. `plugins.api` has it as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from proctor.model.attempt import NO_USAGE, Usage
from proctor.model.spec import Json
from proctor.plugins.atif_steps import STEPS_WEIGHT, Step, metrics_of, prompt_tokens
from proctor.plugins.models import Completion, Tool, ToolCall

ATIF_VERSION = "ATIF-v1.6"
"""The version of the format that trajectories keep to."""

A_CALL = Usage(calls=1)
"""What is known of a call that was made and reported no usage: that it was made."""


class Trajectory:
    """What was said and done in one session, step by step. Only what is known is told: an unknown sum is left out."""

    def __init__(self, *, session: str, agent: str, version: str, model: str | None = None) -> None:
        self._session = session
        self._agent: dict[str, Json] = {"name": agent, "version": version}
        if model is not None:
            self._agent["model_name"] = model
        self._steps: list[Step] = []
        self._head: int | None = None  # how many steps stay at the beginning, once something was left out behind them
        self._left_out = 0
        self._weight = 0
        self._made_by: dict[str, Step] = {}
        self._used = NO_USAGE
        self._cost_usd: float | None = 0.0
        self._unknown = False
        self._reported: Usage | None = None

    def offer(self, tools: Sequence[Tool]) -> None:
        """Say which tools the agent may call."""
        self._agent["tool_definitions"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in tools
        ]

    def say(self, source: Literal["system", "user"], text: str, *, timestamp: str | None = None) -> None:
        """Add what was said to the agent."""
        self._add(Step(source, text), timestamp)

    def act(
        self,
        text: str,
        *,
        usage: Usage | None = None,
        calls: Sequence[ToolCall] = (),
        reasoning: str | None = None,
        model: str | None = None,
        stop_reason: str | None = None,
        timestamp: str | None = None,
    ) -> None:
        """Add what the agent said and which tools it called, in one call of a model.

        Without `usage` the call counts as one of which nothing is known; with `NO_USAGE` there was none. The ids of
        `calls` are different ones.
        """
        step = Step("agent", text)
        fields = step.fields
        if model is not None:
            fields["model_name"] = model
        if reasoning:
            fields["reasoning_content"] = step.text(reasoning)
        for call in calls:
            step.call(call)
            self._made_by[call.id] = step
        if usage is None or usage == A_CALL:
            self._unknown = True
        elif usage != NO_USAGE:
            self._count(usage)
            fields["metrics"] = metrics_of(usage)
        if stop_reason is not None:
            step.note("stop_reason", stop_reason)
        self._add(step, timestamp)

    def complete(self, completion: Completion, calls: Sequence[ToolCall] | None = None) -> None:
        """Add what a model answered; `calls`, where given, stands for its calls, such as with ids that differ."""
        self.act(
            completion.text,
            usage=completion.usage,
            calls=completion.tool_calls if calls is None else calls,
            reasoning=completion.reasoning,
            model=completion.model,
            stop_reason=completion.stop_reason,
        )

    def observe(self, content: str, call_id: str | None = None) -> None:
        """Add the result of the call `call_id`, or what was seen otherwise after the last step of the agent."""
        step = self._made_by.pop(call_id, None) if call_id is not None else None
        if step is None:
            if not self._steps or self._steps[-1].fields["source"] != "agent":
                self._add(Step("system", ""), None)
            step = self._steps[-1]
        before = step.weight
        step.result(content, call_id)
        self._weight += step.weight - before

    def lose_call(self) -> None:
        """Count a call that got no answer: what it used, and so the sum, is not known."""
        self._unknown = True

    def total(self, usage: Usage) -> None:
        """Take a sum that was reported as such, in place of that of the steps."""
        self._reported = usage

    def value(self) -> Json | None:
        """Return the trajectory as a JSON value; None where nothing was said."""
        if not self._steps:
            return None
        self._trim(STEPS_WEIGHT)
        trajectory: dict[str, Json] = {
            "schema_version": ATIF_VERSION,
            "session_id": self._session,
            "agent": dict(self._agent),
            "steps": [{"step_id": number, **step.fields} for number, step in enumerate(self._steps, start=1)],
        }
        if self._left_out:  # the format wants it said here where the count is not that of the steps
            where = f"after step {self._head}" if self._head else "at the beginning"
            trajectory["notes"] = f"{self._left_out:,} steps {where} are left out; total_steps counts them"
        trajectory["final_metrics"] = self._final_metrics()
        return trajectory

    @property
    def cut(self) -> str | None:
        """What was cut to keep within bounds, in words; None where nothing was."""
        self._trim(STEPS_WEIGHT)
        cut = sum(step.cut for step in self._steps)
        if not cut and not self._left_out:
            return None
        return f"the trajectory is kept in part: {self._left_out:,} steps left out, {cut:,} steps cut"

    # ------------------------------------------------------------------------------------------------------ inside

    def _add(self, step: Step, timestamp: str | None) -> None:
        if timestamp is not None and _is_moment(timestamp):
            step.fields["timestamp"] = timestamp
        self._steps.append(step)
        self._weight += step.weight
        self._trim(STEPS_WEIGHT * 5 // 4)  # not with every step, because it looks at all of them

    def _trim(self, most: int) -> None:
        """Leave steps out of the middle where all together are more than `most`."""
        if self._weight <= most:
            return
        if self._head is None:
            self._head = _fitting(self._steps, STEPS_WEIGHT // 2)
        head, rest = self._steps[: self._head], self._steps[self._head :]
        tail = rest[len(rest) - _fitting(rest[::-1], STEPS_WEIGHT // 2) :]
        gone = set(map(id, rest[: len(rest) - len(tail)]))
        self._left_out += len(gone)
        self._made_by = {name: step for name, step in self._made_by.items() if id(step) not in gone}
        self._steps = head + tail
        self._weight = sum(step.weight for step in self._steps)

    def _count(self, usage: Usage) -> None:
        self._used += usage
        known = self._cost_usd is not None and usage.cost_usd is not None
        self._cost_usd = (self._cost_usd or 0.0) + (usage.cost_usd or 0.0) if known else None

    def _final_metrics(self) -> Json:
        """Return the sums; a sum to which a call did not report its part is unknown, and left out."""
        total, cost = self._used, self._cost_usd
        if self._reported is not None:
            total, cost = self._reported, self._reported.cost_usd
        metrics: dict[str, Json] = {"total_steps": len(self._steps) + self._left_out}
        if total != NO_USAGE and (self._reported is not None or not self._unknown):
            metrics["total_prompt_tokens"] = prompt_tokens(total)
            metrics["total_completion_tokens"] = total.output_tokens
            metrics["total_cached_tokens"] = total.cache_read_tokens
            if cost is not None:
                metrics["total_cost_usd"] = cost
        return metrics


def _fitting(steps: Sequence[Step], most: int) -> int:
    """Return how many of the first steps weigh no more than `most` together."""
    weight = 0
    for count, step in enumerate(steps):
        weight += step.weight
        if weight > most:
            return count
    return len(steps)


def _is_moment(timestamp: str) -> bool:
    try:
        datetime.fromisoformat(timestamp)
    except ValueError:
        return False
    return True
