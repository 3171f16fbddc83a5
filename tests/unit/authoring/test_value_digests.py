"""Values that are handed over to code count by what they are, in every process (spec 04 P3)."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import re
import subprocess
import sys
import threading
from collections import OrderedDict, deque, namedtuple
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.authoring.value_digests import ValueDigest

PROJECT = Path("/project")
Pair = namedtuple("Pair", "a b")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Row:
    name: str
    more: object = None


class Plain:
    def __init__(self, value):
        self.value = value


def digest(value: object) -> str:
    return ValueDigest(PROJECT, lambda code: None).of(value)


DIFFERENT = [
    None, True, False, 0, 1, 1.0, -0.0, 0.0, float("nan"), float("inf"), "", "1", b"", b"1", [], (), {}, set(),
    [1], (1,), {1: 1}, {1}, frozenset({1}), {"a": None}, [None], [[]], Pair(1, 2), Row("a"), Row("b"), Row("a", 1),
    Plain(1), Plain(2), Color.RED, Color.BLUE, Path("/x"), Path("x"), datetime.date(2026, 1, 1), decimal.Decimal("1"),
    re.compile("a"), re.compile("a", re.IGNORECASE), 10**10_000, OrderedDict(a=1), deque([1]), partial(max, 1), max,
    int, threading.Lock(), "\ud800", range(3), slice(1), complex(1, 1),
]  # fmt: skip


def test_values_that_differ_have_different_digests() -> None:
    digests = [digest(value) for value in DIFFERENT]
    alike = [(DIFFERENT[a], DIFFERENT[b]) for a in range(len(digests)) for b in range(a) if digests[a] == digests[b]]
    assert alike == []


def test_values_that_are_equal_have_equal_digests() -> None:
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({3, 1, 2}) == digest({2, 3, 1})
    assert digest(Row("a", {1: Plain(2)})) == digest(Row("a", {1: Plain(2)}))
    assert digest(PROJECT / "evals/a.txt") == digest(Path("evals/a.txt")), "wherever the project is"
    assert digest(lambda: 1) == digest(lambda: 2), "the source of a function counts by itself"


def test_what_is_inside_of_itself_has_a_digest() -> None:
    one: list[object] = []
    one.append(one)
    assert digest(one) == digest(one[0])
    plain = Plain(None)
    plain.value = {"me": plain}
    assert digest(plain)
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    assert digest(deep)


def test_what_functions_are_made_with_counts() -> None:
    def made(value, default=1):
        return lambda argument=default: value

    assert digest(made(1)) != digest(made(2))
    assert digest(made(1)) != digest(made(1, 2))
    assert digest(partial(made, 1)) != digest(partial(made, 2))
    assert digest(Plain(1).__init__) != digest(Plain(2).__init__)


def test_code_that_values_lead_to_is_reported() -> None:
    seen: list[object] = []
    ValueDigest(PROJECT, seen.append).of({"a": [Row("x", digest)], "b": partial(re.compile, "x"), "c": dataclasses})
    assert {Row, digest, re.compile, dataclasses, partial} <= set(seen)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.long
@settings(deadline=None, max_examples=200)
@given(json_values, json_values)
def test_json_values_are_equal_exactly_if_their_digests_are(one: object, other: object) -> None:
    assert (digest(one) == digest(other)) == (repr_of(one) == repr_of(other))


def repr_of(value: object) -> str:
    """Write a value so that only equal ones of equal types are written alike."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{key!r}:{repr_of(item)}" for key, item in value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(repr_of, value)) + "]"
    return repr(value)


@pytest.mark.parametrize("seed", ["1", "2"])
def test_another_process_has_the_same_digests(seed: str) -> None:
    program = (
        "from pathlib import Path; from proctor.authoring.value_digests import ValueDigest; import datetime, re\n"
        "value = {'a': {'x', 'y', 'z'}, 'b': [re.compile('a'), datetime.date(2026, 1, 1), Path('/project/a')]}\n"
        "print(ValueDigest(Path('/project'), lambda code: None).of(value))"
    )
    value = {"a": {"z", "y", "x"}, "b": [re.compile("a"), datetime.date(2026, 1, 1), Path("/project/a")]}
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == digest(value)
