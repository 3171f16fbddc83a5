"""What is known of a sandbox by its labels (spec 06 V1): every combination, and real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pytest

from proctor.cli.owners import SandboxState, owner_life, sandbox_state
from proctor.store.owner import Life, Living, Owner, owner_of, this_owner

HERE = Owner("here", "boot-1", "pid:[1]", 10, 1000)
OWNER_LABELS = ("owner_host", "owner_boot", "owner_pid_namespace", "owner_pid", "owner_start")


def labels_for(owner: Owner, **more: str) -> dict[str, str]:
    values = (owner.host, owner.boot_id, owner.pid_namespace, str(owner.pid), str(owner.process_start_ticks))
    return {**dict(zip(OWNER_LABELS, values, strict=True)), **more}


@pytest.mark.parametrize(("living", "kept"), list(product(Living, ("true", "false", None))))
def test_V1_state_by_owner_and_label(living: Living, kept: str | None) -> None:
    own = {} if kept is None else {"kept": kept}
    life = owner_life(labels_for(HERE, **own), HERE, lambda owner, here: Life(living, "so it is"))
    expected = {
        Living.ALIVE: SandboxState.RUNNING,
        Living.DEAD: SandboxState.ORPHANED,
        Living.UNKNOWN: SandboxState.UNVERIFIED,
    }[living]
    assert sandbox_state(own, life) is (SandboxState.KEPT if kept == "true" else expected)


def never(owner: Owner, here: Owner) -> Life:
    raise AssertionError("a process was looked at that the labels do not name")


@pytest.mark.parametrize("missing", OWNER_LABELS)
def test_V1_a_missing_label_is_unverified(missing: str) -> None:
    labels = {name: value for name, value in labels_for(HERE).items() if name != missing}
    assert owner_life(labels, HERE, never).living is Living.UNKNOWN


@pytest.mark.parametrize("label", ["owner_pid", "owner_start"])
@pytest.mark.parametrize("value", ["", "many", "1.5", "-"])
def test_V1_a_label_that_is_no_number_is_unverified(label: str, value: str) -> None:
    assert owner_life({**labels_for(HERE), label: value}, HERE, never).living is Living.UNKNOWN


@pytest.mark.parametrize("pid", ["0", "-1", "2147483648", "9" * 40])
def test_V1_a_process_that_there_cannot_be_is_unverified(pid: str) -> None:
    assert owner_life({**labels_for(this_owner()), "owner_pid": pid}, this_owner()).living is Living.UNKNOWN


def test_V1_without_proc_everything_is_unverified() -> None:
    assert owner_life(labels_for(HERE), None, never).living is Living.UNKNOWN


def of_dead_process() -> Owner:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        return owner_of(child.pid)


CHANGES: dict[str, tuple[Mapping[str, object], Living]] = {
    "this very process": ({}, Living.ALIVE),
    "the process id was given away again": ({"process_start_ticks": 1}, Living.DEAD),
    "the host was started anew": ({"boot_id": "another"}, Living.DEAD),
    "another container of this host": ({"pid_namespace": "pid:[1]"}, Living.UNKNOWN),
    "another host": ({"host": "elsewhere.example.org"}, Living.UNKNOWN),
    "another host with the same boot id": ({"host": "elsewhere.example.org", "boot_id": "another"}, Living.UNKNOWN),
}


@pytest.mark.parametrize("case", CHANGES)
def test_V1_real_owners(case: str) -> None:
    changes, expected = CHANGES[case]
    owner = replace(this_owner(), **changes)
    assert owner_life(labels_for(owner), this_owner()).living is expected


def test_V1_an_owner_that_has_ended_is_dead() -> None:
    assert owner_life(labels_for(of_dead_process()), this_owner()).living is Living.DEAD
    assert this_owner().pid == os.getpid()
