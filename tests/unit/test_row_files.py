"""Rows of JSONL, CSV, TSV and Parquet files: what is read, and what is said of what cannot be (spec 11)."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from proctor.data.row_files import find_files, read_rows
from proctor.data.rows import Row, RowError
from proctor.data.templates import fill
from proctor.errors import UsageError


def read(folder: Path, content: bytes | str, name: str = "q.jsonl") -> list[Row]:
    path = folder / name
    path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    return list(read_rows([path]).rows)


def values(rows: list[Row]) -> list[Any]:
    return [dict(row.values) for row in rows]


def test_11_lines_may_end_as_they_do_anywhere_and_empty_ones_count_for_nothing(tmp_path: Path) -> None:
    rows = read(tmp_path, b'\xef\xbb\xbf{"a": 1}\r\n\n  \r\n{"a": "x\xe2\x80\xa8y"}\n{"a": 3}')
    assert values(rows) == [{"a": 1}, {"a": "x\u2028y"}, {"a": 3}]
    assert [row.place for row in rows] == ["q.jsonl:1", "q.jsonl:4", "q.jsonl:5"]


def test_11_one_line_of_5_MB_and_halves_of_characters_are_read(tmp_path: Path) -> None:  # case 126
    rows = read(tmp_path, '{"a": "' + "x" * 5_000_000 + '", "b": "\\ud83d\\u0000"}')
    assert len(rows[0].text("a")) == 5_000_000
    assert rows[0].text("b") == "\ud83d\0"
    assert len(rows[0].digest) == 12


WRONG: list[tuple[bytes, str]] = [
    (b'{"a": 1}\n{"a": }', "q.jsonl:2: it is no JSON object on one line"),
    (b'{"a": 1', "q.jsonl:1: it is no JSON"),
    (b"[1]", "q.jsonl:1: an object was expected, and there is list"),
    (b'{"a": NaN}', "q.jsonl:1: .*NaN is no JSON number"),
    (b'{"a": 1e999}', "q.jsonl:1: .*larger than any number"),
    (b'{"a": ' + b"9" * 5_000 + b"}", "q.jsonl:1: .*integer string"),
    (b'{"a": 1, "a": 2}', "q.jsonl:1: .*`a` is in one object twice"),
    (b'{"a": "caf\xe9"}', "q.jsonl:1: .*not in UTF-8: byte 0xe9 at column 11"),
    ("{}".encode("utf-16"), "q.jsonl: it is in UTF-16"),
    (b'{"a":' * 200_000, "q.jsonl:1: "),
    (b"\n \n", "there is no row in"),
]


@pytest.mark.parametrize(("content", "why"), WRONG, ids=range(len(WRONG)))
def test_11_what_is_wrong_is_said_with_its_line(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read(tmp_path, content)


def test_11_a_list_of_all_rows_is_told_from_lines(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a row has to be a line of its own, and no list of all"):
        read(tmp_path, '[\n{"a": 1}\n]', "q.json")


def test_11_tables_have_a_header(tmp_path: Path) -> None:
    rows = read(tmp_path, 'q , a\r\n"two\nlines, ""x""",1\r\n\r\nlast,2', "q.csv")
    assert values(rows) == [{"q": 'two\nlines, "x"', "a": "1"}, {"q": "last", "a": "2"}]
    assert [row.place for row in rows] == ["q.csv:2", "q.csv:5"]
    assert values(read(tmp_path, "q\ta,b\n1\t2", "q.tsv")) == [{"q": "1", "a,b": "2"}]
    assert len(read(tmp_path, "q,a\n" + "x" * 5_000_000 + ",1", "q.csv")[0].text("q")) == 5_000_000


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"q,a\n1", "q.csv:2: it has 1 values, and the header has 2 names"),
        (b"q,a\n1,2,3", "q.csv:2: it has 3 values"),
        (b"q,q\n1,2", "q.csv:1: the header has `q` twice"),
        (b'q,a\n"1,2', "q.csv:2: unexpected end of data"),
        (b"q,a\n1,caf\xe9", "q.csv:2: it is not in UTF-8: byte 0xe9 at column 6"),
        (b"q,a\n", "there is no row"),
    ],
)
def test_11_what_is_wrong_with_a_table_is_said(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read(tmp_path, content, "q.csv")


def test_11_parquet_is_read(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table(
        {"q": ["a", "b"], "n": [Decimal("1.50"), None], "d": [date(2026, 1, 2)] * 2, "l": [["x", "y"], []],
         "s": [{"t": 1}, {"t": 2}], "b": [b"\xff", b""], "f": [1.0, float("nan")]}
    )  # fmt: skip
    path = tmp_path / "q.parquet"
    parquet.write_table(table, path)
    one, two = read_rows([path]).rows
    assert (one.place, one.text("q"), one.text("n"), one.text("d")) == ("q.parquet: row 1", "a", "1.50", "2026-01-02")
    assert (one.texts("l"), one.text("s.t"), one.text("f")) == (["x", "y"], "1", "1.0")
    for name, why in [("n", "is null"), ("l", "empty list"), ("f", "not a finite number"), ("b", "type bytes")]:
        with pytest.raises(RowError, match=why):
            two.texts(name)
    parquet.write_table(pyarrow.table([pyarrow.array(["x"]), pyarrow.array(["y"])], names=["q", "q"]), path)
    with pytest.raises(UsageError, match=r"q.parquet: the column `q` is there twice"):
        read_rows([path])
    path.write_bytes(b"PAR1 no")
    with pytest.raises(UsageError, match=r"q.parquet: it is no Parquet file"):
        read_rows([path])


ROW = Row("f:1", {"q": "x", "a.b": 1, "m": {"tags": ["t", {"n": 2.5}], "no": None}, "empty": " ", "yes": True})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("q", "x"),
        ("a.b", "1"),
        ("m.tags.0", "t"),
        ("m.tags.1.n", "2.5"),
        ("yes", "true"),
        ("m.tags", '["t", {"n": 2.5}]'),
    ],
)
def test_11_fields_are_found_by_dotted_paths(path: str, text: str) -> None:
    assert ROW.text(path) == text


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("qq", "there is no field `qq`; there are `q`, `a.b`, .*; did you mean `q`"),
        ("m.tag", "there is no field `m.tag` in `m`; there are `tags`, `no`; did you mean `tags`"),
        ("m.tags.2", "there is no field `m.tags.2` in `m.tags`; a list of 2 is there"),
        ("q.x", "there is no field `q.x` in `q`; str 'x' is there"),
        ("m.no", "field `m.no` is null"),
        ("empty", "field `empty` is empty"),
    ],
)
def test_11_a_field_that_is_not_there_is_said_with_what_is(path: str, why: str) -> None:
    with pytest.raises(RowError, match=why):
        ROW.text(path)


def test_11_files_are_found_by_path_and_by_pattern(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "x[1].jsonl", "sub/c.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "notes.txt").write_text("")
    assert [path.name for path in find_files("[ab].jsonl", tmp_path)] == ["a.jsonl", "b.jsonl"]
    assert [path.name for path in find_files("**/*.jsonl", tmp_path)] == ["a.jsonl", "b.jsonl", "c.jsonl", "x[1].jsonl"]
    assert [path.name for path in find_files("x[1].jsonl", tmp_path)] == ["x[1].jsonl"]
    assert find_files(str(tmp_path / "a.jsonl"), Path("/nowhere")) == [tmp_path / "a.jsonl"]
    for pattern, why in [
        ("none", "nothing of that name"),
        ("sub", "it is a directory"),
        ("*.txt", "no kind that is read"),
    ]:
        with pytest.raises(UsageError, match=why):
            find_files(pattern, tmp_path)


def test_11_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    one, two = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    one.write_text('{"a": 1}')
    two.write_text('{"a": 1}')
    assert read_rows([one]).sha256 == read_rows([two]).sha256 != read_rows([one, two]).sha256


def test_11_templates_are_filled_in_once() -> None:
    values = {"a": "{b}", "b.c": "x"}
    assert fill("{a} {{a}} { b.c }", values.__getitem__) == "{b} {a} x"
    for wrong in ("{", "a}", "{}", "{ }", "{a\n}"):
        with pytest.raises(ValueError, match="names nothing"):
            fill(wrong, values.__getitem__)
