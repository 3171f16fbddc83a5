"""Every field of what is declared: the part of the identity that it counts in, or why in none (spec 04 P2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from proctor.model.environment import Build, Compose, EnvironmentSpec, Network, Resources
from proctor.model.spec import (
    Artifact,
    Component,
    Experiment,
    Folder,
    ModelSpec,
    Reference,
    RetrySpec,
    Task,
    TimeLimits,
)


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
        "judge": _in("judge", "only of tasks whose grader asks it"),
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
        "setup": _in("setup", "what it stands for counts, where `code` has it, else its path"),
        "teardown": _out("runs after the last attempt"),
        "sandbox_reuse": _in("sandbox_reuse", "what is outside the work directory stays from attempt to attempt"),
        "shared_state_key": _in("shared_state", "another key, another cohort"),
        "flags": _in("flags", "without credentials"),
        "artifacts": _in("artifacts", "a grader can read them"),
        "sandbox_setup": _in("sandbox_setup", "what it stands for counts, where `code` has it, else its path"),
        "sandbox_teardown": _out("runs when the attempts of a sandbox are over"),
        "code": _in("setup, sandbox_setup"),
        "directory": _out("where results go"),
        "tags": _out("for choosing and grouping"),
        "labels": _out("for people"),
    },
    RetrySpec: {
        name: _out("a wrong answer is never tried again")
        for name in ("max_retries", "patterns", "min_delay_seconds", "max_delay_seconds", "retry_after_cap_seconds")
    },
    Component: {
        "id": _in("benchmark, harness, grader"),
        "params": _in("harness, grader", "those of a benchmark count through the tasks; without credentials"),
    },
    ModelSpec: {
        "id": _in("model, judge"),
        "base_url": _in(
            "model, judge", "only its host name, and only without `identity`; a port says nothing of the model"
        ),
        "api_key": _out("a credential"),
        "identity": _in("model, judge", "in place of the host name"),
        "params": _in("model, judge", "without credentials"),
        "max_connections": _out("says when, not what"),
        "requests_per_minute": _out("says when, not what"),
        "price": _out("says what a result costs, not what it is"),
    },
    EnvironmentSpec: {
        "provider": _in("environment, task"),
        "image": _in("environment, task", "only where its digest is not known: what an image is counts, not its name"),
        "image_digest": _in("environment, task"),
        "build": _in("environment, task"),
        "compose": _in("environment, task"),
        "image_timeout_seconds": _out("says when to give up, not what"),
        "env": _in("environment, task", "without credentials: values of variables that are named as such"),
        "resources": _in("environment, task"),
        "network": _in("environment, task"),
        "setup_network": _in("environment, task"),
        "grade_network": _in("environment, task"),
        "user": _in("environment, task"),
        "workdir": _in("environment, task"),
        "places": _in("environment, task"),
        "proxy": _in("environment, task", "whether they are passed, not what they say"),
    },
    Resources: {name: _in("environment, task") for name in ("cpus", "memory_bytes", "processes")},
    Network: {"mode": _in("environment, task"), "hosts": _in("environment, task", "in any order")},
    Build: {
        "context": _out("where it is; what is in it counts by its digest"),
        "digest": _in("environment, task", "of everything that goes into the image"),
        "dockerfile": _in("environment, task"),
        "args": _in("environment, task", "without credentials"),
        "target": _in("environment, task"),
    },
    Compose: {
        "file": _out("where it is; what it says counts by its digest"),
        "digest": _in("environment, task", "of the file and what lies beside it"),
        "service": _in("environment, task"),
    },
    Task: {
        "id": _in("task", "so that tasks of equal content never share a result"),
        "grader": _in("grader", "id, version and parameters"),
        "prompt": _in("task"),
        "files": _in("task", "names, and contents by hash"),
        "reference": _in("task", "only where the harness applies it (`oracle`); no other sees it"),
        "tags": _out("for choosing and grouping"),
        "environment": _in("task"),
        "grade_environment": _in("task"),
        "needs_sandbox": _in("task"),
        "artifacts": _in("task", "a grader can read them"),
        "agent_timeout_seconds": _out("whether a saved attempt fits the limits is decided when it is reused"),
        "grade_timeout_seconds": _out("whether a saved attempt fits the limits is decided when it is reused"),
        "timeout_seconds": _out("whether a saved attempt fits the limits is decided when it is reused"),
        "group": _in("group", "members share a sandbox"),
        "code": _in("each entry is a part of its own, by its name"),
        "hidden": _in("grader", "by their digests"),
    },
    Folder: {
        "path": _out("where it is; what is in it counts by its digest"),
        "digest": _in("task, grader"),
    },
    Artifact: {
        "path": _in("task, artifacts"),
        "required": _in("task, artifacts", "whether it is missing shows in the issues"),
        "max_bytes": _in("task, artifacts", "what is cut is not graded"),
    },
    Reference: {
        name: _in("task", "only for `oracle`; variables without credentials")
        for name in ("answer", "script", "command", "folders", "env", "calls", "steps")
    },
    TimeLimits: {
        name: _out("whether a saved attempt fits the limits is decided when it is reused")
        for name in (
            "open_seconds", "setup_seconds", "agent_seconds", "collect_seconds", "grade_seconds", "dispose_seconds",
            "try_seconds", "agent_idle_seconds", "task_factor",
        )
    },
}  # fmt: skip
"""Every field of what is declared, with the decision; a test fails when a field is missing here."""
