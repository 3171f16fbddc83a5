"""What services leave is removed; networks that dead runs left are taken back (case 117), those of live ones never."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiodocker", reason="needs the extra docker")

from aiodocker import DockerError

from proctor.errors import Fault
from proctor.model.environment import Compose, EnvironmentSpec
from proctor.providers.docker import compose as docker_compose
from proctor.providers.docker.compose import Services
from proctor.providers.docker.compose_program import ComposeFailed
from proctor.providers.docker.compose_sweep import reclaim_networks, remove_project
from proctor.providers.docker.images import Images


class FakeDocker:
    """Networks and nothing else."""

    def __init__(self, **networks: dict[str, Any]) -> None:
        self.kept = networks
        self.stuck = 0
        self.containers = self.volumes = self.system = self

    async def info(self) -> dict[str, Any]:
        return {"SystemTime": "2026-12-01T12:00:00.123456789Z"}

    async def list(self, **_: Any) -> Any:
        return Nothing()

    async def _query_json(self, path: str, **_: Any) -> Any:
        if path == "networks":
            return [{"Id": name, **one} for name, one in self.kept.items()]
        return self.kept[path.partition("/")[2]]

    @asynccontextmanager
    async def _query(self, path: str, method: str, **_: Any) -> AsyncIterator[None]:
        name = path.partition("/")[2]
        if self.stuck:
            self.stuck -= 1
            raise DockerError(403, f"network {name} has active endpoints")
        if name not in self.kept:
            raise DockerError(404, "no such network")
        del self.kept[name]
        yield


class Nothing(dict[str, Any]):
    """No containers and no volumes, in the form of either."""

    def __iter__(self) -> Any:
        return iter(())


def network(created: str, **more: Any) -> dict[str, Any]:
    return {"Created": created, "Containers": {}, **more}


def test_117_only_old_networks_without_containers_are_taken_back() -> None:
    docker = FakeDocker(
        old=network("2026-12-01T11:00:00.5Z"),
        elsewhere=network("2026-12-01T12:30:00.123456+01:00"),
        new=network("2026-12-01T11:55:00.5Z"),
        used=network("2026-12-01T11:00:00.5Z", Containers={"c": {}}),
        unknown=network("some day"),
    )
    assert asyncio.run(reclaim_networks(docker)) == 2
    assert sorted(docker.kept) == ["new", "unknown", "used"]


def test_removing_is_tried_again_and_says_what_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from proctor.providers.docker import compose_sweep as docker_compose_sweep

    monkeypatch.setattr(docker_compose_sweep, "_PAUSE_SECONDS", 0)
    docker = FakeDocker(n=network(""))
    docker.stuck = 2
    asyncio.run(remove_project(docker, "proctor-1"))
    assert docker.kept == {}
    docker = FakeDocker(n=network(""))
    docker.stuck = 99
    with pytest.raises(Fault, match="active endpoints") as caught:
        asyncio.run(remove_project(docker, "proctor-1"))
    assert caught.value.code == "dispose.failed"


class Full:
    """A compose program for whose networks there is no address, so many times."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.calls = 0

    async def up(self, *_: Any) -> None:
        self.calls += 1
        if self.calls <= self.times:
            raise ComposeFailed("could not find an available, non-overlapping IPv4 address pool among the defaults")


@pytest.mark.parametrize(("times", "comes_up"), [(0, True), (1, True), (3, True), (99, False)])
def test_117_a_start_waits_for_a_free_network(monkeypatch: pytest.MonkeyPatch, times: int, comes_up: bool) -> None:
    monkeypatch.setattr(docker_compose, "ADDRESS_PAUSES_SECONDS", (0.0, 0.0, 0.0))
    docker = FakeDocker(old=network("2026-12-01T11:00:00Z"))
    services = Services(docker, Images(docker), None)
    program = services._program = Full(times)  # type: ignore[assignment]
    start = services._start({}, Compose("compose.yaml", "d"), "proctor-1")
    if comes_up:
        asyncio.run(start)
        assert program.calls == times + 1
    else:
        with pytest.raises(ComposeFailed, match="address pool"):
            asyncio.run(start)
        assert program.calls == 4
    assert ("old" in docker.kept) is (times == 0)


def test_a_sandbox_needs_a_compose_file() -> None:
    docker = FakeDocker()
    with pytest.raises(ValueError, match="no compose file"):
        asyncio.run(Services(docker, Images(docker), None).prepare(EnvironmentSpec(), print))


def test_paths_of_files_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from proctor.providers.docker.compose_program import absolute

    monkeypatch.chdir(tmp_path)
    assert absolute("a/compose.yaml") == tmp_path / "a/compose.yaml"
