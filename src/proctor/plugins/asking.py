"""What harnesses do that call the model themselves, with all they have to report; part of `proctor.plugins.api`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from proctor.errors import Fault
from proctor.model.attempt import Usage
from proctor.plugins.atif import A_CALL, Trajectory
from proctor.plugins.models import ChatMessage, Completion, Tool
from proctor.plugins.sessions import Collected

if TYPE_CHECKING:
    from proctor.plugins.api import AttemptContext

CONTENT_FILTER = "content_filter"
"""Why a model stopped that was not allowed to answer."""

NOT_TAKEN_ON = ("model.invalid_request", "model.refused_auth", "model.payment", "model.not_found")
"""What an endpoint says to a call that it does not take on, and that costs nothing."""


async def ask(
    ctx: AttemptContext,
    messages: Sequence[ChatMessage],
    tools: Sequence[Tool] = (),
    *,
    trajectory: Trajectory | None = None,
) -> Completion:
    """Make one call of the model, and report at once what it used, also where it is cut off or fails.

    What is missing is an issue (`usage.missing`), and so is an answer that a filter stopped (`model.refusal`). A call
    that got no answer is counted in `trajectory`; an answer is not added to it. Raises what the model raises.
    """
    model = ctx.model
    ctx.progress(f"waiting for {model.spec.id}")
    try:
        # One that knows of no tools, as long as it is asked for none, does not have to.
        completion = await (model.complete(messages, tools) if tools else model.complete(messages))
    except BaseException as error:
        if not costs_nothing(error):
            ctx.usage(A_CALL)  # one that was cut off by a limit is paid for as well, nobody knows how much
            if trajectory is not None:
                trajectory.lose_call()
        raise
    if completion.usage is None:
        ctx.issue("usage.missing", f"{model.spec.id} reported no usage for a call")
    ctx.usage(_usage_of(completion))
    if completion.stop_reason == CONTENT_FILTER:
        ctx.issue("model.refusal", f"a content filter stopped the answer of {model.spec.id}")
    return completion


def costs_nothing(error: BaseException) -> bool:
    """Say whether the call that ended so was not taken on by its endpoint: then nobody is paid for it."""
    return isinstance(error, Fault) and (error.refused or error.code in NOT_TAKEN_ON)


def collected(ctx: AttemptContext, trajectory: Trajectory) -> Collected:
    """Return what is kept of a session with no files; a trajectory that was cut is an issue (`output.truncated`)."""
    if cut := trajectory.cut:
        ctx.issue("output.truncated", cut)
    return Collected(trajectory=trajectory.value())


def _usage_of(completion: Completion) -> Usage:
    """Return what a call used; that it was a call is known also where the model forgot to count it."""
    usage = A_CALL if completion.usage is None else completion.usage
    return usage if usage.calls else replace(usage, calls=1)
