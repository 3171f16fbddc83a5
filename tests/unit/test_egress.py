"""The proxy of allow-lists, with real network namespaces: what is listed is reached, and nothing else (spec 06 V3)."""

from __future__ import annotations

import asyncio
import base64
import errno
import gc
import os
import random
import socket
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from proctor.errors import Fault
from proctor.model.environment import Network
from proctor.providers.egress import dial as egress_dial
from proctor.providers.egress import listen as egress_listen
from proctor.providers.egress import namespace as egress_namespace
from proctor.providers.egress import proxy as egress
from proctor.providers.egress.proxy import Egress
from support.egress_spaces import NetSpace, net_space

pytestmark = pytest.mark.integration

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
NONE = Network("none")


@pytest.fixture(autouse=True)
def no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def space() -> Iterator[NetSpace]:
    with net_space() as one:
        if isinstance(one, str):
            pytest.skip(one)
        yield one


def allow(*hosts: str) -> Network:
    return Network("allow", hosts)


def open_files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request with its head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    body = b""
    if b"chunked" in head:
        while not body.endswith(b"0\r\n\r\n"):
            body += await reader.readuntil(b"\r\n")
    elif b"Content-Length: " in head:
        body = await reader.readexactly(int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0]))
    content = b"hello " + head + body
    writer.write(b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content))
    await writer.drain()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send everything back, and one word more when the client has ended."""
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    writer.write(b"bye")
    await writer.drain()


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[int]:
    """Serve on this machine's 127.0.0.1, and give the port."""
    tasks = set[asyncio.Task[None]]()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(OSError, asyncio.IncompleteReadError):
            await answer(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        tasks.discard(task)

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def egress_of(space: NetSpace, network: Network) -> AsyncIterator[Egress]:
    egress = await Egress.start(space.fd, network)
    try:
        yield egress
    finally:
        await egress.close()


@asynccontextmanager
async def connected(space: NetSpace, port: int, host: str = "127.0.0.1") -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection(sock=await asyncio.to_thread(space.connect, host, port))
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def ask(space: NetSpace, egress: Egress, *parts: bytes) -> bytes:
    """Send something to the proxy from inside, and return all that it answers."""
    async with connected(space, proxy_port(egress)) as (reader, writer):
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await reader.read()


def proxy_port(egress: Egress) -> int:
    return int(egress.variables["http_proxy"].rpartition(":")[2])


def get(url: str, *headers: str) -> bytes:
    return ("\r\n".join([f"GET {url} HTTP/1.1", *headers]) + "\r\n\r\n").encode()


def tunnel(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()


@pytest.mark.parametrize("way", ["thread", "child"])
def test_V3_what_is_listed_is_reached_and_nothing_else(
    space: NetSpace, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "child":

        def refuse(*_: object) -> None:
            raise egress_listen.CannotEnter(errno.EPERM, "as a plain user")

        monkeypatch.setattr(egress_namespace, "_in_thread", refuse)

    async def main() -> None:
        async with (
            serving(hello) as port,
            serving(hello) as other,
            egress_of(space, allow(f"127.0.0.1:{port}")) as egress,
        ):
            plain = await ask(space, egress, get(f"http://127.0.0.1:{port}/x?y", "Host: evil.example"))
            assert plain.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"Connection: close\r\n" in plain
            assert f"hello GET /x?y HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode() in plain
            async with connected(space, proxy_port(egress)) as (reader, writer):
                writer.write(tunnel(f"127.0.0.1:{port}") + b"GET / HTTP/1.1\r\nX: y\r\n\r\n")
                assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
                assert b"200 OK" in await reader.readuntil(b"hello GET / HTTP/1.1\r\nX: y\r\n\r\n")

            for request in (get(f"http://127.0.0.1:{other}/"), tunnel(f"127.0.0.1:{other}")):
                refused = await ask(space, egress, request)
                assert refused.startswith(b"HTTP/1.1 403 Forbidden\r\n")
                assert f"proctor: 127.0.0.1:{other} is refused: the entry 127.0.0.1:{port} allows".encode() in refused
            refused = await ask(space, egress, get("http://evil.example/", f"Host: 127.0.0.1:{port}"))
            assert refused.startswith(b"HTTP/1.1 403 Forbidden\r\n")
            assert egress.refused == {f"127.0.0.1:{other}": 2, "evil.example:80": 1}

            for host, reason in (
                (f"127.0.0.1:{other}", "ECONNREFUSED"),
                ("192.0.2.1:80", "ENETUNREACH"),
                ("2001:db8::1:80", "E"),
            ):
                with pytest.raises(ConnectionError, match=reason):
                    space.connect(*_split(host))

    asyncio.run(main())


def _split(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def test_V3_a_listed_loopback_port_is_there_inside(space: NetSpace) -> None:
    async def main() -> None:
        async with (
            serving(echo) as port,
            serving(echo) as later,
            egress_of(space, allow(f"localhost:{port}")) as egress,
        ):
            async with connected(space, port) as (reader, writer):
                writer.write(b"not http")
                writer.write_eof()
                assert await reader.read() == b"not httpbye"
            await egress.set_policy(allow(f"127.0.0.1:{later}"))
            with pytest.raises(ConnectionError, match="ECONNREFUSED"):
                space.connect("127.0.0.1", port)
            async with connected(space, later) as (reader, writer):
                writer.write_eof()
                assert await reader.read() == b"bye"

    asyncio.run(main())


def test_V3_another_policy_ends_what_it_does_not_allow(space: NetSpace) -> None:
    async def main() -> None:
        async with serving(echo) as port, serving(echo) as other:
            one, two = f"127.0.0.1:{port}", f"127.0.0.1:{other}"
            async with (
                egress_of(space, allow(one, two)) as egress,
                connected(space, proxy_port(egress)) as (reader, writer),
            ):
                async with connected(space, proxy_port(egress)) as (stays, writes):
                    for streams, target in (((reader, writer), one), ((stays, writes), two)):
                        streams[1].write(tunnel(target) + b"x")
                        await streams[0].readuntil(b"\r\n\r\nx")
                    async with connected(space, port) as (forwarded, _):
                        await egress.set_policy(allow(two))
                        assert await reader.read() == b""
                        assert await forwarded.read() == b""
                    writes.write(b"y")
                    assert await stays.readexactly(1) == b"y"
                    await egress.set_policy(NONE)
                    assert await stays.read() == b""
                assert b"policy of this sandbox is none" in await ask(space, egress, tunnel(two))
                await egress.set_policy(Network("full"))
                assert b"bye" in await ask_and_end(space, egress, tunnel(one))

    asyncio.run(main())


async def ask_and_end(space: NetSpace, egress: Egress, request: bytes) -> bytes:
    async with connected(space, proxy_port(egress)) as (reader, writer):
        writer.write(request)
        writer.write_eof()
        return await reader.read()


def test_V3_nothing_is_left(space: NetSpace) -> None:
    async def main() -> None:
        async with serving(echo) as port:
            before, tasks = open_files(), len(asyncio.all_tasks())
            egress = await Egress.start(space.fd, allow(f"127.0.0.1:{port}"))
            proxy = proxy_port(egress)
            async with connected(space, proxy) as (reader, writer), connected(space, proxy) as (silent, _):
                writer.write(tunnel(f"127.0.0.1:{port}") + b"x")
                await reader.readuntil(b"\r\n\r\nx")
                await asyncio.gather(egress.close(), egress.close())
                assert await reader.read() == b""
                with suppress(ConnectionResetError):
                    assert await silent.read() == b""
            for closed in (proxy, port):
                with pytest.raises(ConnectionError, match="ECONNREFUSED"):
                    space.connect("127.0.0.1", closed)
            with pytest.raises(Fault, match="closed"):
                await egress.set_policy(NONE)
            while len(asyncio.all_tasks()) > tasks:  # the server's own, which sees its connection end
                await asyncio.sleep(0)
            assert open_files() == before

    asyncio.run(main())


@pytest.mark.parametrize("way", ["thread", "child"])
def test_V3_a_start_that_is_cancelled_leaves_nothing(
    space: NetSpace, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "child":
        monkeypatch.setattr(egress_namespace, "_in_thread", egress_namespace._in_child)

    async def main() -> None:
        await (await Egress.start(space.fd, NONE)).close()
        before = open_files()
        for steps in range(12):
            task = asyncio.create_task(Egress.start(space.fd, allow("127.0.0.1:8000", "localhost:8001")))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await (await task).close()
            while True:  # a thread that was on its way delivers to nobody, and closes
                await asyncio.sleep(0)
                if open_files() == before:
                    break
        async with egress_of(space, allow("127.0.0.1:8000", "localhost:8001")):
            pass

    asyncio.run(main())


def test_V3_both_halves_of_a_tunnel_and_much_data(space: NetSpace) -> None:
    data = os.urandom(1 << 20) * 24

    async def main() -> None:
        async with (
            serving(echo) as port,
            egress_of(space, allow(f"127.0.0.1:{port}")) as egress,
            connected(space, proxy_port(egress)) as (reader, writer),
        ):
            writer.write(tunnel(f"127.0.0.1:{port}"))
            await reader.readuntil(b"\r\n\r\n")

            async def send() -> None:
                writer.write(data)
                await writer.drain()
                writer.write_eof()

            _, got = await asyncio.gather(send(), reader.read())
            assert got == data + b"bye"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("headers", "parts", "sent"),
    [
        ("Content-Length: 5", [b"ab", b"cde"], b"abcde"),
        (
            "Transfer-Encoding: chunked",
            [b"3;x=y\r\nab", b"c\r\n2\r\nde\r\n0\r\nT: t\r\n\r\n"],
            b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        ),
    ],
)
def test_V3_bodies_come_whole(space: NetSpace, headers: str, parts: list[bytes], sent: bytes) -> None:
    async def main() -> None:
        async with serving(hello) as port, egress_of(space, allow(f"127.0.0.1:{port}")) as egress:
            head = f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\n{headers}\r\nExpect: 100-continue\r\n\r\n".encode()
            # What comes after the request never reaches a server.
            answer = await ask(space, egress, head, *parts, get("http://evil.example/"))
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert answer.endswith(b"Connection: close\r\n\r\n" + sent)

    asyncio.run(main())


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        b"\x16\x03\x01\x02\x00\n\n",
        b"x" * 70000,
        b"GET http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET http://allowed@evil.example/ HTTP/1.1\r\n\r\n",
    ],
)
def test_V3_rubbish_is_answered_as_such(space: NetSpace, request_bytes: bytes) -> None:
    async def main() -> None:
        async with egress_of(space, allow("a.example")) as egress:
            assert (await ask(space, egress, request_bytes)).startswith(b"HTTP/1.1 400 Bad Request\r\n")

    asyncio.run(main())


def test_V3_half_a_request_is_never_taken_for_a_whole_one(space: NetSpace) -> None:
    async def main() -> None:
        got = bytearray()

        async def keep(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            got.extend(await reader.read())

        async with serving(keep) as port, egress_of(space, allow(f"127.0.0.1:{port}")) as egress:
            head = f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
            answer = await ask(space, egress, head, b"3\r\nabc\r\nrubbish\r\n")
            assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert got.endswith(b"abc\r\n")

    asyncio.run(main())


def test_V3_what_cannot_be_reached_is_502(space: NetSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(name: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    monkeypatch.setattr(egress_dial, "look_up", look_up)

    async def main() -> None:
        async with serving(hello) as gone:
            pass
        async with egress_of(space, allow(f"127.0.0.1:{gone}", "a.example")) as egress:
            for request in (get(f"http://127.0.0.1:{gone}/"), tunnel("a.example:443")):
                assert (await ask(space, egress, request)).startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
        async with serving(echo) as port, egress_of(space, allow(f"127.0.0.1:{port}")) as egress:
            answer = await ask(space, egress, get(f"http://127.0.0.1:{port}/"))
            assert answer.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")  # it is no server of HTTP

    asyncio.run(main())


def test_V3_a_name_that_leads_to_this_machine_is_refused(space: NetSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    led_to = {
        "rebound.example": ["127.0.0.1"],
        "meta.example": ["169.254.169.254"],
        "both.example": ["10.0.0.1", "127.0.0.1"],
    }
    monkeypatch.setattr(egress_dial, "look_up", lambda name, port: led_to[name])

    async def main() -> None:
        async with serving(hello) as port:
            names = [f"{name}:{port}" for name in ("rebound.example", "meta.example")]
            async with egress_of(space, allow(*names, "both.example")) as egress:
                for target in (*names, "both.example:80"):
                    answer = await ask(space, egress, get(f"http://{target}/"))
                    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
                    assert b"if it is meant" in answer
                await egress.set_policy(allow(*names, f"127.0.0.1:{port}"))
                assert b"200 OK" in await ask(space, egress, get(f"http://rebound.example:{port}/"))

    asyncio.run(main())


def test_V3_one_sandbox_has_only_so_many_connections(space: NetSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(egress, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(egress, "LEAST_CONNECTIONS", 2)

    async def main() -> None:
        async with (
            serving(hello) as port,
            egress_of(space, allow(f"127.0.0.1:{port}")) as egress,
            connected(space, proxy_port(egress)),
            connected(space, proxy_port(egress)) as (_, writer),
        ):
            third = asyncio.create_task(ask(space, egress, get(f"http://127.0.0.1:{port}/")))
            while len(egress._connections) < 2:
                await asyncio.sleep(0)
            done, _ = await asyncio.wait({third}, timeout=0.2)
            assert not done
            writer.close()
            assert b"200 OK" in await third

    asyncio.run(main())


def test_V3_the_proxy_of_this_machine_is_passed_through(space: NetSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head)
        if b"closed.example" in head:
            writer.write(b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=secret\r\n\r\n")
        elif head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await echo(reader, writer)
        else:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nplain")

    async def main() -> None:
        async with serving(proxy) as port, serving(echo) as own:
            for scheme in ("http", "https"):
                monkeypatch.setenv(f"{scheme}_proxy", f"http://me:s%40crt@127.0.0.1:{port}")
            hosts = ("a.example", "closed.example", "*.b.example", f"127.0.0.1:{own}")
            async with egress_of(space, allow(*hosts)) as egress:
                assert (await ask_and_end(space, egress, tunnel("a.example:443") + b"x")).endswith(b"\r\n\r\nxbye")
                assert (await ask(space, egress, get("http://x.b.example/p"))).endswith(b"plain")
                for request in (get("http://closed.example/"), tunnel("closed.example:443")):
                    answer = await ask(space, egress, request)
                    assert answer.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
                    assert b"secret" not in answer
                assert (await ask(space, egress, tunnel("evil.example:443"))).startswith(b"HTTP/1.1 403 ")
                assert not any("crt" in value or str(port) in value for value in egress.variables.values())
                assert b"bye" in await ask_and_end(space, egress, tunnel(f"127.0.0.1:{own}"))  # never through it
        credentials = base64.b64encode(b"me:s@crt")
        assert len(seen) == 4
        assert all(b"Proxy-Authorization: Basic " + credentials in one for one in seen)
        assert seen[0].startswith(b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n")
        assert seen[1].startswith(b"GET http://x.b.example/p HTTP/1.1\r\nHost: x.b.example\r\n")

    asyncio.run(main())


def test_V3_a_proxy_of_this_machine_that_we_cannot_speak_to(space: NetSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:9")

    async def main() -> None:
        before = open_files()
        with pytest.raises(Fault, match="reached by socks5") as caught:
            await Egress.start(space.fd, allow("a.example"))
        assert caught.value.code == "provider.unavailable"
        assert open_files() == before

    asyncio.run(main())


def test_V3_a_namespace_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    async def main() -> None:
        with file.open() as opened, pytest.raises(Fault, match="could not be limited") as caught:
            await Egress.start(opened.fileno(), NONE)
        assert caught.value.code == "provider.open_failed"

    asyncio.run(main())


def test_V3_a_port_that_is_taken_inside(space: NetSpace) -> None:
    async def main() -> None:
        async with egress_of(space, NONE) as first:
            async with egress_of(space, NONE) as second:
                assert proxy_port(first) == 3128
                assert proxy_port(second) == 3129
            before = open_files()
            with pytest.raises(Fault, match=r"cannot listen on 127\.0\.0\.1:3128 of the sandbox"):
                await Egress.start(space.fd, allow("localhost:8000", "localhost:3128"))
            assert open_files() == before

    asyncio.run(main())


def test_V3_what_is_refused_is_counted_and_logged_within_bounds(
    space: NetSpace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(egress, "MOST_NAMES", 3)
    monkeypatch.setattr(egress, "MOST_LINES", 2)
    caplog.set_level("INFO", logger="proctor")

    async def main() -> None:
        async with egress_of(space, allow()) as egress:
            for number in (1, 1, 2, 3, 4, 5):
                await ask(space, egress, tunnel(f"h{number}.example:443"))
            assert egress.refused == {"h1.example:443": 2, "h2.example:443": 1, "h3.example:443": 1, "others": 2}

    asyncio.run(main())
    lines = [one.getMessage() for one in caplog.records if one.name.endswith("egress.proxy")]
    assert [line.split()[4] for line in lines] == ["h1.example:443", "h2.example:443"]
    assert lines[1].endswith("; what else is refused is not logged")


def test_V3_a_name_that_is_still_looked_up_gains_nothing(space: NetSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def look_up(name: str, port: int) -> list[str]:
        asked.set()
        go_on.wait()
        return ["127.0.0.1"]

    monkeypatch.setattr(egress_dial, "look_up", look_up)

    async def main() -> None:
        got: list[bytes] = []

        async def keep(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            got.append(await reader.read())

        async with serving(keep) as port, egress_of(space, allow(f"localhost:{port}")) as egress:
            async with connected(space, proxy_port(egress)) as (reader, writer):
                writer.write(tunnel(f"localhost:{port}"))
                await asyncio.to_thread(asked.wait)
                await egress.set_policy(NONE)
                assert await reader.read() == b""
            go_on.set()
        assert got == []

    asyncio.run(main())


def test_V3_clients_that_break_off_anywhere_leave_nothing(space: NetSpace, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="proctor")
    rng = random.Random(7)

    async def main() -> None:
        async with serving(echo) as port, serving(hello) as web:
            listed, page = f"127.0.0.1:{port}", f"127.0.0.1:{web}"
            before = open_files()
            egress = await Egress.start(space.fd, allow(listed, page))
            requests = [
                tunnel(listed) + b"x" * 200_000,
                get(f"http://{page}/"),
                tunnel("evil.example:443"),
                b"\x00\n\n",
            ]
            requests.append(
                f"POST http://{page}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n".encode()
            )

            async def one() -> None:
                sock = space.connect("127.0.0.1", rng.choice([proxy_port(egress), port]))
                with sock:
                    sock.setblocking(False)
                    whole = rng.choice(requests)
                    with suppress(OSError):  # a client does not care
                        await asyncio.get_running_loop().sock_sendall(sock, whole[: rng.randrange(len(whole) + 1)])
                        for _ in range(rng.randrange(4)):
                            await asyncio.sleep(0)
                        if rng.random() < 0.5:
                            await asyncio.get_running_loop().sock_recv(sock, 100)
                    if rng.random() < 0.5:  # what is unread is lost: the other side gets a reset
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

            tasks = [asyncio.create_task(one()) for _ in range(80)]
            await asyncio.sleep(0)
            for task in rng.sample(tasks, 20):
                task.cancel()
            await asyncio.wait(tasks, timeout=1)  # some wait for an answer to half a request
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await egress.close()
            while open_files() > before:  # servers see the ends of their connections
                await asyncio.sleep(0)

    asyncio.run(main())
    assert not [one for one in caplog.records if one.name.startswith("proctor") and one.levelname != "INFO"]
