"""Where control groups can be made, and which are made for a command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proctor.runtime.cgroup import CgroupRoots, roots_from

V2_CONTROLLERS = frozenset({"memory", "pids"})


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A made-up /sys/fs/cgroup with both versions."""
    for folder in ("pids/own", "memory/own/deeper", "unified/own"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "cgroup.procs").touch()
    (tmp_path / "unified/own/cgroup.subtree_control").write_text("memory pids\n")
    return tmp_path


def mounts(tree: Path, **roots: str) -> str:
    lines = [
        f"33 24 0:28 {roots.get('unified', '/')} {tree}/unified rw,relatime - cgroup2 cgroup2 rw",
        f"34 24 0:29 {roots.get('memory', '/')} {tree}/memory rw,relatime shared:9 - cgroup cgroup rw,memory",
        f"35 24 0:30 {roots.get('pids', '/')} {tree}/pids rw,relatime - cgroup cgroup rw,pids",
        "36 24 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct",
        "37 1 8:1 / / rw,relatime - ext4 /dev/sda rw",
        "nonsense",
    ]
    return "\n".join(lines)


MEMBERSHIPS = "4:memory:/own/deeper\n3:pids,misc:/own\n0::/own\n"


def test_roots_are_found_in_both_versions(tree: Path) -> None:
    assert roots_from(MEMBERSHIPS, mounts(tree)) == CgroupRoots(
        unified=f"{tree}/unified/own",
        controllers=V2_CONTROLLERS,
        pids=f"{tree}/pids/own",
        memory=f"{tree}/memory/own/deeper",
    )


def test_a_mount_of_a_part_of_the_hierarchy_is_understood(tree: Path) -> None:
    (tree / "memory/cgroup.procs").touch()
    roots = roots_from(MEMBERSHIPS, mounts(tree, memory="/own/deeper", pids="/elsewhere"))
    assert roots.memory == f"{tree}/memory"
    assert roots.pids is None


def test_without_groups_there_are_no_roots() -> None:
    assert roots_from("", "") == CgroupRoots()
    assert CgroupRoots().plan("x", memory_bytes=1, processes=1) == []


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_what_cannot_be_written_is_no_root(tree: Path) -> None:
    (tree / "pids/own").chmod(0o555)
    assert roots_from(MEMBERSHIPS, mounts(tree)).pids is None


def test_version_2_alone_carries_all_limits() -> None:
    roots = CgroupRoots(unified="/u", controllers=V2_CONTROLLERS)
    assert roots.plan("x", memory_bytes=5, processes=7) == [("/u/proctor-x", [("pids.max", "7"), ("memory.max", "5")])]


def test_version_1_carries_what_version_2_cannot() -> None:
    roots = CgroupRoots(unified="/u", pids="/p", memory="/m")
    assert roots.plan("x", memory_bytes=5, processes=7) == [
        ("/u/proctor-x", []),
        ("/p/proctor-x", [("pids.max", "7")]),
        ("/m/proctor-x", [("memory.limit_in_bytes", "5")]),
    ]
    assert roots.plan("x", memory_bytes=None, processes=None) == [("/u/proctor-x", [])]


def test_some_group_is_always_there_to_find_the_processes() -> None:
    assert CgroupRoots(pids="/p").plan("x", memory_bytes=None, processes=None) == [("/p/proctor-x", [])]


def test_groups_of_dead_processes_are_removed_and_no_others(tmp_path: Path) -> None:
    dead, alive, foreign = "proctor-99999999-x-1", f"proctor-{os.getpid()}-x-1", "somebody-99999999"
    for name in (dead, alive, foreign, "proctor-", "proctor-word-1"):
        (tmp_path / name).mkdir()
    CgroupRoots(pids=str(tmp_path)).remove_stale()
    assert {path.name for path in tmp_path.iterdir()} == {alive, foreign, "proctor-", "proctor-word-1"}
