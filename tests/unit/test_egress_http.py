"""What the proxy of allow-lists takes for a request, and what it sends on (spec 06 V3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.providers.egress.http import BadRequest, answer, chunk_size, parse_request, parse_response
from proctor.providers.egress.rules import Target


def head(*lines: str) -> bytes:
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def test_a_plain_request_is_rewritten_for_the_server() -> None:
    request = parse_request(
        head(
            "GET http://A.example/x?y HTTP/1.1", "Host: evil.example", "Accept: */*", "Proxy-Authorization: Basic eA==",
            "Connection: keep-alive, X-Hop", "X-Hop: 1", "Upgrade: h2c", "TE: trailers",
        )
    )  # fmt: skip
    assert request.target == Target("a.example", 80)
    assert not request.is_tunnel
    assert request.head() == head("GET /x?y HTTP/1.1", "Host: a.example", "accept: */*", "Connection: close")


def test_for_another_proxy_the_address_is_whole() -> None:
    request = parse_request(head("POST http://a.example:8000?q HTTP/1.0", "Content-Length: 3"))
    assert request.head(by_proxy=True, authorization="Basic eA==") == head(
        "POST http://a.example:8000/?q HTTP/1.0", "Host: a.example:8000", "Content-Length: 3",
        "Proxy-Authorization: Basic eA==", "Connection: close",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "length"),
    [
        (["GET http://a.example/ HTTP/1.1"], 0),
        (["POST http://a.example/ HTTP/1.1", "Content-Length: 10"], 10),
        (["POST http://a.example/ HTTP/1.1", "Transfer-Encoding: Chunked"], None),
    ],
)
def test_how_long_the_body_is(lines: list[str], length: int | None) -> None:
    assert parse_request(head(*lines)).length == length


@pytest.mark.parametrize("port", ["", ":80"])
def test_the_port_of_plain_requests_is_80_unless_they_say_otherwise(port: str) -> None:
    assert parse_request(head(f"GET http://a.example{port}/ HTTP/1.1")).target == Target("a.example", 80)


def test_a_tunnel() -> None:
    request = parse_request(head("CONNECT A.example.:443 HTTP/1.1", "Host: other.example:443"))
    assert request.is_tunnel
    assert request.target == Target("a.example", 443)


@pytest.mark.parametrize(
    "lines",
    [
        ["GET / HTTP/1.1", "Host: a.example"],
        ["GET https://a.example/ HTTP/1.1"],
        ["GET ftp://a.example/ HTTP/1.1"],
        ["GET http:///path HTTP/1.1"],
        ["GET http://allowed.example@evil.example/ HTTP/1.1"],
        ["GET http://allowed.example:80@evil.example/ HTTP/1.1"],
        ["GET http://allowed.example\\@evil.example/ HTTP/1.1"],
        ["GET http://a.example:80:81/ HTTP/1.1"],
        ["GET http://a.example/#f HTTP/1.1"],
        ["GET http://a.example/ HTTP/2.0"],
        ["GET http://a.example/ HTTP/1.1 "],
        ["GET  http://a.example/ HTTP/1.1"],
        ["GET http://a.example/\t HTTP/1.1"],
        ["GET http://a.example/"],
        ["G(T http://a.example/ HTTP/1.1"],
        ["CONNECT a.example HTTP/1.1"],
        ["CONNECT a.example:0 HTTP/1.1"],
        ["CONNECT http://a.example:443 HTTP/1.1"],
        ["CONNECT u@a.example:443 HTTP/1.1"],
        ["CONNECT a.example:443 HTTP/1.1", "Content-Length: 5"],
        ["CONNECT a.example:443 HTTP/1.1", "Transfer-Encoding: chunked"],
        ["CONNECT ::1:443 HTTP/1.1"],
        ["CONNECT 127.1:443 HTTP/1.1"],
        ["POST http://a.example/ HTTP/1.1", "Content-Length: 1", "Content-Length: 1"],
        ["POST http://a.example/ HTTP/1.1", "Content-Length: 1", "content-length: 2"],
        ["POST http://a.example/ HTTP/1.1", "Content-Length: 1, 1"],
        ["POST http://a.example/ HTTP/1.1", "Content-Length: +1"],
        ["POST http://a.example/ HTTP/1.1", "Content-Length: 0x1"],
        ["POST http://a.example/ HTTP/1.1", "Content-Length: "],
        ["POST http://a.example/ HTTP/1.1", "Content-Length: 1", "Transfer-Encoding: chunked"],
        ["POST http://a.example/ HTTP/1.1", "Transfer-Encoding: gzip, chunked"],
        ["POST http://a.example/ HTTP/1.1", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["POST http://a.example/ HTTP/1.1", "Transfer-Encoding: identity"],
        ["POST http://a.example/ HTTP/1.1", "Transfer-Encoding: \x0bchunked"],
        ["POST http://a.example/ HTTP/1.0", "Transfer-Encoding: chunked"],
        ["POST http://a.example/ HTTP/1.1", "Transfer-Encoding : chunked"],
        ["POST http://a.example/ HTTP/1.1", "X: y", " folded: z"],
        ["GET http://a.example/ HTTP/1.1", "Host: a", "Host: b"],
        ["GET http://a.example/ HTTP/1.1", "no colon"],
        ["GET http://a.example/ HTTP/1.1", ": no name"],
        ["GET http://a.example/ HTTP/1.1", "X: a\nContent-Length: 5"],
        ["GET http://a.example/ HTTP/1.1", "X: a\rb"],
        ["GET http://a.example/ HTTP/1.1", "X: a\x00b"],
        ["\x16\x03\x01"],
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(lines: list[str]) -> None:
    with pytest.raises(BadRequest):
        parse_request(head(*lines))


def test_lines_end_as_they_should() -> None:
    with pytest.raises(BadRequest):
        parse_request(b"GET http://a.example/ HTTP/1.1\nHost: a.example\n\n")


PIECES = st.sampled_from(
    ["GET", "CONNECT", " ", "http://", "a.example", ":80", "/", "HTTP/1.1", "\r\n", "\n", "\r", "Host:",
     "Content-Length:", "Transfer-Encoding:", "chunked", "1", "0", ",", "@", "\x00", "\t",
     "Connection:", "x", ":", "[::1]", "é"]
)  # fmt: skip


@given(st.lists(PIECES | st.text("aZ:\r\n /", max_size=3), max_size=20).map("".join))
def test_whatever_is_sent_on_is_one_request(text: str) -> None:
    """What is accepted comes out as one head that any server reads in the same way."""
    start = "POST http://a.example/ HTTP/1.1\r\n"
    for raw in (text, start + text, f"{start}{text}\r\n\r\n"):
        try:
            request = parse_request(raw.encode("latin-1"))
        except BadRequest:
            continue
        sent = request.head()
        lines = sent.split(b"\r\n")
        assert sent.endswith(b"\r\n\r\n")
        assert not [line for line in lines[1:-2] if b"\r" in line or b"\n" in line or not line[:1].strip()]
        assert lines[-2:] == [b"", b""]
        assert b"" not in lines[:-2]
        names = [line.partition(b":")[0].lower() for line in lines[1:-2]]
        assert names.count(b"host") == 1
        assert names.count(b"content-length") + names.count(b"transfer-encoding") <= 1
        assert names.count(b"connection") == 1


def test_the_answer_ends_the_connection() -> None:
    status, sent = parse_response(
        head("HTTP/1.1 200 OK", "Connection: keep-alive", "Keep-Alive: timeout=5", "Content-Length: 2", "X: y")
    )
    assert status == 200
    assert sent == head("HTTP/1.1 200 OK", "Content-Length: 2", "X: y", "Connection: close")
    assert parse_response(head("HTTP/1.1 100 Continue")) == (100, head("HTTP/1.1 100 Continue"))
    assert parse_response(b"HTTP/1.0 204\n\n")[0] == 204
    for bad in (b"", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 20 OK\r\n\r\n", b"HTTP/2 200\r\n\r\n"):
        with pytest.raises(ValueError, match="does not answer"):
            parse_response(bad)


def test_chunks() -> None:
    assert chunk_size(b"1a\r\n") == 26
    assert chunk_size(b"0;name=value\r\n") == 0
    for bad in (b"\r\n", b"1a\n", b"-1\r\n", b"0x1\r\n", b"1 1\r\n", b"g\r\n", b"1" * 20 + b"\r\n", b"1;\rx\r\n"):
        with pytest.raises(BadRequest):
            chunk_size(bad)


def test_our_own_answers() -> None:
    whole = answer(403, "Forbidden", "no")
    assert whole.endswith(b"\r\n\r\nproctor: no\n")
    assert answer(403, "Forbidden", "no", to="HEAD") == whole.removesuffix(b"proctor: no\n")
