"""Sandboxes of provider `bwrap` with images: archives and directories, written to by nobody (spec 06 V4, V6)."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import Fault
from proctor.model.environment import EnvironmentSpec, Network
from proctor.providers.bwrap.provider import BwrapProvider
from proctor.providers.bwrap.sandbox import BwrapSandbox
from proctor.providers.rootfs.images import digest_of, prepare
from proctor.testing.conformance import ProviderCheck, check_provider
from support.bwrap import needs_bwrap
from support.samples import sampled

sys.path.append(str(Path(__file__).parent.parent / "support"))

import image_archives as images
from image_archives import Member, folder, link, member, tar_of, tree

BUSYBOX = shutil.which("busybox")
TMP = "/tmp"


def is_static() -> bool:
    """Whether there is a busybox that needs no libraries."""
    return BUSYBOX is not None and b"/ld-" not in Path(BUSYBOX).read_bytes()[:4096]


pytestmark = [needs_bwrap, pytest.mark.skipif(not is_static(), reason="there is no static busybox to make an image of")]


def busybox() -> list[Member]:
    """Return the members of a small root file system."""
    assert BUSYBOX is not None
    names = subprocess.run([BUSYBOX, "--list"], check=True, capture_output=True, text=True).stdout.split()
    return [
        *map(folder, ("bin", "etc", "tmp")),
        member("bin/busybox", Path(BUSYBOX).read_bytes(), mode=0o755),
        *(link(f"bin/{name}", "busybox") for name in names if name != "busybox"),
        member("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n"),
        member("etc/image", b"of the image\n"),
    ]


CONFIG = {"Env": ["PATH=/bin", "FROM_IMAGE=yes"], "WorkingDir": "/app/deep"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    return images.oci_archive(tmp_path_factory.mktemp("image") / "busybox.tar", tar_of(busybox()), config=CONFIG)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A cache for the tests of this file: unpacking is not what they are about."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def use(base: Path, image: str, body: Callable[[BwrapProvider, BwrapSandbox], Awaitable[Any]], **more: Any) -> Any:
    async def scenario() -> Any:
        provider = BwrapProvider(base)
        sandbox = await provider.open(EnvironmentSpec(provider="bwrap", image=image, **more), {"run": "r1"})
        try:
            return await body(provider, sandbox)
        finally:
            await sandbox.dispose()
            await provider.finalize()

    return asyncio.run(scenario())


def test_V4_a_sandbox_of_an_archive(archive: str, tmp_path: Path) -> None:
    before = tree(prepare(archive, lambda line: None))

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        result = await sandbox.exec("cat /etc/image; pwd; echo $FROM_IMAGE; ls -d /usr /root/* 2>/dev/null")
        assert result.out == "of the image\n/app/deep\nyes\n"
        assert (await sandbox.exec(f"echo mine > /etc/image; rm -r /etc/passwd; mkdir /new; echo x > {TMP}/x")).ok
        assert await sandbox.read("/etc/image") == b"mine\n"
        await sandbox.write("answer", b"42")
        assert (await sandbox.exec("cat answer; echo; ls /etc/image /etc/passwd")).out.split() == ["42", "/etc/image"]

    use(tmp_path / "base", archive, body)
    assert tree(prepare(archive, lambda line: None)) == before, "nobody can change the image"

    async def anew(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        assert (await sandbox.exec("cat /etc/image; ls /tmp")).out == "of the image\n"

    use(tmp_path / "base", archive, anew)


def test_V4_a_directory_and_a_tar_are_images_too(archive: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(prepare(archive, lambda line: None), root, symlinks=True)
    packed = tmp_path / "root.tar"
    packed.write_bytes(images.COMPRESSIONS["gzip"](tar_of(busybox())))
    before = tree(root)

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        assert (await sandbox.exec("cat /etc/image; echo mine > /etc/image; pwd")).out == "of the image\n/work\n"

    for image in (str(root), str(packed)):
        use(tmp_path / "base", image, body)
    assert tree(root) == before


def test_V4_the_digest_is_resolved(archive: str, tmp_path: Path) -> None:
    environment = EnvironmentSpec(provider="bwrap", image=archive)
    resolved = asyncio.run(BwrapProvider(tmp_path / "base").resolve(environment))
    assert resolved.image_digest == digest_of(archive) is not None


def test_V4_an_image_that_is_missing(tmp_path: Path) -> None:
    environment = EnvironmentSpec(provider="bwrap", image=str(tmp_path / "missing.tar"))
    provider = BwrapProvider(tmp_path / "base")
    for use_of in (lambda: provider.prepare(environment, lambda line: None), lambda: provider.open(environment, {})):
        with pytest.raises(Fault) as caught:
            asyncio.run(use_of())
        assert caught.value.code == "image.missing"


def test_the_environment_is_stronger_than_the_image(archive: str, tmp_path: Path) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> str:
        return (await sandbox.exec("pwd; echo $FROM_IMAGE")).out

    found = use(tmp_path / "base", archive, body, workdir="/elsewhere", env={"FROM_IMAGE": "no"})
    assert found == "/elsewhere\nno\n"


def test_V6_links_are_those_of_the_image(archive: str, tmp_path: Path) -> None:
    """Never of this machine: neither for commands nor for what reads, writes, uploads and downloads from outside."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "image").write_text("uploaded")

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.exec(
            "ln -s /etc/image link; ln -s /etc folder; ln -s /oldroot/etc up; ln -s ../../../../../etc far"
        )
        assert await sandbox.read("link") == b"of the image\n"
        assert await sandbox.read("far/passwd") == b"root:x:0:0:root:/root:/bin/sh\n"
        with pytest.raises(OSError, match=r"\[Errno"):
            await sandbox.read("up/passwd")
        await sandbox.write("link", b"written")
        await sandbox.upload(source, "folder")
        await sandbox.download("folder", tmp_path / "back")
        assert (tmp_path / "back/image").read_text() == "uploaded"
        assert (tmp_path / "back/passwd").read_text() == "root:x:0:0:root:/root:/bin/sh\n"

    use(tmp_path / "base", archive, body)
    assert not Path("/etc/image").exists()


def test_L2_reset_brings_back_what_was_marked_everywhere(archive: str, tmp_path: Path) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.exec(f"echo marked > /etc/image; echo kept > {TMP}/kept; echo 1 > file")
        await sandbox.mark()
        await sandbox.exec(
            f"echo later > /etc/image; rm {TMP}/kept; echo 2 > {TMP}/answer; rm -r /bin/ls; echo 2 > file"
        )
        await sandbox.reset()
        result = await sandbox.exec(f"cat /etc/image {TMP}/kept file; ls {TMP} /bin/ls")
        assert result.out.split() == ["marked", "kept", "1", "/bin/ls", "/tmp:", "kept"], result.err

    use(tmp_path / "base", archive, body)


def test_L3_what_a_group_shares_in_an_image_stays(archive: str, tmp_path: Path) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.exec(f"echo marked > /etc/image; echo 1 > file; mkdir {TMP}/shop")
        await sandbox.mark(keep_outside=True)
        for count in (1, 2):
            await sandbox.exec(
                f"echo later >> /etc/image; echo x >> {TMP}/shop/stock; rm file; echo 2 > answer; rm -f /bin/ls"
            )
            await sandbox.reset()
            result = await sandbox.exec(
                f"echo *; cat file; wc -l < /etc/image; wc -l < {TMP}/shop/stock; test -e /bin/ls"
            )
            assert result.out.split() == ["file", "1", str(count + 1), str(count)], result.err
            assert not result.ok, "what was removed outside stays removed"

    use(tmp_path / "base", archive, body)


@pytest.mark.parametrize(
    "damage", ["rm -rf /app; mkdir -p /app/deep", "mv /app /other; ln -s /other /app", "rm -rf /app"]
)
def test_L3_a_work_directory_that_cannot_be_told_apart_is_not_reset(damage: str, tmp_path: Path) -> None:
    config = {"WorkingDir": "/app/deep", "Env": ["PATH=/bin"]}
    image = images.oci_archive(tmp_path / "image.tar", tar_of(busybox()), config=config)

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.exec("echo 1 > file")
        await sandbox.mark(keep_outside=True)
        await sandbox.exec(f"cd /; {damage}")
        with pytest.raises(OSError, match="app"):
            await sandbox.reset()

    use(tmp_path / "base", image, body)


@pytest.fixture
def victim(tmp_path: Path) -> Any:
    """A directory of this machine that a link of an image leads to while a sandbox is set up."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("untouched")
    yield victim
    assert tree(victim) == {"file": ("file", 0o644, b"untouched")}


@pytest.mark.parametrize(
    ("at", "up"),
    [
        *((at, "/oldroot") for at in ("evil", "tmp", "etc", "proc", "dev", "root", "home", "work", "run")),
        ("evil", "../oldroot"),
        ("evil", "/newroot/../oldroot"),
        ("evil", ""),
    ],
)
def test_V6_links_of_an_image_do_not_lead_who_sets_it_up_astray(  # case 170
    at: str, up: str, victim: Path, tmp_path: Path
) -> None:
    made = [each for each in busybox() if each[0].name.split("/")[0] != at]
    config = {"WorkingDir": f"/{at}/work/dir", "Env": [f"HOME=/{at}/home", "PATH=/bin"]}
    image = images.oci_archive(tmp_path / "image.tar", tar_of([*made, link(at, f"{up}{victim}")]), config=config)

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        try:
            await sandbox.exec("mkdir -p made; echo x > file")
            await sandbox.write("written", b"x")
        except (Fault, OSError):  # to refuse it is right as well
            return

    use(tmp_path / "base", image, body)


@pytest.mark.parametrize("at", ["tmp", "etc", "proc", "dev", "root", "work", "app"])
def test_V6_links_of_an_agent_do_not_lead_the_next_start_astray(
    at: str, archive: str, victim: Path, tmp_path: Path
) -> None:
    """What it changes of the file system is there when the namespaces are started once more, from outside."""

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.exec(f"rm -rf /{at}; ln -s /oldroot{victim} /{at}; kill -9 -1")
        try:
            await sandbox.exec("echo x > file")
            await sandbox.write("written", b"x")
            await sandbox.mark()
            await sandbox.exec("echo x > file")
            await sandbox.reset()
            await sandbox.exec("echo x > file")
        except (Fault, OSError):  # to refuse it is right as well
            return

    use(tmp_path / "base", archive, body)


def test_V4_many_sandboxes_of_one_image_at_once(archive: str, tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        provider = BwrapProvider(tmp_path / "base")
        environment = EnvironmentSpec(provider="bwrap", image=archive)

        async def one(number: int) -> str:
            sandbox = await provider.open(environment, {})
            try:
                return (await sandbox.exec(f"echo {number} > /etc/own; cat /etc/own /etc/image")).out
            finally:
                await sandbox.dispose()

        try:
            return await asyncio.gather(*map(one, range(8)))
        finally:
            await provider.finalize()

    assert asyncio.run(scenario()) == [f"{number}\nof the image\n" for number in range(8)]


WITH_IMAGE = EnvironmentSpec(provider="bwrap", image="of the test", network=Network("none"))


class OfImage(BwrapProvider):
    """Opens every sandbox from the archive of the test."""

    image = ""

    async def open(self, environment: EnvironmentSpec, labels: Any) -> BwrapSandbox:
        import dataclasses

        return await super().open(dataclasses.replace(environment, image=self.image), labels)


OFTEN = {
    "what_a_command_wrote_is_read",
    "commands_start_in_the_work_directory",
    "memory_is_limited",
    "directories_go_in_and_out",
    "links_and_devices_are_left_out_of_downloads",
    "uploads_do_not_follow_planted_links",
    "sandboxes_are_fresh_and_apart",
    "resetting_brings_the_work_directory_back",
}
"""What is done in another way with an image than without, of which all is asked by default."""


@pytest.mark.parametrize("check", sampled(check_provider(OfImage, WITH_IMAGE), OFTEN))
def test_bwrap_conforms_with_an_image(check: ProviderCheck, archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OfImage, "image", archive)
    asyncio.run(check())


def test_nothing_is_left_of_it(tmp_path: Path, archive: str) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        await sandbox.exec("mkdir -p a/b; chmod 0 a/b a; echo x > /etc/new; mkfifo p; ln -s / l")

    use(tmp_path / "base", archive, body)
    assert not (tmp_path / "base").exists() or os.listdir(tmp_path / "base") == []


def test_an_image_needs_no_shell(tmp_path: Path) -> None:
    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        assert (await sandbox.exec(["/busybox", "echo", "run"])).out == "run\n"
        await sandbox.write("file", "x")
        assert await sandbox.read("file") == b"x"

    assert BUSYBOX is not None
    image = tmp_path / "no-shell.tar"
    image.write_bytes(tar_of([member("busybox", Path(BUSYBOX).read_bytes(), mode=0o755)]))
    use(tmp_path / "base", str(image), body)


def test_no_program_of_the_image_runs_by_itself(tmp_path: Path, archive: str) -> None:
    """What a sandbox is kept by when it is started again must not be what something inside put there."""

    async def body(provider: BwrapProvider, sandbox: BwrapSandbox) -> None:
        mine = "printf '#!/bin/busybox sh\\necho ran > /ran; exec /bin/busybox sh\\n' > /mine; chmod 755 /mine"
        await sandbox.exec(f"{mine}; rm /bin/sh; mv /mine /bin/sh; kill -9 2; /bin/busybox sleep 60")
        assert (await sandbox.exec(["/bin/busybox", "ls", "/bin/sh"])).ok
        assert (await sandbox.exec(["/bin/busybox", "ls", "/ran"])).exit_code == 1

    use(tmp_path, archive, body)
