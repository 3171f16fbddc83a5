"""Every field of the schema, set through every door, reaches what is run (spec 02; cases/conf 159).

A field that is added to the schema and not to the tables here fails the test: somebody has to say where it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from doors import FIELD_DOORS, SCRIPT, SECTION_DOORS, Reached, command_line, flag_of, write
from pydantic import BaseModel

from proctor.cli.typed import FIELD_OPTIONS, SECTION_OPTIONS
from proctor.config.project_schema import ProjectConfig
from proctor.config.schema import OF_EXECUTION, SECTIONS, ExperimentConfig, PriceConfig
from proctor.config.settle import model_in
from proctor.errors import UsageError
from proctor.model.attempt import GradingMode
from proctor.model.environment import Network
from proctor.model.price import ModelPrice
from proctor.model.spec import Artifact

ABLE = "plugins_provider:Able"
"""A provider that takes every environment."""


@pytest.fixture(autouse=True)
def here(environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROCTOR_PROVIDER", ABLE)
    for folder in ("ctx", "experiments/ctx"):  # a path is relative to the file that says it
        write(f"{folder}/D", "FROM scratch")
        write(f"{folder}/Dockerfile", "FROM scratch")
        write(f"{folder}/c.yaml", {"services": {}})


def paths_of(schema: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the paths of all fields that hold a value."""
    for name, field in schema.model_fields.items():
        inner = model_in(field.annotation)
        if inner is None or getattr(inner, "may_be_text", False):
            yield prefix + name
        else:
            yield from paths_of(inner, f"{prefix}{name}.")


Read = Callable[[Reached], Any]


def limit(name: str) -> Read:
    return lambda found: getattr(found[0].limits, name)


def of_experiment(name: str) -> Read:
    return lambda found: getattr(found[0], name)


def of_model(name: str) -> Read:
    return lambda found: getattr(found[0].model, name)


def of_judge(name: str) -> Read:
    return lambda found: getattr(found[0].judge, name, None)


def of_retry(name: str) -> Read:
    return lambda found: getattr(found[0].retry, name)


def of_controls(name: str) -> Read:
    return lambda found: getattr(found[1], name)


def of_environment(name: str) -> Read:
    return lambda found: getattr(found[0].environment, name)


def of_resources(name: str) -> Read:
    return lambda found: getattr(found[0].environment.resources, name)


def built(found: Reached) -> Any:
    build = found[0].environment.build
    return build and (Path(build.context).name, build.dockerfile, build.args, build.target)


def composed(found: Reached) -> Any:
    compose = found[0].environment.compose
    return compose and (Path(compose.file).name, compose.service)


def networks(found: Reached) -> Any:
    own = found[0].environment
    return [own.network, own.setup_network, own.grade_network]


PHASES = {"setup": "full", "agent": {"allow": ["a.example.com"]}, "grade": "none"}
BUILD = {"context": "ctx", "dockerfile": "D", "args": {"A": "1"}, "target": "t"}

FIELDS: dict[str, tuple[Any, Read, Any]] = {
    "benchmark.id": ("trivial", lambda found: found[0].benchmark.id, "trivial"),
    "benchmark.params": ({"tasks": 3}, lambda found: found[0].benchmark.params["tasks"], 3),
    "harness.id": ("chat", lambda found: found[0].harness.id, "chat"),
    "harness.params": ({"system": "1e5"}, lambda found: found[0].harness.params["system"], "1e5"),
    "model.id": ("mock/script", of_model("id"), "mock/script"),
    "model.base_url": ("http://host/v1", of_model("base_url"), "http://host/v1"),
    "model.api_key": ("sk-0123456789", of_model("api_key"), "sk-0123456789"),
    "model.identity": ("7e10", of_model("identity"), "7e10"),
    "model.params": (SCRIPT, lambda found: found[0].model.params, SCRIPT),
    "model.max_connections": (3, of_model("max_connections"), 3),
    "model.requests_per_minute": (7.5, of_model("requests_per_minute"), 7.5),
    **{
        f"model.price.{kind}": (0, lambda found, kind=kind: getattr(found[0].model.price, kind, None), 0)
        for kind in PriceConfig.model_fields
    },
    "judge.id": ("mock/fixed", of_judge("id"), "mock/fixed"),
    "judge.base_url": ("http://host/v1", of_judge("base_url"), "http://host/v1"),
    "judge.api_key": ("sk-0123456789", of_judge("api_key"), "sk-0123456789"),
    "judge.identity": ("7e10", of_judge("identity"), "7e10"),
    "judge.params": (SCRIPT, of_judge("params"), SCRIPT),
    "judge.max_connections": (3, of_judge("max_connections"), 3),
    "judge.requests_per_minute": (7.5, of_judge("requests_per_minute"), 7.5),
    **{
        f"judge.price.{kind}": (0, lambda found, kind=kind: getattr(of_judge("price")(found), kind, None), 0)
        for kind in PriceConfig.model_fields
    },
    "environment.provider": ("local", lambda found: found[0].environment.provider, "local"),
    "environment.env": ({"PORT": "8080"}, lambda found: dict(found[0].environment.env), {"PORT": "8080"}),
    "environment.proxy": (True, of_environment("proxy"), True),
    "environment.image": ("alpine:3", of_environment("image"), "alpine:3"),
    "environment.build": (BUILD, built, ("ctx", "D", (("A", "1"),), "t")),
    "environment.compose": ({"file": "ctx/c.yaml", "service": "app"}, composed, ("c.yaml", "app")),
    "environment.resources.cpus": (1.5, of_resources("cpus"), 1.5),
    "environment.resources.memory": ("512MiB", of_resources("memory_bytes"), 512 * 1024**2),
    "environment.resources.processes": (64, of_resources("processes"), 64),
    "environment.network": (PHASES, networks, [Network("allow", ("a.example.com",)), Network(), Network("none")]),
    "environment.user": ("1000", of_environment("user"), "1000"),
    "environment.workdir": ("/app/", of_environment("workdir"), "/app"),
    "attempts": (3, of_experiment("attempts"), 3),
    "max_concurrency": (3, of_experiment("max_concurrency"), 3),
    "grading": ("none", of_experiment("grading"), GradingMode.NONE),
    "artifacts": ([{"path": "a"}], of_experiment("artifacts"), (Artifact("a"),)),
    "open_timeout_seconds": (11.5, limit("open_seconds"), 11.5),
    "setup_timeout_seconds": (11.5, limit("setup_seconds"), 11.5),
    "agent_timeout_seconds": (11.5, limit("agent_seconds"), 11.5),
    "agent_idle_timeout_seconds": (11.5, limit("agent_idle_seconds"), 11.5),
    "collect_timeout_seconds": (11.5, limit("collect_seconds"), 11.5),
    "grade_timeout_seconds": (11.5, limit("grade_seconds"), 11.5),
    "dispose_timeout_seconds": (11.5, limit("dispose_seconds"), 11.5),
    "timeout_seconds": (11.5, limit("try_seconds"), 11.5),
    "max_retries": (4, of_retry("max_retries"), 4),
    "retry_pattern_list": (["a.*", "b"], of_retry("patterns"), ("a.*", "b")),
    "early_exit": (True, of_experiment("early_exit"), True),
    "budget": (2.5, of_experiment("budget_usd"), 2.5),
    "expected_cost_per_attempt": (0.25, of_experiment("expected_cost_usd"), 0.25),
    "stop_on_repeated": (7, of_experiment("stop_on_repeated"), 7),
    "setup": ("doors_script:hook", of_experiment("setup"), "doors_script:hook"),
    "teardown": ("doors_script:hook", of_experiment("teardown"), "doors_script:hook"),
    "sandbox_setup": ("doors_script:box_hook", of_experiment("sandbox_setup"), "doors_script:box_hook"),
    "sandbox_teardown": ("doors_script:box_hook", of_experiment("sandbox_teardown"), "doors_script:box_hook"),
    "shared_state.key": ("db", of_experiment("shared_state_key"), "db"),
    "sandbox_reuse": (True, of_experiment("sandbox_reuse"), True),
    "flags": ({"depth": 2}, lambda found: dict(found[0].flags), {"depth": 2}),
    "tags": (["a", "b"], of_experiment("tags"), ("a", "b")),
    "labels": ({"team": "7e10"}, lambda found: dict(found[0].labels), {"team": "7e10"}),
}
"""By the path of a field: a value that is not its default, where it is read, and what is found there."""

NAMED = {"benchmark.id", "harness.id", "model.id", "model.params", "grading"}
"""Fields whose value here is that of every experiment, as no other exists for all of them."""

SECTION_FIELDS: dict[str, tuple[Any, Read, Any]] = {
    "execution.task_concurrency": (3, of_controls("task_concurrency"), 3),
    "execution.attempts": (3, of_experiment("attempts"), 3),
    "execution.max_retries": (4, of_retry("max_retries"), 4),
    "execution.retry_pattern_list": (["a.*"], of_retry("patterns"), ("a.*",)),
    "execution.agent_timeout_seconds": (11.5, limit("agent_seconds"), 11.5),
    "execution.timeout_seconds": (11.5, limit("try_seconds"), 11.5),
    "execution.retry_min_delay_seconds": (1.5, of_retry("min_delay_seconds"), 1.5),
    "execution.retry_max_delay_seconds": (99.5, of_retry("max_delay_seconds"), 99.5),
    "execution.retry_after_cap_seconds": (99.5, of_retry("retry_after_cap_seconds"), 99.5),
    "execution.timeout_multiplier": (2.0, limit("grade_seconds"), 1200.0),
    "runtime.provider_limits": ({"local": 7}, lambda found: found[1].provider_limits.get("local"), 7),
    "runtime.results_dir": ("elsewhere", of_controls("results_dir"), "elsewhere"),
    "runtime.env_open_qps": ({"local": 4.5}, lambda found: found[1].open_per_second.get("local"), 4.5),
    "runtime.checkpoint_resume": (False, of_controls("checkpoint_resume"), False),
    "runtime.record_url": ("sqlite:////tmp/x", of_controls("record_url"), "sqlite:////tmp/x"),
    "runtime.lease_wait_seconds": (11.5, of_controls("lease_wait_seconds"), 11.5),
    "runtime.timeout_seconds": (11.5, of_controls("timeout_seconds"), 11.5),
    "runtime.keep_environment": ("failed", of_controls("keep_environment"), "failed"),
    "runtime.host_cpus": (1.5, of_controls("host_cpus"), 1.5),
    "runtime.host_memory": ("4GiB", of_controls("host_memory_bytes"), 4 * 1024**3),
    "runtime.max_build_concurrency": (3, of_controls("max_build_concurrency"), 3),
    "runtime.cleanup_grace_seconds": (11.5, of_controls("cleanup_grace_seconds"), 11.5),
}

NOT_YET: dict[str, Any] = {"runtime.engine": "ray"}
"""Fields whose feature does not exist: refused through every door, never ignored."""


def test_02_every_field_of_an_experiment_is_in_the_table() -> None:
    assert set(FIELDS) == set(paths_of(ExperimentConfig))


def test_02_every_field_of_a_section_is_in_the_table() -> None:
    known = {path for name, schema in SECTIONS.items() for path in paths_of(schema, f"{name}.")}
    assert set(SECTION_FIELDS) | set(NOT_YET) == known


def test_the_values_in_the_tables_are_not_the_defaults() -> None:
    plain = command_line()
    assert {path for path, (_, read, expected) in FIELDS.items() if read(plain) == expected} == NAMED - {
        "model.params"
    } | {"model.params"}
    assert not [path for path, (_, read, expected) in SECTION_FIELDS.items() if read(plain) == expected]


@pytest.mark.parametrize("door", FIELD_DOORS)
@pytest.mark.parametrize("path", FIELDS)
def test_02_a_field_reaches_the_experiment_through_every_door(path: str, door: str) -> None:
    value, read, expected = FIELDS[path]
    if door == "set" and isinstance(value, dict) and len(value) == 1:
        [(key, inner)] = value.items()
        found = FIELD_DOORS[door](f"{path}.{key}", inner)
    else:
        found = FIELD_DOORS[door](path, value)
    assert read(found) == expected


@pytest.mark.parametrize("door", SECTION_DOORS)
@pytest.mark.parametrize("path", SECTION_FIELDS)
def test_02_a_field_of_a_section_reaches_what_is_run_through_every_door(path: str, door: str) -> None:
    value, read, expected = SECTION_FIELDS[path]
    assert read(SECTION_DOORS[door](path, value)) == expected


@pytest.mark.parametrize("door", SECTION_DOORS)
@pytest.mark.parametrize("path", NOT_YET)
def test_what_is_not_supported_is_refused_through_every_door(path: str, door: str) -> None:
    with pytest.raises(UsageError, match="is not supported yet"):
        SECTION_DOORS[door](path, NOT_YET[path])


@pytest.mark.parametrize("path", [".".join(where) for _, where in (*FIELD_OPTIONS.values(), *SECTION_OPTIONS.values())])
def test_02_an_option_reaches_what_is_run(path: str) -> None:
    value, read, expected = {**FIELDS, **SECTION_FIELDS}[path]
    typed = flag_of(path, value)
    assert typed is not None
    assert read(command_line(*typed)) == expected


@pytest.mark.parametrize("field", sorted(OF_EXECUTION))
def test_02_what_an_experiment_says_itself_wins_over_what_holds_for_those_that_say_nothing(field: str) -> None:
    value, read, expected = FIELDS[field]
    other = {"attempts": 9, "max_retries": 9, "retry_pattern_list": ["z"]}.get(field, 99.0)
    write("proctor.yaml", {"execution": {field: other}})
    assert read(command_line()) != expected
    for door in ("set", "request", "defaults", "call"):
        assert read(FIELD_DOORS[door](field, value)) == expected


# ------------------------------------------------------------------------------------------- tables of a project

TABLES: dict[str, tuple[dict[str, Any], Read, Any]] = {
    "benchmarks.ID.params": ({"benchmarks": {"trivial": {"params": {"tasks": 3}}}}, *FIELDS["benchmark.params"][1:]),
    "harnesses.ID.params": ({"harnesses": {"chat": {"params": {"system": "1e5"}}}}, *FIELDS["harness.params"][1:]),
    "environments.PROVIDER.env": (
        {"environments": {ABLE: {"env": {"PORT": "8080"}}}},
        *FIELDS["environment.env"][1:],
    ),
    **{
        f"environments.PROVIDER.{name}": (
            {"environments": {ABLE: {name: FIELDS[f"environment.{name}"][0]}}},
            *FIELDS[f"environment.{name}"][1:],
        )
        for name in ("image", "build", "compose", "network", "user", "workdir", "proxy")
    },
    "environments.PROVIDER.resources": (
        {"environments": {ABLE: {"resources": {"cpus": 1.5}}}},
        *FIELDS["environment.resources.cpus"][1:],
    ),
    **{
        f"models.NAME.{name}": (
            {"models": {"mock/script": {name: FIELDS[f"model.{name}"][0]}}},
            *FIELDS[f"model.{name}"][1:],
        )
        for name in ("base_url", "api_key", "identity", "params", "max_connections", "requests_per_minute")
    },
    "models.NAME.price": (
        {"models": {"mock/script": {"price": {"input": 0}}}},
        lambda found: found[0].model.price,
        ModelPrice(input=0),
    ),
}  # fmt: skip


def test_02_every_field_of_a_table_is_in_the_table() -> None:
    keys = {"models": "NAME", "benchmarks": "ID", "harnesses": "ID", "environments": "PROVIDER"}
    known: set[str] = set()
    for table, key in keys.items():
        annotation: Any = ProjectConfig.model_fields[table].annotation
        [schema] = [kind for kind in annotation.__args__ if isinstance(kind, type) and issubclass(kind, BaseModel)]
        known |= {f"{table}.{key}.{name}" for name in schema.model_fields}
    assert set(TABLES) | {"models.NAME.id"} == known


@pytest.mark.parametrize("door", ["project", "config"])
@pytest.mark.parametrize("path", TABLES)
def test_02_defaults_of_a_project_reach_the_experiment(path: str, door: str) -> None:
    tree, read, expected = TABLES[path]
    if door == "project":
        write("proctor.yaml", tree)
        assert read(command_line()) == expected
    else:
        assert read(command_line("--config", write("more.yaml", tree))) == expected


def test_02_a_model_is_named_by_its_alias_through_every_door() -> None:
    write("proctor.yaml", {"models": {"gpt": {"id": "mock/script", "params": SCRIPT, "max_connections": 3}}})
    for door in ("request", "call", "python", "matrix"):
        model = FIELD_DOORS[door]("model", "gpt")[0].model
        assert model is not None
        assert (model.id, model.max_connections) == ("mock/script", 3), door
