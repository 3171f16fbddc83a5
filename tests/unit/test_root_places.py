"""Places in the file system of an image: nobody who sets a sandbox up is led out of it by a link (V6)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proctor.providers.rootfs.open import openat2_works
from proctor.providers.rootfs.places import make_places, secure_mount_points

pytestmark = pytest.mark.skipif(not openat2_works(), reason="this kernel has no openat2")


@pytest.fixture
def layers(tmp_path: Path) -> tuple[Path, Path, Path]:
    made = (tmp_path / "upper", tmp_path / "middle", tmp_path / "root")
    for layer in made:
        layer.mkdir()
    return made


def secure(layers: tuple[Path, Path, Path]) -> None:
    upper, *lower = map(str, layers)
    secure_mount_points(upper, lower)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("kind", ["link", "file", "pipe"])
def test_a_link_or_file_in_the_place_of_a_mount_point_is_hidden(
    number: int, kind: str, layers: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    place = layers[number] / "proc"
    if kind == "link":
        place.symlink_to(tmp_path / "victim")
    elif kind == "file":
        place.write_text("x")
    else:
        os.mkfifo(place)
    secure(layers)
    assert (layers[0] / "proc").is_dir()
    assert not (layers[0] / "proc").is_symlink()
    assert number == 0 or os.path.lexists(place), "a lower layer is others' too"
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_directory_stays_as_it_is(number: int, layers: tuple[Path, Path, Path]) -> None:
    (layers[number] / "proc/x").mkdir(parents=True)
    if number == 1:
        (layers[2] / "proc").symlink_to("/")
    secure(layers)
    assert (layers[number] / "proc/x").is_dir()
    assert number == 0 or not (layers[0] / "proc").exists()


def test_nothing_there_is_nothing_to_hide(layers: tuple[Path, Path, Path]) -> None:
    secure(layers)
    assert os.listdir(layers[0]) == []


def test_places_are_made_inside_whatever_links_say(tmp_path: Path) -> None:
    root, victim = tmp_path / "root", tmp_path / "victim"
    (root / "app").mkdir(parents=True)
    (root / "app/file").touch()
    (root / "app").chmod(0o711)
    victim.mkdir()
    (root / "out").symlink_to(victim)
    (root / "inside").symlink_to("/app")
    opened = os.open(root, os.O_PATH | os.O_DIRECTORY)
    try:
        make_places(opened, {"/tmp": 0o1777, "/inside/home": 0o700, "/app": 0o755})
        with pytest.raises(OSError, match="Not a directory"):
            make_places(opened, {"/out/made": 0o755})
        with pytest.raises(OSError, match="Not a directory"):
            make_places(opened, {"/app/file": 0o755})
    finally:
        os.close(opened)
    modes = {name: (root / name).stat().st_mode & 0o7777 for name in ("tmp", "app", "app/home")}
    assert modes == {"tmp": 0o1777, "app": 0o711, "app/home": 0o700}
    assert list(victim.iterdir()) == []
