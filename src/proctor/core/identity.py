"""What is in the identity of a slot, part by part, and what is left out, and why (spec 04 P2).

Two slots with equal identities may share a result. Each named part is hashed by itself, so that a plan can say which
part changed; the identity hashes all parts and the ordinal together. What an experiment has once is hashed once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast
from urllib.parse import urlsplit

from proctor.model.environment import Build, EnvironmentSpec, Network
from proctor.model.secrets import without_secrets
from proctor.model.spec import Artifact, Experiment, Json, ModelSpec, Reference, Task

IDENTITY_FORMAT = 1
"""Raised when the way of hashing changes: no older identity is equal to a newer one then."""

PART_DIGITS = 16
IDENTITY_DIGITS = 32


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
    used: dict[str, Json] = {
        "proxy": environment.proxy or None,
        "processes": resources.processes,
        "setup_network": environment.setup_network and _network(environment.setup_network),
        "grade_network": environment.grade_network and _network(environment.grade_network),
        "build": environment.build and _build(environment.build),
        "compose": environment.compose
        and {"digest": environment.compose.digest, "service": environment.compose.service},
        "user": environment.user,
        "places": sorted(environment.places) or None,
        "workdir": environment.workdir,
    }
    return {
        "provider": environment.provider,
        "image": environment.image_digest or environment.image,
        "env": without_secrets(environment.env),
        "cpus": resources.cpus,
        "memory_bytes": resources.memory_bytes,
        "network": _network(environment.network),
        **{name: value for name, value in used.items() if value is not None},
    }


def _network(network: Network) -> Json:
    return sorted(network.hosts) if network.mode == "allow" else network.mode


def _build(build: Build) -> Json:
    args = without_secrets(dict(build.args))
    return {"digest": build.digest, "dockerfile": build.dockerfile, "args": args, "target": build.target}


def _model(model: ModelSpec | None, credentials: Collection[str]) -> Json:
    if model is None:
        return None
    return {"id": model.id, "endpoint": model_endpoint(model), "params": _params(model.params, credentials)}


def _params(params: Mapping[str, Json], credentials: Collection[str]) -> Json:
    """Return parameters without credentials: texts that are known to be some, under names of secrets.

    The name alone decides nothing here: an `answer_key` or a `stop_token` changes results.
    """
    return without_secrets(params, credentials) if credentials else params


def _reference(reference: Reference) -> Json:
    more: dict[str, Json] = {
        "command": reference.command,
        "folders": {place: folder.digest for place, folder in reference.folders.items()},
        "env": without_secrets(reference.env),
        "calls": [dict(call) for call in reference.calls],
        "steps": {name: _reference(one) for name, one in reference.steps.items()},
    }
    return {"answer": reference.answer, "script": reference.script} | {name: one for name, one in more.items() if one}


def _artifacts(artifacts: tuple[Artifact, ...]) -> Json:
    return sorted([one.path, one.required, one.max_bytes] for one in artifacts) or None


def experiment_parts(
    experiment: Experiment, *, benchmark_version: str, harness_version: str, credentials: Collection[str] = ()
) -> dict[str, str]:
    """Return the digests of the parts that all slots of an experiment share, by name."""
    benchmark, harness = experiment.benchmark, experiment.harness
    parts = {
        "benchmark": digest({"id": benchmark.id, "version": benchmark_version}),
        "harness": digest(
            {"id": harness.id, "version": harness_version, "params": _params(harness.params, credentials)}
        ),
        "model": digest(_model(experiment.model, credentials)),
        "environment": digest(_environment(experiment.environment)),
        "grading": digest(experiment.grading.value),
        "flags": digest(without_secrets(experiment.flags)),
    }
    # A part that is not in use is absent, so that identities stay what they were when a part is invented.
    optional: dict[str, Json] = {
        "setup": experiment.setup and experiment.code.get("setup", experiment.setup),
        "sandbox_setup": experiment.sandbox_setup and experiment.code.get("sandbox_setup", experiment.sandbox_setup),
        "sandbox_reuse": experiment.sandbox_reuse or None,
        "shared_state": experiment.shared_state_key,
        "artifacts": _artifacts(experiment.artifacts),
    }
    return parts | {name: digest(value) for name, value in optional.items() if value is not None}


def task_parts(
    task: Task,
    *,
    grader_version: str,
    with_reference: bool = False,
    credentials: Collection[str] = (),
    judge: ModelSpec | None = None,
) -> dict[str, str]:
    """Return the digests of the parts that are a task's own, by name.

    The reference counts only where it is used, and so does the `judge`: None where the task's grader asks none.
    """
    content: dict[str, Json] = {
        "id": task.id,
        "prompt": task.prompt,
        "needs_sandbox": task.needs_sandbox,
        "environment": _environment(task.environment) if task.environment else None,
    }
    if task.grade_environment is not None:
        content["grade_environment"] = _environment(task.grade_environment)
    if task.files:
        content["files"] = {name: sha256(data).hexdigest() for name, data in task.files.items()}
    if task.artifacts:
        content["artifacts"] = _artifacts(task.artifacts)
    if with_reference and task.reference is not None:
        content["reference"] = _reference(task.reference)
    grader = {"id": task.grader.id, "version": grader_version, "params": _params(task.grader.params, credentials)}
    if task.hidden:
        grader["hidden"] = {name: folder.digest for name, folder in task.hidden.items()}
    parts = {"task": digest(content), "grader": digest(grader)}
    if task.group is not None:
        parts["group"] = digest(task.group)
    if judge is not None:
        parts["judge"] = digest(_model(judge, credentials))
    # One part for each file, so that a plan can say which one changed.
    return parts | {f"code {name}": digest(code) for name, code in task.code.items()}


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
