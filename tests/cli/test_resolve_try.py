"""Limits, mode of grading and artifacts of a try: fields, defaults, and what is refused before anything starts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from declaring import controls_of, experiment_of
from hypothesis import given
from hypothesis import strategies as st

from proctor.cli.controls import Controls
from proctor.cli.resolve_try import LIMIT_FIELDS, TIGHTER, grading_mode, kept_artifacts, time_limits
from proctor.config.schema import ExecutionConfig, ExperimentConfig
from proctor.config.values import SECONDS_AT_MOST
from proctor.errors import UsageError
from proctor.model.attempt import GradingMode
from proctor.model.spec import ARTIFACT_LIMIT_BYTES, Artifact, Experiment, TimeLimits
from proctor.testing.fakes import FakeBenchmark

NO_LIMITS = [
    "inf",
    "-inf",
    "nan",
    "0",
    "-1",
    "0.0",
    "-0",
    "none",
    "true",
    "false",
    "1e12",
    "1e400",
    "",
    '"soon"',
    "[1]",
    "{}",
]


def experiment(*assignments: str, multiplier: float | None = None) -> Experiment:
    return experiment_of("trivial", "nop", assignments=assignments, timeout_multiplier=multiplier)


def config(**fields: Any) -> ExperimentConfig:
    return ExperimentConfig.model_validate({"benchmark": {"id": "b"}, "harness": {"id": "h"}, **fields})


def controls(*assignments: str) -> Controls:
    return controls_of(assignments=assignments)


# ------------------------------------------------------------------------------------------------------- limits


def test_05_the_defaults_are_those_of_the_model_and_of_the_spec() -> None:
    assert experiment().limits == TimeLimits()
    assert asdict(TimeLimits()) == {
        "open_seconds": 600.0, "setup_seconds": 600.0, "agent_seconds": None, "collect_seconds": 120.0,
        "grade_seconds": 600.0, "dispose_seconds": 60.0, "try_seconds": None, "agent_idle_seconds": None,
        "task_factor": 1.0,
    }  # fmt: skip


def test_02_every_limit_of_a_try_is_a_field_of_its_own() -> None:
    assert sorted([*LIMIT_FIELDS.values(), "task_factor"]) == sorted(asdict(TimeLimits()))
    given = {field: float(number) for number, field in enumerate(LIMIT_FIELDS, start=1)}
    found = asdict(experiment(*(f"{field}={seconds}" for field, seconds in given.items())).limits)
    assert found == {LIMIT_FIELDS[field]: seconds for field, seconds in given.items()} | {"task_factor": 1.0}


@pytest.mark.parametrize("field", list(LIMIT_FIELDS))
@pytest.mark.parametrize("value", NO_LIMITS)
def test_cases_time_100_what_is_no_limit_is_refused_and_named(field: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        experiment(f"{field}={value}")
    assert f"`{field}`" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("field", ["timeout_seconds", "cleanup_grace_seconds", "lease_wait_seconds"])
@pytest.mark.parametrize("value", NO_LIMITS)
def test_cases_time_100_nor_is_it_a_limit_of_the_invocation(field: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"`{field}`"):
        controls(f"runtime.{field}={value}")


@pytest.mark.parametrize("field", [field for field, limit in LIMIT_FIELDS.items() if getattr(TimeLimits(), limit)])
def test_05_a_limit_that_has_a_default_cannot_be_switched_off(field: str) -> None:
    with pytest.raises(UsageError, match=field):
        experiment(f"{field}=null")


def test_the_longest_limit_is_ten_years() -> None:
    assert experiment(f"timeout_seconds={SECONDS_AT_MOST}").limits.try_seconds == SECONDS_AT_MOST
    with pytest.raises(UsageError, match="ten years"):
        experiment(f"timeout_seconds={SECONDS_AT_MOST + 1}")


@given(st.floats(0.001, 1000), st.sampled_from(list(LIMIT_FIELDS)), st.floats(0.001, 1e5))
def test_05_the_multiplier_scales_every_limit_that_there_is(factor: float, field: str, seconds: float) -> None:
    plain = asdict(time_limits(config(**{field: seconds}), ExecutionConfig()))
    plain.pop("task_factor")
    scaled = asdict(time_limits(config(**{field: seconds}), ExecutionConfig(timeout_multiplier=factor)))
    assert scaled.pop("task_factor") == factor, "a task's own limits are scaled as well"
    assert scaled == {name: None if limit is None else limit * factor for name, limit in plain.items()}


def test_05_the_multiplier_of_the_command_line_wins() -> None:
    assert experiment("execution.timeout_multiplier=2").limits.grade_seconds == 1200.0
    assert experiment("execution.timeout_multiplier=2", multiplier=0.5).limits.grade_seconds == 300.0


@pytest.mark.parametrize("value", ["inf", "nan", "0", "-1", "true", "x"])
def test_cases_time_100_a_multiplier_is_a_finite_number_above_0(value: str) -> None:
    with pytest.raises(UsageError, match="timeout_multiplier"):
        experiment(f"execution.timeout_multiplier={value}")


@pytest.mark.parametrize("factor", [1e9, 1e300, 5e-324])
def test_cases_time_100_a_multiplier_makes_no_limit_that_is_none(factor: float) -> None:
    with pytest.raises(UsageError, match="_timeout_seconds`: scaled by"):
        time_limits(config(open_timeout_seconds=0.1), ExecutionConfig(timeout_multiplier=factor))


def test_limits_of_the_invocation_have_their_defaults() -> None:
    assert (controls().timeout_seconds, controls().cleanup_grace_seconds) == (None, 30.0)
    found = controls("runtime.timeout_seconds=7200", "runtime.cleanup_grace_seconds=5")
    assert (found.timeout_seconds, found.cleanup_grace_seconds) == (7200.0, 5.0)


def test_cases_time_100_parameters_of_an_adapter_are_finite_numbers() -> None:
    with pytest.raises(UsageError, match=r"parameters of harness `plugins:Sleeper`: `seconds` is not a finite number"):
        experiment_of("trivial", "plugins:Sleeper", assignments=("harness.params.seconds=inf",))


# ------------------------------------------------------------------------------------------------------ grading


@pytest.mark.parametrize("allowed", [(mode,) for mode in GradingMode] + [tuple(GradingMode)])
@pytest.mark.parametrize("declared", list(GradingMode))
@pytest.mark.parametrize("wanted", [None, *GradingMode])
def test_05_grading_may_be_tightened_where_the_benchmark_allows_it_and_never_loosened(
    declared: GradingMode, wanted: GradingMode | None, allowed: tuple[GradingMode, ...]
) -> None:
    benchmark = FakeBenchmark(grading=declared)
    benchmark.gradings = (declared, *allowed)
    asked = config(grading=wanted.value) if wanted else config()
    if wanted is None or wanted is declared:
        assert grading_mode(asked, benchmark) is declared
        return
    tighter = TIGHTER.index(wanted) > TIGHTER.index(declared)
    if tighter and wanted in allowed:
        assert grading_mode(asked, benchmark) is wanted
        return
    with pytest.raises(UsageError) as caught:
        grading_mode(asked, benchmark)
    assert "`grading`" in caught.value.message
    assert (f"{wanted} is looser than {declared}" in caught.value.message) is not tighter
    assert f"cannot be graded in mode {wanted}" in caught.value.message or not tighter


def test_05_grading_of_an_experiment_is_what_its_tries_are_graded_in() -> None:
    assert experiment().grading is GradingMode.NONE
    assert experiment("grading=none").grading is GradingMode.NONE
    with pytest.raises(UsageError, match="fresh is looser than none, in which benchmark `trivial` is graded"):
        experiment("grading=fresh")
    with pytest.raises(UsageError, match="`grading`"):
        experiment("grading=some")


# ---------------------------------------------------------------------------------------------------- artifacts


def test_artifacts_are_a_list_of_paths_with_what_is_wanted_of_each() -> None:
    typed = [{"path": "out/report.txt"}, {"path": "/var/log/x", "required": True, "max_bytes": 10}, {"path": "./a//b/"}]
    assert experiment(f"artifacts={json.dumps(typed)}").artifacts == (
        Artifact("out/report.txt", required=False, max_bytes=ARTIFACT_LIMIT_BYTES),
        Artifact("/var/log/x", required=True, max_bytes=10),
        Artifact("a/b"),
    )
    assert experiment().artifacts == ()


@pytest.mark.parametrize(
    ("one", "says"),
    [
        ({"path": ""}, "artifacts.0.path"),
        ({"path": "a\0b"}, "artifacts.0.path"),
        ({"path": ".."}, "artifacts.0.path"),
        ({"path": "../up"}, "artifacts.0.path"),
        ({"path": "a/../../b"}, "artifacts.0.path"),
        ({"path": "/a/.."}, "artifacts.0.path"),
        ({"path": 5}, "artifacts.0.path"),
        ({"path": ["a"]}, "artifacts.0.path"),
        ({}, "`artifacts.0.path` is required"),
        ({"path": "a", "max_bytes": 0}, "artifacts.0.max_bytes"),
        ({"path": "a", "max_bytes": -1}, "artifacts.0.max_bytes"),
        ({"path": "a", "max_bytes": 1.5}, "artifacts.0.max_bytes"),
        ({"path": "a", "max_bytes": True}, "artifacts.0.max_bytes"),
        ({"path": "a", "required": "perhaps"}, "artifacts.0.required"),
        ({"path": "a", "requird": True}, "unknown field `artifacts.0.requird`"),
        ("a", "artifacts.0"),
    ],
)
def test_an_artifact_that_is_none_is_refused_and_named(one: Any, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        experiment(f"artifacts={json.dumps([one])}")
    assert says in caught.value.message


@pytest.mark.parametrize("value", ["a", "5", '{"path": "a"}', "null", '"a"'])
def test_artifacts_that_are_no_list_are_refused(value: str) -> None:
    with pytest.raises(UsageError, match="`artifacts`: must be a list"):
        experiment(f"artifacts={value}")


def test_02_a_path_into_a_list_is_refused_as_one() -> None:
    with pytest.raises(UsageError, match="`artifacts` is a plain value and has no fields"):
        experiment("artifacts.path=a")


@pytest.mark.parametrize("paths", [["a", "a"], ["a", "./a"], ["a/b", "c", "a//b/"], ["/x", "//x"]])
def test_a_path_that_is_named_twice_is_an_error(paths: list[str]) -> None:
    with pytest.raises(UsageError, match="is there twice"):
        kept_artifacts(config(artifacts=[{"path": path} for path in paths]))


@given(st.text(min_size=1).filter(lambda path: "\0" not in path and ".." not in path.split("/")))
def test_any_other_path_is_kept_in_a_form_that_does_not_change_any_more(path: str) -> None:
    [one] = kept_artifacts(config(artifacts=[{"path": path}]))
    assert one.path.startswith("/") == path.startswith("/")
    [again] = kept_artifacts(config(artifacts=[{"path": one.path}]))
    assert again == one
