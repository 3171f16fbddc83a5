"""Images built through a real engine (spec 06 V4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiodocker", reason="needs the extra docker")

import aiodocker

from proctor.data.build_context import context_digest
from proctor.errors import Fault
from proctor.model.environment import Build, EnvironmentSpec
from proctor.providers.docker.images import Images
from support.engines import IMAGE, docker, podman

BASE = IMAGE


ENGINES = {"docker": docker, "podman": podman}
BOTH = pytest.mark.parametrize("engine", ["docker", pytest.param("podman", marks=pytest.mark.long)], indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """The address of a running engine that has the image of the tests: docker, where a test names none."""
    return ENGINES[getattr(request, "param", "docker")]()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))


def run(engine: str, work: Callable[[Images, Any], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with aiodocker.Docker(url=engine) as client:
            return await work(Images(client), client)

    return asyncio.run(main())


def context(folder: Path, dockerfile: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "Dockerfile").write_text(dockerfile)
    return folder


def build(folder: Path, **more: Any) -> EnvironmentSpec:
    return EnvironmentSpec(provider="docker", build=Build(str(folder), context_digest(folder), **more))


async def removed(client: Any, images: Images, *environments: EnvironmentSpec) -> None:
    for one in environments:
        name = images.name_of(one)
        if any(name in str(tag) for each in await client.images.list() for tag in each["RepoTags"] or ()):
            await client.images.delete(name, force=True)


@BOTH
def test_a_named_image_of_the_engine_is_known_by_its_digest(engine: str) -> None:
    async def work(images: Images, client: Any) -> None:
        resolved = await images.resolve(EnvironmentSpec(image=BASE))
        assert (resolved.image_digest or "").startswith("sha256:")
        await images.prepare(resolved, print)
        assert images.name_of(resolved) == (await client.images.inspect(BASE))["Id"]

    run(engine, work)


@BOTH
def test_an_image_is_built_once_from_what_its_context_has(engine: str, tmp_path: Path) -> None:
    folder = context(
        tmp_path / "context",
        f"FROM {BASE} AS first\nARG WHO=nobody\nCOPY . /files\nRUN echo hello $WHO; ls -R /files\n"
        "FROM first AS second\nRUN false\n",
    )
    (folder / ".dockerignore").write_text("secret\n")
    (folder / "secret").write_text("s")
    (folder / "deep").mkdir()
    (folder / "deep/file").write_text("x" * 3_000_001)
    (folder / "link").symlink_to("deep/file")
    (folder / ("long" * 40)).write_text("name")
    environment = build(folder, args=(("WHO", "me"),), target="first")
    said: list[str] = []

    async def work(images: Images, client: Any) -> None:
        await removed(client, images, environment)
        try:
            await images.prepare(environment, said.append)
            assert "hello me" in said
            assert "file" in said
            assert "long" * 40 in said
            assert "secret" not in said
            found = await client.images.inspect(images.name_of(environment))
            assert found["Config"]["Labels"]["proctor-build"] == environment.build.digest
            said.clear()
            await images.prepare(environment, said.append)
            assert said == [], "it is there"
        finally:
            await removed(client, images, environment)

    run(engine, work)


@pytest.mark.parametrize(
    ("dockerfile", "words"),
    [
        (f"FROM {BASE}\nRUN echo before it; exit 7\n", r"before it"),
        ("FROM scratch\nCOPY nothing /\n", "nothing"),
        ("NONSENSE\n", "(?i)nonsense|no FROM"),
    ],
)
def test_a_build_that_fails_says_why_and_what_came_last(
    engine: str, tmp_path: Path, dockerfile: str, words: str
) -> None:
    environment = build(context(tmp_path / "context", dockerfile))
    with pytest.raises(Fault, match=words) as caught:
        run(engine, lambda images, _: images.prepare(environment, print))
    assert caught.value.code == "image.build_failed"
    assert str(tmp_path / "context") in str(caught.value)


def test_a_context_that_changed_since_the_run_was_planned_is_not_built(engine: str, tmp_path: Path) -> None:
    folder = context(tmp_path / "context", "FROM scratch\nCOPY a /\n")
    environment = build(folder)
    (folder / "a").write_text("later")
    with pytest.raises(Fault, match="changed since the run was planned") as caught:
        run(engine, lambda images, _: images.prepare(environment, print))
    assert caught.value.code == "image.build_failed"


def test_a_file_that_cannot_be_sent_whole_fails_the_build(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from proctor.providers.docker import images as docker_images

    folder = context(tmp_path / "context", "FROM scratch\nCOPY a /\n")
    (folder / "a").write_text("1234")
    environment = build(folder)

    def shortened(build: Build) -> None:
        (folder / "a").unlink()

    monkeypatch.setattr(docker_images, "check_context", shortened)
    with pytest.raises(Fault) as caught:
        run(engine, lambda images, _: images.prepare(environment, print))
    assert caught.value.code == "image.build_failed"


@BOTH
def test_a_cancelled_build_ends_and_leaves_no_container(engine: str, tmp_path: Path) -> None:
    environment = build(context(tmp_path / "context", f"FROM {BASE}\nRUN echo begun; sleep 300\n"))

    async def work(images: Images, client: Any) -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(images.prepare(environment, lambda line: begun.set() if line == "begun" else None))
        await asyncio.wait({task, asyncio.create_task(begun.wait())}, return_when=asyncio.FIRST_COMPLETED)
        assert not task.done()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        while any("sleep 300" in str(one._container.get("Command")) for one in await client.containers.list(all=True)):
            await asyncio.sleep(0.2)

    run(engine, work)


def test_an_image_that_nobody_has_is_missing(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from proctor.providers.docker import images as docker_images

    monkeypatch.setattr(docker_images, "PAUSES_SECONDS", ())
    environment = EnvironmentSpec(image="127.0.0.1:1/nothing:1")
    with pytest.raises(Fault, match=r"127\.0\.0\.1:1/nothing:1") as caught:
        run(engine, lambda images, _: images.prepare(environment, print))
    assert caught.value.code == "image.missing"
    assert run(engine, lambda images, _: images.resolve(environment)).image_digest is None
