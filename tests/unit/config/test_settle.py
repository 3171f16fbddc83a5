"""What was typed becomes what its field takes (spec 02, cases/conf 151)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from proctor.config.layers import Layer, Level, Source
from proctor.config.load import check, validate
from proctor.config.problems import ConfigErrors
from proctor.config.project_schema import PROJECT_PLACES, ProjectConfig
from proctor.config.scalars import Plain, Refused, Substituted, Typed, of_yaml, substituted_in
from proctor.config.schema import ExperimentConfig
from proctor.config.settle import settle
from proctor.errors import UsageError


class Inner(BaseModel):
    count: int = 0
    text: str = ""


class Everything(BaseModel):
    whole: int = 0
    fraction: float = 0.0
    switch: bool = False
    text: str = ""
    maybe: int | None = None
    either: bool | str = False
    number_or_text: int | str = 0
    choice: Literal["a", "b"] = "a"
    inner: Inner = Inner()
    inners: list[Inner] = []
    texts: dict[str, str] = {}
    numbers: dict[str, Annotated[int, Field(ge=1)]] = {}
    pairs: tuple[float, ...] = ()
    free: Any = None


FITS: list[tuple[str, str, Any]] = [
    ("whole", "1e3", 1000), ("whole", "0o17", 15), ("whole", "0x1F", 31), ("whole", "-5", -5),
    ("fraction", "1e-1", 0.1), ("fraction", "1e3", 1000), ("fraction", ".5", 0.5), ("fraction", "7", 7),
    ("switch", "true", True), ("switch", "FALSE", False), ("text", "1e5", "1e5"), ("text", "7e10", "7e10"),
    ("text", "true", "true"), ("text", "007", "007"), ("maybe", "5", 5), ("either", "true", True),
    ("either", "20260806_120000", "20260806_120000"), ("either", "12345", "12345"), ("number_or_text", "5", 5),
    ("number_or_text", "five", "five"), ("choice", "b", "b"), ("free", "1e3", 1000), ("free", "no", "no"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "value"), FITS)
def test_02_151_the_field_decides_what_a_plain_scalar_of_a_file_means(name: str, text: str, value: Any) -> None:
    found = getattr(validate(Everything, {name: Plain(text)}, what="x"), name)
    assert repr(found) == repr(float(value) if name == "fraction" else value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("whole", "1.5"), ("whole", "true"), ("whole", "1_000"), ("whole", "on"), ("whole", "five"), ("whole", " 5"),
        ("fraction", "1_000"), ("fraction", "1:30"), ("fraction", "x"), ("switch", "yes"), ("switch", "on"),
        ("switch", "1"), ("switch", "t"), ("choice", "c"), ("maybe", "none"),
    ],
)  # fmt: skip
def test_02_151_nothing_is_converted_in_silence(name: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        validate(Everything, {name: Plain(text)}, what="x")
    assert f"`{name}`" in caught.value.message
    assert repr(text) in caught.value.message


def test_values_inside_of_sections_lists_and_tables_are_settled_by_their_types() -> None:
    tree = {
        "inner": {"count": Plain("1e1"), "text": Plain("1e1")},
        "inners": [{"count": Plain("0x10")}, {"text": Plain("no")}],
        "texts": {"PORT": Plain("8080"), "ON": Plain("true")},
        "numbers": {"docker": Plain("1e1")},
        "pairs": [Plain("1"), Plain(".5")],
        "free": {"a": [Plain("1"), {"b": Plain("~")}]},
    }
    found = validate(Everything, tree, what="x")
    assert found.inner == Inner(count=10, text="1e1")
    assert found.inners == [Inner(count=16), Inner(text="no")]
    assert found.texts == {"PORT": "8080", "ON": "true"}
    assert (found.numbers, found.pairs, found.free) == ({"docker": 10}, (1.0, 0.5), {"a": [1, {"b": None}]})


@pytest.mark.parametrize(("text", "value"), [("8", 8), ("1e3", 1000), ("true", True), ("x", "x"), ("NaN", "NaN")])
def test_02_what_is_typed_after_set_is_what_json_says(text: str, value: Any) -> None:
    assert repr(settle(Typed(text))) == repr(value)


@given(st.text(max_size=40))
def test_151_a_field_of_text_keeps_every_character(text: str) -> None:
    assert settle(Plain(text), str) == text
    assert settle(Typed(text), str) == text


@given(st.from_regex(r"[-+.0-9eExXo_a-fA-F~]{0,12}", fullmatch=True))
def test_151_what_is_no_number_of_yaml_1_2_is_refused_where_one_belongs(text: str) -> None:
    value = of_yaml(text)
    settled = settle(Plain(text), float)
    assert isinstance(settled, Refused) == isinstance(value, str)


def test_numbers_beyond_all_measure_are_text() -> None:
    assert of_yaml("9" * 5000) == "9" * 5000
    assert of_yaml("0x" + "f" * 5000) == "0x" + "f" * 5000


# ------------------------------------------------------------------------------------------- values of variables

SECRET = "hunter2-secret"


def put_in(text: str = SECRET) -> Substituted:
    return Substituted(text, (text,))


def test_the_value_of_a_variable_is_known_as_such() -> None:
    tree = {"a": [put_in()], "b": {"c": put_in("x"), "d": "plain"}}
    assert sorted(substituted_in(tree)) == [SECRET, "x"]
    assert isinstance(settle(put_in()), Substituted)


@pytest.mark.parametrize(
    "tree",
    [
        {"whole": put_in()},
        {"switch": put_in()},
        {"choice": put_in()},
        {"inner": put_in()},
        {"texts": put_in()},
        {"numbers": {"a": put_in()}},
        {"inners": [put_in()]},
        {"pairs": [put_in()]},
    ],
)
def test_02_no_error_repeats_the_value_of_a_variable(tree: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        validate(Everything, tree, what="x")
    assert SECRET not in f"{caught.value} {caught.value.message} {caught.value.hint}"


def test_no_error_of_a_validator_repeats_the_value_of_a_variable() -> None:
    with pytest.raises(UsageError) as caught:
        validate(ExperimentConfig, {"retry_pattern_list": [put_in("(" + SECRET)]}, what="x")
    assert SECRET not in str(caught.value.message)


# ---------------------------------------------------------------------------------------------------- problems


def layer_of(tree: dict[str, Any], lines: dict[Any, int]) -> Layer:
    return Layer(Source(Level.CONFIG, "c.yaml"), tree, lines)


def test_149_check_names_line_and_path_and_asks_for_nothing_that_is_missing() -> None:
    layer = layer_of({"model": {"params": {}}, "attempts": Plain("0")}, {(): 1, ("attempts",): 4})
    found = check(ExperimentConfig, layer.tree, layer.source_of)
    assert [str(problem) for problem in found] == [
        "c.yaml:4: `attempts`: input should be greater than or equal to 1, not 0"
    ]


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({"task_concurrency": 1}, "unknown field `task_concurrency`; it belongs to `execution.task_concurrency`"),
        ({"max_concurency": 1}, "unknown field `max_concurency`; did you mean `max_concurrency` of an experiment?"),
        ({"Execution": {}}, "unknown field `Execution`; did you mean `execution`?"),
        ({"execution": {"results_dir": "x"}}, "it belongs to `runtime.results_dir`"),
        ({"execution": {"retry": 1}}, "did you mean `max_retries`?"),
        ({"execution": {"budget": 1}}, "it belongs to `budget` of an experiment"),
        ({"runtime": {"attempts": 1}}, "it belongs to `execution.attempts` or `attempts` of an experiment"),
        ({"models": {"m": {"base_ulr": "x"}}}, "unknown field `models.m.base_ulr`; did you mean `base_url`?"),
        ({"benchmarks": {"b": {"tasks": 1}}}, "unknown field `benchmarks.b.tasks`"),
    ],
)
def test_149_a_misspelt_or_misplaced_field_is_told_its_place(tree: dict[str, Any], says: str) -> None:
    layer = layer_of(tree, {(): 1})
    [problem] = check(ProjectConfig, layer.tree, layer.source_of, places=PROJECT_PLACES)
    assert says in str(problem)


def test_several_problems_are_one_error_and_each_is_said_once() -> None:
    layer = layer_of({"attempts": Plain("0"), "modle": 1}, {(): 1, ("attempts",): 4, ("modle",): 5})
    found = check(ExperimentConfig, layer.tree, layer.source_of)
    error = ConfigErrors([*found, *found])
    assert len(error.problems) == 2
    assert error.message.splitlines()[0] == "2 things are wrong with the configuration:"
    assert "c.yaml:5: unknown field `modle`; did you mean `model`?" in error.message
