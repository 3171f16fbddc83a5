"""Images without an engine: tars, OCI archives, `docker save`, directories; the cache of what they unpack to."""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.errors import Fault
from proctor.providers.rootfs import images as root_fs
from proctor.providers.rootfs.images import ImageConfig, config_of, digest_of, prepare
from proctor.providers.rootfs.open import openat2_works

sys.path.append(str(Path(__file__).parent.parent / "support"))

import image_archives as images
from image_archives import folder, hard_link, link, member, tar_of, tar_of_files, tree

pytestmark = pytest.mark.skipif(not openat2_works(), reason="this kernel has no openat2")

ROOT = os.geteuid() == 0


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/proctor/images"


def nothing(line: str) -> None:
    pass


def contents(root: Path | str) -> dict[str, Any]:
    return {name: content for name, (_, _, content) in tree(root).items()}


SMALL = (folder("./"), folder("./bin"), member("./bin/sh", b"#!", mode=0o755), link("./lib", "usr/lib"))
SMALL_TREE = {"bin": ("folder", 0o755, None), "bin/sh": ("file", 0o755, b"#!"), "lib": ("link", 0, "usr/lib")}


@pytest.mark.parametrize("compression", images.COMPRESSIONS)
def test_V4_a_tar_is_unpacked_once(compression: str, tmp_path: Path, cache: Path) -> None:
    if compression == "zstd" and shutil.which("zstd") is None:
        pytest.skip("there is no program zstd")
    image = tmp_path / "image.tar"
    image.write_bytes(images.COMPRESSIONS[compression](tar_of(SMALL)))
    root = prepare(str(image), nothing)
    assert tree(root) == SMALL_TREE
    assert Path(root).parent.parent == cache
    assert digest_of(str(image)) == images.sha256(image.read_bytes()) == f"sha256:{Path(root).parent.name}"
    assert config_of(str(image)) == config_of(root) == ImageConfig()
    Path(root, "mark").touch()
    assert prepare(str(image), nothing) == root
    assert Path(root, "mark").exists(), "it was not unpacked again"
    shutil.rmtree(Path(root).parent)
    assert tree(prepare(str(image), nothing)) == SMALL_TREE, "an entry may be removed at any time"


def test_a_directory_is_used_as_it_is(tmp_path: Path, cache: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    assert prepare(str(root), nothing) == str(root)
    assert config_of(str(root)) == ImageConfig()
    assert not cache.exists()


def test_the_digest_of_a_directory_is_of_all_that_can_be_seen(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin/sh").write_text("x")
    (root / "link").symlink_to("bin")
    seen = [digest_of(str(root))]
    assert digest_of(str(root)) == seen[0]
    for change in (
        lambda: (root / "bin/sh").write_text("xy"),
        lambda: os.utime(root / "bin/sh", (1, 1)),
        lambda: (root / "bin/sh").chmod(0o700),
        lambda: (root / "bin").chmod(0o700),
        (root / "bin/new").mkdir,
        (root / "link").unlink,
        lambda: (root / "link").symlink_to("sh"),
        lambda: os.rename(root / "bin/sh", root / "sh"),
    ):
        change()
        seen.append(digest_of(str(root)))
    assert len(set(seen)) == len(seen)


def test_an_image_that_is_missing(tmp_path: Path) -> None:
    image = str(tmp_path / "missing.tar")
    assert digest_of(image) is None
    for use in (lambda: prepare(image, nothing), lambda: config_of(image)):
        with pytest.raises(Fault, match="no such file or directory") as caught:
            use()
        assert caught.value.code == "image.missing"


@pytest.mark.parametrize("kind", ["oci", "oci-gzip", "oci-zstd", "layout", "docker", "docker-compressed"])
def test_V4_layers_of_an_image(kind: str, tmp_path: Path) -> None:
    if kind == "oci-zstd" and shutil.which("zstd") is None:
        pytest.skip("there is no program zstd")
    config = {"Env": ["A=1", "B=x=y", "broken", "=z", 7], "WorkingDir": "/app", "User": "1000:1000"}
    first = tar_of([
        folder("etc"), member("etc/kept", b"1"), member("etc/gone", b"1"), member("etc/new", b"old", mode=0o600),
        folder("opaque"), member("opaque/below", b"1"), folder("opaque/deep"), member("opaque/deep/below", b"1"),
        folder("was"), member("was/folder", b"1"), member("file", b"1"), folder("usr/lib"), link("lib", "usr/lib"),
        hard_link("etc/hard", "etc/kept"), folder("whole"), member("whole/x", b""),
    ])  # fmt: skip
    second = tar_of([
        member("etc/.wh.gone"), member("etc/new", b"new", mode=0o755), member("opaque/kept", b"2"),
        member("opaque/.wh..wh..opq"), member("opaque/deep/kept", b"2"), member("was", b"a file now"), folder("file"),
        member("lib/through", b"2"), member(".wh.whole"), member(".wh.never"), member("no/.wh.where"),
    ])  # fmt: skip
    path = tmp_path / "image.tar"
    if kind.startswith("docker"):
        images.docker_archive(path, first, second, config=config)
    else:
        images.oci_archive(path, first, second, config=config, compress=kind.partition("-")[2] or "plain")
    if kind == "docker-compressed":
        path.write_bytes(images.COMPRESSIONS["xz"](path.read_bytes()))
    if kind == "layout":
        with tarfile.open(path) as tar:
            tar.extractall(tmp_path / "layout", filter="data")
        path = tmp_path / "layout"
    said: list[str] = []
    root = prepare(str(path), said.append)
    assert contents(root) == {
        "etc": None, "etc/kept": b"1", "etc/new": b"new", "etc/hard": b"1", "opaque": None, "opaque/kept": b"2",
        "opaque/deep": None, "opaque/deep/kept": b"2", "was": b"a file now", "file": None, "usr": None, "usr/lib": None,
        "usr/lib/through": b"2", "lib": "usr/lib",
    }  # fmt: skip
    assert Path(root, "etc/kept").samefile(Path(root, "etc/hard"))
    assert Path(root, "etc/new").stat().st_mode & 0o777 == 0o755
    assert [line for line in said if "left out" in line] == []
    expected = ImageConfig({"A": "1", "B": "x=y"}, "/app", "1000:1000")
    assert config_of(root) == config_of(str(path)) == expected


def test_the_digest_of_an_archive_is_that_of_its_manifest(tmp_path: Path) -> None:
    blobs = images.Blobs()
    manifest = blobs.image([tar_of(SMALL)])
    blobs.index(manifest)
    assert digest_of(blobs.archive(tmp_path / "a.tar")) == manifest["digest"]
    packed = tmp_path / "b.tar.gz"
    packed.write_bytes(images.COMPRESSIONS["gzip"]((tmp_path / "a.tar").read_bytes()))
    assert digest_of(str(packed)) == manifest["digest"]
    assert prepare(str(packed), nothing) == prepare(str(tmp_path / "a.tar"), nothing)


def test_of_several_platforms_that_of_this_machine_is_taken(tmp_path: Path) -> None:
    blobs = images.Blobs()
    inner = images.Blobs()
    other = "s390x" if images.MACHINE != "s390x" else "amd64"
    manifests = [
        blobs.image(
            [tar_of_files({"machine": machine.encode()})],
            machine=machine,
            platform={"os": "linux", "architecture": machine},
        )
        for machine in (other, images.MACHINE)
    ]
    attestation = blobs.add_json({"layers": []}, platform={"os": "unknown", "architecture": "unknown"})
    nested = blobs.add_json({"schemaVersion": 2, "manifests": [*manifests, attestation]})
    blobs.index(nested)
    root = prepare(blobs.archive(tmp_path / "image.tar"), nothing)
    assert contents(root) == {"machine": images.MACHINE.encode()}
    inner.files |= blobs.files
    inner.index(manifests[0], attestation)
    with pytest.raises(Fault, match=f"it is for linux/{other}; this machine is linux/{images.MACHINE}"):
        prepare(inner.archive(tmp_path / "other.tar"), nothing)


def test_an_archive_of_several_images_is_refused(tmp_path: Path) -> None:
    blobs = images.Blobs()
    blobs.index(*(blobs.image([tar_of_files({"x": content})]) for content in (b"1", b"2")))
    with pytest.raises(Fault, match="it holds 2 images: save one image to each file") as caught:
        digest_of(blobs.archive(tmp_path / "image.tar"))
    assert caught.value.code == "image.build_failed"


def spoil_blob(blobs: images.Blobs) -> None:
    name = max((name for name in blobs.files if name.startswith("blobs")), key=lambda name: len(blobs.files[name]))
    blobs.files[name] = blobs.files[name].replace(b"#!", b"!#")


def spoil_size(blobs: images.Blobs) -> None:
    name = max((name for name in blobs.files if name.startswith("blobs")), key=lambda name: len(blobs.files[name]))
    blobs.files[name] += b"x"


def lose_blob(blobs: images.Blobs) -> None:
    del blobs.files[
        max((name for name in blobs.files if name.startswith("b")), key=lambda name: len(blobs.files[name]))
    ]


def spoil_config(blobs: images.Blobs) -> None:
    for name, content in blobs.files.items():
        if b"diff_ids" in content:
            blobs.files[name] = content.replace(b"linux", b"xuniL")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_blob, r"layer 1 of 1: blob sha256:\w+ is damaged"),
        (spoil_size, "has 10,241 bytes, not 10240"),
        (lose_blob, "is missing"),
        (spoil_config, "is damaged"),
        (lambda blobs: blobs.files.update({"index.json": b"{"}), "index.json is no JSON"),
        (lambda blobs: blobs.files.update({"index.json": b"[" * 100_000}), "index.json is no JSON"),
        (lambda blobs: blobs.files.update({"index.json": b"[]"}), "index.json is no object"),
        (lambda blobs: blobs.files.update({"index.json": b'{"manifests": [3]}'}), "is no object"),
        (lambda blobs: blobs.index({"digest": "sha256:../../etc/passwd", "size": 1}), "is no digest"),
        (lambda blobs: blobs.index({"digest": "sha256:" + "0" * 64, "size": 1}), "is missing"),
        (lambda blobs: blobs.files.pop("index.json"), "neither an index.json nor a manifest.json"),
    ],
)
def test_V4_a_damaged_archive_says_what_and_leaves_nothing(
    spoil: Any, message: str, tmp_path: Path, cache: Path
) -> None:
    blobs = images.Blobs()
    blobs.index(blobs.image([tar_of(SMALL)]))
    spoil(blobs)
    image = blobs.archive(tmp_path / "image.tar")
    with pytest.raises(Fault, match=message) as caught:
        prepare(image, nothing)
    assert caught.value.code == "image.build_failed"
    assert image in str(caught.value)
    assert [name for name in os.listdir(cache) if name != "digests"] == []


def test_a_layer_that_is_not_what_its_configuration_says_is_refused(tmp_path: Path) -> None:
    image = images.docker_archive(tmp_path / "image.tar", tar_of_files({"x": b"good"}))
    Path(image).write_bytes(Path(image).read_bytes().replace(b"good", b"evil"))
    with pytest.raises(Fault, match="the digest of its tar is not the one"):
        prepare(image, nothing)


@pytest.mark.parametrize("compression", ["plain", "gzip", "xz", "bzip2", "zstd"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_tar_that_was_cut_off_is_refused(compression: str, share: float, tmp_path: Path, cache: Path) -> None:
    if compression == "zstd" and shutil.which("zstd") is None:
        pytest.skip("there is no program zstd")
    whole = images.COMPRESSIONS[compression](tar_of([member(f"f{n}", os.urandom(3000)) for n in range(20)]))
    if compression == "plain":
        share *= 0.85  # the last tenth is the padding of a tar
    image = tmp_path / "image.tar"
    image.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(Fault) as caught:
        prepare(str(image), nothing)
    assert caught.value.code == "image.build_failed"
    assert [name for name in os.listdir(cache) if name != "digests"] == []


@pytest.mark.parametrize("content", [b"", b"not a tar", b"\x1f\x8bnot a gzip", bytes(10240), os.urandom(5000)])
def test_what_is_no_tar_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(content)
    with pytest.raises(Fault) as caught:
        prepare(str(tmp_path / "image.tar"), nothing)
    assert caught.value.code == "image.build_failed"


def test_a_pipe_is_no_image_and_holds_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Fault, match="not a regular file"):
        prepare(str(tmp_path / "pipe"), nothing)


def test_a_file_that_changes_has_another_digest(tmp_path: Path) -> None:
    image = tmp_path / "image.tar"
    image.write_bytes(tar_of_files({"x": b"1"}))
    os.utime(image, (1, 1))
    first = digest_of(str(image))
    assert digest_of(str(image)) == first
    image.write_bytes(tar_of_files({"x": b"2"}))
    os.utime(image, (1, 1))
    assert digest_of(str(image)) != first


def test_a_digest_is_remembered_while_the_file_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = tmp_path / "image.tar"
    image.write_bytes(tar_of_files({"x": b"1"}))
    os.utime(image, (1, 1))
    first = digest_of(str(image))
    monkeypatch.setattr(root_fs, "_digest_of_tar", lambda path: pytest.fail("it was read again"))
    assert digest_of(str(image)) == first


def test_V4_what_say_raises_ends_the_work_and_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    def stop(line: str) -> None:
        raise KeyboardInterrupt

    image = images.oci_archive(tmp_path / "image.tar", tar_of(SMALL))
    with pytest.raises(KeyboardInterrupt):
        prepare(image, stop)
    assert [name for name in os.listdir(cache) if name != "digests"] == []
    assert tree(prepare(image, nothing)) == SMALL_TREE


def test_V4_a_full_disk_leaves_nothing(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("proctor.providers.rootfs.unpack.write_all", full)
    image = images.oci_archive(tmp_path / "image.tar", tar_of(SMALL))
    with pytest.raises(Fault, match="No space left on device") as caught:
        prepare(image, nothing)
    assert caught.value.code == "image.build_failed"
    assert [name for name in os.listdir(cache) if name != "digests"] == []


def _prepare_and_tell(image: str, begin: Any, told: Any) -> None:
    begin.wait()
    said: list[str] = []
    told.put((prepare(image, said.append), any("layer" in line for line in said)))


@pytest.mark.long
def test_V4_of_several_processes_one_unpacks(tmp_path: Path) -> None:
    image = images.oci_archive(tmp_path / "image.tar", tar_of_files({f"f{n}": b"x" * 1000 for n in range(100)}))
    context = multiprocessing.get_context("fork" if threading.active_count() == 1 else "spawn")
    begin, told = context.Barrier(4), context.Queue()
    workers = [context.Process(target=_prepare_and_tell, args=(image, begin, told)) for _ in range(4)]
    for worker in workers:
        worker.start()
    found = [told.get() for _ in workers]
    for worker in workers:
        worker.join()
    told.close()
    told.join_thread()
    assert len({root for root, _ in found}) == 1
    assert [did for _, did in found].count(True) == 1
    assert len(os.listdir(found[0][0])) == 100


def test_what_a_process_left_that_ended_is_removed_by_the_next(tmp_path: Path, cache: Path) -> None:
    image = images.oci_archive(tmp_path / "image.tar", tar_of(SMALL))
    digest = str(digest_of(image)).partition(":")[2]
    for left in (f".new-{digest}-0123456789ab", ".new-" + "0" * 64 + "-0123456789ab", digest):
        (cache / left / "half").mkdir(parents=True)
    (cache / f"{digest}.lock").touch()
    assert tree(prepare(image, nothing)) == SMALL_TREE
    assert sorted(os.listdir(cache)) == sorted([digest, "digests"])


def test_what_another_process_is_making_is_left_alone(tmp_path: Path, cache: Path) -> None:
    import fcntl

    other = "1" * 64
    (cache / f".new-{other}-0123456789ab").mkdir(parents=True)
    for made in (cache, cache.parent):
        made.chmod(0o700)
    with (cache / f"{other}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prepare(images.oci_archive(tmp_path / "image.tar", tar_of(SMALL)), nothing)
        assert (cache / f".new-{other}-0123456789ab").is_dir()


def test_a_cache_that_others_can_change_is_refused(tmp_path: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    with pytest.raises(Fault, match="is not a directory that only this user can change"):
        prepare(images.oci_archive(tmp_path / "image.tar", tar_of(SMALL)), nothing)


def test_only_a_configuration_of_the_cache_is_believed(tmp_path: Path) -> None:
    (tmp_path / "x/rootfs").mkdir(parents=True)
    (tmp_path / "x/config.json").write_text(json.dumps({"env": {"LD_PRELOAD": "x"}, "workdir": "/", "user": "root"}))
    assert config_of(str(tmp_path / "x/rootfs")) == ImageConfig()


@pytest.mark.skipif(not ROOT, reason="only root can give files to others")
def test_root_keeps_owners_and_modes(tmp_path: Path) -> None:
    made = member("file", b"x", uid=1234, gid=2345, mode=0o4755)
    image = tmp_path / "image.tar"
    image.write_bytes(tar_of([made, member("dir", type=tarfile.DIRTYPE, uid=7, gid=8, mode=0o1770)]))
    root = Path(prepare(str(image), nothing))
    for name, expected in {"file": (1234, 2345, 0o4755), "dir": (7, 8, 0o1770)}.items():
        found = (root / name).stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == expected
    assert (root / "file").stat().st_mtime == 1_700_000_000


def test_who_is_not_root_owns_all_of_it_and_can_remove_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.providers.rootfs.unpack.is_root", lambda: False)
    image = tmp_path / "image.tar"
    image.write_bytes(tar_of([
        member("dir", type=tarfile.DIRTYPE, uid=7, mode=0o500), member("dir/file", b"x", uid=1234, mode=0o6555)
    ]))  # fmt: skip
    root = Path(prepare(str(image), nothing))
    assert (root / "dir").stat().st_uid == (root / "dir/file").stat().st_uid == os.getuid()
    assert (root / "dir").stat().st_mode & 0o7777 == 0o700
    assert (root / "dir/file").stat().st_mode & 0o7777 == 0o555


def test_sparse_files_stay_sparse(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with (source / "holes").open("wb") as file:
        file.write(b"begin")
        file.seek(1 << 30)
        file.write(b"end")
    for form in ("gnu", "pax"):
        image = tmp_path / f"{form}.tar"
        made = subprocess.run(
            ["tar", f"--format={form}", "--sparse", "-cf", image, "-C", source, "."], check=False, capture_output=True
        )
        if made.returncode != 0:
            pytest.skip("tar cannot make sparse files")
        assert image.stat().st_size < 100_000
        found = Path(prepare(str(image), nothing), "holes")
        assert found.stat().st_size == (1 << 30) + 3
        assert found.stat().st_blocks * 512 < 1_000_000
        with found.open("rb") as file:
            assert file.read(6) == b"begin\0"
            file.seek(1 << 30)
            assert file.read() == b"end"


@pytest.mark.parametrize("how", ["skopeo", "umoci"])
def test_archives_of_other_programs(how: str, tmp_path: Path) -> None:
    if shutil.which(how) is None:
        pytest.skip(f"there is no program {how}")
    blobs = images.Blobs()
    blobs.index(
        blobs.image(
            [tar_of(SMALL)],
            {"Env": ["A=1"], "WorkingDir": "/w"},
            annotations={"org.opencontainers.image.ref.name": "x"},
        )
    )
    path = blobs.archive(tmp_path / "by-hand.tar")
    ours = prepare(path, nothing)
    if how == "skopeo":
        theirs = str(tmp_path / "theirs.tar")
        command = ["skopeo", "--insecure-policy", "--tmpdir", str(tmp_path), "copy", "-q", f"oci-archive:{path}"]
        made = subprocess.run([*command, f"docker-archive:{theirs}:x:1"], check=False, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        root = prepare(theirs, nothing)
    else:
        layout = tmp_path / "layout"
        with tarfile.open(path) as tar:
            tar.extractall(layout, filter="data")
        bundle = tmp_path / "bundle"
        command = ["umoci", "unpack", "--rootless", "--image", f"{layout}:x", str(bundle)]
        made = subprocess.run(command, check=False, capture_output=True, text=True)
        if made.returncode != 0:
            pytest.skip(f"umoci does not work here: {made.stderr[-200:]}")
        root = str(bundle / "rootfs")
    assert tree(root) == tree(ours)


names = st.text(st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: name not in (".", "..") and len(name.encode()) <= 80
)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
members = st.one_of(
    st.builds(member, paths, st.binary(max_size=2000), mode=st.sampled_from([0o644, 0o755, 0o600])),
    st.builds(folder, paths, st.sampled_from([0o755, 0o700])),
    st.builds(link, paths, st.one_of(paths, st.just("/etc"), st.just("../.."))),
)


def benign(made: list[images.Member]) -> bool:
    """Whether no member takes the place of another, and none lies in what is not a directory."""
    seen = [info.name for info, _ in made]
    others = {info.name for info, _ in made if not info.isdir()}
    inside = any(
        "/".join(name.split("/")[:count]) in others for name in seen for count in range(1, name.count("/") + 1)
    )
    return len(set(seen)) == len(seen) and not inside


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    made=st.lists(members, min_size=1, max_size=8).filter(benign),
    form=st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
)
def test_a_benign_tar_unpacks_as_tarfile_unpacks_it(made: list[images.Member], form: int, tmp_path: Path) -> None:
    packed = tar_of(made, form)
    (tmp_path / "image.tar").write_bytes(packed)
    expected = tmp_path / "expected"
    shutil.rmtree(expected, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(expected, filter="fully_trusted")
    assert contents(prepare(str(tmp_path / "image.tar"), nothing)) == contents(expected)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_layers_unpack_as_a_model_says(data: st.DataObject, tmp_path: Path) -> None:
    """A model: names of files by path; a layer first hides what its whiteouts name, then brings its own files."""
    path = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join)
    expected: dict[str, bytes] = {}
    layers: list[bytes] = []
    for number in range(data.draw(st.integers(1, 3))):
        files = data.draw(st.dictionaries(path, st.just(b"%d" % number), max_size=5))
        files = {name: content for name, content in files.items() if not any(n.startswith(f"{name}/") for n in files)}
        hidden = data.draw(st.lists(path, max_size=2)) if number else []
        opaque = data.draw(st.lists(path, max_size=1)) if number else []
        listed = [member(name, content) for name, content in files.items()]
        for name in hidden:
            top, _, last = name.rpartition("/")
            listed.append(member(f"{top}/.wh.{last}".lstrip("/")))
        listed += [member(f"{name}/.wh..wh..opq") for name in opaque]
        layers.append(tar_of(data.draw(st.permutations(listed))))
        gone = [*hidden, *files]  # a file takes the place of a directory, too
        expected = {
            name: content
            for name, content in expected.items()
            if not any(name == each or name.startswith(f"{each}/") for each in gone)
            and not any(name.startswith(f"{each}/") for each in opaque)
            and not any(each.startswith(f"{name}/") for each in files)
        }
        expected |= files
    image = images.oci_archive(tmp_path / "image.tar", *layers)
    if expected:
        found = {name: content for name, content in contents(prepare(image, nothing)).items() if content is not None}
        assert found == expected
