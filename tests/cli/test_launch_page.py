"""The examples of docs/launch.md do what the page says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

from proctor.config.launch import read_launch
from proctor.config.launch_parts import RUNTIME_OF_REQUEST, TOP
from proctor.config.layers import Level
from proctor.config.yaml_file import read_yaml

PAGE = (Path(__file__).parents[2] / "docs/launch.md").read_text(encoding="utf-8")
FILES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
WHOLE = [text for text in FILES if "requests:" in text or "matrix:" in text]
COMMANDS = re.findall(r"^proctor (launch .*?)(?: +#.*)?$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("text", WHOLE, ids=range(len(WHOLE)))
def test_the_files_of_the_page_run(text: str, proctor: Callable[..., Ended], tmp_path: Path) -> None:
    (tmp_path / "launch.yaml").write_text(text)
    for command in COMMANDS:
        assert proctor(*command.split()).code == 0, command


def test_the_directories_of_the_page_are_there(proctor: Callable[..., Ended], tmp_path: Path) -> None:
    (tmp_path / "launch.yaml").write_text(WHOLE[0])
    ended = proctor("launch", "launch.yaml")
    names = {path.parent.name for path in ended.run_dirs}
    assert {"by-the-book", "nothing-done"} < names
    assert all(f"results/{name}/<run-id>" in PAGE for name in ("by-the-book", "nothing-done"))
    assert len({path.name for path in ended.run_dirs}) == 1


def test_the_page_has_every_key_of_the_file() -> None:
    assert all(f"`{key}`" in PAGE for key in TOP)
    assert all(f"{key}:" in PAGE for key in RUNTIME_OF_REQUEST)


def test_the_fragment_about_runtime_may_stand_in_a_request(tmp_path: Path) -> None:
    [fragment] = [text for text in FILES if text not in WHOLE]
    path = tmp_path / "launch.yaml"
    path.write_text(f"requests:\n  - name: a\n    {fragment}")
    assert read_launch(read_yaml(path, Level.DEFAULTS, {}).layer).problems == ()


def test_the_error_of_the_page_is_what_is_said(proctor: Callable[..., Ended], tmp_path: Path) -> None:
    [said] = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "launch.yaml").write_text(
        "defaults: {benchmark: trivial}\n\nrequests:\n"
        "  - {name: a, harness: oracel}\n  - {name: b, harness: oracle, atempts: 2}\n"
    )
    ended = proctor("launch", "launch.yaml")
    assert sorted(ended.err.splitlines()[:3]) == sorted(said.splitlines())
