"""The plot of score against cost: places worked out by hand, nothing active in it (issue: results, plot)."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.report.plot import Point, Words, point_of, score_against_cost, ticks

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*points, **options):
    return ElementTree.fromstring(score_against_cost(points, Words("t", **options)))


@pytest.mark.parametrize(
    ("highest", "expected"),
    [(0.0, [0.0, 1.0]), (6.0, [0, 1, 2, 3, 4, 5, 6]), (7.0, [0, 2, 4, 6, 8]), (0.031, [0, 0.01, 0.02, 0.03, 0.04]),
     (float("inf"), [0.0, 1.0])],
)  # fmt: skip
def test_axes_have_round_numbers(highest, expected):
    assert ticks(highest) == pytest.approx(expected)


@given(st.floats(1e-9, 1e12))
def test_axes_reach_the_highest_in_few_steps(highest):
    found = ticks(highest)
    assert 2 <= len(found) <= 7
    assert found[0] == 0.0
    assert found[-1] >= highest * (1 - 1e-6)


def test_a_point_stands_where_score_and_cost_are():
    root = drawn(Point("a", 0.5, 0.25, 0.75, 3.0), Point("b", 1.0, None, None, 6.0, link="runs/b"))
    circles = [(float(one.get("cx")), float(one.get("cy"))) for one in root.iter(f"{SVG}circle")]
    # across 0 to 6 dollars on 56 to 616; up 0 to 1 on 312 to 20
    assert circles == [(336.0, 166.0), (616.0, 20.0)]
    intervals = [one for one in root.iter(f"{SVG}line") if one.get("class") == "interval"]
    assert [(one.get("y1"), one.get("y2")) for one in intervals] == [
        ("239.0", "93.0"),
        ("239.0", "239.0"),
        ("93.0", "93.0"),
    ]
    assert [one.get("href") for one in root.iter(f"{SVG}a")] == ["runs/b"]


def test_M6_an_unknown_cost_is_not_at_nought():
    root = drawn(Point("a", 0.5, None, None, None), Point("b", 0.5, None, None, 0.0), no_cost="unbekannt")
    unknown, free = [float(one.get("cx")) for one in root.iter(f"{SVG}circle")]
    assert free == 56.0
    assert unknown > 500
    assert any(one.text == "unbekannt" for one in root.iter(f"{SVG}text"))


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_whatever_a_label_holds_is_text(label):
    root = drawn(Point(label, 0.5, 0.1, 0.9, 1.0))
    assert {one.tag.removeprefix(SVG) for one in root.iter()} <= {"svg", "title", "desc", "line", "text", "g", "circle"}
    assert not any(name.startswith("on") or name == "style" for one in root.iter() for name in one.attrib)


@pytest.mark.parametrize("cost", [5e-324, 1e-300, 1e-13, 1e-10])
def test_a_cost_of_next_to_nothing_is_drawn_as_well(cost: float) -> None:
    points = [Point(name, 0.5, None, None, cost) for name in "ab"]
    assert score_against_cost(points, Words("t")).count("<circle") == 2


def test_M6_what_reused_attempts_cost_is_in_the_place_of_a_run_and_said_apart() -> None:
    made, reused = point_of("made", (0.5, None, None), 3.0, 0.0), point_of("reused", (0.5, 0.2, 0.8), 1.0, 2.0)
    assert [point.cost_usd for point in (made, reused)] == [3.0, 3.0]
    root = drawn(made, reused)
    titles = [one.text for one in root.iter(f"{SVG}title")]
    assert titles[1] == "made: 50.0%, $3.00"
    assert titles[2] is not None
    assert titles[2].endswith("$3.00, $2.00 of it for reused attempts, in the runs that made them")
    for own, others in ((None, 1.0), (1.0, None), (None, None)):
        assert point_of("a", (0.5, None, None), own, others).cost_usd is None, "unknown, never a part of it"
