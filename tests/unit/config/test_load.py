"""`--set`, precedence, and errors that name the field (spec 02, cases/conf)."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel

from proctor.config.assignments import parse_assignment, split_assignments
from proctor.config.layers import merge
from proctor.config.load import validate
from proctor.config.schema import ExperimentConfig, RuntimeConfig
from proctor.config.settle import settled
from proctor.errors import UsageError


def _refuse_loudly(value: str) -> str:
    raise ValueError(f"{value} is no good")


@pytest.mark.parametrize(
    ("text", "keys", "value"),
    [
        ("a=1", ["a"], "1"),
        ("a.b.c=x=y", ["a", "b", "c"], "x=y"),
        ("a=", ["a"], ""),
        ("a=1e5", ["a"], "1e5"),
        ("a=true", ["a"], "true"),
        ("a=null", ["a"], None),
        ('a="1e5"', ["a"], "1e5"),
        ("a=[1, 2]", ["a"], [1, 2]),
        ('a={"b": 1}', ["a"], {"b": 1}),
    ],
)
def test_an_assignment_is_split_at_the_first_equals_sign(text: str, keys: list[str], value: Any) -> None:
    assert parse_assignment(text) == (keys, value)


@pytest.mark.parametrize("text", ["a", "=1", "a..b=1", ".a=1", "", "a={", "a=[1,"])
def test_what_is_no_assignment_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_assignment(text)
    assert "--set" in caught.value.message
    assert caught.value.hint


@given(st.dictionaries(st.text(min_size=1), st.integers()) | st.lists(st.text()))
def test_json_values_come_back_as_they_are(value: Any) -> None:
    assert parse_assignment("k=" + json.dumps(value))[1] == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("modle.base_url=x", "did you mean `model`?"),
        ("model.base_ulr=x", "unknown field `model.base_ulr`; did you mean `base_url`?"),
        ("max_concurency=2", "did you mean `max_concurrency`?"),
        ("Attempts=2", "did you mean `attempts`?"),
        ("execution.task_concurency=2", "did you mean `task_concurrency`?"),
        ("excution.task_concurrency=2", "did you mean `execution`?"),
        ("attempts.retry=2", "`attempts` is a plain value"),
        ("model=gpt", "names a whole section"),
        ("runtime={}", "names a whole section"),
    ],
)
def test_02_an_unknown_or_misplaced_field_names_the_nearest(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        split_assignments([text])
    assert says in caught.value.message


SECRET = "sk-Zq8secretvalue"


@pytest.mark.parametrize(
    "text",
    [
        f"model.api_kee={SECRET}",
        f"modle.api_key={SECRET}",
        f"model.api_key.x={SECRET}",
        f"model.api_key.{SECRET}=x",
        f"model={SECRET}",
        f"attempts.x={SECRET}",
        f"execution.api_key={SECRET}",
        f'model.api_key="{SECRET}',
        f'model.api_key=["{SECRET}"',
        f'harness.params.password={{"a": "{SECRET}}}',
        f'attempts=["{SECRET}", NaN]',
        f"model.api_key:{SECRET}",
        f"model.api_key: {SECRET}==",
        f"model.api_key {SECRET}=",
        f"model.api_key.{SECRET}",
        f"={SECRET}",
        f"..={SECRET}",
        SECRET,
    ],
)
def test_no_error_about_an_assignment_repeats_its_value(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        split_assignments([text])
    assert SECRET not in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.message.startswith("`--set")
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_two_assignments_that_do_not_fit_together_are_named_without_their_values() -> None:
    with pytest.raises(UsageError) as caught:
        split_assignments([f"harness.params.a={SECRET}", f"harness.params.a.b={SECRET}"])
    assert caught.value.message == "`--set harness.params.a.b`: `a` already has a plain value"


@pytest.mark.parametrize("value", ["NaN", "[NaN]", "[" * 100_000])
def test_what_is_no_json_is_refused_or_stays_text(value: str) -> None:
    if value == "NaN":
        assert parse_assignment(f"a={value}") == (["a"], "NaN")
    else:
        with pytest.raises(UsageError, match="not valid JSON"):
            parse_assignment(f"a={value}")


def test_later_assignments_win_and_sections_are_told_apart() -> None:
    tree, sections = split_assignments(
        [
            "attempts=2",
            "attempts=3",
            "benchmark.params.tasks=7",
            "runtime.provider_limits.local=4",
            "model.params.a.b=x",
        ]
    )
    assert tree == {"attempts": "3", "benchmark": {"params": {"tasks": "7"}}, "model": {"params": {"a": {"b": "x"}}}}
    assert sections == {"execution": {}, "runtime": {"provider_limits": {"local": "4"}}}


class Options(BaseModel):
    number: int = 0
    name: str | None = None


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("number=8", Options, {"number": 8}),
        ("number=1e3", Options, {"number": 1000}),
        ("name=1e5", Options, {"name": "1e5"}),
        ("name=true", Options, {"name": "true"}),
        ("temperature=0.5", None, {"temperature": 0.5}),
        ("stop=true", None, {"stop": True}),
        ("text=ok", None, {"text": "ok"}),
        ("text=NaN", None, {"text": "NaN"}),
        ('text="1"', None, {"text": "1"}),
        ("a.b=1", None, {"a": {"b": 1}}),
    ],
)
def test_free_values_mean_what_their_field_takes(text: str, schema: type[BaseModel] | None, value: Any) -> None:
    tree, _ = split_assignments([f"model.params.{text}"])
    assert repr(settled(tree["model"]["params"], schema)) == repr(value)


def test_merge_is_key_by_key_and_the_second_wins() -> None:
    under = {"model": {"id": "a", "base_url": "u"}, "attempts": 1}
    assert merge(under, {"model": {"id": "b"}}) == {"model": {"id": "b", "base_url": "u"}, "attempts": 1}
    assert under["model"] == {"id": "a", "base_url": "u"}


BASE: dict[str, Any] = {"benchmark": {"id": "b"}, "harness": {"id": "h"}}


@pytest.mark.parametrize("value", ["inf", "nan", "0", "-1", "none", "-inf", float("inf"), 0, True])
def test_cases_time_100_a_limit_that_is_no_finite_time_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="agent_timeout_seconds"):
        validate(ExperimentConfig, {**BASE, "agent_timeout_seconds": value}, what="experiment")


@pytest.mark.parametrize("value", [True, 1.5, -1, 0, "x", "1.5", None])
def test_03_G1_3_counts_are_whole_numbers_of_at_least_one(value: Any) -> None:
    with pytest.raises(UsageError, match="attempts"):
        validate(ExperimentConfig, {**BASE, "attempts": value}, what="experiment")


@pytest.mark.parametrize("value", ["1e3", "1000", 1000, "1_000"])
def test_numbers_are_read_by_the_type_of_the_field(value: Any) -> None:
    config = validate(ExperimentConfig, {**BASE, "agent_timeout_seconds": value}, what="experiment")
    assert config.agent_timeout_seconds == 1000.0


def test_a_text_field_keeps_its_characters() -> None:
    config = validate(ExperimentConfig, {**BASE, "model": {"id": "1e5", "identity": "7e10"}}, what="experiment")
    assert config.model is not None
    assert (config.model.id, config.model.identity) == ("1e5", "7e10")


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        validate(ExperimentConfig, {"benchmark": {"id": "b"}, "attempts": 0, "haness": 1}, what="experiment")
    message = caught.value.message
    assert "`harness` is required" in message
    assert "`attempts`" in message
    assert "unknown field `haness`; did you mean `harness`?" in message


class Secretive(BaseModel):
    api_key: Annotated[str, AfterValidator(_refuse_loudly)] = ""


@pytest.mark.parametrize(
    ("schema", "tree"),
    [
        (ExperimentConfig, {**BASE, "model": {"id": "m", "api_key": [SECRET]}}),
        (ExperimentConfig, {**BASE, "model": {"id": "m", "api_key": {"value": SECRET}}}),
        (ExperimentConfig, {**BASE, "model": {"id": "m", "params": [SECRET]}}),
        (ExperimentConfig, {**BASE, "environment": {"env": {"API_KEY": {"x": SECRET}}}}),
        (ExperimentConfig, {**BASE, "environment": {"env": [f"API_KEY={SECRET}"]}}),
        (ExperimentConfig, {**BASE, "environment": {"env": f"API_KEY={SECRET}"}}),
        (ExperimentConfig, {**BASE, "environment": SECRET}),
        (ExperimentConfig, {**BASE, "model": {"id": "m", "api_kee": SECRET}}),
        (Secretive, {"api_key": SECRET}),
    ],
)
def test_a_credential_is_not_repeated_in_an_error(schema: type[BaseModel], tree: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        validate(schema, tree, what="experiment")
    assert SECRET not in f"{caught.value.message} {caught.value.hint}"


def test_a_value_that_is_no_credential_is_shown() -> None:
    with pytest.raises(UsageError, match=r"`attempts`: .*, not 'many'"):
        validate(ExperimentConfig, {**BASE, "attempts": "many"}, what="experiment")
    with pytest.raises(UsageError, match=r"`attempts`: .*, not a list"):
        validate(ExperimentConfig, {**BASE, "attempts": [1]}, what="experiment")


@pytest.mark.parametrize("value", ["", "a\0b"])
def test_a_results_directory_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="results_dir"):
        validate(RuntimeConfig, {"results_dir": value}, what="runtime")


def test_a_provider_limit_of_zero_is_off_and_less_is_refused() -> None:
    assert validate(RuntimeConfig, {"provider_limits": {"local": "0"}}, what="runtime").provider_limits == {"local": 0}
    with pytest.raises(UsageError, match="provider_limits"):
        validate(RuntimeConfig, {"provider_limits": {"local": "-1"}}, what="runtime")
