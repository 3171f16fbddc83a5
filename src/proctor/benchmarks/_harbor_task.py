"""Reads one directory in the Harbor task format and makes a task of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from proctor.benchmarks import _harbor_refusals as refused
from proctor.benchmarks._harbor_environment import LOGS, SOLUTION, TESTS, made_for_tests, made_from, networks
from proctor.benchmarks._harbor_toml import TaskToml, Unreadable, parse
from proctor.data import env_templates
from proctor.data.build_context import folder_digest
from proctor.errors import UsageError
from proctor.model.environment import EnvironmentSpec
from proctor.model.secrets import is_secret_name
from proctor.model.spec import Artifact, Component, Folder, Json, Reference, Task

CONFIG_FILE, INSTRUCTION_FILE = "task.toml", "instruction.md"
ARTIFACTS = f"{LOGS}/artifacts"
REWARD_FILES = (f"{LOGS}/verifier/reward.json", f"{LOGS}/verifier/reward.txt")
GRADE_ROOM_SECONDS = 60.0
"""What grading may take beside the tests themselves: to put them there, and to read the reward."""

ROOT = "root"
"""Whom tests and health check run as where the agent is somebody else, and nobody says who they are."""

_CANARY = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HarborTask:
    """A task, and what is only for the benchmark itself: the file, and whether its tests get their own sandbox."""

    task: Task
    toml: TaskToml
    separate: bool


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a reward becomes a grade: the name of the number that counts, and how much it must be."""

    reward: str
    solved_at: float


class NotATask(Exception):
    """A directory that no task can be made of; `reasons` has all of them."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


def read_task(folder: Path, scoring: Scoring) -> HarborTask:
    """Return the task of a directory. Raises `NotATask`."""
    reading = _Reading(folder)
    task = reading.task(scoring)
    if reading.reasons or task is None:
        raise NotATask(reading.reasons)
    return task


class _Reading:
    """Gathers all that is wrong with one directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.reasons: list[str] = []

    def task(self, scoring: Scoring) -> HarborTask | None:
        """Return the task, or None where even its file cannot be read."""
        try:
            toml = parse(self._text(CONFIG_FILE))
        except Unreadable as error:
            self.reasons += [f"{CONFIG_FILE}: {reason}" for reason in error.reasons]
            return None
        separate = toml.verifier.separate
        self.reasons += refused.refusals(toml, self._folder)
        apart, in_image = made_for_tests(toml, self._folder, self.reasons) if separate else (None, False)
        if not in_image and not (self._folder / "tests" / "test.sh").is_file():
            self.reasons.append("there is no tests/test.sh")
        if apart is not None:
            declared = toml.verifier.environment or toml.environment
            own = self._env("verifier.environment", declared.env, open_secrets=True)
            apart = replace(apart, env={**apart.env, **own})
        tests = None if in_image else self._copied("tests")
        user = ROOT if toml.verifier.user is None and toml.agent.user is not None else toml.verifier.user
        grader: dict[str, Json] = {
            "command": _script(f"{TESTS}/test.sh"),
            "folders": {} if in_image else {TESTS: "tests"},
            "env": self._env("verifier", toml.verifier.env, open_secrets=False),
            "user": None if user is None else str(user),
            "timeout_seconds": toml.verifier.timeout_sec,
            "reward_files": list(REWARD_FILES),
            "reward": scoring.reward,
            "solved_at": scoring.solved_at,
        }
        sources = [one if isinstance(one, str) else one.source for one in toml.artifacts]
        task = Task(
            id=self._folder.name,
            grader=Component("command", grader),
            prompt=without_canary(self._text(INSTRUCTION_FILE)),
            reference=self._reference(toml),
            tags=_tags(toml),
            environment=self._environment(toml),
            grade_environment=apart,
            needs_sandbox=True,
            artifacts=tuple(Artifact(path) for path in dict.fromkeys((ARTIFACTS, *sources))),
            agent_timeout_seconds=toml.agent.timeout_sec,
            grade_timeout_seconds=toml.verifier.timeout_sec + GRADE_ROOM_SECONDS,
            code=_code(toml),
            hidden={} if tests is None else {"tests": tests},
        )
        return HarborTask(task, toml, separate)

    def _text(self, name: str) -> str:
        try:
            return (self._folder / name).read_text("utf-8")
        except FileNotFoundError:
            self.reasons.append(f"there is no {name}")
        except (OSError, UnicodeDecodeError) as error:
            self.reasons.append(f"{name} cannot be read: {error}")
        return ""

    def _copied(self, name: str) -> Folder | None:
        """Return a folder that is put into a sandbox, or None where it is not there."""
        path = self._folder / name
        if not path.is_dir():
            return None
        self.reasons += refused.refusals_of_links(path)
        try:
            return Folder(str(path), folder_digest(path))
        except UsageError as error:
            self.reasons.append(error.message)
            return None

    def _reference(self, toml: TaskToml) -> Reference | None:
        folder = self._copied("solution")
        if folder is None:
            return None
        if not (self._folder / "solution" / "solve.sh").is_file():
            self.reasons.append("there is a solution/ without solve.sh")
        env = {"DEBIAN_FRONTEND": "noninteractive", **toml.solution.env}  # only `oracle` needs what they stand for
        return Reference(command=_script(f"{SOLUTION}/solve.sh"), folders={SOLUTION: folder}, env=env)

    def _env(self, section: str, env: Mapping[str, str], *, open_secrets: bool) -> dict[str, str]:
        """Return variables with the values of this machine; credentials only where they may be in the open."""
        try:
            resolved = env_templates.resolved(env, os.environ)
        except LookupError as error:
            self.reasons.append(f"{CONFIG_FILE}: `{section}.env`: {error.args[0]}")
            return {}
        return {
            name: value if open_secrets or not is_secret_name(name) else env[name] for name, value in resolved.items()
        }

    def _environment(self, toml: TaskToml) -> EnvironmentSpec:
        sandbox = made_from(toml.environment, self._folder / "environment", self.reasons)
        network, in_setup, in_grade = networks(toml)
        user = toml.agent.user
        return replace(
            sandbox,
            env={**sandbox.env, **self._env("environment", toml.environment.env, open_secrets=True)},
            network=network,
            setup_network=in_setup,
            grade_network=in_grade,
            user=None if user is None else str(user),
        )


def _script(path: str) -> str:
    """Return the command that runs a script as the format says: as a program."""
    return f"[ -x {path} ] || chmod +x {path}; exec {path}"


def _tags(toml: TaskToml) -> tuple[str, ...]:
    """Return what tasks can be chosen by: tags, keywords, difficulty and category."""
    said = [toml.metadata.get(name) for name in ("difficulty", "category")]
    tags = toml.metadata.get("tags")
    listed = [*tags] if isinstance(tags, list) else []  # pyright: ignore[reportUnknownVariableType] - any TOML value
    keywords = toml.task.keywords if toml.task is not None else []
    return tuple(dict.fromkeys(one for one in (*listed, *keywords, *said) if isinstance(one, str) and one))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - as above


def _code(toml: TaskToml) -> dict[str, str]:
    """Return what is done in setup, for the identity."""
    check = toml.environment.healthcheck
    return {} if check is None else {"healthcheck": sha256(check.model_dump_json().encode()).hexdigest()}


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
    "CONFIG_FILE",
    "INSTRUCTION_FILE",
    "ROOT",
    "HarborTask",
    "NotATask",
    "Scoring",
    "read_task",
    "without_canary",
]
