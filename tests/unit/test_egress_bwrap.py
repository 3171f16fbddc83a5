"""Provider `bwrap` with allow-lists: by phase, for the programs that people use (spec 06 V3)."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from proctor.model.environment import EnvironmentSpec, Network
from proctor.plugins.capabilities import refusals
from proctor.plugins.providers import Provider
from proctor.providers.bwrap.provider import BwrapProvider
from proctor.providers.bwrap.sandbox import BwrapSandbox
from support.bwrap import needs_bwrap

pytestmark = [needs_bwrap, pytest.mark.integration]

FETCH = """
import sys, urllib.request, urllib.error
if sys.argv[2:] == ["proxy"]:
    urllib.request.proxy_bypass = lambda host: False
try:
    print(urllib.request.urlopen(sys.argv[1]).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
except OSError as error:
    print(error)
"""


class Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    for name in [one for one in os.environ if one.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def in_sandbox(tmp_path: Path, network: Network, work: Callable[[BwrapSandbox], Awaitable[None]]) -> None:
    async def main() -> None:
        provider = BwrapProvider(tmp_path / "base")
        sandbox = await provider.open(EnvironmentSpec(provider="bwrap", network=network), {})
        try:
            await work(sandbox)
        finally:
            await sandbox.dispose()
            await provider.finalize()

    asyncio.run(main())


async def fetch(sandbox: BwrapSandbox, url: str, *how: str) -> str:
    result = await sandbox.exec(["python3", "-c", FETCH, url, *how])
    assert result.ok, result.err
    return result.out.strip()


def test_V3_a_listed_host_by_proxy_and_by_its_port(tmp_path: Path, port: int) -> None:
    async def work(sandbox: BwrapSandbox) -> None:
        url = f"http://127.0.0.1:{port}/"
        assert await fetch(sandbox, url) == "hello"
        assert await fetch(sandbox, url, "proxy") == "hello"
        refused = await fetch(sandbox, "http://evil.example/", "proxy")
        assert refused.startswith("403 proctor: evil.example:80 is refused: ")
        assert "Forbidden" in await fetch(sandbox, "https://evil.example/")

    in_sandbox(tmp_path, Network("allow", (f"127.0.0.1:{port}",)), work)


def test_V3_what_is_not_listed_is_not_there_at_all(tmp_path: Path, port: int) -> None:
    async def work(sandbox: BwrapSandbox) -> None:
        assert "Connection refused" in await fetch(sandbox, f"http://127.0.0.1:{port}/")
        result = await sandbox.exec("cat /proc/net/route /proc/net/ipv6_route; cut -d: -f1 /proc/net/dev | tail -n +3")
        assert [line.split()[0] for line in result.out.splitlines() if " lo" in line] == ["lo"] or "lo" in result.out
        assert "eth" not in result.out

    in_sandbox(tmp_path, Network("allow", ("a.example",)), work)


def test_V3_phases_change_what_is_reached(tmp_path: Path, port: int) -> None:
    url = f"http://127.0.0.1:{port}/"
    listed = Network("allow", (f"127.0.0.1:{port}",))

    async def work(sandbox: BwrapSandbox) -> None:
        assert "Connection refused" in await fetch(sandbox, url)
        assert "http_proxy" not in (await sandbox.exec("env")).out
        await sandbox.set_network(listed)
        assert await fetch(sandbox, url) == "hello"
        result = await sandbox.exec(
            f"""python3 -c '
import socket, time
one = socket.create_connection(("127.0.0.1", {port}))
print("connected", flush=True)
print(one.recv(1))
' > out 2>&1 & until grep -q connected out; do sleep 0.01; done"""
        )
        assert result.ok
        await sandbox.set_network(Network("none"))
        assert (await sandbox.exec("until grep -q b out; do sleep 0.01; done; tail -1 out")).out == "b''\n"
        assert "Connection refused" in await fetch(sandbox, url)
        await sandbox.set_network(Network("full"))
        assert await fetch(sandbox, url) == "hello"
        await sandbox.set_network(listed)
        assert await fetch(sandbox, url) == "hello"

    in_sandbox(tmp_path, Network("none"), work)


def test_V3_namespaces_that_were_ended_inside_have_a_proxy_again(tmp_path: Path, port: int) -> None:
    async def work(sandbox: BwrapSandbox) -> None:
        await sandbox.mark()
        for _ in range(2):
            assert await fetch(sandbox, f"http://127.0.0.1:{port}/") == "hello"
            await sandbox.exec("kill -9 -1")
            assert await fetch(sandbox, f"http://127.0.0.1:{port}/") == "hello"
            await sandbox.reset()

    in_sandbox(tmp_path, Network("allow", (f"localhost:{port}",)), work)


def test_V3_a_list_that_means_nothing_is_refused_at_planning(tmp_path: Path) -> None:
    provider: Provider = BwrapProvider(tmp_path)
    bad = EnvironmentSpec(provider="bwrap", grade_network=Network("allow", ("http://a.example",)))
    assert refusals(provider, bad) == [
        "the allowed hosts cannot be understood: 'http://a.example' is no host: write it without scheme and path"
    ]
    assert refusals(provider, EnvironmentSpec(provider="bwrap", network=Network("allow", ("a.example",)))) == []
