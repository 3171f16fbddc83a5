"""What an endpoint sends never takes more memory than a body may have (spec 05; hostile output)."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from proctor.errors import Fault
from proctor.model.spec import ModelSpec
from proctor.models import _bounded_http
from proctor.models.openai import open_model
from proctor.plugins.api import ChatMessage

PIECE = b"x" * 65536
BOUND = 1024 * 1024
MORE_THAN_PIPES_HOLD = 64 * BOUND


class Endless:
    """A server that answers each request by a head and then pieces without end; it counts what it could send."""

    def __init__(self, head: bytes, piece: bytes = PIECE) -> None:
        self._head = head
        self._piece = piece
        self.sent = 0
        self.requests = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            writer.write(self._head)
            while self.sent < MORE_THAN_PIPES_HOLD:
                writer.write(b"%x\r\n%b\r\n" % (len(self._piece), self._piece))
                await writer.drain()
                self.sent += len(self._piece)
        except ConnectionError:
            pass  # what it is for: the client has gone
        finally:
            writer.close()


@asynccontextmanager
async def served(answer: Callable[..., Awaitable[None]]) -> AsyncIterator[str]:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1"


def fault_of(answer: Callable[..., Awaitable[None]]) -> Fault:
    async def call() -> Fault:
        async with served(answer) as url:
            model = open_model(ModelSpec(id="openai/m", base_url=url, api_key="sk-proctor-test-0123456789"))
            try:
                with pytest.raises(Fault) as caught:
                    await model.complete([ChatMessage("user", "hi")])
            finally:
                await model.close()
            return caught.value

    return asyncio.run(call())


def head(status: str, *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", "Transfer-Encoding: chunked", *more]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.fixture(autouse=True)
def small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bounded_http, "ANSWER_BYTES", BOUND)


def test_an_answer_without_end_is_refused_and_the_connection_closed() -> None:
    server = Endless(head("200 OK"))
    fault = fault_of(server.answer)
    assert fault.code == "model.malformed"
    assert f"the answer is longer than {BOUND:,} bytes" in fault.issue.message
    assert server.sent < MORE_THAN_PIPES_HOLD


@pytest.mark.parametrize(("status", "code"), [("500 No", "model.server"), ("429 No", "model.rate_limited")])
def test_of_an_error_without_end_the_beginning_is_read_and_its_status_counts(status: str, code: str) -> None:
    server = Endless(head(status))
    fault = fault_of(server.answer)
    assert fault.code == code
    assert "xxxx" in fault.issue.message
    assert len(fault.issue.message) < 400
    assert server.sent < MORE_THAN_PIPES_HOLD


def test_the_body_of_a_redirection_is_not_read_and_redirections_end() -> None:
    server = Endless(head("307 Elsewhere", "Location: /v1/chat/completions"))
    fault = fault_of(server.answer)
    assert fault.code == "model.server"
    assert "status 307" in fault.issue.message
    assert server.requests == _bounded_http.REDIRECTS_AT_MOST + 1
    assert server.sent < MORE_THAN_PIPES_HOLD


def test_a_small_body_that_becomes_a_large_one_is_refused() -> None:
    bomb = gzip.compress(bytes(64 * BOUND))
    assert len(bomb) < BOUND / 10

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head("200 OK", "Content-Encoding: gzip") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(bomb), bomb))
        writer.close()

    assert fault_of(answer).code == "model.malformed"


def test_a_body_nested_without_end_is_no_answer() -> None:
    body = b"[" * (BOUND // 2)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head("200 OK") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        writer.close()

    fault = fault_of(answer)
    assert fault.code == "model.server"
    assert len(fault.issue.message) < 400
