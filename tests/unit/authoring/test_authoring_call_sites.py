"""Where a call is written, and each of its arguments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from proctor.authoring.experiments import Experiment
from proctor.authoring.project_files import import_file


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


def made(project: Path, text: str) -> list[Any]:
    path = project / "experiments/x.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text("from proctor import Experiment\n" + text, encoding="utf-8")
    return import_file(path, project).module.found


def test_each_of_several_calls_on_one_line_is_told_apart(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        "found = [Experiment(harness='a', attempts=1), Experiment(\n  harness='b',\n  attempts=2), Experiment()]\n",
    )
    assert [one.line("attempts") for one in found] == [2, 4, 4]
    assert [one.place() for one in found] == ["experiments/x.py:2", "experiments/x.py:2", "experiments/x.py:4"]


def test_a_call_in_a_function_or_comprehension_is_where_it_is_written(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        "def make(**more):\n    return Experiment(\n        harness='a',\n        **more)\n"
        "found = [make(attempts=1), *[Experiment(model=m)\n   for m in 'ab']]\n",
    )
    assert [one.place("harness") for one in found] == [f"experiments/x.py:{line}" for line in (4, 6, 6)]
    assert found[0].line("attempts") == 3  # it comes from elsewhere: the call itself


def test_a_call_in_a_shared_file_is_named_by_that_file(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments/_shared.py").write_text(
        "from proctor import Experiment\n\ndef make(m):\n    return Experiment(model=m)\n"
    )
    found = made(tmp_path, "from ._shared import make\nfound = [make('a')]\n")
    assert found[0].place("model") == "experiments/_shared.py:4"


def test_inside_literals(tmp_path: Path) -> None:
    [one] = made(
        tmp_path,
        "x = {'system': 'b'}\nfound = [Experiment(harness={\n 'id': 'a', 'params': {\n"
        "  'list': [\n   1,\n   {'k': 2}]},\n **x})]\n",
    )
    paths: list[tuple[str | int, ...]] = [
        ("harness", "id"),
        ("harness", "params", "list", 0),
        ("harness", "params", "list", 1, "k"),
        ("harness", "system"),
    ]
    assert [one.line(*path) for path in paths] == [4, 6, 7, 3]


def test_without_a_source_there_is_the_line_alone() -> None:
    names: dict[str, Any] = {"Experiment": Experiment}
    exec("\n\none = Experiment(\n  harness='a')", names)
    assert names["one"].line("harness") == 3
    assert names["one"].place().endswith("<string>:3")


def test_a_credential_is_not_shown(tmp_path: Path) -> None:
    [one] = made(tmp_path, "found = [Experiment(model={'id': 'm', 'api_key': 'sk-secret'})]\n")
    assert "sk-secret" not in repr(one)
