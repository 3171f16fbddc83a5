"""Sandboxes of several services, brought up for real."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

pytest.importorskip("aiodocker", reason="needs the extra docker")

import aiodocker

from proctor.data.build_context import compose_digest
from proctor.errors import Fault
from proctor.model.environment import Compose, EnvironmentSpec, Network, Resources
from proctor.plugins.capabilities import refusals
from proctor.providers.docker.compose import Services, refuse_compose
from proctor.providers.docker.compose_program import find_program
from proctor.providers.docker.compose_sweep import listed
from proctor.providers.docker.images import Images
from proctor.providers.docker.provider import DockerProvider
from support.engines import docker, podman

pytestmark = pytest.mark.skipif(find_program() is None, reason="needs a compose program")

TWO = """
services:
  main:
    build: {context: ., args: {WHO: "${WHO:-nobody}"}}
    depends_on: {db: {condition: service_healthy}}
    environment: [A=1]
    volumes: ["./data:/data:ro", "store:/store"]
    command: sh -c 'echo $$A > /ran'
  db:
    image: proctor-test:1
    command: sh -c 'mkdir /www; echo rows > /www/q; httpd -f -p 80 -h /www'
    healthcheck: {test: ["CMD", "test", "-e", "/www/q"], interval: 1s, retries: 30}
volumes: {store: {}}
"""


ENGINES = {"docker": docker, "podman": podman}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))


def environment(folder: Path, text: str, **more: Any) -> EnvironmentSpec:
    folder.mkdir(exist_ok=True)
    (folder / "compose.yaml").write_text(text)
    (folder / "Dockerfile").write_text("FROM proctor-test:1\nARG WHO\nRUN echo $WHO > /who\n")
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data/d").write_text("content")
    file = folder / "compose.yaml"
    return EnvironmentSpec(provider="docker", compose=Compose(str(file), compose_digest(file)), **more)


class Bench:
    """One sandbox of services, and what there is of it at the engine."""

    def __init__(self, client: Any, host: str) -> None:
        self.docker = client
        self.services = Services(client, Images(client), host)
        self.sandbox = f"proctor-{secrets.token_hex(6)}"

    async def up(self, one: EnvironmentSpec) -> str:
        return await self.services.up(one, self.sandbox, {"proctor.sandbox": self.sandbox, "proctor.run": "$r"})

    async def sh(self, command: str) -> str:
        container = await self.docker.containers.get(self.sandbox)
        call = await container.exec(["sh", "-c", command])
        out = b""
        async with call.start(detach=False) as stream:
            while (piece := await stream.read_out()) is not None:
                out += piece.data
        return out.decode()

    async def left(self) -> list[str]:
        return [
            f"{kind} {name}"
            for kind in ("container", "network", "volume")
            for name, _ in await listed(self.docker, kind, self.sandbox)
        ]


@asynccontextmanager
async def bench(engine: str) -> AsyncIterator[Bench]:
    host = ENGINES[engine]()
    async with aiodocker.Docker(url=host) as client:
        one = Bench(client, host)
        try:
            yield one
        finally:
            await one.services.remove(one.sandbox)


def run(engine: str, work: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        async with bench(engine) as one:
            await work(one)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("engine", "network"), [("docker", "none"), pytest.param("podman", "full", marks=pytest.mark.long)]
)
def test_services_come_up_in_order_and_are_removed_without_a_trace(
    engine: str, network: Literal["none", "full"], tmp_path: Path
) -> None:
    limits = Resources(memory_bytes=64 * 1024 * 1024)
    one = environment(tmp_path / "task", TWO, env={"WHO": "me", "B": "$b"}, resources=limits, network=Network(network))

    async def work(bench: Bench) -> None:
        assert refuse_compose(one) is None
        await bench.services.prepare(one, lambda _: None)
        container = await bench.up(one)
        shown = await (await bench.docker.containers.get(container)).show()
        assert shown["Name"].strip("/") == bench.sandbox
        assert shown["HostConfig"]["Memory"] == 64 * 1024 * 1024
        assert shown["Config"]["Labels"]["proctor.run"] == "$r"
        assert await bench.sh("cat /who; cat /data/d; echo; echo $A$B; cat /ran; ls -d /store") == (
            "me\ncontent\n1$b\n1\n/store\n"
        )
        assert await bench.sh("wget -q -O- http://db/q") == "rows\n", "healthy before main, and found by its name"
        assert "Read-only" in await bench.sh("touch /data/x 2>&1")
        assert await reaches_the_machine(bench) is (network == "full")
        assert len(await bench.left()) == 4
        await bench.services.remove(bench.sandbox)
        assert await bench.left() == []
        await bench.services.remove(bench.sandbox)

    run(engine, work)


async def reaches_the_machine(bench: Bench) -> bool:
    """Return whether a port that listens at all addresses of this machine is found from inside. (spec 06 V3)"""
    served = await asyncio.start_server(lambda _, writer: writer.close(), "0.0.0.0", 0)
    port = served.sockets[0].getsockname()[1]
    gateway = "$(ip route | sed -n 's/default via \\([^ ]*\\).*/\\1/p')"
    try:
        said = await bench.sh(f"g={gateway}; nc -w 3 ${{g:-10.0.0.1}} {port} </dev/null && echo reached")
    finally:
        served.close()
    return "reached" in said


def test_services_that_do_not_come_up_say_why_and_leave_nothing(tmp_path: Path) -> None:
    text = TWO.replace("mkdir /www;", "echo no licence >&2; exit 3;")
    one = environment(tmp_path / "task", text)

    async def work(bench: Bench) -> None:
        with pytest.raises(Fault, match="ended with status 3") as caught:
            await bench.up(one)
        assert caught.value.code == "provider.open_failed"
        assert "no licence" in str(caught.value)
        assert await bench.left() == []

    run("docker", work)


def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    one = environment(tmp_path / "task", TWO.replace('"/www/q"', '"/never"').replace("retries: 30", "retries: 999"))

    async def work(bench: Bench) -> None:
        await bench.services.prepare(one, lambda _: None)
        task = asyncio.create_task(bench.up(one))
        while not any(name.startswith("container") for name in await bench.left()):
            assert not task.done()
            await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert await bench.left() == []

    run("docker", work)


def test_what_another_file_brings_in_is_checked_as_well(tmp_path: Path) -> None:
    text = "services: {main: {extends: {file: base.yaml, service: base}}}\n"
    one = environment(tmp_path / "task", text)
    (tmp_path / "task/base.yaml").write_text("services: {base: {image: 'proctor-test:1', privileged: true}}\n")
    file = tmp_path / "task/compose.yaml"
    one = EnvironmentSpec(compose=Compose(str(file), compose_digest(file)))

    async def work(bench: Bench) -> None:
        assert refuse_compose(one) is None
        with pytest.raises(Fault, match="`privileged`") as caught:
            await bench.services.prepare(one, print)
        assert caught.value.code == "image.build_failed"

    run("docker", work)


def test_a_folder_that_changed_since_the_run_was_planned_is_not_used(tmp_path: Path) -> None:
    one = environment(tmp_path / "task", TWO)
    (tmp_path / "task/data/d").write_text("later")

    async def work(bench: Bench) -> None:
        with pytest.raises(Fault, match="changed since the run was planned"):
            await bench.up(one)

    run("docker", work)


@pytest.mark.long
def test_V3_commands_reach_other_services_and_what_is_listed_and_nothing_else(tmp_path: Path) -> None:
    async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async def main() -> None:
        provider = DockerProvider(docker(), grace_seconds=1.0)
        async with await asyncio.start_server(hello, "127.0.0.1", 0) as server:
            there = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            listed = Network("allow", (there[len("http://") : -1],))
            one = environment(tmp_path / "task", TWO, network=listed, grade_network=Network("none"))
            assert refusals(provider, one) == []
            sandbox = await provider.open(one, {"test": "compose"})
            try:

                async def sh(command: str) -> str:
                    return (await sandbox.exec(command, timeout_seconds=100)).out

                for address in (there, "http://db/q"):
                    assert await sh(f"wget -Y off -q -O- {address}") in ("hello", "rows\n")
                assert await sh("case $NO_PROXY in *,db,main) echo $http_proxy ;; esac") == "http://127.0.0.1:3128\n"
                assert "403" in (await sandbox.exec("wget -q -O- http://example.org/", timeout_seconds=100)).err
                await sandbox.set_network(Network("none"))
                assert await sh(
                    f"wget -Y off -q -O- {there}; wget -Y off -q -O- http://db/q; env | grep -i proxy="
                ) == ("rows\n")
            finally:
                await sandbox.dispose()
                await provider.finalize()
        assert not await provider.list({"test": "compose"})

    asyncio.run(main())
