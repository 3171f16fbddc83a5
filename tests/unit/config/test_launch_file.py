"""Launch files by themselves: what they declare, and everything that is wrong with one at once (spec 02)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.config.launch import Launch, read_launch
from proctor.config.layers import Layer, Level, Source, layered
from proctor.config.schema import ExecutionConfig, ExperimentConfig, RuntimeConfig
from proctor.config.yaml_file import read_yaml


def read(tmp_path: Path, text: str) -> Launch:
    """Return a launch file of that content."""
    path = tmp_path / "launch.yaml"
    path.write_text(text)
    file = read_yaml(path, Level.DEFAULTS, {})
    assert not file.problems
    return read_launch(file.layer)


def said(launch: Launch) -> list[str]:
    """Return what is wrong, each with the line instead of file and line."""
    return [str(problem).split("launch.yaml:", 1)[-1] for problem in launch.problems]


WHOLE = """\
task_concurrency: 32
runtime: {provider_limits: {docker: 8}, env_open_qps: {docker: 4}}
execution: {timeout_multiplier: 2}
x-shared: &shared {id: chat, params: {system: "..."}}
defaults:
  environment: docker
  execution: {max_retries: 2}
  runtime: {reuse: true, checkpoint_resume: true}
  x-why: a note
requests:
  - name: base-humaneval
    benchmark: humaneval
    harness: *shared
    model: gpt-x
    max_concurrency: 4
    x-why: a note
  - name: again
    benchmark: {id: harbor, params: {path: ./tasks}}
    harness: bash-agent
    runtime: {reuse: 20260806_120000, checkpoint_resume: false}
matrix:
  name: "{benchmark}-{model}"
  benchmark: [humaneval, mbpp]
  model: [gpt-x, gpt-y]
"""


def test_02_a_whole_file(tmp_path: Path) -> None:
    launch = read(tmp_path, WHOLE)
    assert said(launch) == []
    assert [one.name for one in launch.requests] == [
        "base-humaneval", "again", "humaneval-gpt-x", "humaneval-gpt-y", "mbpp-gpt-x", "mbpp-gpt-y",
    ]  # fmt: skip
    assert launch.execution.tree == {"task_concurrency": "32", "timeout_multiplier": "2"}
    assert launch.runtime.tree == {"provider_limits": {"docker": "8"}, "env_open_qps": {"docker": "4"}}
    base, again, *_ = launch.requests
    assert (base.reuse, base.checkpoint_resume) == (True, True)
    assert (again.reuse, again.checkpoint_resume) == ("20260806_120000", False)
    defaults, own = base.fields
    assert (defaults.source.level, own.source.level) == (Level.DEFAULTS, Level.DECLARED)
    assert defaults.tree == {"environment": "docker", "max_retries": "2"}
    assert str(defaults.source_of(("max_retries",))).endswith("launch.yaml:7")
    assert own.tree["harness"] == {"id": "chat", "params": {"system": "..."}}
    assert set(own.tree) == {"benchmark", "harness", "model", "max_concurrency"}
    assert str(own.source_of(("max_concurrency",))).endswith("launch.yaml:15")
    assert base.execution == ()


def test_02_values_of_axes_keep_their_own_lines(tmp_path: Path) -> None:
    launch = read(tmp_path, "matrix:\n  name: '{model}'\n  model:\n    - a\n    - id: b\n      base_url: x\n")
    [first], [second] = (one.fields for one in launch.requests)
    assert first.source_of(("model",)).line == 4
    assert second.source_of(("model", "base_url")).line == 6


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", ["1: it has no `requests` and no `matrix`: there is nothing to launch"]),
        ("requests: []", ["1: `requests` is empty: each is a mapping with a name"]),
        ("requests: {a: 1}", ["1: `requests` must be a list of requests: each is a mapping with a name"]),
        ("requests: [x]", ["1: a request is a mapping of fields, `name` among them, not a plain value"]),
        ("requests: [{}]", ["1: a request is a mapping of fields, `name` among them, not an empty one"]),
        ("matrix: [[1]]", ["1: a matrix is a mapping of fields, of which each list is an axis, not a list"]),
        ("matrix: []", ["1: `matrix` is empty"]),
        ("requests:\n- benchmark: x", ["2: a request needs a `name`: it names the directory of its runs"]),
        ("requests:\n- name: ''", ["2: the name '' is empty"]),
        ("requests:\n- name: ' a'", ["2: the name ' a' has white space around it"]),
        ('requests:\n- name: "a\\tb"', ["2: the name 'a\\tb' has control characters"]),
        (f"requests:\n- name: {'a' * 201}", [f"2: the name {'a' * 201!r:.80} is longer than 200 characters"]),
        ("requests:\n- name: [a]", ["2: the name ['a'] is not a text: write it in quotes"]),
        ("requests:\n- name: a\n- name: a", ["3: the name `a` is taken: launch.yaml:2 has it"]),
        ("defaults: 3\nrequests: [{name: a}]", ["1: `defaults` must be a mapping, not a plain value"]),
        ("defaults: {name: x}\nrequests: [{name: a}]", ["1: a name belongs in a request: no two are called the same"]),
        ("request: []", ["1: unknown field `request`; did you mean `requests`?"]),
        ("max_concurency: 2\nrequests: [{name: a}]",
         ["1: unknown field `max_concurency`; did you mean `task_concurrency`?"]),
        ("max_concurrency: 2\nrequests: [{name: a}]",
         ["1: `max_concurrency` is an experiment's own cap: the global limit is `task_concurrency`"]),
        ("model: x\nrequests: [{name: a}]",
         ["1: `model` is of an experiment: write it in a request, or under `defaults` for all of them"]),
        ("task_concurrency: 0\nrequests: [{name: a}]",
         ["1: `task_concurrency`: input should be greater than or equal to 1, not 0"]),
        ("task_concurrency: 2\nexecution: {task_concurrency: 3}\nrequests: [{name: a}]",
         ["2: `task_concurrency` is there twice, first at launch.yaml:1"]),
        ("runtime: {provider_limit: {}}\nrequests: [{name: a}]",
         ["1: unknown field `provider_limit`; did you mean `provider_limits`?"]),
        ("requests:\n- name: a\n  bench: x", ["3: unknown field `bench`; did you mean `benchmark`?"]),
        ("requests:\n- name: a\n  Benchmark: x", ["3: unknown field `Benchmark`; did you mean `benchmark`?"]),
        ("requests:\n- name: a\n  harness: {parms: {}}", ["3: unknown field `harness.parms`; did you mean `params`?"]),
        ("requests:\n- name: a\n  attempts: 0", ["3: `attempts`: input should be greater than or equal to 1, not 0"]),
        ("requests:\n- name: a\n  execution: 4", ["3: `execution` must be a mapping, not a plain value"]),
    ],
)  # fmt: skip
def test_02_what_is_wrong_has_its_line(
    text: str, wrong: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said(read(tmp_path, text)) == wrong


@pytest.mark.parametrize("place", ["defaults: {X}\nrequests: [{name: a}]", "requests:\n- {name: a, X}",
                                   "matrix:\n  {name: a, X}"])  # fmt: skip
@pytest.mark.parametrize("how", ["task_concurrency: 3", "execution: {task_concurrency: 3}"])
def test_02_the_global_limit_below_the_top_names_its_place(place: str, how: str, tmp_path: Path) -> None:
    [problem] = read(tmp_path, place.replace("X", how)).problems
    assert "`task_concurrency` is global: write it at the top of the file" in problem.message
    assert "`max_concurrency`" in (problem.hint or "")
    assert problem.source is not None
    assert problem.source.line == (1 if place.startswith("defaults") else 2)


@pytest.mark.parametrize("field", [name for name in RuntimeConfig.model_fields if name != "checkpoint_resume"])
def test_02_only_two_fields_of_runtime_are_a_requests_own(field: str, tmp_path: Path) -> None:
    [problem] = read(tmp_path, f"requests:\n- name: a\n  runtime: {{{field}: x}}").problems
    assert f"`runtime.{field}` is of the whole invocation: write it at the top" in problem.message


@pytest.mark.parametrize(("said_value", "meant"), [("true", True), ("false", False), ("'true'", True), ("r1", "r1")])
def test_02_reuse_of_a_request(said_value: str, meant: object, tmp_path: Path) -> None:
    [one] = read(tmp_path, f"requests:\n- name: a\n  runtime: {{reuse: {said_value}}}").requests
    assert one.reuse == meant


def test_02_a_request_overrides_the_defaults_field_by_field(tmp_path: Path) -> None:
    text = """
defaults: {runtime: {reuse: true, checkpoint_resume: false}}
requests:
  - {name: a, runtime: {reuse: false}}
  - {name: b}
"""
    first, second = read(tmp_path, text).requests
    assert (first.reuse, first.checkpoint_resume) == (False, False)
    assert (second.reuse, second.checkpoint_resume) == (True, False)


def test_02_everything_wrong_is_said_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        "taskconcurrency: 1\ndefaults: {harnes: x}\nrequests:\n- name: a\n  attempts: no\n- {}\nmatrix: {model: [a]}\n"
    )
    launch = read(tmp_path, text)
    assert [problem.source.line for problem in launch.problems if problem.source] == [1, 2, 5, 6, 7]
    assert launch.requests == ()


def test_02_wrong_defaults_are_said_once(tmp_path: Path) -> None:
    assert len(read(tmp_path, "defaults: {attempts: x}\nrequests: [{name: a}, {name: b}]").problems) == 1


def test_02_what_is_wrong_in_a_mapping_is_said_with_its_path() -> None:
    tree = {"requests": [{"name": "a"}, {"name": "a", "bench": 1, "execution": {"max_retrie": 2}}]}
    launch = read_launch(Layer(Source(Level.DEFAULTS, "the launch"), tree))
    assert [str(problem) for problem in launch.problems] == [
        "unknown field `requests.1.bench`; did you mean `benchmark`?",
        "unknown field `requests.1.execution.max_retrie`; did you mean `max_retries`?",
        "requests.1.name: the name `a` is taken: the launch has it",
    ]


FIELDS = {"benchmark": "trivial", "harness": "oracle", "model": "m", "environment": "local", "artifacts": "[{path: a}]",
          "grading": "none", "retry_pattern_list": "[a]", "shared_state": "{key: k}", "flags": "{a: 1}",
          "tags": "[a]", "labels": "{a: b}",
          "early_exit": "true", "sandbox_reuse": "true", "setup": "a:b", "teardown": "a:b", "sandbox_setup": "a:b",
          "sandbox_teardown": "a:b"}  # fmt: skip


@pytest.mark.parametrize("door", ["defaults: {X}\nrequests: [{name: a}]", "requests: [{name: a, X}]",
                                  "matrix: {name: a, X}"])  # fmt: skip
@pytest.mark.parametrize("field", ExperimentConfig.model_fields)
def test_02_every_field_of_an_experiment_is_taken_in_every_place(field: str, door: str, tmp_path: Path) -> None:
    value = FIELDS.get(field, "7")
    if door.startswith("matrix") and value == "[a]":
        value = "[[a]]"  # a list of lists is an axis of lists
    launch = read(tmp_path, door.replace("X", f"{field}: {value}"))
    assert said(launch) == []
    [one] = launch.requests
    assert any(field in layer.tree for layer in one.fields)


@pytest.mark.parametrize("field", [name for name in ExecutionConfig.model_fields if name != "task_concurrency"])
def test_02_every_field_of_execution_is_taken_in_every_place(field: str, tmp_path: Path) -> None:
    value = "[a]" if field == "retry_pattern_list" else "7"
    text = f"execution: {{{field}: {value}}}\ndefaults: {{execution: {{{field}: {value}}}}}\n"
    launch = read(tmp_path, text + f"requests: [{{name: a, execution: {{{field}: {value}}}}}]")
    assert said(launch) == []
    assert launch.execution.tree.keys() == {field}
    [one] = launch.requests
    layers = one.fields if field in ExperimentConfig.model_fields else one.execution
    assert [layer.tree.keys() for layer in layers] == [{field}, {field}]


def test_02_a_request_is_stronger_than_the_defaults_wherever_they_say_it(tmp_path: Path) -> None:
    text = "defaults: {attempts: 3, max_retries: 1}\nrequests:\n- name: a\n  execution: {attempts: 5, max_retries: 2}\n"
    [one] = read(tmp_path, text).requests
    whole = layered(one.fields)
    assert (whole.tree["attempts"], whole.tree["max_retries"]) == ("5", "2")
    assert str(whole.source_of(("attempts",))).endswith("launch.yaml:4")


def test_02_a_field_that_is_said_in_both_places_is_an_error(tmp_path: Path) -> None:
    [problem] = read(tmp_path, "requests:\n- name: a\n  attempts: 2\n  execution: {attempts: 3}").problems
    assert str(problem).endswith("launch.yaml:3")
    assert ":4: `attempts` is there twice, also at " in str(problem)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=10,
)
keys = st.sampled_from(["name", "benchmark", "model", "execution", "runtime", "reuse", "x-a", "task_concurrency", "id"])
parts = st.dictionaries(keys, json_values | st.dictionaries(keys, json_values, max_size=3), max_size=4)
files = st.fixed_dictionaries(
    {}, optional={
        "requests": st.lists(parts, max_size=3) | json_values, "defaults": parts | json_values,
        "matrix": parts | st.lists(parts, max_size=2) | json_values, "runtime": json_values, "execution": json_values,
        "task_concurrency": json_values,
    },
)  # fmt: skip


@pytest.mark.long
@settings(deadline=None, max_examples=300)
@given(files)
def test_02_whatever_stands_in_it_there_are_requests_or_problems(tree: dict[str, object]) -> None:
    launch = read_launch(Layer(Source(Level.DEFAULTS, "the launch"), tree))
    assert launch.requests or launch.problems
    assert len({one.name for one in launch.requests}) == len(launch.requests)
