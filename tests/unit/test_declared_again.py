"""An experiment that is declared again from the plan of a run has all that counts in its identity (spec 04)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proctor.authoring.environment_spec import spec_of
from proctor.cli.declared_again import NO_CREDENTIAL, declared_again, fields_again
from proctor.config.layers import plain_value
from proctor.config.project import Project
from proctor.config.schema import EnvironmentConfig, ExperimentConfig, ModelConfig
from proctor.core.identity_fields import FIELD_DECISIONS
from proctor.errors import UsageError
from proctor.model.attempt import GradingMode
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Artifact, Component, Experiment, ModelSpec
from proctor.store.plain import plain_json
from proctor.store.plan_file import PlanFile, PlannedSlot

FULL = Experiment(
    name="base",
    benchmark=Component("b", {"x": 1}),
    harness=Component("h", {"y": 2}),
    model=ModelSpec("m", "http://a.example/v1", "a credential", "same", {"temperature": 0}, 3, 4.0),
    judge=ModelSpec("j", "http://b.example/v1", "another credential", params={"temperature": 1}),
    environment=EnvironmentSpec("local", env={"A": "b"}),
    attempts=3,
    grading=GradingMode.FRESH,
    setup="p:a",
    teardown="p:b",
    shared_state_key="k",
    sandbox_reuse=True,
    flags={"f": 1},
    artifacts=(Artifact("out", True, 7),),
    sandbox_setup="p:c",
    sandbox_teardown="p:d",
)
CALLED = {"shared_state_key": "shared_state"}
"""Fields that are called otherwise where people declare them."""


def plan(experiment: Experiment, ordinals: int = 2) -> PlanFile:
    slots = tuple(PlannedSlot("t", ordinal, "i") for ordinal in range(ordinals))
    plain: Any = plain_json(experiment, "experiment")
    return PlanFile(plain, slots)


def test_P2_every_field_that_counts_is_declared_again() -> None:
    tree = fields_again([plan(FULL)]).tree
    counts = {name for name, decision in FIELD_DECISIONS[Experiment].items() if decision.part} - {"code"}
    assert {CALLED.get(name, name) for name in counts} <= tree.keys()
    config = ExperimentConfig.model_validate(tree)
    for name in counts - {
        "artifacts",
        "model",
        "judge",
        "environment",
        "benchmark",
        "harness",
        "shared_state_key",
        "grading",
    }:
        assert getattr(config, name) == getattr(FULL, name), name
    assert (config.benchmark.params, config.harness.params) == ({"x": 1}, {"y": 2})
    assert (config.grading, config.attempts) == ("fresh", 2)
    assert [(one.path, one.required, one.max_bytes) for one in config.artifacts] == [("out", True, 7)]
    for again, declared in ((config.model, FULL.model), (config.judge, FULL.judge)):
        assert again is not None
        for name in ModelConfig.model_fields.keys() - {"api_key"}:
            assert getattr(again, name) == getattr(declared, name), name
        assert again.api_key == NO_CREDENTIAL
    assert spec_of(config.environment, "", _here) == replace(FULL.environment, provider="")


@contextmanager
def _here(path: tuple[str, ...]) -> Generator[Path]:
    yield Path()


ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "image": {"image": "alpine:3"},
    "build": {"build": {"context": "ctx", "dockerfile": "D", "args": {"A": "1"}, "target": "t"}},
    "compose": {"compose": {"file": "ctx/c.yaml", "service": "app"}},
    "path": {"image": "./ctx"},
    "env": {"env": {"A": "b"}, "proxy": True},
    "resources": {"resources": {"cpus": 1.5, "memory": "1GiB", "processes": 9}},
    "none": {"network": "none"},
    "hosts": {"network": {"allow": ["b.example.com", "a.example.com:80"]}},
    "phases": {"network": {"setup": "full", "agent": "none", "grade": {"allow": ["a.example.com"]}}},
    "setup alone": {"network": {"setup": "none"}},
    "user": {"user": "agent", "workdir": "/app"},
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_P2_an_environment_is_declared_again_whatever_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ctx").mkdir()
    (tmp_path / "ctx/D").write_text("FROM scratch\n")
    (tmp_path / "ctx/c.yaml").write_text("services: {}\n")
    declared = spec_of(EnvironmentConfig.model_validate(ENVIRONMENTS[name]), "p", _here)
    tree = fields_again([plan(replace(FULL, environment=declared))]).tree["environment"]
    assert tree.pop("provider") == "p"
    assert spec_of(EnvironmentConfig.model_validate(tree), "p", _here) == declared
    assert (
        EnvironmentConfig.model_validate(plain_value(declared)).model_dump()
        == EnvironmentConfig.model_validate({**tree, "provider": "p"}).model_dump()
    )
    told = replace(declared, image_digest="sha256:1")
    assert fields_again([plan(replace(FULL, environment=told))]).tree["environment"] == {**tree, "provider": "p"}


def test_what_says_nothing_is_left_out() -> None:
    tree = fields_again([plan(Experiment("base", Component("b"), Component("h")), 1)]).tree
    assert tree.keys() == {"benchmark", "harness", "environment", "grading", "attempts"}


def test_C1_limits_and_retries_are_those_of_today() -> None:
    tree = fields_again([plan(FULL)]).tree
    assert not [name for name in tree if "timeout" in name or "retr" in name]


@pytest.mark.parametrize("names", [[], ["trivial", "nop"]])
def test_tags_and_labels_are_those_of_the_newest_run(names: list[str]) -> None:
    newest = Experiment("base", Component("b"), Component("h"), tags=("a", "b"), labels={"who": "me"})
    older = Experiment("base", Component("b"), Component("h"), tags=("c",))
    tree = declared_again(Project(Path()), [plan(newest), plan(older)], names).fields.tree
    assert (tree["tags"], tree["labels"]) == (["a", "b"], {"who": "me"})
    tree = declared_again(
        Project(Path()), [plan(Experiment("base", Component("b"), Component("h")))], names
    ).fields.tree
    assert tree.keys().isdisjoint(("tags", "labels"))


def test_runs_that_were_declared_differently_are_not_mixed() -> None:
    other = Experiment("base", Component("b", {"x": 1}), Component("h", {"y": 3}), flags={"f": 1})
    with pytest.raises(UsageError, match="`artifacts`, `environment`, `grading`, `harness`, `judge`, `model`"):
        fields_again([plan(FULL), plan(other)])
    assert fields_again([plan(FULL, 1), plan(FULL, 4)]).tree["attempts"] == 4


@pytest.mark.parametrize("name", ["harness", "benchmark", "flags", "model"])
def test_a_value_that_was_not_written_is_not_made_up(name: str) -> None:
    found = plan(FULL)
    experiment: Any = found.experiment
    experiment[name] = {"id": "x", "params": {"a": ["[redacted …abcd]"]}}
    with pytest.raises(UsageError, match=f"`{name}` of the run holds a credential"):
        fields_again([found])
