"""Provider `docker` and what does not play by the rules: agents, engines that are gone, cancelled calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import Fault
from proctor.model.environment import EnvironmentSpec, Network
from proctor.providers.docker import engine as docker_engine
from proctor.providers.docker import exec as docker_exec
from proctor.providers.docker.engine import Engine
from proctor.providers.docker.provider import DockerProvider
from support import engines

PLAIN = EnvironmentSpec(provider="docker", image=engines.IMAGE)

LYING_SHELL = r"""
mkdir a; echo evil > /outside; echo fine > a/file; cp /bin/busybox /busybox
cat > /shell <<'X'
#!/busybox sh
case "$*" in
*"-type d"*) printf 'd\n/work\n.\0./a\0./../made\0\0./../outside\0./a/file\0\0'; echo "5 8"; echo 5 8; exit ;;
esac
exec /busybox sh "$@"
X
chmod +x /shell; rm /bin/sh; mv /shell /bin/sh
"""


def test_V5_an_agent_that_replaced_the_shell_writes_nothing_outside_of_the_target(tmp_path: Path) -> None:
    """What lists a directory runs in the container, where an agent that is root can have put its own in place."""

    async def check() -> None:
        provider = DockerProvider(engines.docker())
        sandbox = await provider.open(PLAIN, {"test": "hostile"})
        try:
            assert (await sandbox.exec(LYING_SHELL, timeout_seconds=100)).ok
            with pytest.raises(OSError, match="leads out"):
                await sandbox.download(".", tmp_path / "deep" / "target")
            assert list(tmp_path.rglob("*")) == []
        finally:
            await sandbox.dispose()
            await provider.finalize()

    asyncio.run(check())


def test_V3_a_cancelled_call_that_forced_a_restart_leaves_the_network_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        provider = DockerProvider(engines.docker(), grace_seconds=0.1)
        environment = replace(PLAIN, network=Network("allow", ("127.0.0.1:1",)))
        sandbox = await provider.open(environment, {"test": "hostile"})
        try:
            begun = asyncio.Event()
            call = asyncio.ensure_future(sandbox.exec("echo; sleep 300", on_output=lambda stream, data: begun.set()))
            await begun.wait()
            with monkeypatch.context() as patch:
                patch.setattr(docker_exec, "KILL", "exit 1")  # as where nothing can be started any more
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
            said = await sandbox.exec("ls /sys/class/net; wget -q -O - http://example.org/", timeout_seconds=100)
            assert said.out.split() == ["lo"]
            assert "403" in said.err, "the proxy of the allow-list answers"
        finally:
            await sandbox.dispose()
            await provider.finalize()

    asyncio.run(check())


def test_V2_what_cannot_be_kept_is_disposed_of() -> None:
    async def check() -> None:
        provider = DockerProvider(engines.docker())
        sandbox = await provider.open(PLAIN, {"test": "not kept"})
        in_the_way = None
        try:
            async with provider._engine.client() as docker:
                name = f"proctor-kept-{sandbox.id.removeprefix('proctor-')}"
                in_the_way = await docker.containers.create({"Image": engines.IMAGE, "Cmd": ["true"]}, name=name)
            with pytest.raises(Fault, match="in use"):
                await sandbox.keep()
            with pytest.raises(ValueError, match="null"):
                await sandbox.exec("echo a\0b")
            with pytest.raises(ValueError, match="null"):
                await sandbox.read("a\0b")
            with pytest.raises(ValueError, match="not UTF-8"):
                await sandbox.exec(["echo", "\udcff"])
        finally:
            await sandbox.dispose()
            if in_the_way is not None:
                await in_the_way.delete(force=True)
            assert not await provider.list({"test": "not kept"})
            await provider.finalize()

    asyncio.run(check())


def test_an_engine_that_is_gone_is_no_missing_image(tmp_path: Path) -> None:
    """A missing image is never asked for again; an engine may come back."""

    async def check() -> None:
        provider = DockerProvider(f"unix://{tmp_path}/none.sock")
        with pytest.raises(Fault) as caught:
            await provider.open(PLAIN, {})
        assert caught.value.code == "provider.open_failed"
        assert "cannot be looked up" in str(caught.value)
        await provider.finalize()

    asyncio.run(check())


class FakeClient:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = 0
        self.session = self

    async def close(self) -> None:
        assert asyncio.get_running_loop() is self.loop
        self.closed += 1


def test_each_event_loop_has_a_client_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    clients: list[FakeClient] = []

    def connect(address: str) -> FakeClient:
        clients.append(FakeClient())
        return clients[-1]

    monkeypatch.setattr(docker_engine, "connect", connect)
    engine = Engine("unix:///none.sock")

    async def briefly() -> None:
        async with engine.client():
            pass

    def elsewhere(work: Coroutine[Any, Any, None]) -> None:
        thread = threading.Thread(target=lambda: asyncio.run(work))
        thread.start()
        thread.join()

    async def check() -> None:
        async with engine.client() as first:
            elsewhere(briefly())
            async with engine.client() as again:
                assert again is first
            assert first.closed == 0
        assert [client.closed for client in clients] == [2, 2], "each with its session, in its own loop"

    asyncio.run(check())
