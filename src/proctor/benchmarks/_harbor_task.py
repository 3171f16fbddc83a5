"""Makes a task of one directory in the Harbor task format."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from proctor.benchmarks import _harbor_refusals as refused
from proctor.benchmarks._harbor_environment import SOLUTION, made_for_tests, made_from, networks
from proctor.benchmarks._harbor_reading import (
    ARTIFACTS,
    CONFIG_FILE,
    GRADE_ROOM_SECONDS,
    INSTRUCTION_FILE,
    Reading,
    script,
    tests_params,
    without_canary,
)
from proctor.benchmarks._harbor_step_reading import Stepped, stepped
from proctor.benchmarks._harbor_toml import TaskToml, Unreadable, parse
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Artifact, Component, Json, Reference, Task


@dataclass(frozen=True, slots=True)
class HarborTask:
    """A task, and what is only for the benchmark itself: the file, whether its tests get their own sandbox, its steps
    if it has any."""

    task: Task
    toml: TaskToml
    separate: bool
    stepped: Stepped | None = None


@dataclass(frozen=True, slots=True)
class Scoring:
    """How tasks are run and graded: the parameters of the benchmark."""

    reward: str
    solved_at: float
    end_processes: bool = False
    resume: bool = False


class NotATask(Exception):
    """A directory that no task can be made of; `reasons` has all of them."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


def read_task(folder: Path, scoring: Scoring) -> HarborTask:
    """Return the task of a directory. Raises `NotATask`."""
    reading = Reading(folder)
    task = _task(reading, scoring)
    if reading.reasons or task is None:
        raise NotATask(reading.reasons)
    return task


def _task(reading: Reading, scoring: Scoring) -> HarborTask | None:
    """Return the task, or None where even its file cannot be read."""
    try:
        toml = parse(reading.text(CONFIG_FILE))
    except Unreadable as error:
        reading.reasons += [f"{CONFIG_FILE}: {reason}" for reason in error.reasons]
        return None
    reading.reasons += refused.refusals(toml, reading.folder)
    sources = [one if isinstance(one, str) else one.source for one in toml.artifacts]
    task = Task(
        id=reading.folder.name,
        grader=Component("command"),
        tags=_tags(toml),
        environment=_environment(reading, toml),
        needs_sandbox=True,
        artifacts=tuple(Artifact(path) for path in dict.fromkeys((ARTIFACTS, *sources))),
        code=_code(toml),
    )
    ends = {"end_processes": True} if scoring.end_processes else {}
    scored: dict[str, Json] = {"reward": scoring.reward, "solved_at": scoring.solved_at}
    if toml.steps:
        steps = stepped(reading, toml, scored, ends)
        made = steps.of(task)
        code = {**made.code, "resume": "true"} if scoring.resume else made.code
        return HarborTask(replace(made, code=code), toml, separate=False, stepped=steps)
    return HarborTask(_with_tests(task, reading, toml, {**scored, **ends}), toml, toml.verifier.separate)


def _with_tests(task: Task, reading: Reading, toml: TaskToml, scoring: dict[str, Json]) -> Task:
    """Return a task with its one instruction, its tests and its solution."""
    apart, in_image = made_for_tests(toml, reading.folder, reading.reasons) if toml.verifier.separate else (None, False)
    if not in_image and not reading.has("tests/test.sh"):
        reading.reasons.append("there is no tests/test.sh")
    if apart is not None:
        declared = toml.verifier.environment or toml.environment
        own = reading.env("verifier.environment", declared.env, open_secrets=True)
        apart = replace(apart, env={**apart.env, **own})
    tests = None if in_image else reading.copied("tests")
    env = reading.env("verifier", toml.verifier.env, open_secrets=False)
    ran = tests_params(toml, [] if in_image else ["tests"], env, toml.verifier.timeout_sec, toml.verifier.user)
    return replace(
        task,
        grader=Component("command", {**ran, **scoring}),
        prompt=without_canary(reading.text(INSTRUCTION_FILE)),
        reference=_reference(reading, toml),
        grade_environment=apart,
        agent_timeout_seconds=toml.agent.timeout_sec,
        grade_timeout_seconds=toml.verifier.timeout_sec + GRADE_ROOM_SECONDS,
        hidden={} if tests is None else {"tests": tests},
    )


def _reference(reading: Reading, toml: TaskToml) -> Reference | None:
    folder = reading.copied("solution")
    if folder is None:
        return None
    if not reading.has("solution/solve.sh"):
        reading.reasons.append("there is a solution/ without solve.sh")
    env = {"DEBIAN_FRONTEND": "noninteractive", **toml.solution.env}  # only `oracle` needs what they stand for
    return Reference(command=script(f"{SOLUTION}/solve.sh"), folders={SOLUTION: folder}, env=env)


def _environment(reading: Reading, toml: TaskToml) -> EnvironmentSpec:
    sandbox = made_from(toml.environment, reading.folder / "environment", reading.reasons)
    network, in_setup, in_grade = networks(toml)
    user = toml.agent.user
    return replace(
        sandbox,
        env={**sandbox.env, **reading.env("environment", toml.environment.env, open_secrets=True)},
        network=network,
        setup_network=in_setup,
        grade_network=in_grade,
        user=None if user is None else str(user),
    )


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


__all__ = ["HarborTask", "NotATask", "Scoring", "read_task"]
