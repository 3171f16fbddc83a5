"""The pinned requirements: complete, by version and hash, and without the address of any server."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

LEVELS = {
    "run": ["humaneval", "openai"],
    "dev": ["anthropic", "docker", "humaneval", "local-model", "openai", "parquet", "testing", "dev"],
}
"""The extras that each file covers, beside what proctor itself needs and what builds it."""

PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?: ; [^\\]+?)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")


def pins(root: Path, level: str) -> dict[str, str]:
    lines = (root / f"requirements/{level}.txt").read_text(encoding="utf-8").splitlines()
    return {found["name"]: found["version"] for line in lines if (found := PIN.fullmatch(line))}


@pytest.mark.parametrize("level", LEVELS)
def test_every_line_is_a_pin_or_a_hash(root: Path, level: str) -> None:
    """So there is no option, no address, and nothing without a hash."""
    lines = (root / f"requirements/{level}.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in lines if not PIN.fullmatch(line) and not HASH.fullmatch(line)] == []
    without_hash = [line for line, after in pairwise([*lines, ""]) if PIN.fullmatch(line) and not HASH.fullmatch(after)]
    assert without_hash == []
    assert "://" not in "".join(lines)


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_pinned_is_what_is_asked_for(root: Path, level: str, pyproject: dict[str, Any]) -> None:
    """Mend with `scripts/lock`."""
    project = pyproject["project"]
    wanted = [*project["dependencies"], *pyproject["build-system"]["requires"]]
    for extra in LEVELS[level]:
        wanted += project["optional-dependencies"][extra]
    pinned = pins(root, level)
    for requirement in map(Requirement, wanted):
        if requirement.name != "proctor":
            assert pinned[requirement.name] in requirement.specifier


def test_every_extra_is_pinned(pyproject: dict[str, Any]) -> None:
    assert set(pyproject["project"]["optional-dependencies"]) == set(LEVELS["dev"])


def test_dev_has_all_of_run_in_the_same_versions(root: Path) -> None:
    """So that a development environment serves for running, and neither set-up undoes the other."""
    assert pins(root, "run").items() <= pins(root, "dev").items()
