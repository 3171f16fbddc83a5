"""Archives that want out, or want too much: nothing is written outside, and what is unpacked is bounded (V5, V6)."""

from __future__ import annotations

import gzip
import io
import os
import resource
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.errors import Fault
from proctor.providers.rootfs import region as root_region
from proctor.providers.rootfs import streams as root_streams
from proctor.providers.rootfs.images import prepare
from proctor.providers.rootfs.open import openat2_works

sys.path.append(str(Path(__file__).parent.parent / "support"))

import image_archives as images
from image_archives import Member, folder, hard_link, link, member, tar_of, tree

pytestmark = pytest.mark.skipif(not openat2_works(), reason="this kernel has no openat2")

SECRET = b"of the machine, not of the image"


@pytest.fixture(autouse=True)
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is beside everything, and must stay as it is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_bytes(SECRET)
    opened = len(os.listdir("/proc/self/fd"))
    yield victim
    assert tree(victim) == {"file": ("file", 0o644, SECRET)}
    assert set(os.listdir(tmp_path)) <= {"cache", "victim", "image.tar"}
    assert set(os.listdir(tmp_path / "cache")) <= {"proctor"}
    assert set(os.listdir(tmp_path / "cache/proctor")) <= {"images"}
    assert len(os.listdir("/proc/self/fd")) == opened, "a descriptor was left open"


def unpack(tmp_path: Path, made: list[Member], *, of_image: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Return what is unpacked, beside a normal file, and what was said of the rest."""
    image = tmp_path / "image.tar"
    packed = tar_of([member("normal", b"x"), *made])
    if of_image:  # the first layer has nothing to hide
        images.oci_archive(image, tar_of([member("normal", b"lower")]), packed)
    else:
        image.write_bytes(packed)
    said: list[str] = []
    root = prepare(str(image), said.append)
    found = {name: content for name, (_, _, content) in tree(root).items()}
    assert found.pop("normal", b"x") == b"x"
    return found, [line for line in said if "left out" in line]


@pytest.mark.parametrize("of_image", [False, True])
@pytest.mark.parametrize(
    ("made", "why"),
    [
        (member("../../x", b"x"), "leads out of its directory"),
        (member("a/../../x", b"x"), "leads out of its directory"),
        (member("..", b"x"), "leads out of its directory"),
        (member("/abs/x", b"x"), "its name is absolute"),
        (member("x" * 300, b"x"), "file name too long"),
        (member("a/" * 1000 + "x", b"x"), "more than 255 directories deep"),
        (member("device", type=tarfile.CHRTYPE, devmajor=1, devminor=3), "it is a device"),
        (member("disk", type=tarfile.BLKTYPE, devmajor=8, devminor=0), "it is a device"),
        (hard_link("hard", "../../../../victim/file"), "leads out of its directory"),
        (hard_link("hard", "/etc/passwd"), "its name is absolute"),
        (hard_link("hard", "missing"), "which is not there"),
        (hard_link("hard", "."), "hard link to a directory"),
        (member("odd", type=b"D"), "of the unknown kind"),
    ],
)
def test_V5_a_member_that_may_not_be_is_left_out_and_named(  # case 170
    made: Member, why: str, of_image: bool, tmp_path: Path
) -> None:
    found, said = unpack(tmp_path, [made], of_image=of_image)
    assert found == {}
    [line] = said
    assert why in line
    assert made[0].name[:100] in line


@pytest.mark.parametrize("name", ["C:\\x", "a\\..\\..\\x", "-rf", "*", "new\nline", "\udcff", "é", " ", "..."])
def test_odd_names_are_names(name: str, tmp_path: Path) -> None:
    assert unpack(tmp_path, [member(name, b"x")]) == ({name: b"x"}, [])


def test_V5_what_is_left_out_is_counted(tmp_path: Path) -> None:
    found, said = unpack(tmp_path, [member(f"../{number}", b"x") for number in range(50)])
    assert found == {}
    assert len(said) == 11
    assert "50 files in all" in said[-1]


@pytest.mark.parametrize("target", ["../../../../../victim", "/", "..", "/../../..", "VICTIM", "a/../../../victim"])
@pytest.mark.parametrize("of_image", [False, True])
def test_V5_links_lead_only_inside(target: str, of_image: bool, tmp_path: Path, victim: Path) -> None:  # case 170
    """A link to a directory outside, and files, links, directories and deletions through it."""
    target = target.replace("VICTIM", str(victim))
    folders = [folder("a")] + [folder("/".join(victim.parts[1:][:n])) for n in range(1, len(victim.parts))]
    made = [
        *folders,
        link("out", target),
        link("again", "out"),
        member("out/file", b"overwritten"),
        member("again/new", b"new"),
        folder("out/directory", 0o700),
        link("out/link", "x"),
        hard_link("out/hard", "normal"),
        member("out/.wh.file"),
        member("again/.wh..wh..opq"),
    ]
    unpack(tmp_path, made, of_image=of_image)


def test_V5_a_file_is_not_written_through_a_link(tmp_path: Path, victim: Path) -> None:
    found, _ = unpack(tmp_path, [link("x", str(victim / "file")), member("x", b"mine"), hard_link("y", "x")])
    assert found == {"x": b"mine", "y": b"mine"}
    found, _ = unpack(tmp_path, [link("x", str(victim / "file")), hard_link("y", "x"), member("y", b"mine")])
    assert found == {"x": str(victim / "file"), "y": b"mine"}


def test_a_hard_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    found, _ = unpack(tmp_path, [hard_link("x", "normal"), member("x", b"mine"), hard_link("x", "x")])
    assert found == {"x": b"mine"}


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh...", "a/.wh...", ".wh..wh.plnk", "a/.wh..wh..opq/x"])
def test_odd_whiteouts_remove_nothing(name: str, tmp_path: Path) -> None:
    found, _ = unpack(tmp_path, [folder("a"), member("a/x", b"x"), member(name)], of_image=True)
    assert {"a", "a/x"} <= set(found)


def test_whiteouts_are_only_names_in_a_root_file_system(tmp_path: Path) -> None:
    assert unpack(tmp_path, [member(".wh.normal", b"x")]) == ({".wh.normal": b"x"}, [])


segments = st.sampled_from(["..", ".", "", "a", "b", "link", "victim", ".wh.a", ".wh..wh..opq", "x" * 256])
paths = st.lists(segments, min_size=1, max_size=5).map("/".join)
hostile = st.one_of(
    st.builds(member, paths, st.just(b"mine"), mode=st.integers(0, 0o7777)),
    st.builds(folder, paths),
    st.builds(link, paths, st.one_of(paths, st.just("VICTIM"), st.just("/"), st.just("../../../../../../victim"))),
    st.builds(hard_link, paths, st.one_of(paths, st.just("VICTIM/file"))),
    st.builds(lambda name: member(name, type=tarfile.FIFOTYPE), paths),
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(layers=st.lists(st.lists(hostile, max_size=8), min_size=1, max_size=3))
def test_V5_whatever_an_archive_holds_nothing_is_written_outside(
    layers: list[list[Member]], tmp_path: Path, victim: Path
) -> None:
    for info, _ in (each for layer in layers for each in layer):
        info.linkname = info.linkname.replace("VICTIM", str(victim))
    image = images.oci_archive(tmp_path / "image.tar", *map(tar_of, layers))
    try:
        root = prepare(image, lambda line: None)
    except Fault as fault:
        if "holds no files" not in str(fault):
            raise
        return
    inside = os.path.realpath(root)
    for top, _, files in os.walk(root):
        for name in files:
            path = os.path.join(top, name)
            if not os.path.islink(path) and os.path.isfile(path):
                assert Path(path).read_bytes() == b"mine"
                assert os.stat(path).st_ino != os.stat(victim / "file").st_ino
        assert os.path.realpath(top).startswith(inside)
    shutil.rmtree(Path(root).parent)


# ------------------------------------------------------------------------------------------- expansion without limit


def bomb(size_bytes: int) -> bytes:
    """Return a small gzip of a tar with a file of zeros."""
    made = io.BytesIO()
    with gzip.open(made, "wb", compresslevel=9) as stream:
        info = tarfile.TarInfo("zeros")
        info.size = size_bytes
        stream.write(info.tobuf())
        for _ in range(size_bytes // (1 << 20)):
            stream.write(bytes(1 << 20))
        stream.write(bytes(1024))
    return made.getvalue()


def refused(image: Path, cache: Path) -> str:
    with pytest.raises(Fault) as caught:
        prepare(str(image), lambda line: None)
    assert caught.value.code == "image.build_failed"
    assert [name for name in os.listdir(cache / "proctor/images") if name != "digests"] == []
    return str(caught.value)


def test_V5_a_small_archive_that_expands_without_end_is_stopped(  # case 172
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root_streams, "SMALL_BYTES", 10 << 20)
    written: list[int] = []
    right = root_streams.Expanded.read

    def count(self: Any, size: int) -> bytes:
        found = right(self, size)
        written.append(len(found))
        return found

    monkeypatch.setattr(root_streams.Expanded, "read", count)
    (tmp_path / "image.tar").write_bytes(bomb(100 << 20))
    assert "more than 250 times its size" in refused(tmp_path / "image.tar", tmp_path / "cache")
    assert sum(written) < 50 << 20, "it was stopped on the way"


def test_V5_bytes_are_limited_in_all_layers_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [tar_of([member(f"f{number}", bytes(50_000))]) for number in range(4)]
    images.oci_archive(tmp_path / "image.tar", *layers)
    monkeypatch.setattr(root_region, "MAX_BYTES", 150_000)
    assert "more than 150,000 bytes" in refused(tmp_path / "image.tar", tmp_path / "cache")


def test_V5_files_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # case 172
    monkeypatch.setattr(root_region, "MAX_FILES", 100)
    (tmp_path / "image.tar").write_bytes(gzip.compress(tar_of([member(f"f{n}") for n in range(101)])))
    assert "more than 100 files" in refused(tmp_path / "image.tar", tmp_path / "cache")


def header_without_end(kind: bytes, size_bytes: int = 60 << 20) -> bytes:
    info = tarfile.TarInfo("././@LongLink")
    info.type = kind
    info.size = size_bytes
    return info.tobuf(tarfile.GNU_FORMAT)


def many_global_headers() -> bytes:
    made = io.BytesIO()
    for number in range(400):
        with tarfile.open(
            fileobj=(part := io.BytesIO()), mode="w", format=tarfile.PAX_FORMAT, pax_headers={f"k{number}": "x" * 9000}
        ) as tar:
            tar.addfile(*member(f"f{number}"))
        made.write(part.getvalue()[: -part.getvalue().count(b"\0" * 512) or None].rstrip(b"\0"))
        made.write(bytes(-made.tell() % 512))
    return made.getvalue() + bytes(1024)


HEADERS = {
    "long name": header_without_end(tarfile.GNUTYPE_LONGNAME),
    "long link": header_without_end(tarfile.GNUTYPE_LONGLINK),
    "pax": header_without_end(tarfile.XHDTYPE),
    "pax for all": header_without_end(tarfile.XGLTYPE),
    "names in names": b"".join(
        header_without_end(tarfile.GNUTYPE_LONGNAME, 1) + b"x" + bytes(511) for _ in range(1500)
    ),
    "many for all": many_global_headers(),
}


@pytest.mark.parametrize("name", HEADERS)
def test_V5_headers_are_bounded_too(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A header may say that a name of 60 MB follows, and it may."""
    image = tmp_path / "image.tar"
    image.write_bytes(tar_of([member("normal")])[:512] + HEADERS[name])
    with image.open("r+b") as file:
        file.truncate(80 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = refused(image, tmp_path / "cache")
    assert "header" in found or "no tar" in found
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000, "kilobytes"


@pytest.mark.parametrize("size", [-1, -(1 << 40), (1 << 63) - 1])
def test_V5_sizes_that_cannot_be(size: int, tmp_path: Path) -> None:
    info = tarfile.TarInfo("x")
    info.size = size
    (tmp_path / "image.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    refused(tmp_path / "image.tar", tmp_path / "cache")


def test_V5_memory_that_an_archive_asks_for_is_bounded(tmp_path: Path) -> None:
    """The headers of xz and zstd may ask for gigabytes."""
    for command in (["xz", "-T1", "--lzma2=dict=1GiB"], ["zstd", "--ultra", "-22", "--long=31", "--single-thread"]):
        if shutil.which(command[0]) is None:
            continue
        with (tmp_path / "image.tar").open("wb") as out:
            data = tar_of([member("x", b"y" * 1000)])
            limit = ["sh", "-c", 'ulimit -v 20000000; exec "$@"', "sh"]
            made = subprocess.run([*limit, *command, "-c"], input=data, stdout=out, stderr=subprocess.PIPE, check=False)
        if made.returncode == 0:
            with pytest.raises(Fault, match=r"limit|emory"):
                prepare(str(tmp_path / "image.tar"), lambda line: None)


def test_V5_an_archive_in_an_archive_stays_one(tmp_path: Path) -> None:  # case 172
    inner = gzip.compress(tar_of([member("../x", b"x")]))
    assert unpack(tmp_path, [member("inner.tar.gz", inner)]) == ({"inner.tar.gz": inner}, [])


def test_V5_progress_is_said_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root_region, "_SAY_EVERY_FILES", 10)
    (tmp_path / "image.tar").write_bytes(tar_of([member(f"f{n}") for n in range(100)]))
    said: list[str] = []
    prepare(str(tmp_path / "image.tar"), said.append)
    assert len(said) == 10
    assert said[0].startswith("unpacking image.tar: 10 files")


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_V5_a_spoiled_archive_is_refused_or_unpacked_and_nothing_else(data: st.DataObject, tmp_path: Path) -> None:
    """Bytes of it are changed anywhere: no exception but a fault, and nothing is left of it."""
    form = data.draw(st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT]))
    packed = bytearray(tar_of([folder("a"), member("a/" + "n" * 90, b"x" * 700), link("l", "a")], form))
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, 4000))
        packed[place] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):  # with a right checksum what is in a header is looked at
        for start in range(0, 4096, 512):
            block = packed[start : start + 512]
            if block[257:262] == b"ustar":
                total = 256 + sum(block[:148]) + sum(block[156:])
                packed[start + 148 : start + 156] = b"%06o\0 " % total
    (tmp_path / "image.tar").write_bytes(packed)
    try:
        root = prepare(str(tmp_path / "image.tar"), lambda line: None)
    except Fault:
        assert set(os.listdir(tmp_path / "cache/proctor/images")) <= {"digests"}
    else:
        shutil.rmtree(Path(root).parent)
