"""What several layers say of one environment (spec 02 Precedence)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proctor.config.declare import fields_of
from proctor.config.layers import Layer, Level, Source
from proctor.config.project import Project


def merged(*environments: dict[str, Any]) -> Any:
    """Return the environment that layers come to, weakest first."""
    levels = [Level.DEFAULTS, Level.DECLARED, Level.SET, Level.FLAG]
    layers = [
        Layer(Source(level, level.name), {"environment": each})
        for level, each in zip(levels, environments, strict=False)
    ]
    return fields_of(Project(Path()), layers).tree["environment"]


ALL = {"setup": "none", "agent": "none", "grade": "none"}


@pytest.mark.parametrize(
    ("environments", "found"),
    [
        ([{"network": "none"}], {"network": "none"}),
        ([{"network": "none"}, {"network": {"setup": "full"}}], {"network": {**ALL, "setup": "full"}}),
        ([{"network": {"setup": "full"}}, {"network": "none"}], {"network": ALL}),
        (
            [{"network": {"allow": ["a"]}}, {"network": {"agent": {"allow": ["b"]}}}],
            {"network": {"setup": {"allow": ["a"]}, "agent": {"allow": ["b"]}, "grade": {"allow": ["a"]}}},
        ),
        ([{"network": "none"}, {"network": None}], {"network": None}),
        ([{"network": "none"}, {"network": "rubbish"}], {"network": "rubbish"}),
        ([{"image": "a"}, {"build": "ctx"}], {"build": {"context": "ctx"}}),
        ([{"build": "ctx"}, {"image": "a"}], {"image": "a"}),
        ([{"build": {"context": "ctx", "target": "t"}}, {"build": "other"}], {"build": {"context": "other"}}),
        ([{"build": "ctx"}, {"build": {"target": "t"}}], {"build": {"context": "ctx", "target": "t"}}),
        ([{"compose": "c"}, {"compose": {"service": "s"}}], {"compose": {"file": "c", "service": "s"}}),
        ([{"image": "a"}, {"build": "ctx"}, {"compose": "c"}, {"image": "b"}], {"image": "b"}),
        ([{"image": "a", "build": "ctx"}], {"image": "a", "build": {"context": "ctx"}}),
        ([{"image": "a"}, {"user": "u"}], {"image": "a", "user": "u"}),
        (
            [{"resources": {"cpus": 1, "memory": "1g"}}, {"resources": {"cpus": 2}}],
            {"resources": {"cpus": 2, "memory": "1g"}},
        ),
    ],
)
def test_02_the_stronger_layer_wins_field_by_field_and_phase_by_phase(
    environments: list[dict[str, Any]], found: dict[str, Any]
) -> None:
    assert merged(*environments) == found
