"""Every way in which an endpoint can fail, over real HTTP through the `openai` models (spec 05)."""

from __future__ import annotations

import asyncio
import socket
import traceback

import pytest

from proctor.errors import Fault
from proctor.model.spec import ModelSpec
from proctor.models.openai import open_model
from proctor.plugins.api import ChatMessage
from proctor.testing.model_server import ModelServer
from proctor.testing.replies import Cut, Delay, Failure, Garbage, Hang

KEY = "sk-proctor-test-0123456789abcdef"
QUESTION = [ChatMessage("user", "What is 6 x 7?")]


async def call(server, messages=QUESTION, *, base_url=None, **params):
    model = open_model(
        ModelSpec(id="openai/m", base_url=base_url or server.base_url, api_key=KEY, params=params),
    )
    try:
        return await model.complete(messages)
    finally:
        await model.close()


def fault_of(reply, **params):
    """Return the fault of one call that is answered so, and check that it was one call and holds no key."""

    async def run():
        async with ModelServer(lambda request: reply) as server:
            with pytest.raises(Fault) as caught:
                await call(server, **params)
            assert len(server.requests) == 1
            return caught.value

    fault = asyncio.run(run())
    assert KEY not in "".join(traceback.format_exception(fault))
    return fault


STATUSES = {
    400: "model.invalid_request",
    401: "model.refused_auth",
    402: "model.payment",
    403: "model.refused_auth",
    404: "model.not_found",
    408: "model.timeout",
    409: "model.overloaded",
    413: "model.invalid_request",
    418: "model.invalid_request",
    422: "model.invalid_request",
    425: "model.overloaded",
    429: "model.rate_limited",
    500: "model.server",
    502: "model.server",
    503: "model.overloaded",
    504: "model.server",
    529: "model.overloaded",
}


@pytest.mark.parametrize(("status", "code"), STATUSES.items())
def test_spec_05_a_status_becomes_the_code_of_the_table_and_is_not_called_again(status, code):
    fault = fault_of(Failure(status, f"the reason for {status}"))
    assert fault.code == code
    assert fault.status == status
    assert fault.issue.message.startswith("model `openai/m` at 127.0.0.1:")
    assert f"status {status}: the reason for {status}" in fault.issue.message


@pytest.mark.parametrize("status", [401, 400, 422, 429, 500])
def test_spec_05_a_key_that_the_server_echoes_is_not_in_the_message(status):
    message = fault_of(Failure(status, "refused", echo_authorization=True)).issue.message
    assert "authorization: Bearer [redacted]" in message


def test_a_key_that_comes_at_the_cut_of_a_long_message_leaves_no_part_of_it():
    message = fault_of(Failure(400, "x" * 240, echo_authorization=True)).issue.message
    assert "sk-" not in message
    assert len(message) < 400


def test_a_key_in_a_body_that_is_no_json_is_not_in_the_message():
    message = fault_of(Failure(502, body=f"<html>{KEY}</html>".encode())).issue.message
    assert "<html>[redacted]</html>" in message


@pytest.mark.parametrize("value", ["7", "Wed, 21 Oct 2015 07:28:00 GMT", "abc", "86400"])
def test_a_retry_after_header_is_kept_as_it_came(value):
    assert fault_of(Failure(429, retry_after=value)).retry_after == value


def test_without_the_header_nothing_is_said_of_when_to_try_again():
    assert fault_of(Failure(429)).retry_after is None


@pytest.mark.parametrize(("status", "refused"), [(429, True), (503, True), (529, True), (500, False), (408, False)])
def test_T5_only_what_the_endpoint_did_not_take_on_counts_as_refused(status, refused):
    assert fault_of(Failure(status)).refused is refused


def test_a_spent_quota_is_a_matter_of_payment():
    fault = fault_of(Failure(429, "You exceeded your current quota", code="insufficient_quota"))
    assert fault.code == "model.payment"


def test_a_call_that_is_never_answered_ends_by_its_own_deadline():
    fault = fault_of(Hang(), timeout_seconds=0.2)
    assert fault.code == "model.timeout"
    assert "no answer within 0.2 s" in fault.issue.message
    assert fault.refused is False


def test_a_slow_answer_is_an_answer():
    async def run():
        async with ModelServer([Delay(0.05, "42")]) as server:
            return await call(server)

    assert asyncio.run(run()).text == "42"


@pytest.mark.parametrize("where", ["start", "half"])
def test_a_connection_that_breaks_may_have_been_paid_for(where):
    fault = fault_of(Cut(where))
    assert fault.code == "model.connection"
    assert fault.refused is False


def test_a_port_where_nobody_listens_refuses_the_call():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(Fault) as caught:
            asyncio.run(call(None, base_url=f"http://127.0.0.1:{port}/v1"))
    assert caught.value.code == "model.connection"
    assert caught.value.refused is True
    assert f"127.0.0.1:{port}" in caught.value.issue.message


@pytest.mark.parametrize(
    "reply",
    [
        Garbage(),
        Garbage(b""),
        Garbage(b"hello", "text/plain"),
        Garbage(b"[]"),
        Garbage(b"{}"),
        Garbage(b'"text"'),
        Garbage(b'{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[]}'),
        Garbage(b'{"id":"x","object":"chat.completion","created":1,"model":"m","choices":"none"}'),
        Garbage(b'{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0}]}'),
        Garbage(b"\xff\xfe"),
    ],
)
def test_a_body_that_is_no_answer_is_the_servers_fault(reply):
    fault = fault_of(reply)
    assert fault.code == "model.server"
    assert "the answer cannot be understood" in fault.issue.message


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"error": {"code": 429, "message": "slow down"}}', "model.rate_limited"),
        (b'{"error": {"code": "oops", "message": "slow down"}}', "model.server"),
    ],
)
def test_an_error_that_comes_with_status_200_is_an_error(body, code):
    fault = fault_of(Garbage(body))
    assert fault.code == code
    assert "slow down" in fault.issue.message


def test_a_redirect_that_leads_nowhere_is_the_servers_fault():
    assert fault_of(Failure(307, "elsewhere")).code == "model.server"


def test_a_message_that_is_no_text_in_utf_8_is_not_sent():
    async def run():
        async with ModelServer(["never"]) as server:
            with pytest.raises(Fault) as caught:
                await call(server, [ChatMessage("user", "half a pair: \ud83d")])
            return caught.value, server.requests

    fault, requests = asyncio.run(run())
    assert fault.code == "model.invalid_request"
    assert not requests


def test_cancelling_a_call_ends_it_at_the_server_too():
    async def run():
        arrived, ended = asyncio.Event(), asyncio.Event()

        async def reply(request):
            arrived.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with ModelServer(reply) as server:
            task = asyncio.create_task(call(server))
            await arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await ended.wait()

    asyncio.run(run())
