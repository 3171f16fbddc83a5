"""Reads rows of data out of JSONL, CSV, TSV and Parquet files; whatever is wrong with a file is said with its line."""

from __future__ import annotations

import csv
import glob
import hashlib
import importlib
import io
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from proctor.data.rows import Row, RowError, Rows
from proctor.errors import MissingPackage, UsageError, describe

LINES, TABLES, PARQUET = (".jsonl", ".ndjson", ".json"), {".csv": ",", ".tsv": "\t"}, ".parquet"
VALUE_CHARACTERS_AT_MOST = 1 << 30
"""Of one value of a CSV file; the module's own limit of 131,072 is less than many questions have."""


def find_files(pattern: str, base: Path) -> list[Path]:
    """Return the file of a path, or the files of a glob in the order of their names; relative ones are below `base`.

    Raises `UsageError` where there is none, or one of a kind that nobody reads.
    """
    whole = base / Path(pattern).expanduser()
    found = [whole] if whole.exists() else [Path(name) for name in sorted(glob.glob(str(whole), recursive=True))]
    files = [path for path in found if path.is_file()]
    if not files:
        what = "it is a directory" if whole.is_dir() else "nothing of that name is there"
        raise UsageError(
            f"cannot read `{whole}`: {what}", hint="name a file, or files as `data/*.jsonl`; a relative path is below "
            "the directory of proctor.yaml, else below the current one",
        )  # fmt: skip
    known = {*LINES, *TABLES, PARQUET}
    odd = next((path for path in files if path.suffix.lower() not in known), None)
    if odd is not None:
        raise UsageError(f"`{odd}` is of no kind that is read", hint=f"those are {', '.join(sorted(known))}")
    return files


def read_rows(files: Sequence[Path]) -> Rows:
    """Read all rows of files. Raises `UsageError` for the first thing that is wrong, `MissingPackage` for Parquet."""
    digest = hashlib.sha256()
    rows: list[Row] = []
    for path in files:
        try:
            content = path.read_bytes()
            digest.update(f"{len(content)}:".encode())
            digest.update(content)
            rows += _rows_in(path, content)
        except OSError as error:
            raise UsageError(f"cannot read `{path}`: {error.strerror or describe(error)}") from error
        except RowError as error:
            raise UsageError(str(error), hint="mend the file, or leave that row out") from error
    if not rows:
        raise UsageError(f"there is no row in {', '.join(f'`{path}`' for path in files)}")
    return Rows(tuple(rows), digest.hexdigest())


def _rows_in(path: Path, content: bytes) -> Iterator[Row]:
    suffix = path.suffix.lower()
    if suffix == PARQUET:
        return _parquet_rows(path.name, content)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise RowError(f"{path.name}: it is in UTF-16; it has to be in UTF-8")
    content = content.removeprefix(b"\xef\xbb\xbf")
    if suffix in LINES:
        return _json_rows(path.name, content)
    return _table_rows(path.name, content, TABLES[suffix])


def _json_rows(name: str, content: bytes) -> Iterator[Row]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not (line := line.strip(b" \t\r")):
            continue
        place = f"{name}:{number}"
        try:
            value: Any = json.loads(
                _decoded(line), object_pairs_hook=_object, parse_constant=_refuse, parse_float=_number
            )
        except RecursionError:
            raise RowError(f"{place}: it is nested too deep") from None
        except ValueError as error:
            whole = name.endswith(".json") and line.startswith(b"[")
            more = "; a row has to be a line of its own, and no list of all" if whole else ""
            raise RowError(f"{place}: it is no JSON object on one line: {error}{more}") from error
        if not isinstance(value, dict):
            raise RowError(f"{place}: an object was expected, and there is {type(value).__name__} {value!r:.40}")
        yield Row(place, cast("dict[str, Any]", value))


def _table_rows(name: str, content: bytes, delimiter: str) -> Iterator[Row]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            raise RowError(f"{name}:{number}: {_encoding(error)}") from error
    before = csv.field_size_limit(VALUE_CHARACTERS_AT_MOST)
    begins = 1
    try:
        reader = csv.reader(io.StringIO(content.decode(), newline=""), delimiter=delimiter, strict=True)
        names: list[str] | None = None
        for values in reader:
            place, begins = f"{name}:{begins}", reader.line_num + 1
            if not any(values):
                continue
            if names is None:
                names = [each.strip() for each in values]
                if twice := [each for each in names if names.count(each) > 1]:
                    raise RowError(f"{place}: the header has `{twice[0]}` twice")
                continue
            if len(values) != len(names):
                raise RowError(f"{place}: it has {len(values)} values, and the header has {len(names)} names")
            yield Row(place, dict(zip(names, values, strict=True)))
    except csv.Error as error:
        raise RowError(f"{name}:{begins}: {error}") from error
    finally:
        csv.field_size_limit(before)


def _parquet_rows(name: str, content: bytes) -> Iterator[Row]:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")  # large, without types, and few have such files
    except ModuleNotFoundError as error:
        raise MissingPackage(f"`{name}`", "pyarrow", install="pip install 'proctor[parquet]'") from error
    number = 0
    try:
        file: Any = parquet.ParquetFile(io.BytesIO(content))
        names: list[str] = file.schema_arrow.names
        if twice := [each for each in names if names.count(each) > 1]:
            raise RowError(f"{name}: the column `{twice[0]}` is there twice")
        for batch in file.iter_batches():
            for values in batch.to_pylist():
                number += 1
                yield Row(f"{name}: row {number}", values)
    except RowError:
        raise
    except (OSError, ValueError, NotImplementedError) as error:
        raise RowError(f"{name}: it is no Parquet file that can be read: {describe(error)}") from error


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(_encoding(error)) from error


def _encoding(error: UnicodeDecodeError) -> str:
    return f"it is not in UTF-8: byte 0x{error.object[error.start]:02x} at column {error.start + 1}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"`{next(name for name in names if names.count(name) > 1)}` is in one object twice")
    return found


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is larger than any number here")
    return number
