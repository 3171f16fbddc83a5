"""Images by name, against an engine that is told what to say (spec 06 V4)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiodocker", reason="needs the extra docker")

from proctor.errors import Fault
from proctor.model.environment import Build, EnvironmentSpec
from proctor.providers.docker import images as docker_images
from proctor.providers.docker.images import Images, refuse_image
from proctor.providers.docker.images_auth import parse_name, read_credentials
from support.fake_engine import FakeEngine, streams

HERE = {"Id": "sha256:1d", "RepoDigests": []}
PULLED = {"Id": "sha256:1d", "RepoDigests": ["r.example.org/a@sha256:d1"]}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(docker_images, "PAUSES_SECONDS", (0.0, 0.0))


def run(engine: FakeEngine, folder: Path, work: Callable[[Images], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with engine.served(folder) as docker:
            return await work(Images(docker))

    return asyncio.run(main())


def resolved(engine: FakeEngine, folder: Path, image: str) -> str | None:
    return run(engine, folder, lambda images: images.resolve(EnvironmentSpec(image=image))).image_digest


def login(tmp_path: Path, **auths: str) -> None:
    (tmp_path / "config").mkdir(exist_ok=True)
    entries = {host: {"auth": base64.b64encode(words.encode()).decode()} for host, words in auths.items()}
    (tmp_path / "config/config.json").write_text(json.dumps({"auths": entries}))


@pytest.mark.parametrize(
    ("name", "registry", "repository", "reference"),
    [
        ("a", None, "a", "latest"),
        ("a:1", None, "a", "1"),
        ("team/a:1", None, "team/a", "1"),
        ("r.example.org/a", "r.example.org", "r.example.org/a", "latest"),
        ("localhost/a:2", "localhost", "localhost/a", "2"),
        ("127.0.0.1:5000/team/a:2", "127.0.0.1:5000", "127.0.0.1:5000/team/a", "2"),
        ("a@sha256:00", None, "a", "sha256:00"),
        ("r.example.org:1/a:2@sha256:00", "r.example.org:1", "r.example.org:1/a", "sha256:00"),
    ],
)
def test_names_in_their_parts(name: str, registry: str | None, repository: str, reference: str) -> None:
    parts = parse_name(name)
    assert (parts.registry, parts.repository, parts.reference) == (registry, repository, reference)


def test_an_image_that_is_here_is_its_digest_in_the_registry_else_its_id(tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.images = {
        "r.example.org/a:1": PULLED,
        "own": HERE,
        "b": {"Id": "sha256:1d", "RepoDigests": ["x/b@sha256:2"]},
    }
    assert resolved(engine, tmp_path, "r.example.org/a:1") == "sha256:d1"
    assert resolved(engine, tmp_path, "own") == "sha256:1d"
    assert resolved(engine, tmp_path, "b") == "sha256:2", "an engine may put its default registry in front"


def test_one_that_is_not_here_is_what_its_registry_says_or_unknown(tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.distribution = {"r.example.org/a:1": {"Descriptor": {"digest": "sha256:d1"}}}
    assert resolved(engine, tmp_path, "r.example.org/a:1") == "sha256:d1"
    assert resolved(engine, tmp_path, "r.example.org/b:1") is None
    assert resolved(engine, tmp_path, "r.example.org/c@sha256:7") == "sha256:7"


def test_what_is_built_and_what_has_no_image_stays_as_it_is(tmp_path: Path) -> None:
    for environment in (EnvironmentSpec(), EnvironmentSpec(build=Build("ctx", "d"))):
        assert run(FakeEngine(), tmp_path, lambda images, one=environment: images.resolve(one)) == environment


def test_an_engine_that_is_gone_is_unavailable(tmp_path: Path) -> None:
    async def main() -> None:
        async with FakeEngine().served(tmp_path) as docker:
            images = Images(docker)
        import aiodocker

        async with aiodocker.Docker(url=f"unix://{tmp_path}/nothing.sock") as gone:
            images = Images(gone)
            await images.resolve(EnvironmentSpec(image="a"))

    with pytest.raises(Fault) as caught:
        asyncio.run(main())
    assert caught.value.code == "provider.unavailable"


def test_an_image_is_pulled_once_and_then_its_exact_id_is_used(tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.answers = [
        streams(
            {"status": "Pulling from a", "id": "1"},
            *({"status": "Downloading", "progressDetail": {"current": n}, "progress": f"{n}/9"} for n in range(9)),
            {"status": "Pull complete", "id": "layer", "progressDetail": {}},
            **{"r.example.org/a:1": PULLED},
        )
    ]
    environment, said = EnvironmentSpec(image="r.example.org/a:1"), list[str]()

    async def work(images: Images) -> str:
        assert images.name_of(environment) == "r.example.org/a:1"
        await images.prepare(environment, said.append)
        await images.prepare(environment, said.append)
        return images.name_of(environment)

    assert run(engine, tmp_path, work) == "sha256:1d"
    assert engine.paths("images/create") == [{"fromImage": "r.example.org/a", "tag": "1"}]
    assert said == ["1 Pulling from a", "Downloading 0/9", "layer Pull complete"], "progress is not said piece by piece"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (streams({"errorDetail": {"message": "manifest unknown"}, "error": "manifest unknown"}), "manifest unknown"),
        (streams({"error": "pull access denied, it may require 'docker login'"}), "access denied"),
        (streams({"status": "done"}), "does not have it"),
        (streams({"status": "Pulling"}, breaks=True), "connection to the engine broke"),
        (streams(b'{"status": "' + b"x" * 5_000_000), "a line without end"),
    ],
)
def test_what_cannot_be_had_is_missing_with_the_engine_s_words(tmp_path: Path, answer: Any, words: str) -> None:
    engine = FakeEngine()
    engine.answers = [answer]
    with pytest.raises(Fault, match=words) as caught:
        run(engine, tmp_path, lambda images: images.prepare(EnvironmentSpec(image="r.example.org/a:1"), print))
    assert caught.value.code == "image.missing"
    assert "r.example.org/a:1" in str(caught.value)


def test_a_long_line_is_no_trouble(tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.answers = [streams({"status": "\x00" * 200_000}, a=HERE)]
    run(engine, tmp_path, lambda images: images.prepare(EnvironmentSpec(image="a"), lambda _: None))


def test_a_registry_that_refuses_for_now_is_asked_again(tmp_path: Path) -> None:
    engine = FakeEngine()
    refusal = streams({"error": "toomanyrequests: you have reached your pull rate limit"})
    engine.answers = [refusal, streams({"error": "i/o timeout"}), streams({"status": "done"}, a=HERE)]
    run(engine, tmp_path, lambda images: images.prepare(EnvironmentSpec(image="a"), lambda _: None))
    engine.answers, engine.images = [refusal, refusal, refusal], {}
    with pytest.raises(Fault, match="rate limit"):
        run(engine, tmp_path, lambda images: images.prepare(EnvironmentSpec(image="a"), lambda _: None))


def test_a_tag_that_moved_since_the_run_was_planned_is_not_taken_for_it(tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.images = {"r.example.org/a:1": PULLED}
    planned = EnvironmentSpec(image="r.example.org/a:1", image_digest="sha256:0d")
    old = {"Id": "sha256:01d", "RepoDigests": ["r.example.org/a@sha256:0d"]}

    async def work(images: Images) -> str:
        await images.prepare(planned, lambda _: None)
        return images.name_of(planned)

    engine.answers = [streams({"status": "done"}, **{"r.example.org/a@sha256:0d": old})]
    assert run(engine, tmp_path, work) == "sha256:01d"
    assert engine.paths("images/create") == [{"fromImage": "r.example.org/a", "tag": "sha256:0d"}]
    assert run(engine, tmp_path, work) == "sha256:01d", "it is here by its digest"
    engine.images = {"r.example.org/a:1": PULLED}
    engine.answers = [streams({"error": "manifest unknown"})]
    with pytest.raises(Fault, match=r"another than when the run was planned \(sha256:0d\)"):
        run(engine, tmp_path, work)


def test_what_is_pulled_by_its_digest_has_its_name_afterwards(tmp_path: Path) -> None:
    engine = FakeEngine()
    engine.distribution = {"r.example.org/a:1": {"Descriptor": {"digest": "sha256:d1"}}}
    engine.answers = [streams({"status": "done"}, **{"r.example.org/a@sha256:d1": PULLED})]

    async def work(images: Images) -> None:
        planned = await images.resolve(EnvironmentSpec(image="r.example.org/a:1"))
        await images.prepare(planned, lambda _: None)
        engine.distribution = {}
        assert await images.resolve(EnvironmentSpec(image="r.example.org/a:1")) == planned

    run(engine, tmp_path, work)


def test_credentials_go_to_their_registry_only_and_are_never_shown(tmp_path: Path) -> None:
    login(tmp_path, **{"r.example.org": "me:s3cret", "https://index.example.org/v1/": "hub:t0ken"})
    engine = FakeEngine()
    for image in ("r.example.org/a:1", "other.example.org/a:1", "team/a:1"):
        engine.answers.append(streams({"error": "denied"}))
        with pytest.raises(Fault) as caught:
            run(engine, tmp_path, lambda images, one=image: images.prepare(EnvironmentSpec(image=one), print))
        assert "s3cret" not in str(caught.value)
    assert [(auth["username"], auth["password"]) for auth in engine.auths] == [("me", "s3cret"), ("hub", "t0ken")]
    assert "s3cret" not in repr(read_credentials())


def test_podman_s_credentials_count_and_docker_s_are_stronger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "containers").mkdir()
    auths = {
        "r.example.org": {"identitytoken": "old"},
        "p.example.org/team": {"identitytoken": "t"},
        "helper.example.org": {},
    }
    (tmp_path / "containers/auth.json").write_text(json.dumps({"auths": auths}))
    login(tmp_path, **{"r.example.org": "me:s3cret"})
    found = read_credentials().by_host
    assert sorted(found) == ["p.example.org", "r.example.org"]
    assert found["r.example.org"]["password"] == "s3cret"


@pytest.mark.parametrize("text", ["{", "[]", '{"auths": {"a": {"auth": "s3cret!"}}}', '{"auths": 3}'])
def test_credentials_that_cannot_be_read_are_said_without_quoting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.json").write_text(text)
    assert read_credentials().by_host == {}
    assert "cannot read credentials" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(("image", "refused"), [("./root", True), ("/a.tar", True), ("~/x", True), ("a/b:1", False)])
def test_images_are_taken_by_name(image: str, refused: bool) -> None:
    assert (refuse_image(EnvironmentSpec(image=image)) is not None) is refused
