"""Each field of an experiment, changed alone through each door: carried or executed as spec 04 P2 says.

A field that is added to the schema and not to the table here fails the test: somebody has to say whether it counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doors import BASE, SCRIPT, beside, over, tree_of, write
from program import Ended
from test_doors import ABLE, paths_of

from proctor.config.schema import ExecutionConfig, ExperimentConfig, PriceConfig

Proctor = Callable[..., Ended]

CARRIED = None

JUDGE: dict[str, Any] = {
    "base_url": "http://other.example/v1", "api_key": "sk-0123456789", "identity": "the same", "params": {"text": "x"},
    "max_connections": 3, "requests_per_minute": 7.5,
}  # fmt: skip

FIELDS: dict[str, tuple[Any, str | None]] = {
    "harness.params": ({"system": "be brief"}, "harness"),
    "model.base_url": ("http://other.example/v1", "model"),
    "model.api_key": ("sk-0123456789", CARRIED),
    "model.identity": ("the same", "model"),
    "model.params": ({"script": "doors_script:box_hook"}, "model"),
    "model.max_connections": (3, CARRIED),
    "model.requests_per_minute": (7.5, CARRIED),
    **{f"model.price.{kind}": (3.0, CARRIED) for kind in PriceConfig.model_fields},
    "judge.id": ("mock/fixed", CARRIED),  # of tasks whose grader asks none
    **{f"judge.{name}": (value, CARRIED) for name, value in JUDGE.items()},
    **{f"judge.price.{kind}": (3.0, CARRIED) for kind in PriceConfig.model_fields},
    "environment.env": ({"PORT": "8080"}, "environment"),
    "environment.proxy": (True, "environment"),
    "environment.image": ("alpine:3", "environment"),
    "environment.build": ({"context": "ctx", "target": "t"}, "environment"),
    "environment.compose": ({"file": "ctx/c.yaml"}, "environment"),
    "environment.resources.cpus": (0.5, "environment"),
    "environment.resources.memory": ("64MiB", "environment"),
    "environment.resources.processes": (64, "environment"),
    "environment.network": ({"agent": "none", "grade": "full"}, "environment"),
    "environment.user": ("agent", "environment"),
    "environment.workdir": ("/app", "environment"),
    "attempts": (1, CARRIED),
    "max_concurrency": (3, CARRIED),
    "artifacts": ([{"path": "a"}], "artifacts"),
    "open_timeout_seconds": (11.5, CARRIED),
    "setup_timeout_seconds": (11.5, CARRIED),
    "agent_timeout_seconds": (1000.0, CARRIED),
    "agent_idle_timeout_seconds": (11.5, CARRIED),
    "collect_timeout_seconds": (11.5, CARRIED),
    "grade_timeout_seconds": (11.5, CARRIED),
    "dispose_timeout_seconds": (11.5, CARRIED),
    "timeout_seconds": (1000.0, CARRIED),
    "max_retries": (4, CARRIED),
    "retry_pattern_list": (["zzz"], CARRIED),
    "early_exit": (True, CARRIED),
    "budget": (2.5, CARRIED),
    "expected_cost_per_attempt": (0.25, CARRIED),
    "stop_on_repeated": (7, CARRIED),
    "setup": ("doors_script:hook", "setup"),
    "teardown": ("doors_script:hook", CARRIED),
    "sandbox_setup": ("doors_script:box_hook", "sandbox_setup"),
    "sandbox_teardown": ("doors_script:box_hook", CARRIED),
    "shared_state.key": ("db", "shared_state"),
    "sandbox_reuse": (True, "sandbox_reuse"),
    "flags": ({"depth": 2}, "flags"),
    "tags": (["smoke"], CARRIED),
    "labels": ({"for": "people"}, CARRIED),
}
"""By the path of a field: another value, and the part of the identity that it changes, if any."""

OTHER_DIRECTORY = {"benchmark.id", "harness.id", "model.id"}
ELSEWHERE = {"benchmark.params", "environment.provider", "grading"}
"""What counts through the tasks; and of what there is only one value here."""


def by_run(tree: dict[str, Any]) -> list[str]:
    typed = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in leaves(tree)]
    return ["run", *BASE.values(), *(word for each in typed for word in ("--set", each)), "--reuse"]


def leaves(tree: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in tree.items():
        found += leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)]
    return found


def by_launch(tree: dict[str, Any]) -> list[str]:
    request = {"name": "e", **over(BASE, tree), "runtime": {"reuse": True}}
    return ["launch", write("launch.yaml", {"requests": [request]})]


def by_defaults(tree: dict[str, Any]) -> list[str]:
    file = {"defaults": over(BASE, tree), "requests": [{"name": "e"}]}
    return ["launch", write("launch.yaml", file), "--reuse"]


def by_exp(tree: dict[str, Any]) -> list[str]:
    write("proctor.yaml", {})
    Path("experiments").mkdir(exist_ok=True)
    Path("experiments/e.py").write_text(
        f"from proctor import Experiment\nexperiment = Experiment(**{over(BASE, tree)!r})\n"
    )
    return ["exp"]


def by_project(tree: dict[str, Any]) -> list[str]:
    """In proctor.yaml, as far as it can be said there; the rest as by `run`."""
    tree = dict(tree)
    file: dict[str, Any] = {}
    for name, table in (("model", "models"), ("harness", "harnesses"), ("environment", "environments")):
        if name in tree:
            file[table] = {BASE.get(name, ABLE): tree.pop(name)}
    file["execution"] = {name: tree.pop(name) for name in (*tree,) if name in ExecutionConfig.model_fields}
    write("proctor.yaml", file)
    return by_run(tree)


DOORS = {"project": by_project, "run": by_run, "launch": by_launch, "defaults": by_defaults, "exp": by_exp}


def decisions(proctor: Proctor, words: list[str]) -> set[str]:
    page = proctor("plan", *words, "--json")
    assert page.code == 0, page.err
    records = map(json.loads, page.out.splitlines())
    return {one["decision"].partition(" @")[0] for one in records if one["type"] == "slot"}


def test_P2_every_field_is_in_the_table() -> None:
    assert set(FIELDS) | OTHER_DIRECTORY | ELSEWHERE == set(paths_of(ExperimentConfig))


@pytest.fixture(autouse=True)
def able(environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the provider take every environment; a path is relative to the file that says it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROCTOR_PROVIDER", ABLE)
    for folder in ("ctx", "experiments/ctx"):
        write(f"{folder}/Dockerfile", "FROM scratch")
        write(f"{folder}/c.yaml", {"services": {}})


@pytest.mark.sampled
@pytest.mark.parametrize("door", DOORS)
def test_P2_a_field_alone_is_carried_or_executed(door: str, proctor: Proctor) -> None:
    base = {"model": {"params": SCRIPT, "base_url": "http://one.example/v1"}, "benchmark": {"params": {"tasks": 2}}}
    declared = DOORS[door]
    assert proctor(*declared({**base, "attempts": 2})).code in (0, 1)
    assert decisions(proctor, declared({**base, "attempts": 2})) == {"reuse"}
    wrong: list[str] = []
    for path, (value, part) in FIELDS.items():
        found = decisions(proctor, declared(over({**base, **beside(path), "attempts": 2}, tree_of(path, value))))
        expected = "reuse" if part is CARRIED else f"execute: {part} changed ("
        if len(found) != 1 or not next(iter(found)).startswith(expected):
            wrong.append(f"{path}: {found}")
    assert not wrong, "\n".join(wrong)
