"""Agent programs for tests, installed by the scripts of their harnesses: `.ci/agents` does it, tests only look.

Where one is not there, its tests are skipped with the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from proctor.harnesses.command import ProgramHarness
from proctor.harnesses.programs.claude_code import ClaudeCodeHarness, ClaudeCodeOptions
from proctor.harnesses.programs.codex import CodexHarness, CodexOptions
from proctor.harnesses.programs.mini_swe_agent import MiniSweAgentHarness, MiniSweAgentOptions
from proctor.harnesses.programs.opencode import OpencodeHarness, OpencodeOptions

HARNESSES: dict[str, tuple[type, type]] = {
    "claude-code": (ClaudeCodeHarness, ClaudeCodeOptions),
    "codex": (CodexHarness, CodexOptions),
    "mini-swe-agent": (MiniSweAgentHarness, MiniSweAgentOptions),
    "opencode": (OpencodeHarness, OpencodeOptions),
}
INSTALL_SECONDS = 600.0
CHECK_SECONDS = 60.0


def harness(name: str, **params: Any) -> ProgramHarness:
    """Return a ready harness."""
    make, options = HARNESSES[name]
    return make(options(**params))


def place() -> Path:
    """Return where the programs are."""
    named = os.environ.get("PROCTOR_TEST_AGENTS")
    if named:
        return Path(named)
    if os.geteuid() == 0:
        return Path("/usr/local/lib/proctor-test-agents")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "proctor-test-agents")


@cache
def search_path(name: str) -> str:
    """Return the PATH of a sandbox in which a program is installed already; skips the test where it is not."""
    tools = place() / name
    if not tools.is_dir():
        pytest.skip(f"{name} is not in {place()}: .ci/agents installs it")
    made = harness(name)
    if not _is_there(made, tools):
        pytest.skip(f"{tools} has another version of {name}: .ci/agents installs the right one")
    return _path(made, tools)


def in_usr() -> bool:
    """Say whether a sandbox without an image sees the programs."""
    return place().is_relative_to("/usr")


def _path(program: ProgramHarness, tools: Path) -> str:
    own = [one.replace("{tools}", str(tools)) for one in program.declared("openai").path]
    return ":".join([*own, os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")])


def _environment(program: ProgramHarness, tools: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(tools),
        "PATH": _path(program, tools),
        "PROCTOR_TOOLS": str(tools),
        "PROCTOR_VERSION": program.declared("openai").version or "",
    }


def _run(program: ProgramHarness, tools: Path, script: str, seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", script],
        cwd=tools,
        env=_environment(program, tools),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
    )


def _is_there(program: ProgramHarness, tools: Path) -> bool:
    return _run(program, tools, program.declared("openai").installed or "false", CHECK_SECONDS).returncode == 0


def install(name: str) -> str:
    """Install a program where it is not there; return what came of it, in words."""
    made, tools = harness(name), place() / name
    try:
        tools.mkdir(parents=True, exist_ok=True)
        if _is_there(made, tools):
            return "is there"
        done = _run(made, tools, made.declared("openai").install or "false", INSTALL_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"could not be installed: {error}"
    if done.returncode != 0:
        return f"could not be installed: {(done.stderr or done.stdout).strip()[-300:]}"
    return "installed"


def main() -> None:
    """Install all."""
    if shutil.which("npm") is None:
        print("agents: npm is not there: only what needs none is installed")
    for name in HARNESSES:
        needs_npm = name != "mini-swe-agent"
        print(
            f"agents: {name} {'needs npm' if needs_npm and shutil.which('npm') is None else install(name)}", flush=True
        )


if __name__ == "__main__":
    main()
