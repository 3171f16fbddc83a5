"""An HTTP client whose answers are bounded: what an endpoint sends never takes more memory than a body may have.

It knows the HTTP library only by way of the providers' packages, which choose it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proctor.model.bounds import ANSWER_BYTES, ERROR_BYTES

REDIRECTS_AT_MOST = 5

_OF_THE_TRANSFER = ("content-encoding", "content-length", "transfer-encoding")
"""Headers that describe the body as it came, not as it was read."""


class AnswerTooLarge(Exception):
    """The body of an answer is longer than an answer may be; the connection was closed where this was found."""

    def __init__(self) -> None:
        super().__init__(f"the answer is longer than {ANSWER_BYTES:,} bytes")


class _HttpClient:
    """What the mixin below is mixed into."""

    if TYPE_CHECKING:

        async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any: ...


class Bounded(_HttpClient):
    """Mixed into an HTTP client: reads whole bodies, up to a bound.

    Beyond it an answer is refused, an error cut, and a redirection not read.
    """

    async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """Send a request and read the answer. Raises `AnswerTooLarge`, and what the HTTP library raises."""
        options["follow_redirects"] = False
        for _ in range(REDIRECTS_AT_MOST):
            response: Any = await super().send(request, stream=True, **options)
            if response.next_request is None:
                break
            await response.aclose()
            request = response.next_request
        else:
            response = await super().send(request, stream=True, **options)
        return response if stream else await _read(response)


async def _read(response: Any) -> Any:
    """Return the answer with its body, which is decompressed piece by piece."""
    failed = not 200 <= response.status_code < 300
    body = bytearray()
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if failed and len(body) >= ERROR_BYTES:
                del body[ERROR_BYTES:]
                break
            if len(body) > ANSWER_BYTES:
                raise AnswerTooLarge
    finally:
        await response.aclose()
    headers = response.headers.copy()
    for name in _OF_THE_TRANSFER:
        headers.pop(name, None)
    return type(response)(
        response.status_code,
        headers=headers,
        content=bytes(body),
        request=response.request,
        extensions=response.extensions,
        default_encoding=response.default_encoding,
    )
