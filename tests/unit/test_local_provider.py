"""Provider `local` beyond what all providers must do: containment, labels on disk, hostile leftovers (spec 06)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import Fault
from proctor.model.environment import EnvironmentSpec, Network, Resources
from proctor.plugins.capabilities import refusals
from proctor.providers import _files
from proctor.providers.local import LocalProvider, LocalSandbox

PLAIN = EnvironmentSpec()


def use(base: Path, body: Callable[[LocalProvider, LocalSandbox], Awaitable[Any]]) -> Any:
    async def scenario() -> Any:
        provider = LocalProvider(base)
        sandbox = await provider.open(PLAIN, {"run": "r1"})
        try:
            return await body(provider, sandbox)
        finally:
            await sandbox.dispose()

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        (EnvironmentSpec(), None),
        (EnvironmentSpec(env={"A": "b"}), None),
        (EnvironmentSpec(image="python:3.12"), "provider local has no images: cannot use `python:3.12`"),
        (EnvironmentSpec(network=Network("none")), "provider local cannot limit the network: cannot enforce `none`"),
        (EnvironmentSpec(resources=Resources(cpus=1)), "provider local cannot limit cpus to 1"),
        (EnvironmentSpec(resources=Resources(memory_bytes=1)), "provider local cannot limit memory to 1 bytes"),
    ],
)  # fmt: skip
def test_what_it_cannot_do_is_refused(environment: EnvironmentSpec, reason: str | None, tmp_path: Path) -> None:
    provider = LocalProvider(tmp_path / "base")
    assert refusals(provider, environment) == ([] if reason is None else [reason])


def test_its_warning_is_honest() -> None:
    assert "isolates nothing" in (LocalProvider.warning or "")


@pytest.mark.parametrize("path", ["../out", "/etc/out", "a/../../out", "link/out", "/", "..", "chain/out"])
def test_no_path_leads_out_of_the_work_directory(path: str, tmp_path: Path) -> None:  # cases 170, 174
    victim = tmp_path / "victim"
    victim.mkdir()
    (tmp_path / "file").write_text("x")

    async def body(provider: LocalProvider, sandbox: LocalSandbox) -> None:
        work = Path(sandbox.workdir)
        (work / "link").symlink_to(victim)
        (work / "chain").symlink_to("link")
        calls = [
            sandbox.write(path, "x"),
            sandbox.read(path),
            sandbox.upload(tmp_path / "file", path),
            sandbox.upload(victim, path),
            sandbox.download(path, tmp_path / "back"),
        ]
        for call in calls:
            with pytest.raises(PermissionError, match="leads out of the work directory"):
                await call

    use(tmp_path / "base", body)
    assert list(victim.iterdir()) == []
    assert not (tmp_path / "back").exists()


def test_an_upload_does_not_follow_a_link_to_a_directory_outside(tmp_path: Path) -> None:
    victim, source = tmp_path / "victim", tmp_path / "source"
    victim.mkdir()
    (source / "tests").mkdir(parents=True)
    (source / "tests/run.sh").write_text("x")

    async def body(provider: LocalProvider, sandbox: LocalSandbox) -> None:
        (Path(sandbox.workdir) / "tests").symlink_to(victim)
        with pytest.raises(PermissionError):
            await sandbox.upload(source, ".")

    use(tmp_path / "base", body)
    assert list(victim.iterdir()) == []


def test_a_link_inside_may_be_read_through(tmp_path: Path) -> None:
    async def body(provider: LocalProvider, sandbox: LocalSandbox) -> bytes:
        await sandbox.exec("mkdir a; echo x > a/file; ln -s a b")
        return await sandbox.read("b/file")

    assert use(tmp_path / "base", body) == b"x\n"


def test_text_that_is_no_utf8_is_written_all_the_same(tmp_path: Path) -> None:  # case 126
    async def body(provider: LocalProvider, sandbox: LocalSandbox) -> bytes:
        await sandbox.write("file", "a\ud800b\0")
        return await sandbox.read("file")

    assert use(tmp_path / "base", body) == b"a\xed\xa0\x80b\0"


def test_another_user_is_refused(tmp_path: Path) -> None:
    async def body(provider: LocalProvider, sandbox: LocalSandbox) -> None:
        assert (await sandbox.exec("true", user=str(os.getuid()))).ok
        with pytest.raises(ValueError, match="cannot run one as `somebody-else`"):
            await sandbox.exec("true", user="somebody-else")

    use(tmp_path / "base", body)


def test_a_sandbox_costs_two_inodes_until_it_is_used(tmp_path: Path) -> None:
    async def body(provider: LocalProvider, sandbox: LocalSandbox) -> tuple[list[str], list[str], bool]:
        folder = tmp_path / "base" / sandbox.id
        unused = sorted(os.listdir(folder))
        await sandbox.write("file", "x")
        return unused, sorted(os.listdir(folder)), Path(sandbox.workdir, "file").exists()

    assert use(tmp_path / "base", body) == (["labels.json"], ["labels.json", "work"], True)
    assert list((tmp_path / "base").iterdir()) == []


def test_the_work_directory_is_there_for_who_asks_where_it_is(tmp_path: Path) -> None:
    async def body(provider: LocalProvider, sandbox: LocalSandbox) -> bytes:
        Path(sandbox.workdir, "file").write_bytes(b"x")
        return await sandbox.read("file")

    assert use(tmp_path / "base", body) == b"x"
    assert list((tmp_path / "base").iterdir()) == []


def test_home_and_temporary_files_are_inside_the_sandbox(tmp_path: Path) -> None:
    async def body(provider: LocalProvider, sandbox: LocalSandbox) -> tuple[str, str]:
        result = await sandbox.exec('touch "$HOME/x" "$TMPDIR/y"; echo "$HOME"; echo "$TMPDIR"; ls -A')
        return sandbox.workdir, result.out

    workdir, out = use(tmp_path / "base", body)
    folder = os.path.dirname(workdir)
    assert out.splitlines() == [f"{folder}/home", f"{folder}/tmp"]
    assert list((tmp_path / "base").iterdir()) == []


def test_python_is_the_base_interpreter_without_our_packages(tmp_path: Path) -> None:  # case 178
    async def body(provider: LocalProvider, sandbox: LocalSandbox) -> str:
        return (await sandbox.exec(["python3", "-I", "-c", "import sys; print(sys.prefix); import proctor"])).out

    assert use(tmp_path / "base", body).strip() == sys.base_prefix


def test_a_directory_removed_behind_our_back_is_a_lost_sandbox(tmp_path: Path) -> None:
    async def body(provider: LocalProvider, sandbox: LocalSandbox) -> None:
        _files.remove_tree(os.path.dirname(sandbox.workdir))
        with pytest.raises(Fault) as caught:
            await sandbox.exec("true")
        assert caught.value.code == "provider.lost"
        assert "removed its directory" in caught.value.issue.message

    use(tmp_path / "base", body)


def test_labels_are_seen_and_sandboxes_removed_by_another_process(tmp_path: Path) -> None:  # case 110
    script = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from proctor.model.spec import EnvironmentSpec\n"
        "from proctor.providers.local import LocalProvider\n"
        "async def main():\n"
        "    sandbox = await LocalProvider(Path(sys.argv[1])).open(EnvironmentSpec(), {'run': 'r2', 'é': '\\ud800'})\n"
        "    await sandbox.exec('setsid sleep 300 & echo')\n"
        "    print(sandbox.id, flush=True)\n"
        "    sys.stdin.read()\n"
        "asyncio.run(main())\n"
    )
    base = tmp_path / "base"
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(base)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdin is not None
    sandbox = other.stdout.readline().strip()

    async def body(provider: LocalProvider, own: LocalSandbox) -> None:
        labels = {"run": "r2", "é": "\ud800", "sandbox": sandbox}
        assert await provider.list({"run": "r2"}) == [labels]
        assert {found["sandbox"] for found in await provider.list({})} == {own.id, sandbox}
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert await provider.list({"run": "r2"}) == [labels]
        await provider.remove(sandbox)
        await provider.remove(sandbox)
        assert await provider.list({"run": "r2"}) == []

    try:
        use(base, body)
    finally:
        other.kill()
        other.wait()
        other.stdin.close()
        other.stdout.close()
    assert list(base.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "local-0123456789ab/..", "/", "other"])
def test_only_a_sandbox_can_be_removed(name: str, tmp_path: Path) -> None:
    (tmp_path / "base/x").mkdir(parents=True)
    with pytest.raises(ValueError, match="no sandbox"):
        asyncio.run(LocalProvider(tmp_path / "base").remove(name))
    assert (tmp_path / "base/x").is_dir()


def test_what_is_no_sandbox_is_not_listed(tmp_path: Path) -> None:
    base = tmp_path / "base"
    for name, content in {"a": "not json", "b": "[]", "c": None}.items():
        (base / name).mkdir(parents=True)
        if content is not None:
            (base / name / "labels.json").write_text(content)
    (base / "d").write_text(json.dumps({}))
    assert asyncio.run(LocalProvider(base).list({})) == []


def test_without_a_base_nothing_is_listed_and_finalize_is_harmless(tmp_path: Path) -> None:
    provider = LocalProvider(tmp_path / "base")
    assert asyncio.run(provider.list({})) == []
    asyncio.run(provider.finalize())


def test_finalize_leaves_no_folder_and_the_provider_goes_on(tmp_path: Path) -> None:
    async def scenario() -> bool:
        provider = LocalProvider(tmp_path / "base")
        await (await provider.open(PLAIN, {})).dispose()
        await provider.finalize()
        gone = not (tmp_path / "base").exists()
        sandbox = await provider.open(PLAIN, {})
        os.rename(tmp_path / "base", tmp_path / "moved")
        again = await provider.open(PLAIN, {})
        os.rename(tmp_path / "moved" / sandbox.id, tmp_path / "base" / sandbox.id)
        await sandbox.dispose()
        await again.dispose()
        return gone

    assert asyncio.run(scenario())


def test_a_base_that_others_can_change_is_refused(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base").chmod(0o777)
    with pytest.raises(Fault) as caught:
        asyncio.run(LocalProvider(tmp_path / "base").open(PLAIN, {}))
    assert caught.value.code == "provider.unavailable"


def test_a_full_disk_is_a_fault_of_opening(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Fault) as caught:
        asyncio.run(LocalProvider(tmp_path / "file/base").open(PLAIN, {}))
    assert caught.value.code == "provider.open_failed"


HOSTILE = """
import os
os.makedirs("closed/inner"); open("closed/inner/file", "w"); os.chmod("closed/inner", 0); os.chmod("closed", 0)
os.symlink("/etc", "link"); os.mkfifo("pipe"); open(b"\\xff\\xfe\\n", "w")
os.makedirs(".removing-x-0"); open("-rf", "w")
for _ in range(1100):
    os.mkdir("d" * 5); os.chdir("d" * 5)
open("bottom", "w")
"""


def test_disposing_removes_any_tree(tmp_path: Path) -> None:
    async def body(provider: LocalProvider, sandbox: LocalSandbox) -> None:
        assert (await sandbox.exec(["python3", "-I", "-S", "-c", HOSTILE])).err == ""

    use(tmp_path / "base", body)
    assert list((tmp_path / "base").iterdir()) == []
    assert Path("/etc/passwd").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_disposing_removes_closed_directories_without_the_powers_of_root(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:3]:
        parent.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of threads, which the child never uses
        pid = os.fork()
    if pid == 0:  # a child that is nobody, and touches nothing of the parent's
        try:
            os.setgid(65534)
            os.setuid(65534)
            tree = tmp_path / "tree"
            (tree / "a/b").mkdir(parents=True)
            (tree / "a/b/file").touch()
            (tree / "a/b").chmod(0)
            (tree / "a").chmod(0o500)
            _files.remove_tree(str(tree))
            os._exit(1 if tree.exists() else 0)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A directory that belongs to nobody here, with modes of its own."""
    directory = tmp_path / "precious"
    (directory / "deep").mkdir(parents=True)
    (directory / "file").write_text("keep me")
    (directory / "deep/file").write_text("keep me")
    directory.chmod(0o755)
    return directory


def as_it_was(precious: Path) -> bool:
    files = [precious / "file", precious / "deep/file"]
    return all(file.read_text() == "keep me" for file in files) and stat.S_IMODE(precious.stat().st_mode) == 0o755


@pytest.mark.parametrize("place", [".", "../home", "../tmp", "inner"])
def test_V6_a_link_in_the_place_of_a_directory_is_removed_and_what_it_leads_to_stays(
    tmp_path: Path, precious: Path, place: str
) -> None:
    async def scenario() -> None:
        sandbox = await LocalProvider(tmp_path / "base").open(PLAIN, {})
        await sandbox.exec("mkdir -p inner")
        work = os.path.normpath(os.path.join(sandbox.workdir, place))
        await sandbox.exec(f"rm -rf {work}; ln -s {precious} {work}", cwd="/")
        await sandbox.dispose()
        assert not Path(sandbox.workdir).parent.exists()

    asyncio.run(scenario())
    assert as_it_was(precious)


def test_L2_a_reset_follows_no_link(tmp_path: Path, precious: Path) -> None:
    async def scenario() -> None:
        sandbox = await LocalProvider(tmp_path / "base").open(PLAIN, {})
        await sandbox.write("file", "marked")
        await sandbox.mark()
        await sandbox.exec(f"rm -rf {sandbox.workdir}; ln -s {precious} {sandbox.workdir}", cwd="/")
        with pytest.raises(OSError, match="Not a directory"):
            await sandbox.reset()
        with pytest.raises(OSError, match="Not a directory"):
            await sandbox.mark()
        await sandbox.dispose()

    asyncio.run(scenario())
    assert as_it_was(precious)


def test_V6_a_directory_that_becomes_a_link_while_it_is_removed_is_not_followed(
    tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each opening of a directory in turn finds a link in its place."""

    def removed(swapped: int) -> int:
        tree = tmp_path / f"tree-{swapped}"
        (tree / "a/b/c").mkdir(parents=True)
        (tree / "a/file").touch()
        openings = 0
        with monkeypatch.context() as patch:

            def swapping(name: str, parent: int | None = None) -> int:
                nonlocal openings
                openings += 1
                if openings == swapped:
                    os.rename(name, tmp_path / f"away-{swapped}", src_dir_fd=parent)
                    os.symlink(precious, name, dir_fd=parent)
                return opened(name, parent)

            opened = _files.open_directory
            patch.setattr(_files, "open_directory", swapping)
            _files.remove_tree(str(tree))
        assert not os.path.lexists(tree)
        assert as_it_was(precious)
        return openings

    total = removed(0)
    assert total >= 4
    for swapped in range(1, total + 1):
        removed(swapped)


def test_a_directory_that_cannot_be_removed_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise OSError(16, "Device or resource busy", path)

    async def scenario() -> None:
        sandbox = await LocalProvider(tmp_path / "base").open(PLAIN, {"run": "r1"})
        await sandbox.write("used", b"")
        with monkeypatch.context() as patch:
            patch.setattr(_files, "remove_tree", refuse)
            with pytest.raises(Fault) as caught:
                await sandbox.dispose()
        assert caught.value.code == "dispose.failed"
        assert len(await LocalProvider(tmp_path / "base").list({"run": "r1"})) == 1, "it is listed until it is gone"
        await sandbox.dispose()

    asyncio.run(scenario())
