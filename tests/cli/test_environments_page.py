"""What docs/environments.md shows is so."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended

from proctor.authoring.environment_fields import EnvironmentConfig

PAGE = (Path(__file__).parents[2] / "docs/environments.md").read_text(encoding="utf-8")
Proctor = Callable[..., Ended]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(autouse=True)
def project(environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project with the task of the page, at a provider that takes every environment."""
    monkeypatch.setenv("PROCTOR_PROVIDER", "plugins_provider:Able")
    for folder in ("box", "evals/box"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "Dockerfile").write_text("FROM scratch\n")
    [text] = blocks("python")
    (tmp_path / "evals/tasks.py").write_text(text)


@pytest.mark.parametrize("text", blocks("yaml"))
def test_its_files_can_be_planned(proctor: Proctor, tmp_path: Path, text: str) -> None:
    assert text.startswith("# launch.yaml\n")
    (tmp_path / "launch.yaml").write_text(text.replace("provider: docker", "provider: plugins_provider:Able"))
    ended = proctor("plan", "launch.yaml")
    assert ended.code == 0, ended.err


def test_its_table_has_every_field() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == set(EnvironmentConfig.model_fields)
