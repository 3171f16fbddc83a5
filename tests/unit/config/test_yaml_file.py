"""YAML 1.2 with lines: what a file says, and every error with its place (spec 02, cases/conf 149 151 153 154)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from proctor.config.layers import Level
from proctor.config.scalars import Plain, Refused
from proctor.config.settle import settle
from proctor.config.yaml_file import VALUES_AT_MOST, YamlFile, read_yaml


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def call(text: str | bytes, **environ: str) -> YamlFile:
        path = tmp_path / "x.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_yaml(path, Level.CONFIG, environ)

    return call


def said(file: YamlFile) -> str:
    return "\n".join(f"{problem} | {problem.hint}" for problem in file.problems)


def sound(file: YamlFile) -> dict[str, Any]:
    assert said(file) == ""
    return dict(file.layer.tree)


# ------------------------------------------------------------------------------------------------------ values

CORE: list[tuple[str, Any]] = [
    ("1e3", 1000), ("1e-1", 0.1), ("1.0e-3", 0.001), (".5", 0.5), ("5.", 5.0), ("-1", -1), ("+12", 12), ("007", 7),
    ("0o17", 15), ("0x1F", 31), ("true", True), ("False", False), ("TRUE", True), ("null", None), ("~", None),
    ("Null", None), ("", None), (".inf", float("inf")), ("-.INF", float("-inf")), ("1e400", float("inf")),
    ("no", "no"), ("on", "on"), ("Yes", "Yes"), ("1_000", "1_000"), ("0b1", "0b1"), ("0o8", "0o8"), ("1:30", "1:30"),
    ("2026-01-31", "2026-01-31"), ("nan", "nan"), ("inf", "inf"), ("1e", "1e"), ("e3", "e3"), (".", "."),
    ("tRue", "tRue"),
    ("1.2.3", "1.2.3"), ("12 monkeys", "12 monkeys"), ("-0o7", "-0o7"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), CORE)
def test_02_free_values_are_what_yaml_1_2_says(read, text: str, value: Any) -> None:
    [found] = sound(read(f"a: {text}\n")).values()
    assert repr(settle(found)) == repr(value)


@pytest.mark.parametrize("text", ["1", "true", "null", "no", "1e5", "~"])
@pytest.mark.parametrize("quote", ["'", '"'])
def test_02_what_is_quoted_is_text(read, text: str, quote: str) -> None:
    found = sound(read(f"a: {quote}{text}{quote}\n"))["a"]
    assert settle(found) == text
    assert not isinstance(found, Plain)


def test_cases_conf_151_keys_are_exact_text(read) -> None:
    assert sound(read("1e5: {7e10: a}\ntrue: b\n007: c\n")) == {"1e5": {"7e10": "a"}, "true": "b", "007": "c"}


def test_a_character_in_two_escapes_is_one(read) -> None:
    assert sound(read('a: "\\ud83d\\ude00"')) == {"a": "\U0001f600"}


def test_block_texts_folded_texts_and_flow_style(read) -> None:
    text = "a: |\n  one\n  two\nb: >-\n  one\n  two\nc: {d: [1, 'x', {e: f}]}\n"
    assert sound(read(text)) == {"a": "one\ntwo\n", "b": "one two", "c": {"d": ["1", "x", {"e": "f"}]}}


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# only a note\n", "---\n", "~\n", "null\n", "{}\n", "--- # x\n...\n", "%YAML 1.2\n---\n"]
)
def test_an_empty_file_sets_nothing(read, text: str) -> None:
    assert sound(read(text)) == {}


def test_line_ends_of_windows_a_mark_at_the_start_and_a_missing_last_line_end(read) -> None:
    assert sound(read(b"\xef\xbb\xbfa: 1\r\nb: x\r\n")) == {"a": "1", "b": "x"}
    assert sound(read(b"a: 1\nb: x")) == {"a": "1", "b": "x"}


def test_lines_are_those_of_the_keys(read) -> None:
    file = read("a: 1\nb:\n  c: 2\n  d:\n    - x\n    - e:\n        3\nf: {g:\n 1}\n")
    sound(file)
    at = {".".join(map(str, path)): line for path, line in file.layer.lines.items()}
    assert at == {"": 1, "a": 1, "b": 2, "b.c": 3, "b.d": 4, "b.d.0": 5, "b.d.1": 6, "b.d.1.e": 6, "f": 8, "f.g": 8}
    assert str(file.layer.source_of(("b", "d", 1, "e", "deeper"))) == "x.yaml:6"


# ------------------------------------------------------------------------------------------------------ errors

ERRORS: dict[str, tuple[str | bytes, str]] = {
    "tab": ("a:\n\tb: 1\n", "x.yaml:2: a tab stands where only spaces may | indent with spaces"),
    "tab-deeper": ("a:\n  b: 1\n\tc: 2\n", "x.yaml:3: a tab"),
    "twice": ("a: 1\nb: 2\na: 3\n", "x.yaml:3: the key `a` is there twice, first in line 1"),
    "twice-inside": ("m:\n  x: 1\n  'x': 2\n", "x.yaml:3: the key `x` in `m` is there twice, first in line 2"),
    "twice-flow": ("m: {x: 1,\n  x: 2}\n", "x.yaml:2: the key `x` in `m` is there twice, first in line 1"),
    "recursive-list": ("a: &a [*a]\n", "x.yaml:1: an alias (`*`) stands inside of what it refers to"),
    "recursive-mapping": ("a: &a\n  b: *a\n", "x.yaml:2: an alias (`*`) stands inside"),
    "recursive-merge": ("a: &a\n  <<: *a\n", "x.yaml:2: an alias (`*`) stands inside"),
    "alias": ("a: *hunter2secret\n", "x.yaml:1: an alias (`*`) refers to an anchor that is not there"),
    "tag": ("a: !secret hunter2secret\n", "x.yaml:1: a tag (`!`) is not understood"),
    "tag-python": ("a: !!python/object:os.system x\n", "x.yaml:1: a tag"),
    "tag-number": ("a: !!int 5\n", "x.yaml:1: a tag"),
    "tag-handle": ("a: !hunter2secret!x 5\n", "x.yaml:1: not valid YAML"),
    "tag-list": ("a: !x [1]\n", "x.yaml:1: a tag"),
    "documents": ("a: 1\n---\nb: 2\n", "x.yaml:2: a second document begins here"),
    "version": ("%YAML 1.1\n---\na: no\n", "the file asks for another version of YAML"),
    "list": ("- a\n", "x.yaml:1: expected `key: value` at the top of the file"),
    "text": ("just words\n", "x.yaml:1: expected `key: value`"),
    "key-list": ("? [a]\n: 1\n", "x.yaml:1: a key is no text"),
    "key-mapping": ("m:\n  {a: 1}: 2\n", "x.yaml:2: a key in `m` is no text"),
    "key-empty": ("a: 1\n: 2\n", "x.yaml:2: a key is no text"),
    "indentation": ("a: 1\n b: 2\n", "x.yaml:2: a `: ` stands where no value can begin"),
    "no-colon": ("a: 1\nbcd\ne: 2\n", "x.yaml:2: expected `key: value`"),
    "colon": ("a: b: c\n", "x.yaml:1: a `: `"),
    "quote": ("a: 'hunter2secret\n", "x.yaml:1: not valid YAML"),
    "bracket": ("a: [1, 2\nb: 3\n", "not valid YAML"),
    "at": ("a: @x\n", "x.yaml:1: not valid YAML: found character '@'"),
    "latin-1": (b"a: 1\nb: caf\xe9\n", "x.yaml:2: the file is not in UTF-8 here"),
    "utf-16": ("a: 1\n".encode("utf-16"), "x.yaml:1: the file is not in UTF-8 here"),
    "nul": (b"a: 1\nb: \0\n", "x.yaml:2: the character U+0000 is not allowed in YAML"),
    "bell": (b"a: 1\nb: \x07\n", "x.yaml:2: the character U+0007 is not allowed"),
    "half-a-character": ('a: 1\nb: "\\ud800"\n', "x.yaml:2: half a character stands here"),
    "deep": ("a: " + "[" * 200 + "]" * 200, "x.yaml:1: values are more than 60 deep in each other"),
    "very-deep": ("a: " + "[" * 50_000, "x.yaml:1: values are more than 60 deep in each other"),
    "deep-by-aliases": (
        "".join(f"a{n}: &a{n} {{b: {f'*a{n - 1}' if n else 1}}}\n" for n in range(200)),
        "deep in each other here",
    ),
    "huge": (b"#" * (2 * 1024 * 1024 + 1), "the file is above 2,097,152 bytes"),
    "variable-in-brackets": ("a: {b: ${V}}\n", "x.yaml:1: not valid YAML: `${` needs quotes inside of brackets"),
    "merge-twice": (
        "a: &a {x: 1}\nb: &b {x: 2}\nc:\n  <<: *a\n  <<: *b\n",
        "x.yaml:5: `<<` in `c` is there twice, first in line 4 | write one: `<<: [*first, *second]`",
    ),
    "merge-text": ("c:\n  <<: x\n", "x.yaml:2: `<<` in `c` needs a block"),
    "merge-list-of-text": ("c:\n  <<: [x]\n", "x.yaml:2: `<<` in `c` needs a block"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_02_an_error_names_file_and_line_and_repeats_no_value(read, name: str) -> None:
    text, expected = ERRORS[name]
    found = said(read(text))
    assert expected in found
    assert found.startswith("x.yaml:")
    assert "hunter2" not in found
    assert "Traceback" not in found


def test_02_all_errors_of_a_file_are_said_at_once(read) -> None:
    text = "a: 1\na: 2\nb: ${NOWHERE}\nc: {<<: 1}\nd: {x: '${ALSO}', x: 1}\n"
    lines = said(read(text)).splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["x.yaml:2", "x.yaml:3", "x.yaml:4", "x.yaml:5", "x.yaml:5"]


def test_what_aliases_multiply_is_bounded(read) -> None:
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    laughs += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    assert f"stands for more than {VALUES_AT_MOST:,} values: its aliases multiply" in said(read(laughs))
    merged = "a0: &a0 {" + ", ".join(f"k{n}: 1" for n in range(1000)) + "}\n"
    merged += "".join(f"b{n}: {{<<: [{', '.join(['*a0'] * 20)}]}}\n" for n in range(20))
    assert "stands for more than" in said(read(merged))


@pytest.mark.parametrize("what", ["missing", "directory", "unreadable"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.yaml"
    if what == "directory":
        path.mkdir()
    if what == "unreadable":
        if os.geteuid() == 0:
            pytest.skip("root reads everything")
        path.write_text("a: 1")
        path.chmod(0)
    why = {"missing": "no such file or directory", "directory": "is a directory", "unreadable": "permission denied"}
    assert said(read_yaml(path, Level.CONFIG, {})).startswith(f"cannot read `x.yaml`: {why[what]}")


# ------------------------------------------------------------------------------------------------------ merges

MERGES = {
    "local-after": ("c:\n  <<: *a\n  x: 9\n", {"x": "9", "y": "1"}, {"x": 5, "y": 1}),
    "local-before": ("c:\n  x: 9\n  <<: *a\n", {"x": "9", "y": "1"}, {"x": 4, "y": 1}),
    "list": ("c:\n  <<: [*a, *b]\n", {"x": "1", "y": "1", "z": "2"}, {"x": 1, "y": 1, "z": 2}),
    "list-turned": ("c:\n  <<: [*b, *a]\n", {"x": "2", "z": "2", "y": "1"}, {"x": 2, "z": 2, "y": 1}),
    "list-local": ("c:\n  x: 9\n  <<: [*a, *b]\n", {"x": "9", "y": "1", "z": "2"}, {"x": 4, "y": 1, "z": 2}),
    "inline": ("c: {<<: {x: 3}, q: 4}\n", {"q": "4", "x": "3"}, {"q": 3, "x": 3}),
    "nested": ("b2: &b2 {<<: *b, q: 4}\nc: {<<: *b2}\n", {"q": "4", "x": "2", "z": "2"}, {"q": 3, "x": 2, "z": 2}),
}


@pytest.mark.parametrize("name", MERGES)
def test_cases_conf_154_the_local_value_wins_and_of_a_list_the_first(read, name: str) -> None:
    text, value, lines = MERGES[name]
    file = read(f"x-a: &a {{x: 1, y: 1}}\nx-b: &b {{x: 2, z: 2}}\n{text}")
    assert sound(file)["c"] == value
    assert {path[1]: line for path, line in file.layer.lines.items() if path[:1] == ("c",) and len(path) > 1} == lines


def test_a_key_that_is_quoted_merges_nothing(read) -> None:
    assert sound(read("c:\n  '<<': x\n")) == {"c": {"<<": "x"}}


def test_an_anchor_may_be_used_again_and_the_last_one_before_counts(read) -> None:
    assert sound(read("a: &n 1\nb: *n\nc: &n 2\nd: *n\n")) == {"a": "1", "b": "1", "c": "2", "d": "2"}


def test_149_keys_with_x_at_the_top_are_notes_and_shared_blocks(read) -> None:
    file = read("x-note: about ${NOTHING}\nx-shared: &s {a: '${HELD}'}\nm: *s\n", HELD="held")
    assert sound(file) == {"m": {"a": "held"}}
    assert sound(read("m: {x-deeper: 1}\n")) == {"m": {"x-deeper": "1"}}, "only at the top"


# -------------------------------------------------------------------------------------------------- variables

SUBSTITUTED: list[tuple[str, Any]] = [
    ("a: ${V}", "value-of-v"),
    ("a: '${V}'", "value-of-v"),
    ('a: "${V}"', "value-of-v"),
    ("a: |-\n  ${V}", "value-of-v"),
    ("a: pre${V}mid${V}post", "prevalue-of-vmidvalue-of-vpost"),
    ("a: ${UNSET:-default}", "default"),
    ("a: ${UNSET:-}", ""),
    ("a: ${EMPTY:-default}", "default"),
    ("a: ${V:-default}", "value-of-v"),
    ("a: $${V}", "${V}"),
    ("a: $${V} ${V}", "${V} value-of-v"),
    ("a: $V", "$V"),
    ("a: $$", "$$"),
    ("a: costs $5", "costs $5"),
    ("a: ${NESTED}", "${V}"),
    ("a: ${YAML}", "{x: [1], y: *a}"),
    ("a: [b, '${V}']", ["b", "value-of-v"]),
    ("a: {b: {c: '${V}'}}", {"b": {"c": "value-of-v"}}),
    ("a: ${NUMBER}", "12"),
    ("a: ${NULL}", "null"),
]
ENVIRON = {
    "V": "value-of-v", "EMPTY": "", "NESTED": "${V}", "YAML": "{x: [1], y: *a}", "NUMBER": "12", "NULL": "null",
    "BYTES": "value-of-v\udcff",
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), SUBSTITUTED)
def test_cases_conf_156_one_rule_for_every_value(read, text: str, value: Any) -> None:
    assert settle(sound(read(text, **ENVIRON))["a"]) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n  b: ${UNSET}", "x.yaml:2: `a.b`: the environment variable `UNSET` is not set"),
        ("a: ${EMPTY}", "x.yaml:1: `a`: the environment variable `EMPTY` is set, and empty"),
        ("a: [1, '${UNSET}']", "x.yaml:1: `a.1`: the environment variable `UNSET` is not set"),
        ("a: ${", "x.yaml:1: `a`: `${` begins no reference to a variable"),
        ("a: ${V", "begins no reference"),
        ("a: ${1V}", "begins no reference"),
        ("a: ${V-default}", "begins no reference"),
        ("a: ${}", "begins no reference"),
        ("a: ${V:-${W}}", "begins no reference"),
        ("a: ${BYTES}", "x.yaml:1: `a`: the environment variable `BYTES` is not in UTF-8"),
        ("${V}: 1", "x.yaml:1: a key holds `${`"),
        ("a: {'x${V}': 1}", "x.yaml:1: a key in `a` holds `${`"),
    ],
)
def test_cases_conf_156_what_cannot_be_put_in_names_variable_field_and_line(read, text: str, expected: str) -> None:
    file = read(text, **ENVIRON)
    assert expected in said(file)
    assert "value-of-v" not in said(file)
    assert all(not isinstance(value, str) or "${" not in value for value in file.layer.tree.values())


def test_cases_conf_156_a_field_that_takes_a_number_takes_one_from_a_variable(read) -> None:
    file = read("a: ${NUMBER}\nb: ${V}", **ENVIRON)
    assert settle(sound(file)["a"], int) == 12
    assert settle(sound(file)["a"], str) == "12"
    assert settle(sound(file)["a"]) == "12", "it is text where no type says anything"
    assert settle(sound(file)["b"], int) == "value-of-v", "and the field refuses it"


def test_what_cannot_be_used_stays_in_its_place(read) -> None:
    assert isinstance(read("a: ${UNSET}").layer.tree["a"], Refused)
