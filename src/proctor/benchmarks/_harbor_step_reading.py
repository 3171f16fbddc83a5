"""Reads the steps of a Harbor task: what each begins with, its tests, its solution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from proctor.benchmarks._harbor_environment import SOLUTION
from proctor.benchmarks._harbor_reading import (
    GRADE_ROOM_SECONDS,
    INSTRUCTION_FILE,
    Reading,
    script,
    tests_params,
    without_canary,
)
from proctor.benchmarks._harbor_steps import SETUP_SECONDS, HarborStep
from proctor.benchmarks._harbor_toml import Step, TaskToml
from proctor.model.spec import Component, Folder, Json, Reference, Task
from proctor.plugins.steps import StepsOptions

GRADER = "proctor.graders.steps:StepsGrader"


@dataclass(frozen=True, slots=True)
class Stepped:
    """The steps of a task, and what a task is told of them: all but the first come after the tests of another."""

    steps: tuple[HarborStep, ...]
    options: StepsOptions
    params: dict[str, Json]
    hidden: dict[str, Folder]
    digests: dict[str, str]
    reference: Reference | None
    agent_seconds: float | None
    grade_seconds: float

    def of(self, task: Task) -> Task:
        """Return the task with these steps."""
        parts = [f"# Step {number}: {one.name}\n\n{one.instruction}" for number, one in enumerate(self.steps, 1)]
        return replace(
            task,
            grader=Component(GRADER, self.params),
            prompt="\n\n".join(parts),
            reference=self.reference,
            agent_timeout_seconds=self.agent_seconds,
            grade_timeout_seconds=self.grade_seconds,
            code={**task.code, **self.digests},
            hidden=self.hidden,
        )


def stepped(reading: Reading, toml: TaskToml, scoring: dict[str, Json], of_tests: dict[str, Json]) -> Stepped:
    """Return the steps of a task; what is wrong with them is added to the reasons of `reading`.

    `scoring` is for all of them, `of_tests` for the tests of each.
    """
    shared = reading.copied("tests")
    hidden = {} if shared is None else {"tests": shared}
    steps = [_step(reading, toml, one) for one in toml.steps]
    tests: list[dict[str, Json]] = []
    for one in toml.steps:
        place = f"steps/{one.name}/tests"
        own = reading.copied(place)
        if own is not None:
            hidden[place] = own
        if not reading.has(f"{place}/test.sh") and not reading.has("tests/test.sh"):
            reading.reasons.append(f"there is neither {place}/test.sh nor tests/test.sh")
        folders = [name for name in ("tests", place) if name in hidden]
        ran = {**_tests(reading, toml, one, folders), **of_tests}
        tests.append({**ran, "name": one.name, "min_reward": one.min_reward})
    params = {"steps": tests, "strategy": toml.multi_step_reward_strategy or "mean", **scoring}
    return Stepped(
        steps=tuple(step for step, _ in steps),
        options=StepsOptions.model_validate(params),
        params=params,
        hidden=hidden,
        digests={f"step {one.name}": digest for one, (_, digest) in zip(toml.steps, steps, strict=True)},
        reference=_references(reading, toml),
        agent_seconds=_all_seconds(toml),
        grade_seconds=max(one.verifier.timeout_sec for one in toml.steps) + GRADE_ROOM_SECONDS,
    )


def _step(reading: Reading, toml: TaskToml, step: Step) -> tuple[HarborStep, str]:
    """Return what a step begins with, and a digest of it."""
    place = f"steps/{step.name}"
    workdir = reading.copied(f"{place}/workdir")
    made = HarborStep(
        name=step.name,
        instruction=without_canary(reading.text(f"{place}/{INSTRUCTION_FILE}")),
        workdir=None if workdir is None else workdir.path,
        has_setup=reading.has(f"{place}/workdir/setup.sh"),
        healthcheck=step.healthcheck,
        agent_seconds=_seconds(toml, step),
        artifacts=tuple(one if isinstance(one, str) else one.source for one in step.artifacts),
    )
    counts = repr(replace(made, workdir=None if workdir is None else workdir.digest))
    return made, sha256(counts.encode()).hexdigest()


def _tests(reading: Reading, toml: TaskToml, step: Step, folders: list[str]) -> dict[str, Json]:
    own = step.verifier
    env = reading.env(f"steps.{step.name}.verifier", {**toml.verifier.env, **own.env}, open_secrets=False)
    user = toml.verifier.user if own.user is None else own.user
    return tests_params(toml, folders, env, own.timeout_sec, user)


def _seconds(toml: TaskToml, step: Step) -> float | None:
    return toml.agent.timeout_sec if step.agent.timeout_sec is None else step.agent.timeout_sec


def _all_seconds(toml: TaskToml) -> float | None:
    """Return what all turns may take with all that is between them: a harness that cannot be ended holds nobody."""
    seconds = [_seconds(toml, one) for one in toml.steps]
    if None in seconds:
        return None
    between = sum(SETUP_SECONDS + GRADE_ROOM_SECONDS + one.verifier.timeout_sec for one in toml.steps)
    return sum(one for one in seconds if one is not None) + between


def _references(reading: Reading, toml: TaskToml) -> Reference | None:
    """Return the solution of each step: its own, or that of the task; None where there is none at all."""
    shared = reading.copied("solution")
    env = {"DEBIAN_FRONTEND": "noninteractive", **toml.solution.env}  # only `oracle` needs what they stand for
    found: dict[str, Reference] = {}
    missing: list[str] = []
    for one in toml.steps:
        own = reading.copied(f"steps/{one.name}/solution")
        place, folder = ("solution", shared) if own is None else (f"steps/{one.name}/solution", own)
        if folder is None:
            missing.append(one.name)
            continue
        if not reading.has(f"{place}/solve.sh"):
            reading.reasons.append(f"there is a {place}/ without solve.sh")
        found[one.name] = Reference(command=script(f"{SOLUTION}/solve.sh"), folders={SOLUTION: folder}, env=env)
    if found:
        reading.reasons += [f"step `{name}` has no solution, others have one" for name in missing]
    return Reference(steps=found) if found else None


__all__ = ["GRADER", "Stepped", "stepped"]
