"""The harness `chat`: each turn is one call of the model, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict

from proctor.model.attempt import NO_USAGE, Usage
from proctor.model.spec import Json
from proctor.plugins.api import AttemptContext, ChatMessage, Collected, Completion, Message, Turn

ATIF_VERSION = "ATIF-v1.6"
"""The version of the Agent Trajectory Interchange Format that the trajectories keep to; later readers read it too."""

CONTENT_FILTER = "content_filter"


A_CALL = Usage(calls=1)
"""What is known of a call that was made and reported no usage: that it was made."""


class ChatOptions(BaseModel):
    """Parameters of `chat`: the system prompt, none unless given."""

    model_config = ConfigDict(extra="forbid")

    system: str | None = None


class ChatHarness:
    """Sends the task's prompt to the model and returns its answer; further turns go on with the conversation."""

    name = "chat"
    version = "1"
    isolated_attempts = True
    needs_model = True
    needs_sandbox = False
    options: type[BaseModel] = ChatOptions

    def __init__(self, options: ChatOptions) -> None:
        self._system = options.system

    async def start(self, ctx: AttemptContext) -> ChatSession:
        """Begin a conversation; calls nothing yet."""
        return ChatSession(ctx, self._system)


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of the conversation; a step of the agent has the completion that it came from."""

    source: str
    text: str
    completion: Completion | None = None


class ChatSession:
    """A conversation with the model."""

    def __init__(self, ctx: AttemptContext, system: str | None) -> None:
        self._ctx = ctx
        # What is sent. A message that got no answer is in the steps alone: it was no part of the conversation.
        self._conversation = [ChatMessage("system", system)] if system is not None else []
        self._steps = [_Step("system", system)] if system is not None else []
        self._calls = 0

    async def send(self, message: Message) -> Turn:
        """Make exactly one call, with the conversation so far; raises what the model raises."""
        ctx = self._ctx
        model = ctx.model
        asked = ChatMessage("user", message.text)
        self._steps.append(_Step("user", message.text))
        ctx.progress(f"waiting for {model.spec.id}")
        self._calls += 1
        try:
            completion = await model.complete([*self._conversation, asked])
        except BaseException:  # a call that was cut off by a limit is paid for as well, nobody knows how much
            ctx.usage(A_CALL)
            raise
        self._conversation += [asked, ChatMessage("assistant", completion.text)]
        self._steps.append(_Step("agent", completion.text, completion))
        if completion.usage is None:
            ctx.issue("usage.missing", f"{model.spec.id} reported no usage for a call")
        ctx.usage(_usage_of(completion))
        if completion.stop_reason == CONTENT_FILTER:
            ctx.issue("model.refusal", f"a content filter stopped the answer of {model.spec.id}")
        return Turn(answer=completion.text)

    async def collect(self) -> Collected:
        """Return the trajectory, also of a conversation that broke off; none where nothing was said."""
        return Collected(trajectory=self._trajectory() if self._steps else None)

    async def close(self) -> None:
        """Do nothing: the model is closed by whoever opened it."""

    def _trajectory(self) -> Json:
        trajectory: dict[str, Json] = {
            "schema_version": ATIF_VERSION,
            "session_id": self._ctx.attempt,
            "agent": {
                "name": ChatHarness.name,
                "version": ChatHarness.version,
                "model_name": self._ctx.model.spec.id,
            },
            "steps": [_step(number, step) for number, step in enumerate(self._steps, start=1)],
            "final_metrics": _final_metrics(self._steps, self._calls),
        }
        return trajectory


def _usage_of(completion: Completion) -> Usage:
    """Return what a call used; that it was a call is known also where the model forgot to count it."""
    usage = A_CALL if completion.usage is None else completion.usage
    return usage if usage.calls else replace(usage, calls=1)


def _step(number: int, step: _Step) -> Json:
    said: dict[str, Json] = {"step_id": number, "source": step.source, "message": step.text}
    completion = step.completion
    if completion is None:
        return said
    if completion.model is not None:
        said["model_name"] = completion.model
    if completion.usage is not None:
        said["metrics"] = _metrics(completion.usage)
    if completion.stop_reason is not None:
        said["extra"] = {"stop_reason": completion.stop_reason}
    return said


def _prompt_tokens(usage: Usage) -> int:
    """Return the whole input: in a trajectory cached tokens are a part of it, while our kinds are disjoint."""
    return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def _metrics(usage: Usage) -> Json:
    metrics: dict[str, Json] = {
        "prompt_tokens": _prompt_tokens(usage),
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cache_read_tokens,
    }
    if usage.cost_usd is not None:
        metrics["cost_usd"] = usage.cost_usd
    if usage.reasoning_tokens:
        metrics["extra"] = {"reasoning_tokens": usage.reasoning_tokens}
    return metrics


def _final_metrics(steps: list[_Step], calls: int) -> Json:
    """Return the sums; a sum to which a call did not report its part is unknown, and left out."""
    metrics: dict[str, Json] = {"total_steps": len(steps)}
    reported = [step.completion.usage for step in steps if step.completion is not None]
    known = [usage for usage in reported if usage is not None]
    if len(known) < calls:
        return metrics
    total = sum(known, NO_USAGE)
    metrics["total_prompt_tokens"] = _prompt_tokens(total)
    metrics["total_completion_tokens"] = total.output_tokens
    metrics["total_cached_tokens"] = total.cache_read_tokens
    if total.cost_usd is not None:
        metrics["total_cost_usd"] = total.cost_usd
    return metrics
