"""File work inside the root directory of a sandbox (spec 06, V5 and V6): links resolve in it, nothing leads out."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.plugins.api import LeftOut
from proctor.providers._rooted import RootFiles, in_thread
from proctor.providers.rootfs.open import make_in_root, open_below, open_in_root, openat2_works

pytestmark = pytest.mark.skipif(not openat2_works(), reason="this kernel has no openat2")

WORK = "/work"
SECRET = "of the machine, not of the sandbox"


class Place:
    """A root directory with a work directory, something precious beside it, and the files inside of it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.work = self.root / "work"
        self.work.mkdir(parents=True)
        self.victim = folder / "victim"
        self.victim.mkdir()
        (self.victim / "secret").write_text(SECRET)
        self.descriptor = os.open(self.root, os.O_PATH | os.O_DIRECTORY)
        self.files = RootFiles(self.descriptor, WORK)

    def untouched(self) -> bool:
        return os.listdir(self.victim) == ["secret"] and (self.victim / "secret").read_text() == SECRET


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    opened = len(os.listdir("/proc/self/fd"))
    place = Place(tmp_path)
    yield place
    os.close(place.descriptor)
    assert len(os.listdir("/proc/self/fd")) == opened, "a descriptor was left open"
    assert place.untouched()


def tree(root: Path) -> dict[str, bytes | str | None]:
    """Return every path below `root` with its content: None for a directory, a text for where a link leads."""
    found: dict[str, bytes | str | None] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            link, is_file = path.is_symlink(), path.is_file()
            found[str(path.relative_to(root))] = os.readlink(path) if link else path.read_bytes() if is_file else None
    return found


def test_files_are_written_and_read_relative_and_absolute(place: Place) -> None:
    place.files.write("deep/er/file", b"first, and longer")
    place.files.write("deep/er/file", b"x")
    place.files.write("/etc/passwd", b"sandboxed")
    assert place.files.read(f"{WORK}/deep/er/file") == place.files.read("deep/../deep/er/file") == b"x"
    assert place.files.read("../etc/passwd") == b"sandboxed"
    assert tree(place.root) == {
        "work": None, "work/deep": None, "work/deep/er": None, "work/deep/er/file": b"x",
        "etc": None, "etc/passwd": b"sandboxed",
    }  # fmt: skip


def test_directories_on_the_way_are_made_also_where_it_leads_back(place: Place) -> None:
    place.files.write("a/missing/../b/file", b"x")
    place.files.write("gone/../../top", b"y")
    assert tree(place.root) == {"work": None, "work/a": None, "work/a/b": None, "work/a/b/file": b"x", "top": b"y"}


@pytest.mark.parametrize("path", ["../../../../victim/secret", "up/secret", "absolute/secret", "chain/secret", "file"])
def test_V6_no_path_leads_out_of_the_root(place: Place, path: str, tmp_path: Path) -> None:  # cases 170, 174
    (place.work / "up").symlink_to("../../victim")
    (place.work / "absolute").symlink_to(place.victim)
    (place.work / "chain").symlink_to("absolute")
    (place.work / "file").symlink_to(place.victim / "secret")
    with pytest.raises(FileNotFoundError):
        place.files.read(path)
    with pytest.raises(FileNotFoundError):
        place.files.copy_out(path, tmp_path / "back")
    (tmp_path / "source").mkdir()
    (tmp_path / "source/secret").write_text("mine")
    for write in (
        lambda: place.files.write(path, b"mine"),
        lambda: place.files.copy_in(tmp_path / "source/secret", path),
        lambda: place.files.copy_in(tmp_path / "source", os.path.dirname(path)),
    ):
        try:
            write()
        except OSError:  # refused, or written inside the root: the fixture looks at what is outside
            continue
    assert place.untouched()


def test_a_link_to_a_file_is_that_of_the_sandbox(place: Place) -> None:
    place.files.write("/etc/passwd", b"of the sandbox")
    (place.work / "link").symlink_to("/etc/passwd")
    (place.work / "folder").symlink_to("/etc")
    assert place.files.read("link") == place.files.read("folder/passwd") == b"of the sandbox"
    place.files.write("link", b"changed")
    place.files.write("folder/new", b"new")
    (place.work / "dangling").symlink_to("/etc/made")
    place.files.write("dangling", b"made")
    assert tree(place.root / "etc") == {"passwd": b"changed", "new": b"new", "made": b"made"}


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("missing", FileNotFoundError),
        ("missing/file", FileNotFoundError),
        ("folder", IsADirectoryError),
        ("file/below", NotADirectoryError),
        ("loop", OSError),
        ("pipe", OSError),
        ("socket", OSError),
        ("a\0b", ValueError),
        ("x" * 300, OSError),
    ],
)
def test_what_is_no_file_is_not_read(place: Place, path: str, error: type[Exception]) -> None:
    (place.work / "folder").mkdir()
    (place.work / "file").touch()
    (place.work / "loop").symlink_to("loop")
    os.mkfifo(place.work / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"/proc/self/fd/{place.descriptor}/work/socket")  # the path of a socket is short
        with pytest.raises(error):
            place.files.read(path)


@pytest.mark.parametrize("path", ["folder", "folder/", "pipe", ".", "..", "/", "", "file/below", "loop"])
def test_what_is_no_file_is_not_written(place: Place, path: str, tmp_path: Path) -> None:
    (place.work / "folder").mkdir()
    (place.work / "file").touch()
    (place.work / "loop").symlink_to("loop")
    os.mkfifo(place.work / "pipe")
    before = tree(place.root)
    with pytest.raises(OSError, match=r"\[Errno"):
        place.files.write(path, b"x")
    assert tree(place.root) == before


@pytest.mark.parametrize("path", ["/proc/version", "link", "/proc/self/environ", "/proc/1/root/etc/passwd"])
def test_files_of_the_kernel_are_not_opened_on_behalf_of_a_sandbox(path: str, tmp_path: Path) -> None:
    """They answer to who opens them: root, maybe."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "link").symlink_to("/proc/version")
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)  # a root with a proc of its own
    try:
        files = RootFiles(root, str(work))
        for use in (
            lambda: files.read(path),
            lambda: files.write(path, b"x"),
            lambda: files.copy_out(path, tmp_path / "back"),
        ):
            with pytest.raises(OSError, match=r"which only commands may use|Too many levels|Permission denied"):
                use()
        with pytest.raises(PermissionError, match="which only commands may use"):
            files.copy_out("/proc", tmp_path / "back")
    finally:
        os.close(root)
    assert not (tmp_path / "back").exists()


def test_magic_links_are_no_way_out(place: Place) -> None:
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            open_in_root(root, f"/proc/self/fd/{place.descriptor}/work", os.O_PATH)
    finally:
        os.close(root)


def test_trees_go_in_and_out(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub/deeper").mkdir(parents=True)
    (source / "empty").mkdir()
    (source / "sub/run").write_text("#!/bin/sh\n")
    (source / "sub/run").chmod(0o755)
    (source / "sub/deeper/x").write_bytes(bytes(range(256)))
    (source / "link").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    place.files.copy_in(source, "a/b")
    assert os.readlink(place.work / "a/b/link") == "/etc/passwd"
    assert not (place.work / "a/b/pipe").exists()
    assert place.files.copy_out("a/b", tmp_path / "back") == LeftOut()
    (source / "link").unlink()
    (source / "pipe").unlink()
    assert tree(tmp_path / "back") == tree(source)
    assert stat.S_IMODE((tmp_path / "back/sub/run").stat().st_mode) == 0o755


def test_what_lies_in_the_way_of_a_copy_is_replaced(place: Place, tmp_path: Path) -> None:
    (place.work / "victim").write_text("untouched")
    os.link(place.work / "victim", place.work / "hard")
    (place.work / "soft").symlink_to("victim")
    os.mkfifo(place.work / "pipe")
    source = tmp_path / "source"
    source.mkdir()
    for name in ("hard", "soft", "pipe"):
        (source / name).write_text("new")
    place.files.copy_in(source, ".")
    assert tree(place.work) == {"victim": b"untouched", "hard": b"new", "soft": b"new", "pipe": b"new"}
    place.files.copy_in(source / "hard", "victim")
    assert (place.work / "victim").read_text() == "new"
    (place.work / "folder/inner").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        place.files.copy_in(source / "hard", "folder")
    assert (place.work / "folder/inner").is_dir()


def test_V5_limits_are_counted_in_the_order_of_names(place: Place, tmp_path: Path) -> None:
    for name, size in {"a": 5, "b": 10, "c": 2, "sub/d": 3}.items():
        place.files.write(f"out/{name}", b"x" * size)
    assert place.files.copy_out("out", tmp_path / "bytes", max_bytes=8) == LeftOut(2, 13)
    assert sorted(tree(tmp_path / "bytes")) == ["a", "c", "sub"]
    assert place.files.copy_out("out", tmp_path / "files", max_files=2) == LeftOut(2, 5)
    assert sorted(tree(tmp_path / "files")) == ["a", "b", "sub"]
    assert place.files.copy_out("out/b", tmp_path / "one", max_bytes=9) == LeftOut(1, 10)
    assert not (tmp_path / "one").exists()


def test_holes_stay_holes(place: Place, tmp_path: Path) -> None:
    with (place.work / "huge").open("wb") as file:
        file.truncate(1 << 40)
        file.seek((1 << 40) - 3)
        file.write(b"end")
    place.files.copy_out("huge", tmp_path / "back")
    found = (tmp_path / "back").stat()
    assert found.st_size == 1 << 40
    assert found.st_blocks * 512 < 1_000_000


def test_V5_a_tree_deeper_than_a_path_can_say_is_counted(place: Place, tmp_path: Path) -> None:
    """And it is copied as far as it goes, with few files open at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    inner = os.open(place.work, os.O_PATH | os.O_DIRECTORY)
    for _ in range(900):
        os.mkdir("d" * 5, dir_fd=inner)
        below = os.open("d" * 5, os.O_PATH | os.O_DIRECTORY, dir_fd=inner)
        os.close(inner)
        inner = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=inner))
    os.close(inner)
    (place.work / "z").write_text("kept")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 200), hard))
    try:
        left_out = place.files.copy_out(".", tmp_path / "back")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert left_out.files == 1
    assert (tmp_path / "back/z").read_text() == "kept"


def test_V6_hidden_files_are_found(place: Place, tmp_path: Path) -> None:
    place.files.write("out/sub/kept", b"kept")
    (place.work / "out/sub/kept").chmod(0)
    (place.work / "out/sub").chmod(0)
    place.files.copy_out("out", tmp_path / "back")
    assert (tmp_path / "back/sub/kept").read_bytes() == b"kept"


def test_walking_below_follows_no_link_also_without_openat2(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.work / "a/b").mkdir(parents=True)
    (place.work / "a/link").symlink_to(place.victim)
    for works in (True, False):
        monkeypatch.setattr("proctor.providers.rootfs.open.openat2_works", lambda works=works: works)
        os.close(open_below(place.descriptor, ""))
        found = open_below(place.descriptor, "work/a/b")
        assert os.path.samestat(os.fstat(found), (place.work / "a/b").stat())
        os.close(found)
        for path in ("work/a/link", "work/a/link/x", "work/missing"):
            with pytest.raises(OSError, match=r"\[Errno"):
                open_below(place.descriptor, path)


def test_V6_a_tree_that_changes_while_it_is_used_leads_nowhere(place: Place, tmp_path: Path) -> None:
    """A process swaps directories for links to a directory outside and back, while files go in and out."""
    ending = threading.Event()
    place.files.write("tree/sub/deep/file", b"inside")
    place.files.write("tree/a", b"inside")
    source = tmp_path / "source"
    (source / "sub/deep").mkdir(parents=True)
    (source / "sub/deep/file").write_text("mine")

    def swap() -> None:
        number = random.Random(1)
        while not ending.is_set():
            name = number.choice(["tree", "tree/sub", "tree/sub/deep", "tree/sub/deep/file", "tree/a"])
            path, away = place.work / name, place.work / "away"
            target = place.victim if number.random() < 0.7 else Path("/proc")
            try:
                os.rename(path, away)
                os.symlink(target if number.random() < 0.5 else f"../../{target.name}", path)
                os.unlink(path)
                os.rename(away, path)
            except OSError:  # the other thread made something in its place
                if away.is_dir() and not away.is_symlink():
                    shutil.rmtree(away, ignore_errors=True)

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen = set[bytes]()
    try:
        for number in range(300):
            for use in (
                lambda: seen.add(place.files.read("tree/sub/deep/file")),
                lambda: place.files.write("tree/sub/deep/file", b"inside"),
                lambda: place.files.copy_in(source, "tree"),
                lambda number=number: place.files.copy_out("tree", tmp_path / f"back-{number % 3}"),
            ):
                try:
                    use()
                except OSError:  # it found something else than it should have: to say so is right
                    continue
    finally:
        ending.set()
        swapping.join()
    for number in range(3):
        seen |= {content for content in tree(tmp_path / f"back-{number}").values() if isinstance(content, bytes)}
    assert seen <= {b"inside", b"mine", b""}


@pytest.mark.parametrize("ends", ["well", "with an error", "cancelled", "cancelled before it begins"])
def test_a_descriptor_is_open_until_the_work_in_the_thread_is_over(ends: str, tmp_path: Path) -> None:
    """A number that was closed too early may be that of another directory by then."""
    started, go_on, found = threading.Event(), threading.Event(), list[bool]()

    def work(root: int) -> None:
        started.set()
        go_on.wait()
        found.append(os.path.samestat(os.fstat(root), tmp_path.stat()))
        if ends == "with an error":
            raise FileNotFoundError

    async def scenario() -> int:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        root = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
        busy = threading.Event()
        before = loop.run_in_executor(None, busy.wait) if ends == "cancelled before it begins" else None
        task = asyncio.create_task(in_thread(root, work))
        if before is None:
            while not started.is_set():
                await asyncio.sleep(0.01)
        else:
            await asyncio.sleep(0)
        if ends.startswith("cancelled"):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        go_on.set()
        busy.set()
        if not task.done():
            await asyncio.wait([task])
        if before is not None:
            await before
        await loop.shutdown_default_executor()
        return root

    root = asyncio.run(scenario())
    assert found == ([] if ends == "cancelled before it begins" else [True])
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(root)


names = st.text(st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: name not in (".", "..") and len(name.encode()) <= 255
)
trees = st.recursive(
    st.binary(max_size=40), lambda inner: st.dictionaries(names, inner, max_size=4), max_leaves=12
).filter(lambda made: isinstance(made, dict))


def make(path: Path, content: object) -> None:
    if isinstance(content, dict):
        path.mkdir()
        for name, inner in content.items():
            make(path / name, inner)
    else:
        assert isinstance(content, bytes)
        path.write_bytes(content)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=trees)
def test_any_tree_comes_back_as_it_went_in(place: Place, tmp_path: Path, content: object) -> None:
    for name in ("source", "back", "root/work/target"):
        shutil.rmtree(tmp_path / name, ignore_errors=True)
    make(tmp_path / "source", content)
    place.files.copy_in(tmp_path / "source", "target")
    assert place.files.copy_out("target", tmp_path / "back") == LeftOut()
    assert tree(tmp_path / "back") == tree(tmp_path / "source") == tree(place.work / "target")


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(parts=st.lists(st.sampled_from(["..", ".", "a", "b", "link", "out", "", "missing", "victim"]), max_size=7))
def test_any_path_stays_inside(place: Place, parts: list[str]) -> None:
    shutil.rmtree(place.work / "a", ignore_errors=True)
    (place.work / "a").mkdir()
    for name, target in {"link": "..", "out": "../../.."}.items():
        (place.work / name).unlink(missing_ok=True)
        (place.work / name).symlink_to(target)
    try:
        os.close(make_in_root(place.descriptor, "/".join(["/work", *parts])))
        place.files.write("/".join(parts), b"x")
    except OSError:  # it cannot be made, and says so
        pass
    assert place.untouched()
    assert sorted(os.listdir(place.root.parent)) == ["root", "victim"]
