"""The harness `chat`: one call a turn, everything reported, and a trajectory that readers of ATIF understand."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from pydantic import ValidationError

from proctor.errors import Fault
from proctor.harnesses.chat import ChatHarness, ChatOptions
from proctor.model.attempt import NO_USAGE, Usage
from proctor.model.spec import Component, ModelSpec, Task
from proctor.plugins.api import ChatMessage, Completion, Message
from support.atif_rules import checked


class FakeModel:
    """Answers from a list, an exception among them is raised; keeps what it was asked."""

    def __init__(self, *answers):
        self.spec = ModelSpec(id="vendor/m")
        self.asked = []
        self._answers = list(answers)

    async def complete(self, messages):
        self.asked.append(list(messages))
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def close(self):
        pass


class FakeContext:
    """The context of one try, which keeps what is reported."""

    def __init__(self, model):
        self.task = Task(id="t", grader=Component("text"), prompt="What is 6 x 7?")
        self.attempt = "abcdefgh2345"
        self.flags = {}
        self.log = logging.getLogger("test")
        self.model = model
        self.issues = []
        self.used = []
        self.said = []

    @property
    def sandbox(self):
        raise RuntimeError("no sandbox was asked for")

    def progress(self, text):
        self.said.append(text)

    def issue(self, code, message):
        self.issues.append(code)

    def usage(self, usage):
        self.used.append(usage)


def talk(model, *texts, **options):
    """Send the texts, one turn each; return the answers, the context and what was collected."""
    ctx = FakeContext(model)

    async def run():
        session = await ChatHarness(ChatOptions(**options)).start(ctx)
        turns, failure = [], None
        try:
            for text in texts:
                turns.append(await session.send(Message(text)))
        except Fault as fault:
            failure = fault
        collected = await session.collect()
        await session.close()
        return [turn.answer for turn in turns], failure, collected

    answers, failure, collected = asyncio.run(run())
    if collected.trajectory is not None:
        checked(collected.trajectory)
    return answers, failure, ctx, collected


def completion(text, **changes):
    values = {"usage": Usage(calls=1, input_tokens=5, output_tokens=2), "model": "m-2026", "stop_reason": "stop"}
    return Completion(text, **{**values, **changes})


def test_spec_11_a_turn_is_one_call_with_the_prompt():
    model = FakeModel(completion("42"))
    answers, failure, ctx, _ = talk(model, "What is 6 x 7?")
    assert (answers, failure) == (["42"], None)
    assert model.asked == [[ChatMessage("user", "What is 6 x 7?")]]
    assert ctx.used == [Usage(calls=1, input_tokens=5, output_tokens=2)]
    assert ctx.issues == []


def test_further_turns_go_on_with_the_conversation_and_the_system_prompt_stands_first():
    model = FakeModel(completion("a1"), completion("a2"))
    answers, _, ctx, _ = talk(model, "q1", "q2", system="be brief")
    assert answers == ["a1", "a2"]
    assert model.asked[1] == [
        ChatMessage("system", "be brief"),
        ChatMessage("user", "q1"),
        ChatMessage("assistant", "a1"),
        ChatMessage("user", "q2"),
    ]
    assert len(ctx.used) == 2


def test_usage_that_the_endpoint_does_not_report_is_an_issue_and_never_zero():
    _, _, ctx, collected = talk(FakeModel(completion("x", usage=None)), "q")
    assert ctx.issues == ["usage.missing"]
    assert ctx.used == [Usage(calls=1)]
    trajectory = collected.trajectory
    assert "metrics" not in trajectory["steps"][1]
    assert trajectory["final_metrics"] == {"total_steps": 2}


def test_a_sum_to_which_one_call_is_missing_is_unknown():
    _, _, _, collected = talk(FakeModel(completion("x"), completion("y", usage=None)), "q1", "q2")
    assert collected.trajectory["final_metrics"] == {"total_steps": 4}
    assert collected.trajectory["steps"][1]["metrics"]["prompt_tokens"] == 5


def test_a_content_filter_is_recorded_and_the_answer_kept():
    answers, failure, ctx, _ = talk(FakeModel(completion("I can", stop_reason="content_filter")), "q")
    assert (answers, failure, ctx.issues) == (["I can"], None, ["model.refusal"])


def test_an_empty_answer_is_an_answer():
    assert talk(FakeModel(completion("")), "q")[0] == [""]


def test_a_failed_call_is_raised_as_it_is_and_what_was_said_is_kept():
    model = FakeModel(completion("a1"), Fault("model.timeout", "no answer"))
    answers, failure, ctx, collected = talk(model, "q1", "q2")
    assert answers == ["a1"]
    assert failure.code == "model.timeout"
    assert [step["message"] for step in collected.trajectory["steps"]] == ["q1", "a1", "q2"]
    # What the second call took is unknown, and so is the sum.
    assert ctx.used == [Usage(calls=1, input_tokens=5, output_tokens=2), Usage(calls=1)]
    assert collected.trajectory["final_metrics"] == {"total_steps": 3}


def test_05_a_request_that_was_refused_is_no_call_so_that_the_first_one_leaves_no_result():
    _, failure, ctx, _ = talk(FakeModel(Fault("model.invalid_request", "no such parameter")), "q")
    assert (failure.code, ctx.used) == ("model.invalid_request", [])


class HangingModel(FakeModel):
    """Takes a call and never answers."""

    def __init__(self):
        super().__init__()
        self.called = asyncio.Event()

    async def complete(self, messages):
        self.called.set()
        await asyncio.Event().wait()


def test_09_a_call_that_was_cut_off_counts_and_its_cost_is_unknown():
    model = HangingModel()
    ctx = FakeContext(model)

    async def run():
        session = await ChatHarness(ChatOptions()).start(ctx)
        call = asyncio.ensure_future(session.send(Message("q")))
        await model.called.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await session.collect()

    collected = asyncio.run(run())
    assert ctx.used == [Usage(calls=1)]
    assert collected.trajectory["final_metrics"] == {"total_steps": 1}


def test_09_calls_of_unknown_cost_make_the_sum_unknown_and_never_free():
    priced = Usage(calls=1, input_tokens=5, output_tokens=2, cost_usd=0.5)
    _, _, ctx, _ = talk(FakeModel(completion("a", usage=priced), completion("b", usage=None)), "q1", "q2")
    total = sum(ctx.used, NO_USAGE)
    assert (total.calls, total.input_tokens, total.cost_usd) == (2, 5, None)


def test_a_call_is_counted_also_where_the_model_forgot_to():
    _, _, ctx, _ = talk(FakeModel(completion("a", usage=Usage(input_tokens=5, output_tokens=2))), "q")
    assert ctx.used == [Usage(calls=1, input_tokens=5, output_tokens=2)]


def test_a_message_that_got_no_answer_is_no_part_of_the_next_call():
    model = FakeModel(Fault("model.server", "down"), completion("a2"))
    ctx = FakeContext(model)

    async def run():
        session = await ChatHarness(ChatOptions()).start(ctx)
        with pytest.raises(Fault):
            await session.send(Message("q1"))
        await session.send(Message("q2"))

    asyncio.run(run())
    assert model.asked[1] == [ChatMessage("user", "q2")]


def test_the_trajectory_is_atif_as_its_readers_check_it():
    usage = Usage(
        calls=1, input_tokens=3, output_tokens=81, cache_read_tokens=500, cache_write_tokens=9, reasoning_tokens=64
    )
    _, _, _, collected = talk(FakeModel(completion("42", usage=usage)), "What is 6 x 7?", system="be brief")
    assert json.loads(json.dumps(collected.trajectory)) == {
        "schema_version": "ATIF-v1.6",
        "session_id": "abcdefgh2345",
        "agent": {"name": "chat", "version": "1", "model_name": "vendor/m"},
        "steps": [
            {"step_id": 1, "source": "system", "message": "be brief"},
            {"step_id": 2, "source": "user", "message": "What is 6 x 7?"},
            {
                "step_id": 3,
                "source": "agent",
                "message": "42",
                "model_name": "m-2026",
                "metrics": {
                    # The prompt counts all of the input, cached tokens among it.
                    "prompt_tokens": 512,
                    "completion_tokens": 81,
                    "cached_tokens": 500,
                    "extra": {"reasoning_tokens": 64},
                },
                "extra": {"stop_reason": "stop"},
            },
        ],
        "final_metrics": {
            "total_steps": 3,
            "total_prompt_tokens": 512,
            "total_completion_tokens": 81,
            "total_cached_tokens": 500,
        },
    }


def test_a_known_cost_is_in_the_trajectory():
    usage = Usage(calls=1, input_tokens=1, output_tokens=1, cost_usd=0.25)
    _, _, _, collected = talk(FakeModel(completion("x", usage=usage), completion("y", usage=usage)), "q1", "q2")
    assert collected.trajectory["steps"][1]["metrics"]["cost_usd"] == 0.25
    assert collected.trajectory["final_metrics"]["total_cost_usd"] == 0.5


def test_a_session_in_which_nothing_was_said_has_no_trajectory():
    assert talk(FakeModel())[3].trajectory is None


def test_what_the_harness_needs_and_takes():
    assert (ChatHarness.needs_model, ChatHarness.needs_sandbox, ChatHarness.isolated_attempts) == (True, False, True)
    assert ChatHarness.options().system is None
    with pytest.raises(ValidationError):
        ChatHarness.options(sytem="x")
