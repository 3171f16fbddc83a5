"""What endpoints do wrong, scripted once and the same on every wire of the model server, whole and streamed."""

from __future__ import annotations

import asyncio
import json

import anthropic
import openai
import pytest

from proctor.plugins.api import ToolCall
from proctor.testing.model_server import ModelServer
from proctor.testing.replies import Answer, Cut, Failure, Garbage, Mangled, answering, failing_first, not_utf_8
from support.wire_lines import opened
from support.wire_raw import ENDS, HEADERS, PATHS, ask, body_of, calls_of

WIRES = ("chat", "responses", "messages")
BOTH_WAYS = tuple((wire, stream) for wire in WIRES for stream in (False, True))
STREAMS = tuple((wire, True) for wire in WIRES)
CALL = Answer("I look", tool_calls=(ToolCall("c1", "bash", json.dumps({"command": "x" * 200})),))


def answers(script, *asked, **options):
    """Ask a server with this script, once for each set of arguments of `ask`, and return what came."""

    async def run():
        async with ModelServer(script, **options) as server:
            return [await ask(server, *arguments) for arguments in asked]

    return asyncio.run(run())


def everywhere(reply, lines=BOTH_WAYS):
    """Return what comes for this reply on every wire, as (wire, stream, what came)."""
    got = answers(lambda request: reply, *lines)
    return [(*line, each) for line, each in zip(lines, got, strict=True)]


@pytest.mark.parametrize("arguments", ["", "{", '{"command": ', "rm -rf /", '{"a": NaN}', "[" * 5000])
def test_a_malformed_tool_call_comes_as_it_was_scripted(arguments):
    calls = (ToolCall("", "no_such_tool", arguments), ToolCall("same", "bash", "{}"), ToolCall("same", "bash", "{"))
    for wire, stream, got in everywhere(Answer(tool_calls=calls)):
        second = {} if wire == "messages" and not stream else "{}"
        assert calls_of(wire, got, stream) == [
            (None, "no_such_tool", arguments),
            ("same", "bash", second),
            ("same", "bash", "{"),
        ]


@pytest.mark.parametrize("where", ["half", "tool_call"])
def test_an_answer_that_is_cut_has_a_part_and_no_end(where):
    for wire, stream, got in everywhere(Cut(where, answer=CALL)):
        assert (got.status, got.broken) == (200, True)
        assert got.data
        assert ENDS[wire] not in got.data
        if stream and where == "tool_call":
            assert b"xxx" in got.data  # the call has begun
            assert b"x" * 100 not in got.data


def test_a_stream_that_fails_says_so_as_its_last_event():
    for wire, _, got in everywhere(Cut("tool_call", answer=CALL, error=Failure(529, "too busy")), STREAMS):
        assert not got.broken
        assert ENDS[wire] not in got.data
        last = got.events[-1]
        error = last["response"]["error"] if wire == "responses" else last["error"]
        assert error["message"] == "too busy"
        assert last.get("type") == {"chat": None, "responses": "response.failed", "messages": "error"}[wire]


def test_an_answer_that_stalls_is_open_until_the_server_stops():
    async def run(wire, stream):
        begun = asyncio.Event()

        def reply(request):
            begun.set()
            return Cut("half", answer=CALL, stall=True)

        async with ModelServer(reply) as server:
            asking = asyncio.create_task(ask(server, wire, stream))
            await begun.wait()
            assert server.open_requests == 1
            assert not asking.done()
            await server.stop()
            return await asking, server.open_requests

    for wire, stream in BOTH_WAYS:
        got, still_open = asyncio.run(run(wire, stream))
        assert got.broken
        assert still_open == 0


KINDS = {400: "invalid_request_error", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}


@pytest.mark.parametrize("status", KINDS)
def test_an_error_has_the_form_of_its_provider(status):
    for wire, _, got in everywhere(Failure(status, "the reason", retry_after="3")):
        body = json.loads(got.data)
        assert (got.status, got.headers["Retry-After"], body["error"]["message"]) == (status, "3", "the reason")
        if wire == "messages":
            assert body["type"] == "error"
            assert body["error"]["type"] == KINDS[status]
        else:
            assert body["error"].keys() == {"message", "type", "param", "code"}


def test_the_libraries_know_the_errors():
    with opened("messages", False) as line:
        for status, kind in ((429, anthropic.RateLimitError), (529, anthropic.APIStatusError)):
            line.next = Failure(status, "slow down")
            with pytest.raises(kind, match="slow down") as caught:
                line.ask()
            assert caught.value.status_code == status
        line.stream, line.next = True, Cut("half", answer=CALL, error=Failure(529, "too busy"))
        with pytest.raises(anthropic.APIStatusError, match="too busy"):
            line.ask()
    for wire in ("chat", "responses"):
        with opened(wire, False) as line:
            line.next = Failure(429, "slow down")
            with pytest.raises(openai.RateLimitError, match="slow down"):
                line.ask()


def test_a_storm_of_429_ends_with_an_answer():
    for wire in WIRES:
        script = failing_first(answering(lambda messages: "at last"), Failure(429, retry_after="1"), times=3)
        got = answers(script, *[(wire, False)] * 5)
        assert [each.status for each in got] == [429, 429, 429, 200, 200]
        assert b"at last" in got[-1].data


def test_a_storm_without_an_end():
    script = failing_first(answering(lambda messages: "never"), Failure(500))
    assert {each.status for each in answers(script, *[("chat", False)] * 5)} == {500}


def test_a_body_that_is_no_utf_8():
    for _, _, got in everywhere(not_utf_8("caf\u00e9 cr\u00e8me")):
        assert b"caf\xe9 cr\xe8me" in got.data
        with pytest.raises(UnicodeDecodeError):
            got.data.decode()
        assert not got.broken


def test_what_would_be_utf_8_anyway_is_refused():
    with pytest.raises(ValueError, match="Latin 1"):
        not_utf_8("plain")


def test_each_event_can_be_changed():
    for wire in WIRES:
        mangled = Mangled(Answer("hello"), lambda event, wire=wire: b"" if ENDS[wire] in event else event)
        ((_, _, got),) = everywhere(mangled, [(wire, True)])
        assert not got.broken
        assert b"hello" in got.data
        assert ENDS[wire] not in got.data


def test_half_of_a_pair_is_sent_as_json_can():
    assert all(b"\\ud83d" in got.data for _, _, got in everywhere(Answer("\ud83d")))


def test_usage_that_is_left_out_is_on_no_wire():
    for wire, stream, got in everywhere(Answer("x", usage=None)):
        for body in got.events if stream else [json.loads(got.data)]:
            said = body.get("response") or body.get("message") or body
            assert said.get("usage") is None, wire


def test_garbage_comes_on_any_wire():
    assert {got.data for _, _, got in everywhere(Garbage(b"<p>"))} == {b"<p>"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-api-key": "right"}, 200),
        ({"Authorization": "Bearer right"}, 200),
        ({"Authorization": "bearer right"}, 200),
        ({"Authorization": "Basic right"}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({}, 401),
    ],
)
def test_a_key_that_is_demanded_comes_either_way(headers, status):
    asked = [(wire, False, {**headers, "anthropic-version": "2023-06-01"}) for wire in WIRES]
    assert {got.status for got in answers(["x"] * 3, *asked, api_key="right")} == {status}


@pytest.mark.parametrize(
    ("headers", "more", "status", "said"),
    [
        ({"x-api-key": "k"}, {}, 400, "anthropic-version"),
        ({"anthropic-version": "2023-06-01"}, {}, 401, "x-api-key"),
        (HEADERS, {"max_tokens": None}, 400, "max_tokens"),
        (HEADERS, {"messages": []}, 400, "messages"),
        (HEADERS, {"messages": [{"role": "tool", "content": "x"}]}, 400, "role"),
    ],
)
def test_messages_refuses_what_the_real_one_refuses(headers, more, status, said):
    asked = ("messages", False, headers, {**body_of("messages", False), **more})
    (got,) = answers(["never"], asked)
    body = json.loads(got.data)
    assert got.status == status
    assert body["type"] == "error"
    assert said in body["error"]["message"]


@pytest.mark.parametrize("body", [[], {}, {"messages": 1, "input": 1}, {"messages": [{}], "input": [{}]}])
def test_a_request_that_cannot_be_read_is_refused_on_any_wire(body):
    for got in answers(["never"], *((wire, False, HEADERS, body) for wire in WIRES)):
        assert got.status == 400
        assert "cannot be read" in json.loads(got.data)["error"]["message"]


def test_what_programs_ask_beside_it_is_answered():
    async def run():
        async with ModelServer([], models=("a",)) as server:
            head = await ask(server, "messages", False, path="/", method="HEAD")
            root = await ask(server, "messages", False, path="/", method="GET")
            listed = await ask(server, "messages", False, path="/v1/models", method="GET")
            counted = await ask(server, "messages", False, path="/v1/messages/count_tokens")
            unknown = await ask(server, "messages", False, path="/api/event_logging/batch")
            return head, root, listed, counted, unknown, server.requests

    head, root, listed, counted, unknown, requests = asyncio.run(run())
    assert (head.status, root.status) == (200, 200)
    assert json.loads(listed.data)["data"][0] | {"id": "a", "display_name": "a"} == json.loads(listed.data)["data"][0]
    assert json.loads(counted.data) == {"input_tokens": 1}
    assert (unknown.status, json.loads(unknown.data)["error"]["type"]) == (404, "not_found_error")
    assert [each.path for each in requests][-1] == "/api/event_logging/batch"


def test_a_query_in_the_address_changes_nothing():
    asked = [(wire, False, HEADERS, None, f"{PATHS[wire]}?beta=true") for wire in WIRES]
    assert {got.status for got in answers(["x"] * 3, *asked)} == {200}
