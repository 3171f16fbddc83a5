"""Where control groups can be made, and which are made for a command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proctor.runtime.cgroup import CgroupRoots, roots_from, sandbox_roots_from
from proctor.runtime.group_files import make_groups

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


# ------------------------------------------------------------------------------------------- groups of a sandbox


def test_a_sandbox_is_enclosed_by_version_2() -> None:
    roots = CgroupRoots(unified="/u", controllers=frozenset({"cpu", "memory", "pids"}))
    plan, inner = roots.enclose("1-x", cpus=1.5, memory_bytes=5, processes=7)
    assert plan == [
        (
            "/u/proctor-1-x",
            [
                ("cpu.max", "150000 100000"), ("memory.max", "5"), ("memory.swap.max", "0"), ("pids.max", "7"),
                ("cgroup.subtree_control", "+cpu +memory +pids"),
            ],
        )
    ]  # fmt: skip
    assert inner.plan("1-x-1", memory_bytes=3, processes=None) == [
        ("/u/proctor-1-x/proctor-1-x-1", [("memory.max", "3")])
    ]


def test_a_sandbox_is_enclosed_by_version_1_where_version_2_cannot() -> None:
    roots = CgroupRoots(unified="/u", pids="/p", memory="/m", cpu="/c")
    plan, inner = roots.enclose("1-x", cpus=0.5, memory_bytes=5, processes=None)
    assert plan == [
        ("/u/proctor-1-x", []),
        ("/m/proctor-1-x", [("memory.limit_in_bytes", "5"), ("memory.memsw.limit_in_bytes", "5")]),
        ("/c/proctor-1-x", [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "50000")]),
    ]
    assert inner.plan("1-x-1", memory_bytes=None, processes=None) == [
        ("/u/proctor-1-x/proctor-1-x-1", []),
        ("/m/proctor-1-x/proctor-1-x-1", []),
        ("/c/proctor-1-x/proctor-1-x-1", []),
    ]


def test_nothing_is_enclosed_where_no_groups_can_be_made() -> None:
    plan, inner = CgroupRoots().enclose("1-x", cpus=1, memory_bytes=5, processes=7)
    assert plan == []
    assert inner.plan("1-x-1", memory_bytes=1, processes=1) == []
    assert not any(CgroupRoots().limits(one) for one in ("cpu", "memory", "pids"))


def test_what_each_version_limits() -> None:
    unified = CgroupRoots(unified="/u", controllers=frozenset({"memory"}), cpu="/c")
    assert [unified.limits(one) for one in ("cpu", "memory", "pids")] == [True, True, False]


def test_groups_are_made_all_or_none(tmp_path: Path) -> None:
    """A limit that the kernel does not take must not be missing in silence."""
    (tmp_path / "there").mkdir()
    fine = (f"{tmp_path}/one", [])
    for wrong in ((f"{tmp_path}/there", []), (f"{tmp_path}/two", [("pids.max", "1")])):
        with pytest.raises(OSError, match=r"there|pids\.max"):
            make_groups([fine, wrong])
        assert [path.name for path in tmp_path.iterdir()] == ["there"]
    make_groups([(f"{tmp_path}/three", [("memory.swap.max", "0")])])  # this one is not everywhere


def test_groups_of_a_sandbox_are_found_by_its_name(tmp_path: Path) -> None:
    for name in ("proctor-1-bwrap-a", "proctor-22-bwrap-a", "proctor-1-bwrap-b", "proctor-1-bwrap-a-3", "other"):
        (tmp_path / name).mkdir()
    found = CgroupRoots(unified=str(tmp_path)).groups_of("bwrap-a")
    assert {Path(path).name for path in found} == {"proctor-1-bwrap-a", "proctor-22-bwrap-a"}


def test_limits_are_found_above_where_our_own_group_has_none(tmp_path: Path) -> None:
    """A session of systemd: its group holds processes, so the groups of sandboxes are made beside it."""
    own = tmp_path / "user.slice/user-0.slice/session-1.scope"
    own.mkdir(parents=True)
    for folder in (own, *own.parents[:3]):
        (folder / "cgroup.procs").touch()
        (folder / "cgroup.subtree_control").touch()
    for folder in own.parents[1:3]:
        (folder / "cgroup.subtree_control").write_text("cpu memory pids\n")
    memberships = "0::/user.slice/user-0.slice/session-1.scope\n"
    mounted = f"33 24 0:28 / {tmp_path} rw - cgroup2 cgroup2 rw"
    assert roots_from(memberships, mounted) == CgroupRoots(unified=str(own))
    found = CgroupRoots(unified=f"{tmp_path}/user.slice", controllers=frozenset({"cpu", "memory", "pids"}))
    assert sandbox_roots_from(memberships, mounted) == found
    for folder in own.parents[1:3]:
        (folder / "cgroup.subtree_control").write_text("")
    assert sandbox_roots_from(memberships, mounted) == CgroupRoots(unified=str(own))
