"""One connection of a client in a sandbox: read what it wants, ask the policy, connect, and move bytes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from proctor.providers.egress.addresses import Address
from proctor.providers.egress.dial import Dialer, Refused, Unreachable, Upstream
from proctor.providers.egress.http import (
    ESTABLISHED,
    BadRequest,
    Request,
    answer,
    parse_request,
    parse_response,
)
from proctor.providers.egress.pipe import Stream, copy_body, pump, relay, together
from proctor.providers.egress.rules import Policy, Target

HEAD_SECONDS = 60.0
IDLE_SECONDS = 3600.0
"""How long a connection may move nothing. Models think for minutes; what is forgotten has to end some time."""
PROXY_AUTHENTICATION_REQUIRED = 407


class Connection:
    """Serves one client. `target` is where it wants to go, `address` what that led to, as soon as they are known."""

    def __init__(
        self,
        dialer: Dialer,
        policy: Callable[[], Policy],
        refused: Callable[[Target, str], None],
        target: Target | None,
    ) -> None:
        self._dialer = dialer
        self._policy = policy
        self._refused = refused
        self._forwarded = target is not None
        self.target = target
        self.address: Address | None = None
        self.own = False
        """Whether the address is one of this machine."""

    async def serve(self, accepted: socket.socket) -> None:
        """Serve the client to its end; raises nothing that it or a server could cause."""
        client = Stream(accepted)
        try:
            if self._forwarded:
                await self._forward(client)
            else:
                await self._proxy(client)
        except OSError:
            pass  # one of both sides broke off or fell asleep: the end of a connection, and the other side sees it
        finally:
            client.close()

    async def _forward(self, client: Stream) -> None:
        assert self.target is not None
        try:
            self._require(self.target)
            server = await self._dialer.direct(self.target, self._note)
        except (Refused, Unreachable):
            return  # as from a port where nobody listens
        try:
            await relay(client, server, IDLE_SECONDS)
        finally:
            server.close()

    async def _proxy(self, client: Stream) -> None:
        method, reply = "GET", b""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await client.read_head()
            if head is None:
                return
            request = parse_request(head)
            method, self.target = request.method, request.target
            self._require(request.target)
            await (self._tunnel(client, request) if request.is_tunnel else self._pass_on(client, request))
        except BadRequest as error:
            reply = answer(400, "Bad Request", str(error), to=method)
        except Refused as error:
            if self.target is not None:
                self._refused(self.target, str(error))
            reply = answer(403, "Forbidden", str(error), to=method)
        except Unreachable as error:
            reply = answer(502, "Bad Gateway", str(error), to=method)
        if reply:
            await client.send(reply)
            await client.linger()

    def _note(self, address: Address, own: bool) -> None:
        self.address, self.own = address, own

    def _require(self, target: Target) -> None:
        refusal = self._policy().refusal(target)
        if refusal is not None:
            raise Refused(refusal)

    async def _tunnel(self, client: Stream, request: Request) -> None:
        server = await self._dialer.tunnel(request.target, self._note)
        try:
            await client.send(ESTABLISHED)
            await relay(client, server, IDLE_SECONDS)
        finally:
            server.close()

    async def _pass_on(self, client: Stream, request: Request) -> None:
        """Hand on one plain request and its answer."""
        upstream = self._dialer.upstream("http", request.target)
        if upstream is None:
            server = await self._dialer.direct(request.target, self._note)
        else:
            server = await self._dialer.to_upstream(upstream)
        try:
            await _Exchange(client, server, request, upstream).run()
        finally:
            server.close()


class _Exchange:
    """One request to a server, and its answer. The body and the answer go at the same time."""

    def __init__(self, client: Stream, server: Stream, request: Request, upstream: Upstream | None) -> None:
        self._client = client
        self._server = server
        self._request = request
        self._upstream = upstream
        self._wrong: BadRequest | None = None

    async def run(self) -> None:
        """Hand on both; raises `BadRequest` and `Unreachable` only while the client has got no part of the answer."""
        upstream = self._upstream
        authorization = upstream.authorization if upstream is not None else None
        head = self._request.head(authorization=authorization, by_proxy=upstream is not None)
        await self._server.send(head)
        body = asyncio.create_task(self._send_body())
        try:
            await together([self._hand_back()], (self._client, self._server), IDLE_SECONDS)
        finally:
            body.cancel()
            await asyncio.gather(body, return_exceptions=True)

    async def _send_body(self) -> None:
        try:
            await copy_body(self._client, self._server, self._request.length)
        except BadRequest as error:  # the server must not take half a request for a whole one
            self._wrong = error
            self._server.cut()
        except OSError:
            return  # a server may answer without having read it all
        else:
            if not await self._client.read(1):  # what comes after the request is dropped; that nothing will is told
                self._server.end()

    async def _hand_back(self) -> None:
        status = 100
        while status < 200:
            try:
                status, head = parse_response(await self._server.read_head() or b"")
            except (OSError, BadRequest, ValueError) as error:
                if self._wrong is not None:
                    raise self._wrong from error
                raise Unreachable(f"{self._request.target} gave no answer of HTTP/1") from error
            if self._upstream is not None and status == PROXY_AUTHENTICATION_REQUIRED:
                raise Unreachable(
                    f"{self._request.target} cannot be reached: the proxy of the machine answered {status}"
                )
            await self._client.send(head)
        await pump(self._server, self._client)


__all__ = ["Connection"]
