"""What provider `docker` does beyond what every provider must: limits, users, networks by phase, what outlives it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from proctor.errors import Fault
from proctor.model.environment import EnvironmentSpec, Network, Resources
from proctor.plugins.api import ExecResult
from proctor.plugins.capabilities import refusals
from proctor.providers.docker.engine import addresses
from proctor.providers.docker.inside import restart
from proctor.providers.docker.provider import DockerProvider
from proctor.providers.docker.sandbox import DockerSandbox
from support import engines

PLAIN = EnvironmentSpec(provider="docker", image=engines.IMAGE)
CYCLES = int(os.environ.get("PROCTOR_CONTAINER_CYCLES", "8"))
"""How many containers are opened while they are cancelled and killed; 200 is all of it."""

both = pytest.mark.parametrize(
    "engine",
    [pytest.param(engines.docker, id="docker"), pytest.param(engines.podman, id="podman", marks=pytest.mark.long)],
)
mostly_docker = pytest.mark.parametrize("engine", [engines.docker, engines.podman_too], ids=["docker", "podman"])
Engine = Callable[[], str]


@asynccontextmanager
async def opened(
    address: str, environment: EnvironmentSpec = PLAIN
) -> AsyncIterator[tuple[DockerProvider, DockerSandbox]]:
    provider = DockerProvider(address, grace_seconds=1.0)
    try:
        sandbox = await provider.open(environment, {"test": "provider"})
        try:
            yield provider, sandbox
        finally:
            await sandbox.dispose()
    finally:
        await provider.finalize()


async def must(sandbox: DockerSandbox, command: str, **options: object) -> str:
    result: ExecResult = await sandbox.exec(command, timeout_seconds=100, **options)  # type: ignore[arg-type]
    assert result.ok, result
    return result.out.strip()


@mostly_docker
def test_orphans_are_collected(engine: Engine) -> None:
    """Case 118: far more orphans than fit the limit of processes."""

    async def check() -> None:
        environment = replace(PLAIN, resources=Resources(processes=256))
        async with opened(engine(), environment) as (_, sandbox):
            await must(sandbox, "i=0; while [ $i -lt 1000 ]; do (true &); i=$((i+1)); done")
            defunct = "grep -l '^State:.*Z' /proc/[0-9]*/status 2>/dev/null | wc -l"
            await must(sandbox, f"while [ $({defunct}) -ge 10 ]; do :; done")
            assert await must(sandbox, "echo works") == "works"

    asyncio.run(check())


@both
def test_a_sandbox_survives_the_killing_of_everything_in_it(engine: Engine) -> None:
    async def check() -> None:
        async with opened(engine()) as (_, sandbox):
            result = await sandbox.exec("kill -9 -1; kill -9 $$", timeout_seconds=100)
            assert (result.exit_code, result.signal) == (None, 9)
            assert await must(sandbox, "echo works") == "works"

    asyncio.run(check())


@mostly_docker
def test_a_fork_bomb_ends_with_its_time(engine: Engine) -> None:
    """Also where it takes every process that there may be, so that nothing more can be started."""

    async def check() -> None:
        environment = replace(PLAIN, resources=Resources(processes=40))
        async with opened(engine(), environment) as (_, sandbox):
            bomb = "mkfifo p; f() { (sleep 0.01; f) & (sleep 0.01; f) & }; (f; f; f) & while :; do read x < p; done"
            result = await sandbox.exec(bomb, timeout_seconds=2)
            assert result.timed_out
            assert result.exit_code is None
            left = await must(sandbox, "grep -l sleep /proc/[0-9]*/comm 2>/dev/null | wc -l")
            assert int(left) <= 1, "only the first process's own may sleep"

    asyncio.run(check())


@mostly_docker
def test_memory_is_limited_for_all_together(engine: Engine) -> None:
    async def check() -> None:
        environment = replace(PLAIN, resources=Resources(memory_bytes=64 << 20, cpus=0.5))
        async with opened(engine(), environment) as (_, sandbox):
            result = await sandbox.exec("tail /dev/zero", timeout_seconds=100)
            assert not result.ok
            assert not result.timed_out
            assert result.out_of_memory
            assert await must(sandbox, "echo works") == "works"

    asyncio.run(check())


@mostly_docker
def test_commands_run_as_the_user_of_the_environment(engine: Engine, tmp_path: Path) -> None:
    async def check() -> None:
        environment = replace(PLAIN, user="nobody", workdir="/some/where")
        async with opened(engine(), environment) as (_, sandbox):
            assert sandbox.workdir == "/some/where"
            assert await must(sandbox, "id -u; pwd; echo own > file; cat file") == "65534\n/some/where\nown"
            assert await must(sandbox, "id -u", user="0") == "0"
            await sandbox.write("deep/er", "given")
            assert await must(sandbox, "echo more >> deep/er; cat deep/er") == "givenmore"
            result = await sandbox.exec("sleep 3000 & sleep 3000", timeout_seconds=1)
            assert result.timed_out
            assert await must(sandbox, "ps | grep -c 'sleep 300[0]' || true") == "0"
            await sandbox.upload(Path(__file__).parent.parent / "support", "given")
            assert await must(sandbox, "touch given/engines.py && stat -c %u given given/engines.py") == "65534\n65534"
            with pytest.raises(ValueError, match="no-such-user"):
                await sandbox.exec("true", user="no-such-user")

    asyncio.run(check())


@both
def test_V3_the_network_changes_with_the_phase(engine: Engine) -> None:
    interfaces = "ls /sys/class/net"

    async def check() -> None:
        environment = replace(PLAIN, network=Network("none"), setup_network=Network("full"))
        async with opened(engine(), environment) as (provider, sandbox):
            assert "eth0" in await must(sandbox, interfaces)
            await sandbox.set_network(Network("none"))
            assert await must(sandbox, interfaces) == "lo"
            async with provider._engine.client() as docker:
                await restart(docker, sandbox.id)
            assert await must(sandbox, interfaces) == "lo", "a restart must not connect it again"
            await sandbox.set_network(Network("full"))
            assert "eth" in await must(sandbox, interfaces)

    asyncio.run(check())


def test_V3_no_network_is_none_from_the_beginning() -> None:
    async def check() -> None:
        for environment in (
            replace(PLAIN, network=Network("none")),
            replace(PLAIN, network=Network("full"), setup_network=Network("none")),
        ):
            async with opened(engines.docker(), environment) as (_, sandbox):
                assert await must(sandbox, "ls /sys/class/net") == "lo"

    asyncio.run(check())


@mostly_docker
def test_V3_an_allow_list_holds(engine: Engine) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def check() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            environment = replace(PLAIN, network=Network("allow", (f"127.0.0.1:{port}",)))
            async with opened(engine(), environment) as (_, sandbox):
                assert await must(sandbox, "ls /sys/class/net") == "lo"
                assert await must(sandbox, f"wget -q -O - http://127.0.0.1:{port}/") == "hello"
                assert "example.org" not in await must(sandbox, "wget -q -O - http://example.org/ || true")
                await sandbox.set_network(Network("none"))
                assert not (await sandbox.exec(f"wget -q -O - http://127.0.0.1:{port}/", timeout_seconds=100)).ok

    asyncio.run(check())


@mostly_docker
def test_a_reset_brings_the_work_directory_back(engine: Engine) -> None:
    async def check() -> None:
        async with opened(engine()) as (_, sandbox):
            await must(sandbox, "mkdir -p a/b; echo 1 > a/b/c; ln -s nowhere link; chmod 750 a; echo x > .hidden")
            before = await must(sandbox, "ls -laR --full-time | grep -v -e '\\.\\.$' -e '->'; readlink link")
            await sandbox.mark()
            await must(sandbox, "rm -rf a link; echo 2 > new; echo y > .hidden; (setsid sleep 3000 &)")
            await sandbox.reset()
            assert await must(sandbox, "ls -laR --full-time | grep -v -e '\\.\\.$' -e '->'; readlink link") == before
            assert await must(sandbox, "cat a/b/c .hidden; ps | grep -c 'sleep 300[0]' || true") == "1\nx\n0"

    asyncio.run(check())


@both
def test_V2_a_kept_sandbox_lives_on_under_its_id(engine: Engine) -> None:
    async def check() -> None:
        async with opened(engine()) as (provider, sandbox):
            await sandbox.write("file", "kept")
            await sandbox.keep()
            await sandbox.dispose()
            await provider.finalize()
            listed = await DockerProvider(engine()).list({"test": "provider", "sandbox": sandbox.id})
            assert [dict(one) for one in listed] == [{"test": "provider", "sandbox": sandbox.id, "kept": "true"}]
            words = await provider.enter(sandbox.id)
            assert words[-4:] == ("exec", "-it", f"proctor-kept-{sandbox.id.removeprefix('proctor-')}", "sh")
            await provider.remove(sandbox.id)
            await provider.remove(sandbox.id)
            assert not await provider.list({"sandbox": sandbox.id})
            with pytest.raises(Fault, match="there is no sandbox"):
                await provider.enter(sandbox.id)

    asyncio.run(check())


def test_what_somebody_else_removed_is_lost() -> None:
    """Case 119: also for the command that runs in it."""

    async def check() -> None:
        async with opened(engines.docker()) as (provider, sandbox):
            begun = asyncio.Event()
            call = asyncio.ensure_future(
                sandbox.exec("echo; sleep 3000", on_output=lambda stream, data: begun.set(), timeout_seconds=100)
            )
            await begun.wait()
            await DockerProvider(engines.docker()).remove(sandbox.id)
            with pytest.raises(Fault) as caught:
                await call
            assert caught.value.code == "provider.lost"
            for use in (sandbox.exec("true"), sandbox.read("file"), sandbox.write("file", b""), sandbox.mark()):
                with pytest.raises(Fault) as caught:
                    await use
                assert caught.value.code == "provider.lost"
            assert not await provider.list({"sandbox": sandbox.id})

    asyncio.run(check())


def test_175_the_engine_shows_no_variable_of_commands() -> None:
    async def check() -> None:
        environment = replace(PLAIN, env={"API_KEY": "very-secret"})
        async with opened(engines.docker(), environment) as (provider, sandbox):
            assert await must(sandbox, "echo $API_KEY") == "very-secret"
            async with provider._engine.client() as docker:
                assert "very-secret" not in json.dumps(await docker.containers.container(sandbox.id).show())

    asyncio.run(check())


def test_a_snapshot_is_an_image() -> None:
    async def check() -> None:
        async with opened(engines.docker()) as (provider, sandbox):
            await must(sandbox, "echo kept > /outside")
            image = await sandbox.snapshot()
            try:
                async with opened(engines.docker(), replace(PLAIN, image=image)) as (_, other):
                    assert await other.read("/outside") == b"kept\n"
            finally:
                async with provider._engine.client() as docker:
                    await docker.images.delete(image, force=True)

    asyncio.run(check())


@pytest.mark.timeout(3600)
def test_nothing_is_left_of_sandboxes_that_are_cancelled_or_killed() -> None:
    """Case 112: whatever step of opening a cancellation meets, and whoever removes a container meanwhile."""

    async def live(provider: DockerProvider, chance: random.Random, number: int) -> None:
        opening = asyncio.ensure_future(provider.open(PLAIN, {"test": "chaos"}))
        if number % 2:
            await asyncio.wait({opening}, timeout=chance.uniform(0.0, 0.6))
            opening.cancel()
        try:
            sandbox = await opening
        except asyncio.CancelledError:
            return
        try:
            if number % 4 == 0:
                await asyncio.gather(sandbox.exec("sleep 300"), provider.remove(sandbox.id), return_exceptions=True)
            else:
                call = asyncio.ensure_future(sandbox.exec("sleep 300"))
                await asyncio.wait({call}, timeout=chance.uniform(0.0, 0.3))
                call.cancel()
                await asyncio.wait({call})
        finally:
            await sandbox.dispose()

    async def check() -> None:
        provider = DockerProvider(engines.docker(), grace_seconds=0.2)
        chance = random.Random(8)
        for begin in range(0, CYCLES, 8):
            await asyncio.gather(*(live(provider, chance, number) for number in range(begin, min(begin + 8, CYCLES))))
        assert not await provider.list({"test": "chaos"})
        await provider.finalize()

    asyncio.run(check())


def test_an_engine_that_is_not_there_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert asyncio.run(DockerProvider().unavailable()) == (
        f"no container engine was found: tried unix://{tmp_path}/none.sock (no such file or directory)"
    )
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    said = asyncio.run(DockerProvider().unavailable())
    assert said is not None
    assert said.startswith("the container engine at tcp://127.0.0.1:1 cannot be used:")
    assert "\n" not in said


def test_the_context_of_docker_names_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = hashlib.sha256(b"mine").hexdigest()
    place = tmp_path / "contexts" / "meta" / digest
    place.mkdir(parents=True)
    place.joinpath("meta.json").write_text(json.dumps({"Endpoints": {"docker": {"Host": "tcp://example.org:2375"}}}))
    tmp_path.joinpath("config.json").write_text(json.dumps({"currentContext": "mine"}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    assert addresses() == ["tcp://example.org:2375"]
    monkeypatch.setenv("DOCKER_HOST", "unix:///other.sock")
    assert addresses() == ["unix:///other.sock"]
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("DOCKER_CONTEXT", "default")
    assert "unix:///var/run/docker.sock" in addresses()


def test_environments_that_it_cannot_make_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = DockerProvider("unix:///none.sock")
    assert "needs an image" in " ".join(refusals(provider, EnvironmentSpec(provider="docker")))
    assert "takes images by name" in (provider.refuse(replace(PLAIN, image="./image.tar")) or "")
    assert provider.refuse(PLAIN) is None
    assert "allow" not in DockerProvider("tcp://example.org:2375").capabilities.networks
    with pytest.raises(ValueError, match="is no sandbox of provider docker"):
        asyncio.run(provider.remove("proctor-../../x"))
