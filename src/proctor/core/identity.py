"""What is in the identity of a slot, part by part, and what is left out, and why (spec 04 P2).

Two slots with equal identities may share a result. Each named part is hashed by itself, so that a plan can say which
part changed; the identity hashes all parts and the ordinal together. What an experiment has once is hashed once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from proctor.model.secrets import without_secrets
from proctor.model.spec import (
    Artifact,
    Component,
    EnvironmentSpec,
    Experiment,
    Json,
    ModelSpec,
    Reference,
    Resources,
    RetrySpec,
    Task,
    TimeLimits,
)

IDENTITY_FORMAT = 1
"""Raised when the way of hashing changes: no older identity is equal to a newer one then."""

PART_DIGITS = 16
IDENTITY_DIGITS = 32


class FieldDecision(NamedTuple):
    """The part that a field counts in, or None where it is left out, and why."""

    part: str | None
    reason: str


def _in(part: str, reason: str = "it can change the result") -> FieldDecision:
    return FieldDecision(part, reason)


def _out(reason: str) -> FieldDecision:
    return FieldDecision(None, reason)


FIELD_DECISIONS: Mapping[type, Mapping[str, FieldDecision]] = {
    Experiment: {
        "name": _out("a display name"),
        "benchmark": _in("benchmark", "id and version; what its parameters change shows in the tasks"),
        "harness": _in("harness", "id, version and parameters"),
        "model": _in("model"),
        "environment": _in("environment"),
        "attempts": _out("adds slots and changes none of those there are"),
        "max_concurrency": _out("says when, not what"),
        "grading": _in("grading"),
        "limits": _out("whether a saved attempt fits the limits is decided when it is reused"),
        "retry": _out("a wrong answer is never tried again"),
        "early_exit": _out("says how many samples, not what they are"),
        "budget_usd": _out("says how many samples, not what they are"),
        "expected_cost_usd": _out("an estimate for the budget"),
        "stop_on_repeated": _out("says when to give up"),
        "setup": _in("setup", "by its path, until hooks can declare what they stand for"),
        "teardown": _out("runs after the last attempt"),
        "sandbox_reuse": _in("sandbox_reuse", "what is outside the work directory stays from attempt to attempt"),
        "shared_state_key": _in("shared_state", "another key, another cohort"),
        "flags": _in("flags", "without credentials"),
        "artifacts": _in("artifacts", "a grader can read them"),
    },
    RetrySpec: {
        name: _out("a wrong answer is never tried again")
        for name in ("max_retries", "patterns", "min_delay_seconds", "max_delay_seconds", "retry_after_cap_seconds")
    },
    Component: {
        "id": _in("benchmark, harness, grader"),
        "params": _in("harness, grader", "those of a benchmark count through the tasks"),
    },
    ModelSpec: {
        "id": _in("model"),
        "base_url": _in("model", "only its host name, and only without `identity`; a port says nothing of the model"),
        "api_key": _out("a credential"),
        "identity": _in("model", "in place of the host name"),
        "params": _in("model"),
        "max_connections": _out("says when, not what"),
        "requests_per_minute": _out("says when, not what"),
    },
    EnvironmentSpec: {
        "provider": _in("environment, task"),
        "image": _in("environment, task"),
        "env": _in("environment, task", "without credentials: values of variables that are named as such"),
        "resources": _in("environment, task"),
        "network": _in("environment, task"),
    },
    Resources: {"cpus": _in("environment, task"), "memory_bytes": _in("environment, task")},
    Task: {
        "id": _in("task", "so that tasks of equal content never share a result"),
        "grader": _in("grader", "id, version and parameters"),
        "prompt": _in("task"),
        "files": _in("task", "names, and contents by hash"),
        "reference": _in("task", "only where the harness applies it (`oracle`); no other sees it"),
        "tags": _out("for choosing and grouping"),
        "environment": _in("task"),
        "needs_sandbox": _in("task"),
        "artifacts": _in("task", "a grader can read them"),
    },
    Artifact: {
        "path": _in("task, artifacts"),
        "required": _in("task, artifacts", "whether it is missing shows in the issues"),
        "max_bytes": _in("task, artifacts", "what is cut is not graded"),
    },
    Reference: {"answer": _in("task", "only for `oracle`"), "script": _in("task", "only for `oracle`")},
    TimeLimits: {
        name: _out("whether a saved attempt fits the limits is decided when it is reused")
        for name in (
            "open_seconds", "setup_seconds", "agent_seconds", "collect_seconds", "grade_seconds", "dispose_seconds",
            "try_seconds", "agent_idle_seconds",
        )
    },
}  # fmt: skip
"""Every field of what is declared, with the decision; a test fails when a field is missing here."""


def _plain(value: Any) -> Json:
    """Turn a mapping of another type than dict into a dict, for the encoder."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Json]", value))
    raise TypeError(f"{value!r} is no JSON value and cannot count in an identity")


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain).encode


def digest(value: Json) -> str:
    """Return the shortened sha256 of the canonical JSON of a value.

    Raises `TypeError` or `ValueError` for what is no JSON value, NaN and infinity included.
    """
    return sha256(_encode(value).encode("ascii")).hexdigest()[:PART_DIGITS]


def model_endpoint(model: ModelSpec) -> str | None:
    """Return what a model's endpoint counts as: its `identity`, else the host name of its `base_url`, else None."""
    if model.identity is not None:
        return model.identity
    if model.base_url is None:
        return None
    url = model.base_url if "//" in model.base_url else f"//{model.base_url}"
    return urlsplit(url).hostname


def _environment(environment: EnvironmentSpec) -> Json:
    resources = environment.resources
    return {
        "provider": environment.provider,
        "image": environment.image,
        "env": without_secrets(environment.env),
        "cpus": resources.cpus,
        "memory_bytes": resources.memory_bytes,
        "network": environment.network,
    }


def _model(model: ModelSpec | None) -> Json:
    if model is None:
        return None
    return {"id": model.id, "endpoint": model_endpoint(model), "params": model.params}


def _artifacts(artifacts: tuple[Artifact, ...]) -> Json:
    return sorted([one.path, one.required, one.max_bytes] for one in artifacts) or None


def experiment_parts(experiment: Experiment, *, benchmark_version: str, harness_version: str) -> dict[str, str]:
    """Return the digests of the parts that all slots of an experiment share, by name."""
    benchmark, harness = experiment.benchmark, experiment.harness
    parts = {
        "benchmark": digest({"id": benchmark.id, "version": benchmark_version}),
        "harness": digest({"id": harness.id, "version": harness_version, "params": harness.params}),
        "model": digest(_model(experiment.model)),
        "environment": digest(_environment(experiment.environment)),
        "grading": digest(experiment.grading.value),
        "flags": digest(without_secrets(experiment.flags)),
    }
    # A part that is not in use is absent, so that identities stay what they were when a part is invented.
    optional: dict[str, Json] = {
        "setup": experiment.setup,
        "sandbox_reuse": experiment.sandbox_reuse or None,
        "shared_state": experiment.shared_state_key,
        "artifacts": _artifacts(experiment.artifacts),
    }
    return parts | {name: digest(value) for name, value in optional.items() if value is not None}


def task_parts(task: Task, *, grader_version: str, with_reference: bool = False) -> dict[str, str]:
    """Return the digests of the parts that are a task's own, by name; the reference counts only where it is used."""
    content: dict[str, Json] = {
        "id": task.id,
        "prompt": task.prompt,
        "needs_sandbox": task.needs_sandbox,
        "environment": _environment(task.environment) if task.environment else None,
    }
    if task.files:
        content["files"] = {name: sha256(data).hexdigest() for name, data in task.files.items()}
    if task.artifacts:
        content["artifacts"] = _artifacts(task.artifacts)
    if with_reference and task.reference is not None:
        content["reference"] = {"answer": task.reference.answer, "script": task.reference.script}
    grader = {"id": task.grader.id, "version": grader_version, "params": task.grader.params}
    return {"task": digest(content), "grader": digest(grader)}


def identity_of(shared: Mapping[str, str], own: Mapping[str, str], ordinal: int) -> str:
    """Return the identity of one slot from the digests of its parts and its ordinal."""
    return SharedIdentity.of(shared).slot(own, ordinal)


@dataclass(frozen=True, slots=True)
class SharedIdentity:
    """The parts that all slots of an experiment share, hashed once."""

    parts: Mapping[str, str]
    _prefix: Any

    @classmethod
    def of(cls, parts: Mapping[str, str]) -> SharedIdentity:
        """Hash the shared parts."""
        lines = [f"format={IDENTITY_FORMAT}", *(f"{name}={parts[name]}" for name in sorted(parts)), ""]
        return cls(dict(parts), sha256("\n".join(lines).encode()))

    def slot(self, own: Mapping[str, str], ordinal: int) -> str:
        """Return the identity of a slot from the digests of its task's parts and its ordinal."""
        hashed = self._prefix.copy()
        lines = [*(f"{name}={own[name]}" for name in sorted(own)), f"ordinal={ordinal}"]
        hashed.update("\n".join(lines).encode())
        return hashed.hexdigest()[:IDENTITY_DIGITS]
