"""The matrix of a launch file: its axes, its names (spec 02 Launch file)."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.config.layers import Layer, Level, Source
from proctor.config.matrix import Combination, Said, expand


def expanded(tree: dict[str, Any], defaults: dict[str, Any] | None = None) -> tuple[list[Combination], list[Said]]:
    return expand(Layer(Source(Level.DECLARED, "the launch"), tree), defaults or {})


def names(tree: dict[str, Any], defaults: dict[str, Any] | None = None) -> list[str]:
    found, wrong = expanded(tree, defaults)
    assert wrong == []
    return [one.name for one in found]


def test_02_every_combination_in_order_the_last_axis_first() -> None:
    tree = {"name": "{a}{b}", "a": [1, 2], "b": ["x", "y"], "c": "same"}
    found, wrong = expanded(tree)
    assert wrong == []
    assert [one.layer.tree for one in found] == [
        {"a": 1, "b": "x", "c": "same"}, {"a": 1, "b": "y", "c": "same"},
        {"a": 2, "b": "x", "c": "same"}, {"a": 2, "b": "y", "c": "same"},
    ]  # fmt: skip
    assert [one.name for one in found] == ["1x", "1y", "2x", "2y"]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"name": "one"}, ["one"]),
        ({"name": "{model}", "model": ["a", {"id": "b", "params": {}}]}, ["a", "b"]),
        ({"name": "{environment}", "environment": ["local", {"provider": "docker"}]}, ["local", "docker"]),
        ({"name": "{model.id}-{model.params.t}", "model": [{"id": "a", "params": {"t": t}} for t in (0, 0.5)]},
         ["a-0", "a-0.5"]),
        ({"name": "k{attempts}", "attempts": [1, 5]}, ["k1", "k5"]),
        ({"name": "{early_exit}", "early_exit": [True, False]}, ["true", "false"]),
        ({"name": "{{{model}}}", "model": ["a"]}, ["{a}"]),
        ({"name": "{flags.size}", "flags": [{"size": 1}, {"size": 2}]}, ["1", "2"]),
        ({"name": "one", "retry_pattern_list": ["a", "b"], "tags": ["x"]}, ["one"]),
        ({"name": "p{attempts}", "attempts": [1, 2], "artifacts": [{"path": "a"}]}, ["p1", "p2"]),
        ({"name": "one", "harness": {"id": "chat", "params": {"stops": ["a", "b"]}}}, ["one"]),
    ],
)  # fmt: skip
def test_02_names(tree: dict[str, Any], expected: list[str]) -> None:
    assert names(tree) == expected


def test_02_a_name_may_use_what_the_defaults_say() -> None:
    assert names({"name": "{benchmark}-{model}", "model": ["a"]}, {"benchmark": {"id": "mbpp"}}) == ["mbpp-a"]


def test_02_fields_that_are_lists_are_an_axis_as_a_list_of_lists() -> None:
    tree = {"name": "{attempts}", "attempts": [1], "retry_pattern_list": [["a"]]}
    found, _ = expanded(tree)
    assert [one.layer.tree["retry_pattern_list"] for one in found] == [["a"]]


@pytest.mark.parametrize(
    ("tree", "path", "text"),
    [
        ({"model": ["a"]}, (), 'needs a `name`, such as "{model}"'),
        ({"name": 3, "model": ["a"]}, ("name",), '`name` must be a text, such as "{model}"'),
        ({"name": "a{", "model": ["a"]}, ("name",), "there is a single `{`"),
        ({"name": "a}", "model": ["a"]}, ("name",), "there is a single `}`"),
        ({"name": "a{}", "model": ["a"]}, ("name",), "`{}` names nothing"),
        ({"name": "a{model..id}", "model": ["a"]}, ("name",), "`{}` names nothing"),
        ({"name": "{model}{bench}", "model": ["a"]}, ("name",), "a request has no field `bench`"),
        ({"name": "{model.id}", "model": ["a"]}, ("name",), "a request has no field `model.id`"),
        ({"name": "{flags}", "flags": [{"a": 1}]}, ("name",), "`flags` is no plain value"),
        ({"name": "{model}", "model": [None]}, ("name",), "`model` is no plain value"),
        ({"name": "{model}", "model": []}, ("model",), "the axis `model` is empty"),
        ({"name": "{a}", **{key: list(range(10)) for key in "abcde"}}, (), "it stands for more than 10,000 requests"),
    ],
)  # fmt: skip
def test_02_what_is_wrong(tree: dict[str, Any], path: tuple[str, ...], text: str) -> None:
    found, wrong = expanded(tree)
    assert found == []
    assert [(where, text in said) for where, said in wrong] == [(path, True)], wrong


def test_02_an_axis_that_the_name_leaves_out_is_named_with_both_requests() -> None:
    _, wrong = expanded({"name": "{benchmark}", "benchmark": ["humaneval"], "model": ["a", "b"]})
    assert wrong == [
        (
            ("name",),
            "`benchmark humaneval, model a` and `benchmark humaneval, model b` would both be called `humaneval`: "
            "the name does not use the axis `model`; write {model} in it",
        )
    ]


def test_02_values_that_look_alike_in_the_name_are_said() -> None:
    models = [{"id": "a", "params": {"temperature": value}} for value in (0, 1)]
    _, [(path, text)] = expanded({"name": "{model}", "model": models})
    assert path == ("name",)
    assert "would both be called `a`" in text
    assert "such as {model.params.NAME}" in text


def test_02_an_axis_of_one_value_need_not_be_in_the_name() -> None:
    assert names({"name": "{model}", "model": ["a", "b"], "benchmark": ["mbpp"]}) == ["a", "b"]
