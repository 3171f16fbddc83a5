"""What a try leaves behind: whole or not there, and every failure is one of the store (spec 08 D5)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from store_cases import FaultyFiles, every_fault, tree

from proctor.errors import StoreError
from proctor.store.codec import NotEncodable
from proctor.store.layout import RunLayout
from proctor.store.results import write_evidence


def test_bytes_stay_as_they_are_and_anything_else_is_json(tmp_path: Path) -> None:
    folder = RunLayout(tmp_path).try_dir("HumanEval/0", 0, 1)
    write_evidence(folder / "checkpoint/answer.txt", b"\xff\x00")
    write_evidence(folder / "trajectory.json", {"steps": ["日本"]})
    write_evidence(folder / "trajectory.json", {"steps": []})
    assert tree(folder) == {"checkpoint/answer.txt": b"\xff\x00", "trajectory.json": b'{\n  "steps": []\n}\n'}


@pytest.mark.parametrize("content", [math.nan, {"a": object()}, {1: "a"}, {"a": {1, 2}}])
def test_a_value_without_a_json_form_makes_nothing(tmp_path: Path, content: object) -> None:
    with pytest.raises(NotEncodable, match=r"trajectory\.json"):
        write_evidence(tmp_path / "tries/1/trajectory.json", content)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("way", ["attempts", "attempts/t", "attempts/t/0/tries/1", "attempts/t/0/tries/1/a.json"])
def test_something_in_the_way_is_a_store_error(tmp_path: Path, way: str) -> None:
    place = tmp_path / way
    place.parent.mkdir(parents=True, exist_ok=True)
    if way.endswith(".json"):
        place.mkdir()
    else:
        place.write_text("in the way")
    with pytest.raises(StoreError, match="cannot"):
        write_evidence(RunLayout(tmp_path).try_dir("t", 0, 1) / "a.json", {})


def test_D5_whichever_call_fails_nothing_is_half_there(tmp_path: Path) -> None:
    numbers = iter(range(10**6))

    def scenario(files: FaultyFiles) -> None:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        path = RunLayout(folder).try_dir("t", 0, 1) / "checkpoint/a.json"
        try:
            write_evidence(path, {"a": 1}, files=files)
        except StoreError:
            assert files.failed
        assert not path.exists() or json.loads(path.read_bytes()) == {"a": 1}
        assert path.exists() or files.failed

    assert every_fault(scenario) > 50


def test_a_path_without_directories_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_evidence(Path("a.json"), [])
    write_evidence(Path("b/c/a.json"), [])
    assert set(tree(tmp_path)) == {"a.json", "b/c/a.json"}
