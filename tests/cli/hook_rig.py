"""A project with a file of hooks, which leave a trace."""

from __future__ import annotations

from pathlib import Path

HOOKS = """
import asyncio
from pathlib import Path

from proctor import hook

HERE = Path(__file__).parent


def note(line):
    with (HERE / "trace").open("a") as file:
        file.write(line + chr(10))


def prepare():
    print("the server is up")
    note("prepare")


async def clear():
    note("clear")


@hook(timeout_seconds=0.5)
async def hangs():
    note("hangs")
    await asyncio.sleep(600)


async def box_up(sandbox):
    sandbox.state["made"] = sandbox.id
    await sandbox.write("common", "1")
    note(f"up {sandbox.id}")


def box_down(sandbox):
    note(f"down {sandbox.id} {sandbox.state['made']}")


def box_broken(sandbox):
    note("broken")
    raise RuntimeError("no licence")


async def box_stuck(sandbox):
    note("stuck")
    await asyncio.sleep(600)


def box_once_broken(sandbox):
    note("once")
    if not (HERE / "broken").exists():
        (HERE / "broken").touch()
        raise RuntimeError("no licence")


NUMBER = 3
"""


def make_project(folder: Path) -> Path:
    (folder / "proctor.yaml").touch()
    (folder / "hooks").mkdir()
    (folder / "hooks" / "all.py").write_text(HOOKS)
    return folder


def hooks(**names: str) -> list[str]:
    return [word for field, name in names.items() for word in ("--set", f"{field}=hooks/all.py:{name}")]


def in_sandboxes(**names: str) -> list[str]:
    return ["run", "trivial", "nop", "--set", "benchmark.params.sandbox=true", *hooks(**names)]


def trace(project: Path) -> list[str]:
    path = project / "hooks" / "trace"
    return path.read_text().splitlines() if path.exists() else []
