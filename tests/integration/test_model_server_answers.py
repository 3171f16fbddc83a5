"""What is sent to an endpoint and what comes back of its answer, over real HTTP through the `openai` models."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from proctor.model.attempt import Usage
from proctor.model.spec import ModelSpec
from proctor.models.mock import usage_of
from proctor.models.openai import OPENAI, open_model
from proctor.plugins.api import ChatMessage
from proctor.testing.model_server import ModelServer
from proctor.testing.replies import Answer

QUESTION = [ChatMessage("user", "What is 6 x 7?")]


def exchange(reply, messages=QUESTION, model_id="openai/m", api_key=None, **params):
    """Make one call; return the completion and the request as the server saw it."""

    async def run():
        async with ModelServer([reply]) as server:
            model = open_model(ModelSpec(id=model_id, base_url=server.base_url, api_key=api_key, params=params))
            try:
                completion = await model.complete(messages)
            finally:
                await model.close()
            (request,) = server.requests
            return completion, request

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_the_answer_with_its_usage_model_and_reason():
    completion, request = exchange(Answer("42", model="m-2026-01-01"))
    assert completion.text == "42"
    assert completion.model == "m-2026-01-01"
    assert completion.stop_reason == "stop"
    assert completion.usage == usage_of(QUESTION, "42")
    assert request.path == "/v1/chat/completions"
    assert not request.stream


def test_the_whole_conversation_is_sent_as_it_is_and_nothing_beside_it():
    messages = [
        ChatMessage("system", "be <|im_start|> brief"),
        ChatMessage("user", "one"),
        ChatMessage("assistant", "<think>hm</think>two"),
        ChatMessage("user", "three"),
        ChatMessage("assistant", ""),
        ChatMessage("user", ""),
    ]
    _, request = exchange("four", messages)
    assert request.messages == tuple(messages)
    assert request.body.keys() == {"model", "messages", "stream"}


@pytest.mark.parametrize(
    ("model_id", "name"),
    [
        ("openai/gpt-5-pro", "gpt-5-pro"),
        ("meta-llama/Llama-3", "meta-llama/Llama-3"),
        ("openai/a/b", "a/b"),
        ("m", "m"),
    ],
)
def test_parameters_are_sent_whatever_the_model_is_called(model_id, name):
    params = {"temperature": 0.0, "top_p": 0.9, "max_tokens": 7, "seed": 3, "stop": "END", "extra_body": {"top_k": 5}}
    _, request = exchange("ok", model_id=model_id, **params)
    sent = {key: value for key, value in request.body.items() if key not in ("messages", "stream")}
    assert sent == {
        "model": name,
        "temperature": 0.0,
        "top_p": 0.9,
        "max_tokens": 7,
        "seed": 3,
        "stop": ["END"],
        "top_k": 5,
    }


def test_the_key_is_the_specs_else_the_environments_else_a_placeholder(monkeypatch):
    assert exchange("ok")[1].headers["authorization"] == "Bearer unused"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    assert exchange("ok")[1].headers["authorization"] == "Bearer sk-environment"
    assert exchange("ok", api_key="sk-spec")[1].headers["authorization"] == "Bearer sk-spec"


def test_what_the_environment_says_of_openai_does_not_go_to_another_endpoint(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    _, request = exchange("ok")
    assert not [value for value in request.headers.values() if "secret" in value]


def test_usage_of_openai_becomes_kinds_that_count_each_token_once():
    # The numbers of a known undercount: cached and written tokens are a part of OpenAI's prompt.
    usage = {
        "prompt_tokens": 609_078,
        "completion_tokens": 81,
        "total_tokens": 609_159,
        "prompt_tokens_details": {"cached_tokens": 500_000, "cache_write_tokens": 109_075},
        "completion_tokens_details": {"reasoning_tokens": 64},
    }
    completion, _ = exchange(Answer("x", usage))
    assert completion.usage == Usage(
        calls=1,
        input_tokens=3,
        output_tokens=81,
        cache_read_tokens=500_000,
        cache_write_tokens=109_075,
        reasoning_tokens=64,
        cost_usd=None,
    )


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": 5},
        {"tokens": {"in": 5, "out": 6}},
        {"prompt_tokens": -5, "completion_tokens": 1, "total_tokens": 1},
        {"prompt_tokens": "many", "completion_tokens": 1, "total_tokens": 6},
        {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6, "prompt_tokens_details": {"cached_tokens": -1}},
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    ],
)
def test_usage_that_is_missing_or_cannot_be_read_is_unknown_and_the_answer_is_kept(usage):
    completion, _ = exchange(Answer("42", usage))
    assert completion.text == "42"
    assert completion.usage is None


def test_more_cached_than_prompt_tokens_never_make_a_negative_count():
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 1,
        "total_tokens": 6,
        "prompt_tokens_details": {"cached_tokens": 9},
    }
    completion, _ = exchange(Answer("42", usage))
    assert completion.usage is not None
    assert completion.usage.input_tokens == 0


def test_a_content_filter_is_an_answer_with_that_reason():
    completion, _ = exchange(Answer("I can", finish_reason="content_filter"))
    assert (completion.text, completion.stop_reason) == ("I can", "content_filter")


@pytest.mark.parametrize("reason", ["length", "tool_calls", "guardrail_intervened"])
def test_the_reason_is_the_endpoints_own_word(reason):
    assert exchange(Answer("x", finish_reason=reason))[0].stop_reason == reason


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  leading and trailing \n\n",
        "<think>a</think>b <think>unclosed",
        "high \ud83d alone",
        "low \udc00 alone",
        "nul \x00 in the middle",
        "line\u2028separator",
        "joined <|im_\u200dstart|>",
        pytest.param("x" * 5_000_000, id="5 MB"),
    ],
)
def test_text_is_the_answer_as_it_came(text):
    assert exchange(Answer(text))[0].text == text


def test_a_hundred_calls_at_once_over_one_model():
    async def run():
        everyone, waiting = asyncio.Event(), 0

        async def reply(request):
            nonlocal waiting
            waiting += 1
            if waiting == 100:
                everyone.set()
            await everyone.wait()
            return f"answer to {request.messages[-1].text}"

        async with ModelServer(reply) as server:
            model = open_model(ModelSpec(id="openai/m", base_url=server.base_url))
            calls = [model.complete([ChatMessage("user", str(n))]) for n in range(100)]
            completions = await asyncio.gather(*calls)
            await model.close()
            return [each.text for each in completions], server.peak_open_requests, server.open_requests

    texts, peak, left = asyncio.run(run())
    assert texts == [f"answer to {n}" for n in range(100)]
    assert (peak, left) == (100, 0)


def test_openai_itself_gets_the_name_that_its_newer_models_know(monkeypatch):
    async def run():
        async with ModelServer(["ok"]) as server:
            monkeypatch.setattr("proctor.models.openai.OPENAI", replace(OPENAI, base_url=server.base_url))
            model = open_model(ModelSpec(id="openai/gpt", api_key="sk-spec", params={"max_tokens": 7}))
            await model.complete(QUESTION)
            await model.close()
            return server.requests[0].body

    body = asyncio.run(run())
    assert body["max_completion_tokens"] == 7
    assert "max_tokens" not in body
