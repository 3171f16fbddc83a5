"""Reads what is in one directory of a Harbor task, and gathers all that is wrong with it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from proctor.benchmarks._harbor_environment import LOGS, TESTS
from proctor.benchmarks._harbor_refusals import refusals_of_links
from proctor.benchmarks._harbor_toml import TaskToml
from proctor.data import env_templates
from proctor.data.build_context import folder_digest
from proctor.errors import UsageError
from proctor.model.secrets import is_secret_name
from proctor.model.spec import Folder, Json

CONFIG_FILE, INSTRUCTION_FILE = "task.toml", "instruction.md"
ARTIFACTS, VERDICTS = f"{LOGS}/artifacts", f"{LOGS}/verifier"
REWARD_FILES = (f"{VERDICTS}/reward.json", f"{VERDICTS}/reward.txt")
GRADE_ROOM_SECONDS = 60.0
"""What grading may take beside the tests themselves: to put them there, and to read the reward."""

ROOT = "root"
"""Whom tests and health check run as where the agent is somebody else, and nobody says who they are."""

_CANARY = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)


class Reading:
    """Gathers all that is wrong with one directory in `reasons`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reasons: list[str] = []

    def text(self, name: str) -> str:
        """Return the text of a file."""
        try:
            return (self.folder / name).read_text("utf-8")
        except FileNotFoundError:
            self.reasons.append(f"there is no {name}")
        except (OSError, UnicodeDecodeError) as error:
            self.reasons.append(f"{name} cannot be read: {error}")
        return ""

    def has(self, name: str) -> bool:
        """Say whether there is such a file."""
        return (self.folder / name).is_file()

    def copied(self, name: str) -> Folder | None:
        """Return a folder that is put into a sandbox, or None where it is not there."""
        path = self.folder / name
        if not path.is_dir():
            return None
        self.reasons += refusals_of_links(path)
        try:
            return Folder(str(path), folder_digest(path))
        except UsageError as error:
            self.reasons.append(error.message)
            return None

    def env(self, section: str, env: Mapping[str, str], *, open_secrets: bool) -> dict[str, str]:
        """Return variables with the values of this machine; credentials only where they may be in the open."""
        try:
            resolved = env_templates.resolved(env, os.environ)
        except LookupError as error:
            self.reasons.append(f"{CONFIG_FILE}: `{section}.env`: {error.args[0]}")
            return {}
        return {
            name: value if open_secrets or not is_secret_name(name) else env[name] for name, value in resolved.items()
        }


def tests_params(
    toml: TaskToml, folders: list[str], env: dict[str, str], timeout_seconds: float, user: str | int | None
) -> dict[str, Json]:
    """Return how tests are run, for a grader; `user` is who the tests say that they run as."""
    user = ROOT if user is None and toml.agent.user is not None else user
    return {
        "command": script(f"{TESTS}/test.sh"),
        "folders": {TESTS: folders[0] if len(folders) == 1 else folders} if folders else {},
        "env": env,
        "user": None if user is None else str(user),
        "timeout_seconds": timeout_seconds,
        "reward_files": list(REWARD_FILES),
        "emptied": [VERDICTS],
    }


def script(path: str) -> str:
    """Return the command that runs a script as the format says: as a program."""
    return f"[ -x {path} ] || chmod +x {path}; exec {path}"


def without_canary(text: str) -> str:
    """Return an instruction without the marks at its beginning that are there to be found in training data."""
    lines = text.split("\n")
    start = 0
    while start < len(lines) and _CANARY.fullmatch(lines[start].strip()):
        start += 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:])


__all__ = [
    "ARTIFACTS", "CONFIG_FILE", "GRADE_ROOM_SECONDS", "INSTRUCTION_FILE", "ROOT", "Reading", "script", "tests_params",
    "without_canary",
]  # fmt: skip
