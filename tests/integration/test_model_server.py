"""The scripted model server as any HTTP client sees it: whole answers, streams, errors, records."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import urllib.request

import aiohttp
import pytest

from proctor.data.humaneval import load
from proctor.errors import MissingPackage
from proctor.model.spec import ModelSpec
from proctor.models import mock, openai
from proctor.models.mock import usage_of
from proctor.plugins.api import ChatMessage, Completion
from proctor.testing.model_server import ModelServer, serve
from proctor.testing.replies import Answer, Cut, Failure, Garbage, Hang, answering
from proctor.testing.scripts import humaneval
from proctor.testing.wire_chat import chat_usage

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
MESSAGES = (ChatMessage("user", "hi"),)


def with_server(script, use, **options):
    """Run `use(server, client)` against a server."""

    async def run():
        async with ModelServer(script, **options) as server, aiohttp.ClientSession() as client:
            return await use(server, client)

    return asyncio.run(run())


async def post(server, client, body=BODY, **more):
    async with client.post(f"{server.base_url}/chat/completions", json=body, **more) as response:
        return response.status, dict(response.headers), await response.json()


def events_of(raw):
    parts = raw.decode().split("\n\n")
    assert parts.pop() == ""
    assert all(part.startswith("data: ") for part in parts)
    return [part.removeprefix("data: ") for part in parts]


def test_a_whole_answer():
    status, headers, body = with_server([Answer("hello")], post)
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert body["object"] == "chat.completion"
    assert body["model"] == "m"
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "hello", "refusal": None}
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"] == chat_usage(usage_of(MESSAGES, "hello"))


@pytest.mark.parametrize("text", ["", "short", "a text of more than one piece, with \u2028 and é in it" * 3])
@pytest.mark.parametrize("include_usage", [True, False])
def test_a_stream_carries_the_same_text_and_ends_with_the_usage_only_where_asked(text, include_usage):
    body = {**BODY, "stream": True}
    if include_usage:
        body["stream_options"] = {"include_usage": True}

    async def use(server, client):
        async with client.post(f"{server.base_url}/chat/completions", json=body) as response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            return await response.read()

    *events, last = events_of(with_server([text], use))
    assert last == "[DONE]"
    chunks = [json.loads(event) for event in events]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == text
    assert choices[0]["delta"]["role"] == "assistant"
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["stop"]
    if include_usage:
        assert chunks[-1]["choices"] == []
        assert chunks[-1]["usage"] == chat_usage(usage_of(MESSAGES, text))
        assert all(chunk["usage"] is None for chunk in chunks[:-1])
    else:
        assert not any("usage" in chunk for chunk in chunks)


def test_a_stream_that_is_cut_has_a_part_of_the_text_and_no_end():
    async def use(server, client):
        got = b""
        async with client.post(f"{server.base_url}/chat/completions", json={**BODY, "stream": True}) as response:
            try:
                async for piece in response.content.iter_any():
                    got += piece
            except aiohttp.ClientError:
                return got
        raise AssertionError(f"the stream came to a good end: {got}")

    got = with_server([Cut("half", "0123456789abcdef" * 10)], use)
    assert b"0123456789abcdef" in got
    assert b"[DONE]" not in got


def test_a_cut_at_the_start_answers_nothing():
    async def use(server, client):
        with pytest.raises(aiohttp.ClientError):
            await post(server, client)
        return server.requests

    assert len(with_server([Cut()], use)) == 1


def test_an_error_has_the_form_of_openais():
    status, headers, body = with_server([Failure(429, "slow down", code="rate", retry_after="2")], post)
    assert (status, headers["Retry-After"]) == (429, "2")
    assert body == {"error": {"message": "slow down", "type": "invalid_request_error", "param": None, "code": "rate"}}


def test_garbage_is_sent_as_it_is():
    async def use(server, client):
        async with client.post(f"{server.base_url}/chat/completions", json=BODY) as response:
            return response.status, response.content_type, await response.read()

    assert with_server([Garbage(b"<p>", "text/html")], use) == (200, "text/html", b"<p>")


def test_replies_are_given_in_order_and_then_the_script_says_that_it_is_over():
    async def use(server, client):
        return [await post(server, client) for _ in range(3)]

    first, second, third = with_server(["a", Failure(503)], use)
    assert (first[0], second[0], third[0]) == (200, 503, 500)
    assert third[2]["error"]["code"] == "script_exhausted"


def test_a_function_sees_the_request():
    async def reply(request):
        return f"{request.model} {request.stream} {request.messages[-1].text} {request.headers['x-mine']}"

    async def use(server, client):
        return await post(server, client, headers={"X-Mine": "yes"})

    assert with_server(reply, use)[2]["choices"][0]["message"]["content"] == "m False hi yes"


def test_models_are_listed():
    async def use(server, client):
        async with client.get(f"{server.base_url}/models") as response:
            return await response.json()

    listed = with_server([], use, models=("a", "b/c"))
    assert [each["id"] for each in listed["data"]] == ["a", "b/c"]


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"{}", b'{"messages": []}', b'{"messages": [1]}', b'{"messages": [{"role": "user"}]}', b"\xff"],
)
def test_a_request_that_cannot_be_read_is_refused_and_kept(raw):
    async def use(server, client):
        async with client.post(f"{server.base_url}/chat/completions", data=raw) as response:
            return response.status, (await response.json())["error"]["message"], len(server.requests)

    status, message, kept = with_server(["never"], use)
    assert (status, kept) == (400, 1)
    assert message.startswith("the request cannot be read")


def test_another_path_is_not_found():
    async def use(server, client):
        async with client.post(f"{server.base_url}/embeddings", json=BODY) as response:
            return response.status, server.requests[0].path

    assert with_server([], use) == (404, "/v1/embeddings")


def test_content_in_parts_is_text():
    body = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"text": "b"}]}]}

    async def use(server, client):
        await post(server, client, body)
        return server.requests[0].messages

    assert with_server(["x"], use) == (ChatMessage("user", "ab"),)


def test_stopping_breaks_what_hangs():
    async def run():
        arrived = asyncio.Event()

        def reply(request):
            arrived.set()
            return Hang()

        server = ModelServer(reply)
        await server.start()
        async with aiohttp.ClientSession() as client:
            asking = asyncio.create_task(post(server, client))
            await arrived.wait()
            assert server.open_requests == 1
            await server.stop()
            with pytest.raises(aiohttp.ClientError):
                await asking
        assert server.open_requests == 0
        await server.stop()
        with pytest.raises(RuntimeError):
            _ = server.base_url

    asyncio.run(run())


def test_a_port_that_is_taken_is_an_error_and_nothing_is_left():
    with serve([]) as server:
        port = int(server.base_url.rsplit(":", 1)[1].removesuffix("/v1"))
        before = threading.active_count()
        with pytest.raises(OSError, match="address already in use"), serve([], port=port):
            pass
        assert threading.active_count() == before


def test_a_server_in_a_thread_serves_code_that_is_not_async():
    with serve(answering(lambda messages: messages[-1].text.upper())) as server:
        request = urllib.request.Request(
            f"{server.base_url}/chat/completions", json.dumps(BODY).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:
            assert json.load(response)["choices"][0]["message"]["content"] == "HI"
        assert server.requests[0].messages == MESSAGES


def test_without_aiohttp_the_line_that_installs_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingPackage) as caught:
        ModelServer([])
    assert caught.value.hint == "run `pip install aiohttp`"


def test_a_script_answers_the_same_over_http_and_in_the_process():
    def script(messages):
        if messages[-1].text == "refuse":
            return Completion("no", usage=None, model="other", stop_reason="content_filter")
        return f"{len(messages)} messages"

    conversation = [ChatMessage("system", "s"), ChatMessage("user", "q"), ChatMessage("assistant", "a")]
    asked = [[*conversation, ChatMessage("user", text)] for text in ("go on", "refuse")]

    async def run():
        async with ModelServer(answering(script)) as server:
            served = openai.open_model(ModelSpec(id="openai/m", base_url=server.base_url))
            over_http = [await served.complete(messages) for messages in asked]
            await served.close()
        mocked = mock.MockModel(ModelSpec(id="m"), script)
        return over_http, [await mocked.complete(messages) for messages in asked]

    over_http, in_process = asyncio.run(run())
    assert over_http == in_process


def test_humaneval_is_answered_the_same_by_server_and_mock():
    share = "0.613"
    asked = [[ChatMessage("user", f"Complete:\n\n{problem.prompt}")] for problem in load().problems[::4]]

    async def run():
        async with ModelServer(answering(humaneval(share))) as server:
            served = openai.open_model(ModelSpec(id="openai/m", base_url=server.base_url))
            over_http = await asyncio.gather(*(served.complete(messages) for messages in asked))
            await served.close()
        mocked = mock.open_model(ModelSpec(id="mock/humaneval", params={"share": share}))
        return over_http, [await mocked.complete(messages) for messages in asked]

    over_http, in_process = asyncio.run(run())
    assert len(over_http) == 41
    assert [(each.text, each.usage) for each in over_http] == [(each.text, each.usage) for each in in_process]


def test_a_client_that_gives_up_in_a_stream_is_no_error_of_the_server(caplog):
    async def run():
        async with ModelServer(["0123456789abcdef" * 100_000, "second"]) as server, aiohttp.ClientSession() as client:
            body = {**BODY, "stream": True}
            async with client.post(f"{server.base_url}/chat/completions", json=body) as response:
                await response.content.readany()
                response.close()
            return await post(server, client)

    assert asyncio.run(run())[0] == 200
    assert not caplog.records
