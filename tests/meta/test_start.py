"""What a command imports: a start is paid for by every invocation, also by one that has nothing to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = """
import json, sys
from proctor.cli.main import run
code = run(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""

ONLY_WHERE_USED = {
    "alembic",  # an older record is brought up to date
    "dotenv",  # a project has an `.env`
    "httpx",  # a model is called
    "proctor.cli.dry_run",  # a plan is shown
    "proctor.cli.live_panel",  # there is a terminal
    "rich.console",  # a help is shown, or a panel
    "ruamel.yaml",  # a file is read
    "sqlalchemy.dialects.postgresql",  # a record is kept there
    "sqlalchemy.orm",
}
"""Modules that take long to import, and what they are for."""

LISTING = ONLY_WHERE_USED | {"asyncio", "pydantic", "sqlalchemy"}


def imported(folder: Path, *arguments: str) -> set[str]:
    ended = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    code, modules = json.loads(ended.stderr.splitlines()[-1])
    assert code == 0, ended.stderr
    return set(modules)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("arguments", "spared"),
    [
        (["--version"], LISTING),
        (["list", "harnesses"], LISTING),
        (["run", "trivial", "oracle", "--progress", "none"], ONLY_WHERE_USED),
        (["run", "trivial", "oracle", "--progress", "none", "--json"], ONLY_WHERE_USED),
        (["run", "trivial", "oracle", "--progress", "none", "--reuse"], ONLY_WHERE_USED),
        (["plan", "trivial", "oracle"], ONLY_WHERE_USED - {"proctor.cli.dry_run"} | {"sqlalchemy"}),
        (["plan", "trivial", "oracle", "--reuse"], ONLY_WHERE_USED - {"proctor.cli.dry_run"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_04_a_start_imports_only_what_it_uses(tmp_path: Path, arguments: list[str], spared: set[str]) -> None:
    if "--reuse" in arguments:
        imported(tmp_path, "run", "trivial", "oracle", "--progress", "none")
    assert not imported(tmp_path, *arguments) & spared
