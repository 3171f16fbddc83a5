"""Connects to what a client was allowed to reach: names are resolved here, and what they lead to is checked."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv6Address, ip_address
from urllib.parse import unquote, urlsplit

from proctor.errors import Fault, describe
from proctor.providers.egress.addresses import Address
from proctor.providers.egress.http import BadRequest, parse_response
from proctor.providers.egress.pipe import Stream
from proctor.providers.egress.rules import Policy, Target, parse_host

RESOLVER_THREADS = 8
CONNECT_SECONDS = 15.0
"""For each address of a host."""
UPSTREAM_SECONDS = 60.0
"""Until another proxy has said whether it lets us through."""


Note = Callable[[Address, bool], None]
"""Takes the address that is to be connected to, and whether it is one of this machine."""


class Refused(Exception):
    """The policy forbids it; the message says why."""


class Unreachable(Exception):
    """It is allowed and cannot be reached; the message says why."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A proxy of this machine through which the world is reached."""

    host: str | Address
    port: int
    authorization: str | None = field(default=None, repr=False)


class Dialer:
    """Makes connections for one sandbox. `policy` returns the policy that holds at that moment."""

    def __init__(self, policy: Callable[[], Policy]) -> None:
        self._policy = policy
        self._upstreams = _upstreams()

    def upstream(self, scheme: str, target: Target) -> Upstream | None:
        """Return the proxy that this machine's variables name for such a target, or None."""
        from urllib.request import proxy_bypass  # noqa: PLC0415 - heavy, and only sandboxes with allow-lists need it

        found = self._upstreams.get(scheme)
        if (
            found is None
            or target.host == "localhost"
            or (not isinstance(target.host, str) and target.host.is_loopback)
        ):
            return None
        return None if proxy_bypass(str(target.host)) else found

    async def tunnel(self, target: Target, note: Note) -> Stream:
        """Connect to a target, through the other proxy where there is one. Raises `Refused`, `Unreachable`."""
        upstream = self.upstream("https", target)
        if upstream is None:
            return await self.direct(target, note)
        stream = await self.to_upstream(upstream)
        try:
            async with asyncio.timeout(UPSTREAM_SECONDS):
                await _ask_through(stream, target, upstream)
        except TimeoutError as error:
            stream.close()
            raise Unreachable(f"{target} cannot be reached: the proxy of the machine does not answer") from error
        except BaseException:
            stream.close()
            raise
        return stream

    async def direct(self, target: Target, note: Note) -> Stream:
        """Resolve and connect; `note` is told each address before. Raises `Refused` where all are forbidden."""
        addresses = [target.host] if not isinstance(target.host, str) else await _resolve(target.host, target.port)
        refusals: list[str] = []
        failures: list[str] = []
        for address in addresses:
            own = _is_own(address)
            refusal = self._policy().address_refusal(target, address, own=own)
            if refusal is not None:
                refusals.append(refusal)
                continue
            note(address, own)
            try:
                return await _connect(address, target.port)
            except OSError as error:
                failures.append(f"{address}: {describe(error)}")
        if failures:
            raise Unreachable(f"{target} cannot be reached: {'; '.join(failures)}")
        raise Refused(refusals[0] if refusals else f"{target} has no address")

    async def to_upstream(self, upstream: Upstream) -> Stream:
        """Connect to another proxy. Raises `Unreachable`."""
        try:
            host = upstream.host
            addresses = [host] if not isinstance(host, str) else await _resolve(host, upstream.port)
            return await _connect(addresses[0], upstream.port)
        except (OSError, IndexError, Unreachable) as error:
            raise Unreachable("the proxy of the machine that runs the sandbox does not answer") from error


async def _ask_through(stream: Stream, target: Target, upstream: Upstream) -> None:
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if upstream.authorization is not None:
        lines.append(f"Proxy-Authorization: {upstream.authorization}")
    try:
        await stream.send(("\r\n".join(lines) + "\r\n\r\n").encode())
        status = 100
        while status < 200:
            status, _ = parse_response(await stream.read_head() or b"")
    except (OSError, BadRequest, ValueError) as error:
        raise Unreachable(f"{target} cannot be reached: the proxy of the machine broke off") from error
    if status >= 300:
        raise Unreachable(f"{target} cannot be reached: the proxy of the machine answered {status}")


async def _connect(address: Address, port: int) -> Stream:
    family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.get_running_loop().sock_connect(made, (str(address), port))
        return Stream(made)
    except BaseException:
        made.close()
        raise


@cache
def _resolver() -> ThreadPoolExecutor:
    """Return threads of their own: slow name servers must not hold up the work of others with files."""
    return ThreadPoolExecutor(RESOLVER_THREADS, "proctor-resolve")


async def _resolve(name: str, port: int) -> list[Address]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.run_in_executor(_resolver(), look_up, name, port)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"{name} cannot be found: {describe(error)}") from error
    return [ip_address(one) for one in dict.fromkeys(found) if "%" not in one]


def look_up(name: str, port: int) -> list[str]:
    """Return the addresses of a name, as this machine finds them, best first."""
    return [str(one[4][0]) for one in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]


def _is_own(address: Address) -> bool:
    """Whether an address is one of this machine: then packets to it would come from it as well. Nothing is sent."""
    family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return bool(probe.getsockname()[0] == str(address))
    except OSError:  # there is no way to it, which connecting will say
        return False


def _upstreams() -> dict[str, Upstream]:
    """Return the proxies that the variables of this process name, by what they are for."""
    from urllib.request import getproxies_environment  # noqa: PLC0415 - as above

    named = getproxies_environment()
    found: dict[str, Upstream] = {}
    for scheme in ("http", "https"):
        text = named.get(scheme) or named.get("all")
        if text:
            found[scheme] = _upstream(text, scheme)
    return found


def _upstream(text: str, scheme: str) -> Upstream:
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        if parts.scheme != "http" or parts.hostname is None:
            raise ValueError(f"it is reached by {parts.scheme}, and only http is supported")
        host = parse_host(f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname)
        port = parts.port or 80
    except ValueError as error:
        message = f"allow-lists cannot pass through the proxy of the variable {scheme}_proxy: {error}"
        raise Fault("provider.unavailable", message) from error
    authorization = None
    if parts.username is not None:
        words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(words.encode()).decode()}"
    return Upstream(host, port, authorization)


__all__ = ["Dialer", "Refused", "Unreachable", "Upstream"]
