"""Every field that a launch file can set reaches what is run (spec 02 Parallel names)."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from proctor.cli.controls import Controls
from proctor.cli.entry import open_project, resolve_declared
from proctor.cli.launching import of_file
from proctor.cli.resolve import Resolved
from proctor.config.schema import (
    ExecutionConfig,
    ExperimentConfig,
    ModelConfig,
    RuntimeConfig,
)
from proctor.errors import UsageError

FIELDS: dict[str, Any] = {
    "benchmark": {"id": "trivial", "params": {"tasks": 3}},
    "harness": "nop",
    "model": "mock/echo",
    "judge": "mock/echo",
    "environment": {"provider": "local", "env": {"A": "b"}},
    "attempts": 3,
    "max_concurrency": 3,
    "grading": "fresh",
    "artifacts": [{"path": "out", "required": True, "max_bytes": 10}],
    "open_timeout_seconds": 7, "setup_timeout_seconds": 7, "agent_timeout_seconds": 7, "agent_idle_timeout_seconds": 7,
    "collect_timeout_seconds": 7, "grade_timeout_seconds": 7, "dispose_timeout_seconds": 7, "timeout_seconds": 7,
    "max_retries": 7,
    "retry_pattern_list": ["x"],
    "early_exit": True,
    "budget": 7,
    "expected_cost_per_attempt": 7,
    "stop_on_repeated": 7,
    "setup": "launch_plugins:fails", "teardown": "launch_plugins:fails",
    "sandbox_setup": "launch_plugins:looks", "sandbox_teardown": "launch_plugins:looks",
    "shared_state": {"key": "k"},
    "sandbox_reuse": True,
    "flags": {"a": 1},
    "tags": ["a"],
    "labels": {"a": "b"},
}  # fmt: skip
"""By field of an experiment: a value that is not its default."""

BESIDE: dict[str, dict[str, Any]] = {
    "model": {"harness": "chat"},
    "grading": {"benchmark": "launch_plugins:Tightened"},
    "early_exit": {"attempts": 2},
}
"""What a field needs beside it."""

EXECUTION: dict[str, Any] = {
    "attempts": 3, "max_retries": 7, "retry_pattern_list": ["x"], "agent_timeout_seconds": 7, "timeout_seconds": 7,
    "retry_min_delay_seconds": 7, "retry_max_delay_seconds": 77, "retry_after_cap_seconds": 7, "timeout_multiplier": 2,
}  # fmt: skip

RUNTIME: dict[str, Any] = {
    "provider_limits": {"local": 7}, "results_dir": "elsewhere", "env_open_qps": {"local": 7},
    "checkpoint_resume": False, "record_url": "sqlite:///r.db", "lease_wait_seconds": 7, "timeout_seconds": 7,
    "cleanup_grace_seconds": 7, "host_cpus": 1.5, "host_memory": "3g", "max_build_concurrency": 7,
    "keep_environment": "all",
}  # fmt: skip

MODEL: dict[str, Any] = {
    "base_url": "http://127.0.0.1:1/v1", "api_key": "sk-0123456789", "identity": "x", "params": {"text": "b"},
    "max_connections": 7, "requests_per_minute": 7,
    "price": {"input": 7},
}  # fmt: skip

BASE: dict[str, Any] = {"benchmark": "trivial", "harness": "oracle"}


@pytest.fixture(autouse=True)
def here(environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def launched(tree: dict[str, Any]) -> tuple[list[Resolved], Controls]:
    Path("launch.yaml").write_text(json.dumps(tree))
    return resolve_declared(open_project({}), lambda project: of_file(Path("launch.yaml"), project))


def experiment_of(fields: dict[str, Any], door: str) -> dict[str, Any]:
    """Return the one experiment of a launch file that says this in its defaults, in a request, or in a matrix."""
    if door == "defaults":
        tree: dict[str, Any] = {"defaults": fields, "requests": [{"name": "a"}]}
    elif door == "request":
        tree = {"requests": [{"name": "a", **fields}]}
    else:  # a list stands for its own values there where it is wrapped in one
        matrix = {name: [value] if isinstance(value, list) else value for name, value in fields.items()}
        tree = {"matrix": {"name": "a", **matrix}}
    [one], _ = launched(tree)
    return asdict(one.experiment)


DOORS = ("defaults", "request", "matrix")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("field", ExperimentConfig.model_fields)
def test_02_every_field_of_an_experiment_reaches_the_plan(field: str, door: str) -> None:
    beside = {**BASE, **BESIDE.get(field, {})}
    without = {name: value for name, value in beside.items() if name != field}
    asked = {**without, field: FIELDS[field]}
    before = experiment_of({**BASE, **without} if field != "model" else BASE, "request")
    assert experiment_of(asked, door) != before


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("field", [name for name in ExecutionConfig.model_fields if name != "task_concurrency"])
def test_02_every_field_of_execution_reaches_the_plan(field: str, door: str) -> None:
    fields = {**BASE, "agent_timeout_seconds": 1} if field == "timeout_multiplier" else BASE
    before = experiment_of(fields, "request")
    after = experiment_of({**fields, "execution": {field: EXECUTION[field]}}, door)
    assert after != before


@pytest.mark.parametrize("field", EXECUTION)
def test_02_execution_at_the_top_holds_for_every_request(field: str) -> None:
    fields = {**BASE, "agent_timeout_seconds": 1} if field == "timeout_multiplier" else BASE
    before, _ = launched({"requests": [{"name": "a", **fields}]})
    after, _ = launched({"execution": {field: EXECUTION[field]}, "requests": [{"name": "a", **fields}]})
    assert after[0].experiment != before[0].experiment


@pytest.mark.parametrize("field", MODEL)
def test_02_every_field_of_a_model_reaches_the_plan(field: str) -> None:
    model: dict[str, Any] = {"id": "mock/fixed", "params": {"text": "a"}}
    fields = {"benchmark": "trivial", "harness": "chat", "model": model}
    before = experiment_of(fields, "request")
    assert experiment_of({**fields, "model": {**model, field: MODEL[field]}}, "request") != before


def supported(field: str) -> bool:
    """Say whether a field of `runtime` has an effect already; those that have not refuse every value."""
    return field in RUNTIME


@pytest.mark.parametrize("field", RuntimeConfig.model_fields)
def test_02_every_field_of_runtime_reaches_the_invocation(field: str) -> None:
    request = {"requests": [{"name": "a", **BASE}]}
    if not supported(field):
        with pytest.raises(UsageError, match="is not supported yet"):
            launched({**request, "runtime": {field: "7"}})
        return
    _, before = launched(request)
    _, after = launched({**request, "runtime": {field: RUNTIME[field]}})
    assert after != before


def test_02_the_global_limit_reaches_the_invocation() -> None:
    for top in ({"task_concurrency": 7}, {"execution": {"task_concurrency": 7}}):
        _, controls = launched({**top, "requests": [{"name": "a", **BASE}]})
        assert (controls.task_concurrency, controls.concurrency_source) == (7, "from launch.yaml")


def test_every_field_has_a_value_here() -> None:
    assert set(FIELDS) == set(ExperimentConfig.model_fields)
    assert {*EXECUTION, "task_concurrency"} == set(ExecutionConfig.model_fields)
    assert set(MODEL) == set(ModelConfig.model_fields) - {"id"}


def test_02_aliases_and_defaults_of_the_project_hold_in_a_launch(tmp_path: Path) -> None:
    (tmp_path / "proctor.yaml").write_text(
        json.dumps({
            "models": {"m": {"id": "mock/fixed", "params": {"text": "ok"}, "max_connections": 4}},
            "benchmarks": {"trivial": {"params": {"tasks": 3}}},
            "environments": {"local": {"env": {"A": "b"}}},
        })
    )  # fmt: skip
    [one], controls = launched({"requests": [{"name": "a", "benchmark": "trivial", "harness": "chat", "model": "m"}]})
    assert one.experiment.model is not None
    assert (one.experiment.model.id, one.experiment.model.params) == ("mock/fixed", {"text": "ok"})
    assert one.experiment.benchmark.params["tasks"] == 3
    assert one.experiment.environment.env == {"A": "b"}
    assert [limit.max_connections for limit in controls.models.values()] == [4]


def test_02_parameters_of_another_thing_do_not_leak() -> None:
    tree = {
        "defaults": {**BASE, "model": {"id": "mock/fixed", "params": {"text": "ok"}}, "harness": "chat"},
        "requests": [{"name": "a", "model": "mock/echo"}, {"name": "b"}, {"name": "c", "model": {"id": "mock/fixed"}}],
    }
    first, second, third = (one.experiment.model for one in launched(tree)[0])
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.id, first.params) == ("mock/echo", {})
    assert second.params == third.params == {"text": "ok"}
