"""What this machine has for sandboxes, as its kernel says it (spec 03 G10)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proctor.cli.host_capacity import host_cpus, host_memory_bytes


@pytest.fixture
def machine(tmp_path: Path) -> tuple[Path, Path]:
    """Return a control group tree and a /proc of a machine with 8 GiB, this process being in the group `a/b`."""
    groups, proc = tmp_path / "cgroup", tmp_path / "proc"
    (groups / "a/b").mkdir(parents=True)
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text("1:name=systemd:/x\n0::/a/b\n")
    (proc / "meminfo").write_text(f"MemTotal:       {8 * 1024**2} kB\nMemFree: 1 kB\n")
    return groups, proc


def test_without_limits_it_is_all_that_the_machine_has(machine: tuple[Path, Path]) -> None:
    assert host_cpus(*machine) == len(os.sched_getaffinity(0))
    assert host_memory_bytes(*machine) == 8 * 1024**3


@pytest.mark.parametrize("group", ["", "a", "a/b"])
def test_the_limit_of_any_group_above_holds(machine: tuple[Path, Path], group: str) -> None:
    (machine[0] / group / "memory.max").write_text(f"{2 * 1024**3}\n")
    (machine[0] / group / "cpu.max").write_text("50000 100000\n")
    assert host_memory_bytes(*machine) == 2 * 1024**3
    assert host_cpus(*machine) == 0.5


@pytest.mark.parametrize("text", ["max 100000\n", "max\n", "", "rubbish", "0 0", "-1 100000"])
def test_what_is_no_limit_limits_nothing(machine: tuple[Path, Path], text: str) -> None:
    (machine[0] / "a/cpu.max").write_text(text)
    (machine[0] / "a/memory.max").write_text(text.partition(" ")[0].replace("0", "max"))
    assert host_cpus(*machine) == len(os.sched_getaffinity(0))
    assert host_memory_bytes(*machine) == 8 * 1024**3


def test_a_limit_above_what_there_is_adds_nothing(machine: tuple[Path, Path]) -> None:
    (machine[0] / "memory.max").write_text(str(2**50))
    (machine[0] / "cpu.max").write_text("99900000 100000")
    assert host_memory_bytes(*machine) == 8 * 1024**3
    assert host_cpus(*machine) == len(os.sched_getaffinity(0))


def test_where_the_kernel_says_nothing_the_numbers_are_those_of_python(tmp_path: Path) -> None:
    assert host_cpus(tmp_path, tmp_path) == len(os.sched_getaffinity(0))
    whole = host_memory_bytes(tmp_path, tmp_path)
    assert whole is not None
    assert whole >= 1024**2
