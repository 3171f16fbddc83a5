from __future__ import annotations

import dataclasses
import math
import time
from types import MappingProxyType

import pytest

from proctor.core.identity import (
    SharedIdentity,
    digest,
    experiment_parts,
    identity_of,
    model_endpoint,
    task_parts,
)
from proctor.core.identity_fields import FIELD_DECISIONS
from proctor.model.attempt import GradingMode
from proctor.model.environment import Build, Compose, EnvironmentSpec, Network, Resources
from proctor.model.price import ModelPrice
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

DECLARED = (
    Experiment,
    RetrySpec,
    Component,
    ModelSpec,
    EnvironmentSpec,
    Resources,
    Task,
    Folder,
    Reference,
    TimeLimits,
    Artifact,
    Network,
    Build,
    Compose,
)

MODEL = ModelSpec("openai/gpt-x", "https://api.example.com:8443/v1", "secret", None, {"temperature": 0})
BUILD = Build("/context", "digest of it", args=(("A", "1"),))
COMPOSE = Compose("/folder/compose.yaml", "digest of it")
ENVIRONMENT = EnvironmentSpec(
    "docker", "python:3.12", build=BUILD, compose=COMPOSE, env={"A": "1"}, resources=Resources(1.0, 1024),
    network=Network("allow", ("example.org", "example.com")),
)  # fmt: skip
EXPERIMENT = Experiment(
    name="e", benchmark=Component("b", {"n": 1}), harness=Component("h", {"system": "x"}), model=MODEL,
    environment=ENVIRONMENT, flags={"f": 1},
)  # fmt: skip
TASK = Task(
    id="t", grader=Component("text", {"expected": "42"}), prompt="what?", files={"a.txt": b"1"},
    reference=Reference("42", "echo 42"), tags=("x",), environment=ENVIRONMENT,
    artifacts=(Artifact("out.txt"),), hidden={"tests": Folder("/tests", "digest of it")},
)  # fmt: skip


def whole(experiment: Experiment = EXPERIMENT, task: Task = TASK, *, oracle: bool = False, ordinal: int = 0) -> str:
    shared = experiment_parts(experiment, benchmark_version="1", harness_version="1")
    own = task_parts(task, grader_version="1", with_reference=oracle, judge=experiment.judge)
    return identity_of(shared, own, ordinal)


def test_P2_every_declared_field_has_a_decision_with_a_reason():
    """A new field has to be decided: add it to FIELD_DECISIONS and, if it counts, to the part that it names."""
    assert set(FIELD_DECISIONS) == set(DECLARED)
    for declared in DECLARED:
        fields = {field.name for field in dataclasses.fields(declared)}
        assert fields == set(FIELD_DECISIONS[declared]), declared
        assert all(decision.reason for decision in FIELD_DECISIONS[declared].values())


def replaced(value, **changes):
    return dataclasses.replace(value, **changes)


def with_model(**changes) -> Experiment:
    return replaced(EXPERIMENT, model=replaced(MODEL, **changes))


def with_artifact(**changes) -> Task:
    return replaced(TASK, artifacts=(replaced(Artifact("out.txt"), **changes),))


def with_environment(**changes) -> Experiment:
    return replaced(EXPERIMENT, environment=replaced(ENVIRONMENT, **changes))


CHANGES: dict[tuple[type, str], Experiment | Task] = {
    (Experiment, "name"): replaced(EXPERIMENT, name="other"),
    (Experiment, "benchmark"): replaced(EXPERIMENT, benchmark=Component("other")),
    (Experiment, "harness"): replaced(EXPERIMENT, harness=Component("other", {"system": "x"})),
    (Experiment, "model"): replaced(EXPERIMENT, model=None),
    (Experiment, "judge"): replaced(EXPERIMENT, judge=ModelSpec("j")),
    (Experiment, "environment"): replaced(EXPERIMENT, environment=EnvironmentSpec()),
    (Experiment, "attempts"): replaced(EXPERIMENT, attempts=9),
    (Experiment, "max_concurrency"): replaced(EXPERIMENT, max_concurrency=1),
    (Experiment, "grading"): replaced(EXPERIMENT, grading=GradingMode.FRESH),
    (Experiment, "limits"): replaced(EXPERIMENT, limits=TimeLimits(agent_seconds=1.0)),
    (Experiment, "flags"): replaced(EXPERIMENT, flags={"f": 2}),
    (Experiment, "retry"): replaced(EXPERIMENT, retry=RetrySpec(3)),
    (Experiment, "early_exit"): replaced(EXPERIMENT, early_exit=True),
    (Experiment, "budget_usd"): replaced(EXPERIMENT, budget_usd=1.0),
    (Experiment, "expected_cost_usd"): replaced(EXPERIMENT, expected_cost_usd=1.0),
    (Experiment, "stop_on_repeated"): replaced(EXPERIMENT, stop_on_repeated=0),
    (Experiment, "setup"): replaced(EXPERIMENT, setup="hooks:setup"),
    (Experiment, "teardown"): replaced(EXPERIMENT, teardown="hooks:teardown"),
    (Experiment, "shared_state_key"): replaced(EXPERIMENT, shared_state_key="key"),
    (Experiment, "sandbox_reuse"): replaced(EXPERIMENT, sandbox_reuse=True),
    (Component, "id"): replaced(EXPERIMENT, harness=Component("g", {"system": "x"})),
    (Component, "params"): replaced(EXPERIMENT, harness=Component("h", {"system": "y"})),
    (ModelSpec, "id"): with_model(id="openai/gpt-y"),
    (ModelSpec, "base_url"): with_model(base_url="https://other.example.com/v1"),
    (ModelSpec, "api_key"): with_model(api_key="another"),
    (ModelSpec, "identity"): with_model(identity="house model"),
    (ModelSpec, "params"): with_model(params={"temperature": 1}),
    (ModelSpec, "max_connections"): with_model(max_connections=1),
    (ModelSpec, "requests_per_minute"): with_model(requests_per_minute=1.0),
    (ModelSpec, "price"): with_model(price=ModelPrice(input=1.0)),
    (EnvironmentSpec, "provider"): with_environment(provider="local"),
    (EnvironmentSpec, "image"): with_environment(image=None),
    (EnvironmentSpec, "env"): with_environment(env={"A": "2"}),
    (EnvironmentSpec, "resources"): with_environment(resources=Resources()),
    (EnvironmentSpec, "proxy"): with_environment(proxy=True),
    (EnvironmentSpec, "network"): with_environment(network=Network("full")),
    (EnvironmentSpec, "setup_network"): with_environment(setup_network=Network("full")),
    (EnvironmentSpec, "grade_network"): with_environment(grade_network=Network("none")),
    (EnvironmentSpec, "image_digest"): with_environment(image_digest="sha256:1"),
    (EnvironmentSpec, "build"): with_environment(build=None),
    (EnvironmentSpec, "compose"): with_environment(compose=None),
    (EnvironmentSpec, "user"): with_environment(user="nobody"),
    (EnvironmentSpec, "workdir"): with_environment(workdir="/app"),
    (EnvironmentSpec, "places"): with_environment(places=("/data",)),
    (EnvironmentSpec, "image_timeout_seconds"): with_environment(image_timeout_seconds=7.0),
    (Network, "mode"): with_environment(network=Network("none", ("example.org", "example.com"))),
    (Network, "hosts"): with_environment(network=Network("allow", ("example.org",))),
    **{
        (Build, name): with_environment(build=replaced(BUILD, **{name: value}))
        for name, value in (
            ("context", "/elsewhere"),
            ("digest", "another"),
            ("dockerfile", "Dockerfile.test"),
            ("args", ()),
            ("target", "test"),
        )
    },
    **{
        (Compose, name): with_environment(compose=replaced(COMPOSE, **{name: value}))
        for name, value in (("file", "/elsewhere/compose.yaml"), ("digest", "another"), ("service", "agent"))
    },
    (Resources, "processes"): with_environment(resources=Resources(1.0, 1024, 7)),
    (Resources, "cpus"): with_environment(resources=Resources(2.0, 1024)),
    (Resources, "memory_bytes"): with_environment(resources=Resources(1.0, 2048)),
    (Task, "id"): replaced(TASK, id="u"),
    (Task, "grader"): replaced(TASK, grader=Component("text", {"expected": "43"})),
    (Task, "prompt"): replaced(TASK, prompt="why?"),
    (Task, "files"): replaced(TASK, files={"a.txt": b"2"}),
    (Task, "reference"): replaced(TASK, reference=None),
    (Task, "tags"): replaced(TASK, tags=()),
    (Task, "environment"): replaced(TASK, environment=None),
    (Task, "grade_environment"): replaced(TASK, grade_environment=ENVIRONMENT),
    (Task, "grade_timeout_seconds"): replaced(TASK, grade_timeout_seconds=7.0),
    (Task, "hidden"): replaced(TASK, hidden={"other": Folder("/tests", "digest of it")}),
    (Folder, "path"): replaced(TASK, hidden={"tests": Folder("/elsewhere", "digest of it")}),
    (Folder, "digest"): replaced(TASK, hidden={"tests": Folder("/tests", "another")}),
    (Task, "needs_sandbox"): replaced(TASK, needs_sandbox=True),
    (Task, "artifacts"): replaced(TASK, artifacts=()),
    (Task, "agent_timeout_seconds"): replaced(TASK, agent_timeout_seconds=7.0),
    (Task, "timeout_seconds"): replaced(TASK, timeout_seconds=7.0),
    (Task, "group"): replaced(TASK, group="g"),
    (Task, "code"): replaced(TASK, code={"evals/t.py": "1"}),
    (Experiment, "sandbox_setup"): replaced(EXPERIMENT, sandbox_setup="hooks:prepare"),
    (Experiment, "sandbox_teardown"): replaced(EXPERIMENT, sandbox_teardown="hooks:clear"),
    (Experiment, "code"): replaced(EXPERIMENT, setup="hooks:setup", code={"setup": "1"}),
    (Experiment, "directory"): replaced(EXPERIMENT, directory="other"),
    (Experiment, "tags"): replaced(EXPERIMENT, tags=("x",)),
    (Experiment, "labels"): replaced(EXPERIMENT, labels={"a": "b"}),
    (Experiment, "artifacts"): replaced(EXPERIMENT, artifacts=(Artifact("log"),)),
    (Artifact, "path"): with_artifact(path="other.txt"),
    (Artifact, "required"): with_artifact(required=True),
    (Artifact, "max_bytes"): with_artifact(max_bytes=7),
    (Reference, "answer"): replaced(TASK, reference=Reference("43", "echo 42")),
    (Reference, "script"): replaced(TASK, reference=Reference("42", "echo 43")),
    (Reference, "command"): replaced(TASK, reference=Reference("42", "echo 42", command="true")),
    (Reference, "folders"): replaced(TASK, reference=Reference("42", "echo 42", folders={"/s": Folder("/s", "1")})),
    (Reference, "env"): replaced(TASK, reference=Reference("42", "echo 42", env={"A": "1"})),
    (Reference, "calls"): replaced(TASK, reference=Reference("42", "echo 42", calls=({"name": "a", "arguments": {}},))),
    (Reference, "steps"): replaced(TASK, reference=Reference("42", "echo 42", steps={"a": Reference("1")})),
    **{
        (TimeLimits, field.name): replaced(EXPERIMENT, limits=replaced(TimeLimits(), **{field.name: 7.0}))
        for field in dataclasses.fields(TimeLimits)
    },
    **{
        (RetrySpec, field.name): replaced(EXPERIMENT, retry=replaced(RetrySpec(), **{field.name: 7}))
        for field in dataclasses.fields(RetrySpec)
    },
}
"""Each declared field changed once."""


@pytest.mark.parametrize(("declared", "field"), [(d, f.name) for d in DECLARED for f in dataclasses.fields(d)])
def test_P2_a_field_changes_the_identity_exactly_if_it_is_decided_so(declared, field):
    changed = CHANGES[declared, field]
    oracle = declared is Reference or field == "reference"
    experiment = changed if isinstance(changed, Experiment) else EXPERIMENT
    task = changed if isinstance(changed, Task) else TASK
    counts = FIELD_DECISIONS[declared][field].part is not None
    assert (whole(experiment, task, oracle=oracle) != whole(oracle=oracle)) is counts


def test_P2_an_image_counts_by_what_it_is_and_not_by_its_name():
    one, other = (
        replaced(EXPERIMENT, environment=replaced(ENVIRONMENT, image=name, image_digest="sha256:1"))
        for name in ("python:3.12", "mirror/python:3.12")
    )
    assert whole(one) == whole(other)
    hosts = replaced(ENVIRONMENT, network=Network("allow", ("example.com", "example.org")))
    assert whole(replaced(EXPERIMENT, environment=hosts)) == whole()


def test_P2_a_reference_counts_for_oracle_only():
    without = dataclasses.replace(TASK, reference=None)
    assert whole(task=without) == whole()
    assert whole(task=without, oracle=True) != whole(oracle=True)


def test_P2_parameters_of_the_benchmark_count_through_its_tasks_only():
    other = dataclasses.replace(EXPERIMENT, benchmark=Component("b", {"n": 2}))
    assert whole(other) == whole()


def test_P2_versions_of_benchmark_harness_and_grader_count_each_in_its_part():
    shared = experiment_parts(EXPERIMENT, benchmark_version="1", harness_version="1")
    for changed, part in (({"benchmark_version": "2"}, "benchmark"), ({"harness_version": "2"}, "harness")):
        other = experiment_parts(EXPERIMENT, **{"benchmark_version": "1", "harness_version": "1", **changed})
        assert {name for name in shared if shared[name] != other[name]} == {part}
    own = [task_parts(TASK, grader_version=version) for version in ("1", "2")]
    assert own[0]["task"] == own[1]["task"]
    assert own[0]["grader"] != own[1]["grader"]


def test_the_ordinal_counts():
    assert len({whole(ordinal=ordinal) for ordinal in range(50)}) == 50


def test_an_address_counts_by_its_host_name_unless_the_model_has_an_identity():
    endpoint = [
        (None, None, None),
        ("https://API.example.com:8443/v1", None, "api.example.com"),
        ("https://user:pass@api.example.com/v2", None, "api.example.com"),
        ("localhost:8000/v1", None, "localhost"),
        ("http://[::1]:8000", None, "::1"),
        ("http://10.0.0.7:8000", "house model", "house model"),
    ]
    for url, identity, expected in endpoint:
        assert model_endpoint(ModelSpec("m", base_url=url, identity=identity)) == expected
    for port in (8000, 8001):
        assert whole(with_model(base_url=f"https://api.example.com:{port}/v9")) == whole()


def test_P2_a_hook_counts_by_what_it_stands_for_and_by_its_path_where_nobody_knows_that():
    hooked = replaced(EXPERIMENT, setup="hooks:setup", sandbox_setup="hooks:prepare")
    known = replaced(hooked, code={"setup": "v1", "sandbox_setup": "v1"})
    assert whole(hooked) != whole(known)
    assert whole(known) == whole(replaced(known, setup="moved:setup", sandbox_setup="moved:prepare"))
    for name in ("setup", "sandbox_setup"):
        assert whole(known) != whole(replaced(known, code={**known.code, name: "v2"}))


def test_P3_each_file_of_a_task_is_a_part_of_its_own():
    one = task_parts(replaced(TASK, code={"evals/t.py": "1", "lib/x.py": "1"}), grader_version="1")
    two = task_parts(replaced(TASK, code={"evals/t.py": "1", "lib/x.py": "2"}), grader_version="1")
    assert {name for name in one if one[name] != two[name]} == {"code lib/x.py"}


def test_parts_are_equal_whatever_the_order_of_keys_and_the_type_of_mapping():
    one = Component("h", {"a": 1, "b": {"x": [1, 2], "y": None}})
    two = Component("h", MappingProxyType({"b": MappingProxyType({"y": None, "x": (1, 2)}), "a": 1}))
    first, second = (dataclasses.replace(EXPERIMENT, harness=harness) for harness in (one, two))
    assert whole(first) == whole(second)


def test_texts_of_every_script_and_lone_surrogates_can_be_hashed():
    texts = ["é", "e\u0301", "\ud800", "任务", "\x00"]
    assert len({digest(text) for text in texts}) == len(texts)


@pytest.mark.parametrize("value", [math.nan, math.inf, {1, 2}, b"bytes", object()])
def test_what_is_no_json_value_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        digest({"value": value})


def test_digests_are_what_they_were():
    """Saved identities are compared with these: a change here needs another IDENTITY_FORMAT."""
    assert digest({"b": [1, None, "x"], "a": 1.5}) == "7b267faa58851e6d"
    plain = replaced(ENVIRONMENT, build=None, compose=None, network=Network("none"))
    experiment = replaced(EXPERIMENT, environment=plain)
    assert (
        whole(experiment, replaced(TASK, environment=plain, artifacts=(), hidden={}))
        == "8fc7a1fde2b2ed2663a1440ab65c2ac6"
    )
    assert SharedIdentity.of({"b": "1", "a": "2"}).slot({"task": "3"}, 0) == "8926ca7f532c7c9e966354ae2b18f563"


def test_a_small_task_costs_little():
    """Under 30 microseconds on an idle machine; ten times that still finds an algorithm gone wrong."""
    small = Task(id="t", grader=Component("text", {"expected": "42"}), prompt="x" * 200)
    shared = SharedIdentity.of(experiment_parts(EXPERIMENT, benchmark_version="1", harness_version="1"))

    def seconds() -> float:
        began = time.process_time()
        for ordinal in range(1000):
            shared.slot(task_parts(small, grader_version="1"), ordinal)
        return (time.process_time() - began) / 1000

    assert min(seconds() for _ in range(5)) < 300e-6


def test_P2_a_known_credential_under_the_name_of_a_secret_counts_nowhere() -> None:
    """A key that was renewed buys nothing twice; an answer key that was changed takes nothing stale for fresh."""

    def parts(key: str, known: frozenset[str]) -> dict[str, str]:
        harness = Component("h", {"api_key": key, "answer_key": "b", "deep": [{"token": key}]})
        experiment = Experiment("e", Component("b"), harness, ModelSpec("m", params={"api_key": key}))
        task = Task("t", Component("judge", {"api_key": key}))
        shared = experiment_parts(experiment, benchmark_version="1", harness_version="1", credentials=known)
        return shared | task_parts(task, grader_version="1", credentials=known)

    known = frozenset({"one", "two"})
    assert parts("one", known) == parts("two", known)
    assert parts("one", known) != parts("three", known)
    assert parts("one", frozenset()) != parts("two", frozenset())
    changed = {name for name, value in parts("three", known).items() if parts("one", known)[name] != value}
    assert changed == {"harness", "model", "grader"}
