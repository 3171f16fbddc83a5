"""What a forward proxy understands of HTTP/1: the head of a request, the head of a response, the size of a chunk.

Pure and strict. What two programs could read in two ways is refused, so that nobody smuggles a second request in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proctor.providers.egress.rules import Target, parse_target

HEAD_LIMIT_BYTES = 64 * 1024
CHUNK_LINE_LIMIT_BYTES = 4096

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_GOAL = re.compile(r"[\x21-\x7e\x80-\xff]+")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[\t ]*(?:;[^\r\n]*)?\r\n")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n]*)?\r?\n")

_OF_ONE_HOP = {
    "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "upgrade",
}  # fmt: skip
_FRAMING = {"content-length", "transfer-encoding", "host"}


class BadRequest(ValueError):
    """What a client sent is no request that a proxy can serve; the message is for the client."""


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request. `length` counts the bytes of its body; it is None where the body comes in chunks."""

    method: str
    target: Target
    path: str
    version: str
    headers: tuple[tuple[str, str], ...]
    """What is handed on: nothing of one hop, no host, nothing that says how long the body is."""
    length: int | None = 0

    @property
    def is_tunnel(self) -> bool:
        """Whether the client asks for a tunnel, and not for an answer."""
        return self.method == "CONNECT"

    def head(self, *, authorization: str | None = None, by_proxy: bool = False) -> bytes:
        """Return the head to send on: to the server itself, or to another proxy with its `authorization`."""
        host = str(self.target).removesuffix(":80")
        headers = [("Host", host), *self.headers]
        if self.length is None:
            headers.append(("Transfer-Encoding", "chunked"))
        elif self.length or self.method in {"POST", "PUT", "PATCH"}:
            headers.append(("Content-Length", str(self.length)))
        if authorization is not None:
            headers.append(("Proxy-Authorization", authorization))
        headers.append(("Connection", "close"))
        goal = f"http://{host}{self.path}" if by_proxy else self.path
        lines = [f"{self.method} {goal} {self.version}", *(f"{name}: {value}" for name, value in headers)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def parse_request(head: bytes) -> Request:
    """Read the head of a request, its empty line included; raises `BadRequest`."""
    lines = head.decode("latin-1").split("\r\n")
    if lines[-2:] != ["", ""]:
        raise BadRequest("the head of the request has no end")
    method, goal, version = _start(lines[0])
    headers = [_header(line) for line in lines[1:-2]]
    length = _length_of(headers, version)
    hop = _OF_ONE_HOP | {
        word.strip().lower() for name, value in headers if name == "connection" for word in value.split(",")
    }
    kept = tuple((name, value) for name, value in headers if name not in hop and name not in _FRAMING)
    target, path = _goal(method, goal)
    if method == "CONNECT" and length != 0:
        raise BadRequest("CONNECT has no body")
    return Request(method, target, path, version, kept, length)


def _start(line: str) -> tuple[str, str, str]:
    words = line.split(" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or not _GOAL.fullmatch(words[1]):
        raise BadRequest("the first line is none of HTTP/1")
    if words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise BadRequest("the version is neither HTTP/1.0 nor HTTP/1.1")
    return words[0], words[1], words[2]


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise BadRequest("a header cannot be read")
    return name.lower(), value.strip("\t ")


def _length_of(headers: list[tuple[str, str]], version: str) -> int | None:
    lengths = [value for name, value in headers if name == "content-length"]
    codings = [value.lower() for name, value in headers if name == "transfer-encoding"]
    if sum(name == "host" for name, _ in headers) > 1:
        raise BadRequest("there are two Host headers")
    if codings:
        if codings != ["chunked"] or lengths or version == "HTTP/1.0":
            raise BadRequest("the body is neither of a known length nor plainly in chunks")
        return None
    if len(lengths) > 1 or not all(_LENGTH.fullmatch(one) for one in lengths):
        raise BadRequest("the length of the body is not clear")
    return int(lengths[0]) if lengths else 0


def _goal(method: str, goal: str) -> tuple[Target, str]:
    """Return where a request goes, and the path there; for a tunnel the path is empty."""
    try:
        if method == "CONNECT":
            return parse_target(goal), ""
        scheme, _, rest = goal.partition("://")
        if scheme.lower() != "http":
            raise BadRequest("this is a proxy: it takes CONNECT host:port, and requests for http://host/path")
        end = next((index for index, character in enumerate(rest) if character in "/?#"), len(rest))
        authority, path = rest[:end], rest[end:]
        if "#" in path:
            raise BadRequest("the address has a fragment")
        return parse_target(authority, 80), path if path.startswith("/") else f"/{path}"
    except BadRequest:
        raise
    except ValueError as error:
        raise BadRequest(str(error)) from error


def parse_response(head: bytes) -> tuple[int, bytes]:
    """Return the status of a response, and its head as the client gets it, where the connection ends with the answer.

    Raises `ValueError` for what is no response of HTTP/1.
    """
    match = _STATUS.match(head)
    if match is None:
        raise ValueError("the server does not answer in HTTP/1")
    lines = head.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    kept = [line for line in lines[1:] if line.partition(b":")[0].strip().lower().decode("latin-1") not in _OF_ONE_HOP]
    status = int(match[1])
    if status >= 200:
        kept.append(b"Connection: close")
    return status, b"\r\n".join([lines[0], *kept, b"", b""])


def chunk_size(line: bytes) -> int:
    """Return the size that a line before a chunk says; raises `BadRequest`."""
    match = _CHUNK.fullmatch(line)
    if match is None:
        raise BadRequest("a chunk has no size")
    return int(match[1], 16)


def answer(status: int, reason: str, text: str, *, to: str = "GET") -> bytes:
    """Return a response of the proxy itself to the method `to`."""
    body = f"proctor: {text}\n".encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + (b"" if to == "HEAD" else body)


ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"

__all__ = [
    "CHUNK_LINE_LIMIT_BYTES", "ESTABLISHED", "HEAD_LIMIT_BYTES", "BadRequest", "Request", "answer", "chunk_size",
    "parse_request", "parse_response",
]  # fmt: skip
